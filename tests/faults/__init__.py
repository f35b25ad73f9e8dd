"""Faults around the controller, one at a time: docs/reliability.md lists them with their tests."""
