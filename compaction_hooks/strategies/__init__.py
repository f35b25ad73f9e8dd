"""The ways to make a view smaller."""
