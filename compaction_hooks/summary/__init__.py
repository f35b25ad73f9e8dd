"""Requests to a summarizer, and the check of its answer."""
