"""The frozen nouns that the rooms hand to each other. They hold facts, decide nothing and open nothing."""
