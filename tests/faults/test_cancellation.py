"""Cancelled at every point of waiting, aborted or interrupted at every effect: the conversation is idle after."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest

from compaction_hooks import CompactionReason, CompactionSkipped, SummaryRequest
from compaction_hooks.engine.call import Call, Order
from compaction_hooks.engine.compact import compact
from compaction_hooks.engine.send import recover
from compaction_hooks.engine.transform import transform
from compaction_hooks.events import CompactionEvent
from compaction_hooks.runtime.drivers import CallContext
from compaction_hooks.stores import MemoryStore
from tests.cases import sampled_rows
from tests.conversations import texts
from tests.faults.harness import (
    OVERFLOW,
    SIDES,
    CancelledAt,
    Chat,
    Rig,
    Side,
    above_threshold,
    effects_with,
    fallback_settings,
    leaving_threads,
    no_tasks_left,
    over_window,
    rig,
    tokens,
    works,
)
from tests.stores.opened import LaterStore


async def later(request: SummaryRequest) -> str:
    await asyncio.sleep(0)
    return "## Goal\n- port the parser"


async def tell_later(event: CompactionEvent) -> None:
    await asyncio.sleep(0)


def tell(event: CompactionEvent) -> None:
    """Hears the event."""


@dataclass(frozen=True)
class Way:
    """One way into the controller: the method to run, and whether it ends with a smaller list."""

    run: Callable[[Rig, list[Chat]], Coroutine[Any, Any, object]]
    messages: Callable[[], list[Chat]] = above_threshold


async def send_to_a_small_model(view: list[Chat]) -> dict[str, str]:
    """Answer like a model that counts more tokens than we do: reject `heavy()`, and accept its compacted view."""
    await asyncio.sleep(0)
    if tokens(view) > 3_000:
        raise OVERFLOW
    return {"role": "assistant", "content": "done"}


def heavy() -> list[Chat]:
    """Return a list below our threshold, and too large for `send_to_a_small_model`."""
    return above_threshold()[:18]


def calling(driven: Rig, messages: list[Chat]) -> Coroutine[Any, Any, object]:
    return driven.session.call(messages, send_to_a_small_model)


WAYS = {
    "transform": Way(lambda driven, messages: driven.session.transform_context(messages)),
    "transform above the window": Way(
        lambda driven, messages: driven.session.transform_context(messages), messages=over_window
    ),
    "compact": Way(lambda driven, messages: driven.session.compact(messages)),
    "recover": Way(lambda driven, messages: driven.session.recover(OVERFLOW, messages)),
    "call that overflows": Way(calling, messages=heavy),
}


def make(kind: str, **keywords: Any) -> Rig:
    """Return a controller whose helpers all are coroutine functions, or all plain functions."""
    if kind == "coroutine helpers":
        helpers: dict[str, Any] = {"summarizer": later, "store": LaterStore(), "on_event": [tell_later]}
    else:
        helpers = {"summarizer": works, "store": MemoryStore(), "on_event": [tell]}
    return rig("async", settings=fallback_settings(), **{**helpers, **keywords})


async def cancel_at(way: Way, kind: str, at: int) -> tuple[Rig, list[Chat], int, bool]:
    """Run a way, cancelled at its `at`-th wait; return the rig, the list, the waits so far, and whether it was cancelled."""
    driven, messages = make(kind), way.messages()
    driven.handed_in.append((messages, list(messages)))
    walk = CancelledAt(way.run(driven, messages), at)

    async def walked() -> None:
        await walk

    task = asyncio.ensure_future(walked())
    await asyncio.wait([task])
    await no_tasks_left()
    if not task.cancelled() and task.exception() is not None:
        raise task.exception()  # type: ignore[misc]
    return driven, messages, walk.waits, task.cancelled()


@pytest.mark.parametrize(
    ("name", "kind"), sampled_rows(product(reversed(WAYS), ["coroutine helpers", "plain helpers"]), 3)
)
def test_a_run_may_be_cancelled_wherever_it_waits(name: str, kind: str) -> None:
    way = WAYS[name]

    async def walk() -> int:
        await cancel_at(way, kind, 0)  # the first compaction of a process has one wait more: it imports modules
        _, _, waits, was_cancelled = await cancel_at(way, kind, 0)
        assert not was_cancelled
        for at in range(1, waits + 1):
            driven, messages, _, was_cancelled = await cancel_at(way, kind, at)
            assert was_cancelled, f"cancelled at wait {at} of {waits}, and went on"
            driven.check_idle()
            view = (await driven.session.compact(messages)).messages
            driven.check(messages, view)
            assert "port the parser" in texts(view)
            assert driven.hooks.state().breaker == "closed"
        await no_tasks_left()
        return waits

    with leaving_threads():
        waits = asyncio.run(walk())
    assert waits >= 5, "the walk saw summarizer, store and handlers"


def test_a_cancelled_waiter_may_be_cancelled_wherever_it_waits() -> None:
    async def cancel(at: int) -> int:
        started, release = asyncio.Event(), asyncio.Event()

        async def slow(request: SummaryRequest) -> str:
            started.set()
            await release.wait()
            return "## Goal\n- port the parser"

        driven = rig("async", summarizer=slow, settings=fallback_settings())
        messages = above_threshold()
        leader = asyncio.ensure_future(driven.session.transform_context(messages))
        await started.wait()
        walk = CancelledAt(driven.session.transform_context(messages), at)

        async def walked() -> list[Chat]:
            view: list[Chat] = await walk
            return view

        waiter = asyncio.ensure_future(walked())
        await asyncio.sleep(0)
        release.set()
        await asyncio.wait([leader, waiter])
        assert "port the parser" in texts(leader.result())
        assert waiter.cancelled() is bool(at)
        await no_tasks_left()
        driven.check_idle()
        return walk.waits

    async def walk_all() -> None:
        waits = await cancel(0)
        assert waits >= 1
        for at in range(1, waits + 1):
            await cancel(at)

    asyncio.run(walk_all())


# -- by signal, and by an interrupt


def flow_of(driven: Rig, name: str, messages: list[Chat]) -> Any:
    engine = driven.session.engine
    call = Call(messages, engine.shared.find_settings(None), engine.shared)
    match name:
        case "transform":
            return transform(engine.conversation, call)
        case "compact":
            return compact(engine.conversation, call, Order(CompactionReason.MANUAL, must_fit=True))
        case _:
            return recover(engine.conversation, call, OVERFLOW)


def run_flow(driven: Rig, flow: Any, caller: CallContext) -> Any:
    driver = driven.session.engine.driver
    return driven.run(lambda: driver.run(flow, caller), lambda: driver.run_sync(flow, caller))


def count_of_effects(side: Side, name: str) -> int:
    driven, seen = rig(side, summarizer=works, store=MemoryStore(), settings=fallback_settings()), list[object]()
    run_flow(driven, effects_with(flow_of(driven, name, above_threshold()), 0, lambda: None, seen), CallContext())
    return len(seen)


FLOWS = ("transform", "recover", "compact")


@pytest.mark.parametrize(("name", "side"), sampled_rows(product(FLOWS, SIDES), 2))
def test_a_signal_may_be_set_at_every_effect(name: str, side: Side) -> None:
    """The list is returned as it was, or compacted if that was done already; after an overflow its error is raised."""
    effects = count_of_effects(side, name)
    assert effects >= 6
    for at in range(1, effects + 1):
        driven = rig(side, summarizer=works, store=MemoryStore(), settings=fallback_settings())
        messages, signal = above_threshold(), threading.Event()
        driven.handed_in.append((messages, list(messages)))
        flow = effects_with(flow_of(driven, name, messages), at, signal.set, [])
        was_raised: Exception | None = None
        view = messages
        with leaving_threads():
            try:
                given = run_flow(driven, flow, CallContext(signal=signal))
                view = given.messages if name == "compact" else given.view
            except ValueError as error:
                was_raised = error
        assert was_raised is (OVERFLOW if name == "recover" and view is messages else None)
        driven.check(messages, view)
        assert (view is messages) is not ("port the parser" in texts(view))
        driven.check_idle()
        assert "port the parser" in texts(driven.transform(messages)), "the next call compacts"
        assert driven.hooks.state().breaker == "closed", "an abort is no failure of the summarizer"


@pytest.mark.parametrize(("name", "side"), sampled_rows(product(FLOWS, SIDES), 2))
def test_an_interrupt_may_come_at_every_effect(name: str, side: Side) -> None:
    for at in range(1, count_of_effects(side, name) + 1):
        driven = rig(side, summarizer=works, store=MemoryStore(), settings=fallback_settings())
        messages = above_threshold()
        driven.handed_in.append((messages, list(messages)))

        def interrupt() -> None:
            raise KeyboardInterrupt

        flow = effects_with(flow_of(driven, name, messages), at, interrupt, [])
        with pytest.raises(KeyboardInterrupt), leaving_threads():
            run_flow(driven, flow, CallContext())
        driven.check_idle()
        assert "port the parser" in texts(driven.transform(messages))


@pytest.mark.parametrize("kind", ["asyncio.Event", "threading.Event", "a flag"])
def test_a_signal_set_while_the_summarizer_works_ends_the_wait(kind: str) -> None:
    """Each kind of signal: those that can be awaited are, the others are polled."""

    class Flag:
        def __init__(self) -> None:
            self.is_up = False

        def set(self) -> None:
            self.is_up = True

        def is_set(self) -> bool:
            return self.is_up

    async def run() -> None:
        made: dict[str, Callable[[], Any]] = {
            "asyncio.Event": asyncio.Event,
            "threading.Event": threading.Event,
            "a flag": Flag,
        }
        signal = made[kind]()

        async def never(request: SummaryRequest) -> str:
            signal.set()
            await asyncio.Event().wait()
            raise AssertionError

        driven = rig("async", summarizer=never, settings=fallback_settings())
        messages = above_threshold()
        assert await driven.session.transform_context(messages, signal) is messages
        assert isinstance(driven.events[-1], CompactionSkipped)
        await no_tasks_left()
        driven.check_idle()

    asyncio.run(run())


def test_a_signal_ends_the_wait_for_another_threads_compaction() -> None:
    """A sync caller that waits for one under way gets its list as it was; the other goes on."""
    started, release = threading.Event(), threading.Event()

    def slow(request: SummaryRequest) -> str:
        started.set()
        release.wait(10)
        return "## Goal\n- port the parser"

    class SetWhenWaitedFor:
        looks = 0

        def is_set(self) -> bool:
            self.looks += 1
            return self.looks > 1

    driven = rig("sync", summarizer=slow, settings=fallback_settings())
    messages = above_threshold()
    views: list[list[Chat]] = []
    leader = threading.Thread(target=lambda: views.append(driven.session.transform_context_sync(messages)))
    leader.start()
    assert started.wait(10)
    assert driven.session.transform_context_sync(messages, SetWhenWaitedFor()) is messages
    release.set()
    leader.join(10)
    assert "port the parser" in texts(views[0])
    driven.check_idle()
