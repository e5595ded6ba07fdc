"""How do the bytes of an extent get here? Local files, the only store so far, are read by native/engine."""
