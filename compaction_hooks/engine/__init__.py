"""What happens in one call, and what a conversation remembers between calls."""
