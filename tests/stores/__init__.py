"""Stores as processes use them: several workers at once, and workers that are killed."""
