"""Settings: which keys there are, and how layers of them become one value."""
