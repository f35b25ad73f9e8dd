"""Thin adapters: one module for each framework, imported by name. Importing this package loads no framework."""
