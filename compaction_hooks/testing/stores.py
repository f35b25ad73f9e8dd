"""Check of the contract of `RecordStore`, for the author of a store, on an empty one."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

from compaction_hooks import CompactionController, SummaryRequest
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.stores import RecordStore
from compaction_hooks.testing.demands import demand

ODD_IDS: Final = (
    "",
    "thread-1",
    "thread-10",
    "Thread-1",
    "thread-1/sub",
    "thread-1:sub",
    "thread-1.sub",
    "thread_1",
    "thread%1",
    "thread%2D1",
    "thread*",
    "../thread",
    "~thread",
    "thread",
    " thread ",
    "two\nlines",
    "NUL \x00 within",
    "\x00",
    "Gespräch 要約 😀",
    "half \ud83d",
    "'; DROP TABLE compaction_records; --",
    "x" * 2_000,
    "x" * 2_000 + "y",
)
"""Unusual ids of hosts: empty, a prefix of another, different only in case or outer white space, with separators and wildcards of
stores, beyond ASCII, very long, not valid Unicode."""

LONG_ID_CHARS: Final = 1_000
"""From this length on, a store may list an id by another text."""
LARGE_RECORD_BYTES: Final = 1_000_000
WORKERS: Final = 8
RECORDS_EACH: Final = 10


async def check_store(open_store: Callable[[], RecordStore]) -> None:
    """Check that a store keeps the contract of `RecordStore`, and of `ListingStore` if it can list.

    Its methods are called as by an async controller.

    - An unknown session has no records; appended records are loaded in any order, word for word, in their own session only.
    - Appending an existing id changes nothing; removing deletes one record, or nothing if the id is unknown; loaded records do not
      change afterwards.
    - Any text is a valid id of a session or a record (see `ODD_IDS`), and a record may have a megabyte.
    - If it has `session_ids`, that lists the sessions with records, each once, by ids that `load` and `remove` take. A store whose
      `session_ids` raises `ConfigurationError` is taken for one that cannot list.
    - Workers that append at the same time lose nothing, and an id has one record.
    - A conversation compacted by one controller continues in another without a second summary.

    Args:
        open_store: Returns the store, empty at first. It is called several times, for several workers, and all must see the same
            records. For a store in memory return the same object each time.

    Raises:
        AssertionError: the contract is broken; the text names the broken rule.
    """
    demand(callable(open_store), f"give a function that opens the store, not the {type(open_store).__name__} itself")
    one, other = _Worker(open_store()), _Worker(open_store())
    await _check_keeping(one, other)
    await _check_odd_ids(one, other)
    await _check_listing(one, other)
    await _check_size(one, other)
    await _check_at_once([_Worker(open_store()) for _ in range(WORKERS)])
    await _check_controllers(open_store)


_PROMISES: Final[Mapping[str, str]] = {
    "load": "load() must give the records of a session, and none where it is unknown",
    "append": "append() must keep any record under any id, and change nothing where the id is there",
    "remove": "remove() must take out the record it names, and do nothing where there is none",
    "session_ids": "session_ids() must give the ids of all sessions with records, or of those that begin with a text",
}
"""The contract of each method, for errors that it raised."""


class _Worker:
    """A store, called as by an async driver: sync methods run in a thread."""

    def __init__(self, store: RecordStore) -> None:
        lacks = [name for name in ("load", "append", "remove") if not callable(getattr(store, name, None))]
        demand(not lacks, f"{type(store).__name__} is no RecordStore: it lacks {', '.join(lacks)}")
        self._store = store

    async def load(self, session_id: str) -> Sequence[str]:
        return await self._call_for_texts("load", session_id)

    async def session_ids(self, *prefix: str) -> Sequence[str] | None:
        """Return the listed ids; None if the store cannot list."""
        if not hasattr(self._store, "session_ids"):
            return None
        try:
            return await self._call_for_texts("session_ids", *prefix)
        except AssertionError as error:
            if isinstance(error.__cause__, ConfigurationError):
                return None
            raise

    async def _call_for_texts(self, name: str, *arguments: str) -> Sequence[str]:
        found = cast("Sequence[object]", await self._call(name, *arguments))
        is_sequence = isinstance(cast("object", found), Sequence)
        demand(is_sequence, f"{name}() must give a sequence, not {type(found).__name__}")
        demand(all(isinstance(text, str) for text in found), f"{name}() must give texts of type str")
        return cast("Sequence[str]", found)

    async def append(self, session_id: str, record_id: str, record: str) -> None:
        await self._call("append", session_id, record_id, record)

    async def remove(self, session_id: str, record_id: str) -> None:
        await self._call("remove", session_id, record_id)

    async def _call(self, name: str, *arguments: str) -> object:
        try:
            return await _call(getattr(self._store, name), *arguments)
        except Exception as error:
            call = f"{name}({', '.join(map(_short, arguments))})"
            raise AssertionError(f"{_PROMISES[name]}, but {call} raised {type(error).__name__}: {error}") from error


async def _call(method: Callable[..., object], *arguments: str) -> object:
    if inspect.iscoroutinefunction(method):
        return cast("object", await method(*arguments))
    answer = await asyncio.to_thread(method, *arguments)
    return cast("object", await answer) if inspect.isawaitable(answer) else answer


def _demand_same(found: Sequence[str], wanted: Sequence[str], broken: str) -> None:
    demand(
        sorted(found) == sorted(wanted),
        f"{broken}: {len(found)} records {_short(found)} instead of {len(wanted)} {_short(wanted)}",
    )


def _short(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 120 else f"{text[:120]}..."


async def _check_keeping(one: _Worker, other: _Worker) -> None:
    _demand_same(await one.load("unknown"), [], "an unknown session must have no records: is the store empty?")

    texts = [json.dumps({"id": name, "text": "line\n\x00 要約 \ud83d \\ ' %s {}"}) for name in "abc"]
    for name, text in zip("abc", texts, strict=True):
        await one.append("keeping", name, text)
    await one.append("another", "a", texts[1])
    loaded = await one.load("keeping")
    _demand_same(loaded, texts, "what was appended must be loaded")
    _demand_same(await other.load("keeping"), texts, "what one worker appended the others must find")

    await other.append("keeping", "a", "changed")
    _demand_same(await one.load("keeping"), texts, "appending an id that is there must change nothing")

    await other.remove("keeping", "a")
    await other.remove("keeping", "unknown")
    await other.remove("unknown", "a")
    _demand_same(loaded, texts, "what was loaded must not change afterwards")
    _demand_same(await one.load("keeping"), texts[1:], "remove() must take out the one record it names")
    _demand_same(await one.load("another"), texts[1:2], "remove() must leave other sessions alone")

    await one.append("keeping", "a", texts[0])
    _demand_same(await other.load("keeping"), texts, "a removed record must come back when it is appended again")


async def _check_odd_ids(one: _Worker, other: _Worker) -> None:
    for number, name in enumerate(ODD_IDS):
        await one.append(name, "same", json.dumps(["session", number]))
        await one.append("odd", name, json.dumps(["record", number]))

    for number, name in enumerate(ODD_IDS):
        wanted = [json.dumps(["session", number])]
        _demand_same(await other.load(name), wanted, f"the session {_short(name)} must have its own records")
    everything = [json.dumps(["record", number]) for number in range(len(ODD_IDS))]
    _demand_same(await other.load("odd"), everything, "each record id must be kept apart from all others")

    for number, name in enumerate(ODD_IDS):
        await other.remove("odd", name)
        left = everything[number + 1 :]
        _demand_same(await one.load("odd"), left, f"remove() must find the record {_short(name)}")


async def _check_listing(one: _Worker, other: _Worker) -> None:
    """Check the list of sessions; those of `_check_odd_ids` are stored."""
    listed = await other.session_ids()
    if listed is None:
        return

    whole = [name for name in ODD_IDS if len(name) < LONG_ID_CHARS]
    missing = set(whole) - set(listed)
    demand(not missing, f"session_ids() must list each session with records, but lacks {_short(sorted(missing))}")
    demand(len(set(listed)) == len(listed), "session_ids() must list each session once")
    demand("odd" not in listed, "session_ids() must not list a session whose records were all removed")

    loaded = [text for name in listed for text in await one.load(name) if text.startswith('["session"')]
    wanted = [json.dumps(["session", number]) for number in range(len(ODD_IDS))]
    _demand_same(loaded, wanted, "each id that session_ids() lists must load the records of its session")

    for prefix in ("thread-1", "thread%", "thread_", "Thread", "thread*", "half \ud83d", "unknown"):
        found = await one.session_ids(prefix)
        begun = [name for name in whole if name.startswith(prefix)]
        _demand_same(found or [], begun, f"session_ids({_short(prefix)}) must list the ids that begin so")

    long = await one.session_ids("xxx") or []
    demand(len(long) == len(ODD_IDS) - len(whole), f"session_ids('xxx') must list the long ids, not {_short(long)}")
    for name in long:
        await other.remove(name, "same")
    demand(await one.session_ids("xxx") == [], "remove() must take the ids that session_ids() lists")


async def _check_size(one: _Worker, other: _Worker) -> None:
    text = json.dumps("\u00fc" * (LARGE_RECORD_BYTES // 6))  # six bytes each: \u00fc
    await one.append("large", "a", text)
    found = await other.load("large")
    demand(list(found) == [text], f"a record of {len(text)} bytes must be kept whole")


async def _check_at_once(workers: Sequence[_Worker]) -> None:
    async def append(number: int, worker: _Worker) -> None:
        for each in range(RECORDS_EACH):
            await worker.append("crowd", f"{number}-{each}", f"{number}-{each}")
            await worker.append("crowd", f"shared-{each}", f"shared-{each}")

    await asyncio.gather(*(append(number, worker) for number, worker in enumerate(workers)))
    names = [*map(str, range(len(workers))), "shared"]
    wanted = [f"{name}-{each}" for name in names for each in range(RECORDS_EACH)]
    for worker in workers:
        _demand_same(
            await worker.load("crowd"), wanted, "workers that append at once must lose nothing, and double nothing"
        )


async def _check_controllers(open_store: Callable[[], RecordStore]) -> None:
    asked: list[SummaryRequest] = []

    def summarize(request: SummaryRequest) -> str:
        asked.append(request)
        return "## Goal\n- keep what was said"

    messages: list[Mapping[str, object]] = [{"role": "system", "content": "Answer briefly."}]
    for number in range(40):
        messages.append({"role": "user", "content": f"Question {number}: {'what of it? ' * 40}"})
        messages.append({"role": "assistant", "content": f"Answer {number}: {'this of it. ' * 40}"})
    views: list[object] = []
    for _ in range(2):
        controller = CompactionController(context_window=8_192, summarizer=summarize, store=open_store())
        views.append(await controller.session("controllers").transform_context(messages))
    demand(len(asked) == 1, f"another controller must find the record, but {len(asked)} summaries were asked for")
    demand(views[0] == views[1], "another controller must make the same view of the record")
