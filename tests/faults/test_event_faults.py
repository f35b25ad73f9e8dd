"""Event handlers that raise, exit, hang or need what surrounds them: the run goes on, and the other handlers hear everything."""

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from compaction_hooks import CompactionController, CompactionFinished, CompactionStarted
from compaction_hooks.events import CompactionEvent
from compaction_hooks.runtime.drivers import HANDLER_COOLDOWN_SECONDS
from tests.cases import crossed
from tests.conversations import talk, texts
from tests.faults.harness import (
    PATHS,
    SIDES,
    Chat,
    Hang,
    PanicError,
    Path,
    Side,
    above_threshold,
    fallback_settings,
    leaving_threads,
    raises,
    rig,
    works,
)

ERRORS = {
    "raises": RuntimeError("the dashboard is down"),
    "exits": SystemExit(1),
    "panics": PanicError("rust"),
    "cancels itself": asyncio.CancelledError(),
    "ends an iteration": StopIteration(),
    "asserts": AssertionError(),
}


def raising(error: BaseException, is_async: bool) -> Callable[[CompactionEvent], Any]:
    async def later(event: CompactionEvent) -> None:
        raise error

    return later if is_async else raises(error)


@crossed(name=ERRORS, is_async=[False, True], side=SIDES)
def test_a_handler_that_raises_does_not_fail_the_run(
    name: str, is_async: bool, side: Side, caplog: pytest.LogCaptureFixture
) -> None:
    after: list[CompactionEvent] = []
    for path in PATHS:
        handlers = [raising(ERRORS[name], is_async), after.append]
        driven = rig(side, summarizer=works, settings=fallback_settings(), on_event=handlers)
        after.clear()
        with leaving_threads():
            driven.go(path)
        assert after == driven.events
        assert isinstance(after[-1], CompactionFinished)
    assert "an event handler" in caplog.text


@crossed(path=PATHS, is_async=[False, True], side=SIDES)
def test_a_handler_that_hangs_does_not_hang_the_run(
    path: Path, is_async: bool, side: Side, short_timeouts: float, caplog: pytest.LogCaptureFixture
) -> None:
    hang = Hang()
    after: list[CompactionEvent] = []
    handlers = [hang.later if is_async else hang, after.append]
    driven = rig(side, summarizer=works, settings=fallback_settings(), on_event=handlers)
    try:
        with leaving_threads(0 if is_async else 1), caplog.at_level(logging.WARNING):
            driven.go(path)
        assert [type(event) for event in after] == [CompactionStarted, CompactionFinished]
        assert "an event handler did not answer within 0.05 seconds" in caplog.text
        assert hang.calls == 1
        assert caplog.text.count("an event handler failed") == 1
    finally:
        hang.release()


@pytest.mark.parametrize("side", SIDES)
def test_a_handler_that_returns_late_is_told_again(side: Side, short_timeouts: float) -> None:
    hang = Hang()
    heard: list[CompactionEvent] = []

    def slow_once(event: CompactionEvent) -> None:
        heard.append(event)
        if len(heard) == 1:
            hang()

    driven = rig(side, summarizer=works, settings=fallback_settings(), on_event=[slow_once])
    driven.go("threshold")
    assert len(heard) == 1
    hang.release()
    for thread in [t for t in threading.enumerate() if t.name == "compaction-helper"]:
        thread.join(5)
    driven.transform([*above_threshold(), *talk(15, first=40)])
    assert len(heard) == 1, "it was told before its rest was over"
    driven.clock.jump(HANDLER_COOLDOWN_SECONDS)
    driven.transform([*above_threshold(), *talk(30, first=40)])
    assert len(heard) == 3


def test_a_hung_handler_costs_one_thread_for_all_conversations(short_timeouts: float) -> None:
    hang = Hang()
    driven = rig("sync", summarizer=works, settings=fallback_settings(), on_event=[hang])
    try:
        with leaving_threads(1):
            for n in range(5):
                view = driven.hooks.session(f"agent-{n}").transform_context_sync(above_threshold())
                assert "port the parser" in texts(view)
        assert hang.calls == 1
    finally:
        hang.release()


@crossed(side=SIDES, is_async=[False, True])
def test_the_handler_of_one_call_may_hang_too(is_async: bool, side: Side, short_timeouts: float) -> None:
    """As adapters bring one along with every call, a new function each time."""
    hangs = [Hang(), Hang()]
    driven = rig(side, summarizer=works, settings=fallback_settings())
    try:
        with leaving_threads(0 if is_async else 1):
            for hang in hangs:
                messages = above_threshold()
                own: Any = hang.later if is_async else hang
                driven.run(
                    lambda messages=messages, own=own: driven.session.transform_context(messages, on_event=own),  # type: ignore[misc]
                    lambda messages=messages, own=own: driven.session.transform_context_sync(messages, on_event=own),  # type: ignore[misc]
                )
        assert any(isinstance(event, CompactionFinished) for event in driven.events)
    finally:
        for hang in hangs:
            hang.release()


# -- guarantees for handlers

span: contextvars.ContextVar[str] = contextvars.ContextVar("span", default="none")


@crossed(side=SIDES, is_async=[False, True])
def test_a_handler_sees_the_callers_context_variables(is_async: bool, side: Side) -> None:
    """As tracing needs them: the current span of the caller is current in the handler."""
    seen: list[str] = []

    def now(event: CompactionEvent) -> None:
        seen.append(span.get())

    async def later(event: CompactionEvent) -> None:
        seen.append(span.get())

    driven = rig(side, summarizer=works, settings=fallback_settings(), on_event=[later if is_async else now])
    token = span.set("the caller's")
    try:
        driven.go("threshold")
    finally:
        span.reset(token)
    assert seen == ["the caller's"] * 2


def test_a_coroutine_handler_runs_in_the_callers_loop() -> None:
    """A handler that needs the loop is a coroutine function: it may make tasks and touch the loop's queues."""
    queue: asyncio.Queue[CompactionEvent] = asyncio.Queue()
    loops: list[asyncio.AbstractEventLoop] = []

    async def tell(event: CompactionEvent) -> None:
        loops.append(asyncio.get_running_loop())
        await queue.put(event)

    async def run() -> None:
        hooks: CompactionController[Chat] = CompactionController(
            context_window=8_192, summarizer=works, settings=fallback_settings(), on_event=tell
        )
        reader = asyncio.ensure_future(queue.get())
        await hooks.transform_context(above_threshold())
        assert isinstance(await reader, CompactionStarted)
        assert loops[0] is asyncio.get_running_loop()

    asyncio.run(run())


def test_a_loops_queue_may_be_fed_by_a_plain_function() -> None:
    """`on_event=queue.put_nowait` runs in another thread; the loop is awake for it, because it waits for the handler."""

    async def run() -> None:
        queue: asyncio.Queue[CompactionEvent] = asyncio.Queue()
        hooks: CompactionController[Chat] = CompactionController(
            context_window=8_192, summarizer=works, settings=fallback_settings(), on_event=queue.put_nowait
        )
        reader = asyncio.ensure_future(queue.get())
        await hooks.transform_context(above_threshold())
        assert isinstance(await reader, CompactionStarted)
        assert isinstance(await queue.get(), CompactionFinished)

    asyncio.run(run())


@pytest.mark.parametrize("side", SIDES)
def test_events_come_one_after_the_other(side: Side) -> None:
    """The next one is told when the handler has returned: order holds although it runs in a thread."""
    busy = threading.Lock()
    overlaps: list[bool] = []

    def handler(event: CompactionEvent) -> None:
        overlaps.append(not busy.acquire(blocking=False))
        threading.Event().wait(0.01)
        busy.release()

    driven = rig(side, summarizer=works, settings=fallback_settings(), on_event=[handler])
    driven.go("threshold")
    assert overlaps == [False, False]
    assert [type(event) for event in driven.events] == [CompactionStarted, CompactionFinished]
