"""`forget` reaches all workers that read the store: what a worker had of the conversation is not written back."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from compaction_hooks import CompactionSession, SummaryRequest
from compaction_hooks.runtime.effects import Instant
from compaction_hooks.stores import KeyValueStore, MemoryStore, SQLiteStore, is_tombstone
from tests.cases import crossed
from tests.conversations import Chat, Controller, Scripted, controller, system, talk, texts
from tests.stores.test_stores_key_value import AsyncFolders, Listed

ID = "user-7/thread"
SECRET = "- the secret"
MESSAGES = [system(), *talk(20)]
compact = partial(CompactionSession[Chat].compact_sync, keep_recent_tokens=300)

STORES: dict[str, Callable[[Path], Any]] = {
    "memory": lambda _: MemoryStore(),
    "SQLite": lambda folder: SQLiteStore(folder / "records.db"),
    "key-value": lambda _: KeyValueStore(Listed()),
}


class Moving:
    """A clock that all workers share: every look at it takes a millisecond."""

    seconds = 1_000.0

    def __call__(self) -> Instant:
        self.seconds += 0.001
        return Instant(datetime(2026, 2, 10, tzinfo=UTC) + timedelta(seconds=self.seconds), self.seconds)


class Connection:
    """One worker's way to a store, which may be down."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.is_down = False

    def load(self, session_id: str) -> Any:
        return self._call("load", session_id)

    def append(self, session_id: str, record_id: str, record: str) -> None:
        self._call("append", session_id, record_id, record)

    def remove(self, session_id: str, record_id: str) -> None:
        self._call("remove", session_id, record_id)

    def session_ids(self, prefix: str = "") -> Any:
        return self._call("session_ids", prefix)

    def _call(self, name: str, *arguments: str) -> Any:
        if self.is_down:
            raise OSError("no route to host")
        return getattr(self.store, name)(*arguments)


class Stage:
    """A worker that holds a conversation, and another one on the same store.

    Attributes:
        forget: Forgets the conversation, by its id or by the beginning of its id; the controller is given.
    """

    def __init__(self, store: Any, way: str = "id") -> None:
        self.store = store
        self.clock = Moving()
        self.connection = Connection(store)
        self.holder = self.work(self.connection)
        self.session = self.holder.session(ID)
        self.other = self.work(store)
        self._way = way

    def work(self, store: Any, summarizer: Any = None) -> Controller:
        return controller(100_000, summarizer=summarizer or Scripted(SECRET), store=store, clock=self.clock)

    def forget(self, hooks: Controller) -> None:
        if self._way == "id":
            hooks.forget_sync(ID)
        else:
            assert ID in hooks.forget_prefix_sync("user-7/")

    def fail_to_save(self) -> None:
        """The holder has read the store, compacts, and cannot save the record; a pin is saved."""
        self.session.transform_context_sync(MESSAGES)
        self.session.pin(MESSAGES[2])
        self.connection.is_down = True
        compact(self.session, MESSAGES)
        self.connection.is_down = False

    def pass_cooldown(self) -> None:
        """Let the time go by in which a store that failed is not asked."""
        self.clock.seconds += 60

    @property
    def kept(self) -> list[str]:
        return [text for text in self.store.load(ID) if not is_tombstone(text)]


# -- the process that forgets


def closed_and_held(stage: Stage) -> None:
    compact(stage.session, MESSAGES)
    stage.holder.close(ID)
    stage.forget(stage.holder)


def closed_with_a_record_that_waits(stage: Stage) -> None:
    stage.fail_to_save()
    stage.holder.close(ID)
    stage.forget(stage.holder)
    stage.pass_cooldown()


def held_since_it_was_forgotten_before(stage: Stage) -> None:
    stage.holder.forget_sync(ID)  # the store has no such id yet
    compact(stage.session, MESSAGES)
    stage.forget(stage.holder)


def another_session_of_the_id(stage: Stage) -> None:
    compact(stage.session, MESSAGES)
    stage.holder.close(ID)
    second = stage.holder.session(ID)
    second.load_sync()
    stage.forget(stage.holder)
    assert (len(second.history()), second.state().context_tokens) == (0, None)


# -- another process


def has_the_record(stage: Stage) -> None:
    compact(stage.session, MESSAGES)
    stage.forget(stage.other)


def could_not_save_and_goes_on(stage: Stage) -> None:
    stage.fail_to_save()
    stage.forget(stage.other)
    stage.pass_cooldown()


def could_not_save_and_pins(stage: Stage) -> None:
    stage.fail_to_save()
    stage.forget(stage.other)
    stage.session.pin(MESSAGES[4])


def could_not_save_and_loads(stage: Stage) -> None:
    stage.fail_to_save()
    stage.forget(stage.other)
    stage.session.load_sync()


def could_not_even_read(stage: Stage) -> None:
    compact(stage.other.session(ID), MESSAGES)
    stage.connection.is_down = True
    compact(stage.session, MESSAGES)
    stage.connection.is_down = False
    stage.forget(stage.other)
    stage.session.load_sync()


def is_in_the_middle_of_a_summary(stage: Stage) -> None:
    forgets = iter([stage.forget])

    def summarize(_: SummaryRequest) -> str:
        for forget in forgets:
            forget(stage.other)
        return SECRET

    stage.session.pin(MESSAGES[2])
    stage.session = stage.work(stage.connection, summarize).session(ID)
    assert SECRET in texts([*compact(stage.session, MESSAGES).messages])  # its call has the view that was paid for


ROWS: list[Callable[[Stage], None]] = [
    closed_and_held,
    closed_with_a_record_that_waits,
    held_since_it_was_forgotten_before,
    another_session_of_the_id,
    has_the_record,
    could_not_save_and_goes_on,
    could_not_save_and_pins,
    could_not_save_and_loads,
    could_not_even_read,
    is_in_the_middle_of_a_summary,
]


@crossed(row=ROWS, kind=STORES, way=["id", "prefix"])
def test_a_forgotten_conversation_is_neither_known_nor_written_back(
    row: Callable[[Stage], None], kind: str, way: str, tmp_path: Path
) -> None:
    stage = Stage(STORES[kind](tmp_path), way)
    row(stage)
    assert stage.session.transform_context_sync(MESSAGES) == MESSAGES
    assert (stage.session.history(), stage.session.export_records(), stage.kept) == ([], [], [])
    assert stage.store.session_ids() == []

    # The id can be used again, by this worker and by others.
    compact(stage.session, MESSAGES)
    assert len(stage.kept) == 1
    late = stage.work(stage.store).session(ID)
    assert SECRET in texts(late.transform_context_sync(MESSAGES))
    compact(late, more := [*MESSAGES, *talk(20, first=20)])
    stage.session.load_sync(more)
    assert [record.compaction_count for record in stage.session.history()] == [1, 2]


# -- what may still be written


def pins(session: CompactionSession[Chat]) -> None:
    session.pin(MESSAGES[2])


def compacts(session: CompactionSession[Chat]) -> None:
    compact(session, MESSAGES)


@crossed(begin=[pins, compacts], kind=STORES)
def test_what_begins_before_the_first_load_is_newer_than_the_tombstone(
    begin: Callable[[CompactionSession[Chat]], None], kind: str, tmp_path: Path
) -> None:
    stage = Stage(STORES[kind](tmp_path))
    stage.forget(stage.other)
    begun = stage.work(stage.connection).session(ID)
    stage.connection.is_down = True
    begin(begun)
    stage.connection.is_down = False
    stage.pass_cooldown()
    begun.transform_context_sync(MESSAGES)
    assert len(stage.kept) == 1


def test_a_worker_that_had_no_answer_of_the_store_since_writes() -> None:
    stage = Stage(MemoryStore())
    stage.session.load_sync()
    stage.forget(stage.other)
    stage.session.pin(MESSAGES[2])
    assert len(stage.kept) == 1


async def test_a_summary_that_another_caller_could_not_wait_for_is_not_kept_either() -> None:
    """That caller compacts meanwhile; then the conversation is forgotten, and begins anew."""
    stage = Stage(MemoryStore())
    started, release = asyncio.Event(), asyncio.Event()

    async def summarize(_: SummaryRequest) -> str:
        if not started.is_set():
            started.set()
            await release.wait()
        return SECRET

    session = stage.work(stage.store, summarize).session(ID)
    first = asyncio.create_task(session.compact(MESSAGES, 300))
    await started.wait()
    compact(session, MESSAGES)
    stage.forget(stage.other)
    session.load_sync()
    release.set()
    await first
    assert stage.kept == []
    assert session.history() == []


# -- the tombstone


async def test_a_tombstone_is_an_id_and_a_time_and_no_conversation() -> None:
    store: Any = KeyValueStore(AsyncFolders())
    hooks = controller(100_000, summarizer=lambda _: SECRET, store=store)
    for _ in range(2):  # a later one takes the place of an earlier one
        await hooks.session(ID).compact(MESSAGES, 300)
        assert await store.session_ids() == [ID]
        assert await hooks.forget_prefix("user-7/") == [ID]
    (text,) = await store.load(ID)
    assert is_tombstone(text)
    assert [*json.loads(text)] == ["id", "forgotten_at"]
    assert await store.session_ids() == []
    assert await controller(store=store).forget_prefix("user-7/") == []
