"""One flow of calls for sync and async callers."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

R = TypeVar("R")


class Twin:
    """A call that a flow asks for, in a sync and an async form.

    Args:
        sync: The function for a sync caller.
        awaited: The function for an async caller.
        *arguments, **options: The arguments of both.
    """

    __slots__ = ("arguments", "awaited", "options", "sync")

    def __init__(self, sync: Callable[..., Any], awaited: Callable[..., Any], *arguments: Any, **options: Any) -> None:
        self.sync = sync
        self.awaited = awaited
        self.arguments = arguments
        self.options = options


Flow: TypeAlias = Generator[Twin, Any, R]
"""A generator that yields calls, receives their results or errors, and returns its own result."""


def run(flow: Flow[R]) -> R:
    """Make the calls of a flow one after the other, sync, and return its result."""
    try:
        twin = next(flow)
        while True:
            try:
                result = twin.sync(*twin.arguments, **twin.options)
            except BaseException as error:  # noqa: BLE001 - the flow's to handle
                twin = flow.throw(error)
            else:
                twin = flow.send(result)
    except StopIteration as end:
        found: R = end.value
        return found


async def run_async(flow: Flow[R]) -> R:
    """Make the calls of a flow one after the other, async, and return its result."""
    try:
        twin = next(flow)
        while True:
            try:
                result = await twin.awaited(*twin.arguments, **twin.options)
            except BaseException as error:  # noqa: BLE001 - the flow's to handle
                twin = flow.throw(error)
            else:
                twin = flow.send(result)
    except StopIteration as end:
        found: R = end.value
        return found
