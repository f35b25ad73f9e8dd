"""What every adapter's methods by hand do to the rows of a real store, sync and async, from one process to the next."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

from compaction_adapters.kit import Flow, Twin, run, run_async

from compaction_hooks import Advice
from compaction_hooks.stores import SQLiteStore, is_tombstone
from tests.host_facts import FACT, PLAN, Host
from tests.provider import Side

ID = "thread"


class Process(NamedTuple):
    """An adapter as a new process makes it, with `store=` and `on_event=`.

    Attributes:
        adapter: The object with the methods.
        run: Runs the agent once with a long history, sync and async.
        messages: Returns the whole list; empty if the adapter reads it from the thread by itself.
        place: The arguments that name the conversation.
    """

    adapter: Any
    run: Twin
    messages: Callable[[], list[Any]]
    place: tuple[Any, ...]

    def do(self, name: str, *before: Any, after: tuple[Any, ...] = (), **options: Any) -> Twin:
        return self.call(name, *before, *self.place, *after, **options)

    def call(self, name: str, *arguments: Any, **options: Any) -> Twin:
        return Twin(getattr(self.adapter, f"{name}_sync"), getattr(self.adapter, name), *arguments, **options)


NewProcess = Callable[..., Process]


async def check_rows(
    how: str,
    folder: Path,
    side: Side,
    new_process: NewProcess,
    message: Any,
    around_sync: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
) -> None:
    """Compact, pin, load, undo and forget, by processes of their own; the last forgets all conversations with a prefix, too.

    Args:
        message: One of the conversation, for the pin.
        around_sync: The context of a sync program.
    """
    flow = _rows(folder / "records.db", side, new_process, message)

    def run_program() -> None:
        with around_sync():
            run(flow)

    # A sync program has no event loop in its thread.
    await (run_async(flow) if how == "async" else asyncio.to_thread(run_program))


def _rows(path: Path, side: Side, new_process: NewProcess, message: Any) -> Flow[None]:
    host = Host(Advice(veto="not now"), always=Advice(facts=[FACT]))
    keywords = {"on_event": host.note, "carry": host.carry, "before_compact": host.before_compact, "notice": True}

    @contextlib.contextmanager
    def process() -> Iterator[tuple[Process, Callable[[], int]]]:
        with SQLiteStore(path) as store:
            made = new_process(store=store, **keywords)
            yield made, lambda: sum(not is_tombstone(text) for text in store.load(ID))

    with process() as (first, count_rows):
        yield first.run
        totals = first.adapter.controller.session(ID).state().totals
        assert totals.calls == len(side.model_requests) > 0  # also of adapters that hand out a view and send it later
        is_graph, whole = not first.messages(), first.messages()
        before = () if is_graph else (whole,)
        assert (yield first.do("compact", *before)).outcome == "vetoed"
        assert not side.requests[-1].is_summary
        yield first.do("compact", *before)
        assert side.requests[-1].is_summary  # by the model of the last call
        (finished,) = host.finished
        assert finished.reason == "manual"
        assert [plan.reason for plan in host.plans] == ["manual"] * 2
        assert [request.session_id for request in host.asked] == [ID]
        assert all(text in finished.record.rendered for text in (PLAN, FACT))
        assert count_rows() == 1
    with process() as (second, count_rows):
        state = (yield second.do("load") if is_graph else second.do("load", messages=whole)).state()
        assert 0 < state.context_tokens < finished.tokens_before
        assert state.compaction_count == 1
        yield second.do("pin", after=(message,)) if is_graph else second.do("pin", message)
        assert count_rows() == 2
        assert (yield second.do("undo")).reason == "manual"
        session = yield second.do("load")
        assert session.history() == []
        assert count_rows() == 1  # the pin
    with process() as (third, count_rows):
        yield third.do("forget")
        assert count_rows() == 0
        session = yield third.do("load")
        assert session.export_records() == []
        third.adapter.controller.session(ID).pin(message)
        assert count_rows() == 1
        assert (yield third.call("forget_prefix", ID[:-1])) == [ID]
        assert count_rows() == 0


def awaited(function: Callable[[], Awaitable[object]]) -> Twin:
    """Return the call of an async function, for sync callers in a loop that ends with it."""

    async def call() -> object:
        return await function()

    return Twin(lambda: asyncio.run(call()), call)
