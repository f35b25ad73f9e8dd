"""One flow for callers that wait and callers that await."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

R = TypeVar("R")


class Twin:
    """A call that a flow asks for, in the form that fits the caller.

    Args:
        sync: The function for a caller that waits.
        awaited: The function for a caller that awaits.
        *arguments, **options: For either.
    """

    __slots__ = ("arguments", "awaited", "options", "sync")

    def __init__(self, sync: Callable[..., Any], awaited: Callable[..., Any], *arguments: Any, **options: Any) -> None:
        self.sync = sync
        self.awaited = awaited
        self.arguments = arguments
        self.options = options


Flow: TypeAlias = Generator[Twin, Any, R]
"""Yields the calls it needs, is sent their results or thrown their errors, and returns its own result."""


def run(flow: Flow[R]) -> R:
    """Make the calls of a flow one after the other, and return its result."""
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
    """As `run`, for callers with an event loop."""
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
