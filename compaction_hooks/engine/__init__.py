"""One call from end to end, and the state of a conversation between calls."""
