"""The outside world: effects, the drivers that answer them, and guards around the host's functions."""
