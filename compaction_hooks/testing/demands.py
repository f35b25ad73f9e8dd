"""The assertion that the checks of formats, adapters and stores share."""

from __future__ import annotations


def demand(holds: object, text: str) -> None:
    """Raise an AssertionError with this text unless `holds` is true."""
    if not holds:
        raise AssertionError(text)
