"""One package per language, all of the same inner shape, all pure."""
