"""Options of a model call, read from a framework's own values."""

from __future__ import annotations

from collections.abc import Mapping


def positive(value: object) -> int | None:
    """Return a number of tokens; None for anything else, such as -1, which some frameworks use for no limit."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def tool_schema(name: str, description: object, parameters: object) -> Mapping[str, object]:
    """Return a tool as `tools=` takes it; its size counts in addition to the messages."""
    return {"name": name, "description": description, "parameters": parameters}
