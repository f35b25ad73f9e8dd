"""Peers' policies, each run by its own package in its own environment. These modules import no pytest and read no recordings."""
