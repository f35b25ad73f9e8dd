"""What an adapter tells the controller of a call, read from what a framework says of it."""

from __future__ import annotations

from collections.abc import Mapping


def positive(value: object) -> int | None:
    """Return a number of tokens; None for anything else, such as the -1 that some write for no limit."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def tool_schema(name: str, description: object, parameters: object) -> Mapping[str, object]:
    """Return a tool as `tools=` takes it: what counts beside the messages."""
    return {"name": name, "description": description, "parameters": parameters}
