"""One flow of calls for sync and async callers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from compaction_hooks.errors import ConfigurationError

P = ParamSpec("P")
R = TypeVar("R")


class Twin:
    """A call that a flow asks for, in a sync and an async form.

    Args:
        sync: The function for a sync caller.
        awaited: The function for an async caller.
        *arguments: The arguments of both.
        **options: The keyword arguments of both.
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


def run_in_loop(work: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine in the event loop of this thread, where the sync methods of some frameworks run too.

    Raises:
        ConfigurationError: the loop is running.
    """
    try:
        loop = asyncio.get_event_loop()
    except RuntimeError:
        loop = None
    if loop is not None and loop.is_running():
        work.close()
        raise ConfigurationError("an event loop runs in this thread: await the method of the same name without _sync")
    if loop is None or loop.is_closed():
        return asyncio.run(work)
    return loop.run_until_complete(work)


# -- methods


class TwinMethods:
    """A class whose methods are flows, each with an async and a sync form."""

    def _run_sync(self, flow: Flow[R]) -> R:
        """Make the calls of a flow that may ask a model, for a caller without an event loop."""
        return run(flow)


S = TypeVar("S", bound=TwinMethods)


def awaited(flow: Callable[Concatenate[S, P], Flow[R]]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """Return the async method of a flow."""

    @wraps(flow)
    async def method(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await run_async(flow(self, *args, **kwargs))

    return method


def blocking(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, R]], *, asks_model: bool = False
) -> Callable[Concatenate[S, P], R]:
    """Return the sync twin of a method that `awaited` returned.

    Args:
        asks_model: Whether its flow may ask a model, whose client belongs to an event loop in some frameworks.
    """
    flow: Callable[Concatenate[S, P], Flow[R]] = vars(method)["__wrapped__"]

    @wraps(flow)
    def twin(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        calls = flow(self, *args, **kwargs)
        return self._run_sync(calls) if asks_model else run(calls)  # pyright: ignore[reportPrivateUsage] - of this module

    twin.__name__ = f"{flow.__name__}_sync"
    twin.__doc__ = f"As `{flow.__name__}`, for callers without an event loop."
    return twin
