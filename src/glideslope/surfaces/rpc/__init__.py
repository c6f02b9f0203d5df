"""The daemon's socket: who may speak, what is said, and the life of the process behind it."""
