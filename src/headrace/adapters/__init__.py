"""How does a framework see a loader? Its own argument names and types, and no logic of ours."""
