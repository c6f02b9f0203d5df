"""What the engine asks of the world, as protocols; one role per module."""
