"""Who else is there? One process so far: a run of several ranks is refused (runtime/setup.py)."""
