"""The core and its store: two workers, a store that fails for a while, records that cannot be read."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import pytest

from compaction_hooks import CompactionSettings, StoreFailed, SummaryRequest
from compaction_hooks.events import CompactionEvent
from compaction_hooks.runtime.effects import Instant
from compaction_hooks.stores import MemoryStore, RecordStore
from compaction_hooks.view.record import RECORD_VERSION
from tests.conversations import (
    Chat,
    Controller,
    Scripted,
    assistant,
    call,
    controller,
    steps,
    system,
    texts,
    tool,
    user,
)


class Clock:
    """A clock that moves only by hand."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> Instant:
        return Instant(datetime(2026, 1, 1, tzinfo=UTC), self.seconds)


class Flaky(MemoryStore):
    """A store whose methods fail while they are named, and that counts how often it was asked."""

    def __init__(self, *failing: str) -> None:
        super().__init__()
        self.failing = set(failing)
        self.asked: list[str] = []

    def _ask(self, name: str) -> None:
        self.asked.append(name)
        if name in self.failing:
            raise OSError(f"cannot {name} now")

    def load(self, session_id: str) -> Sequence[str]:
        self._ask("load")
        return super().load(session_id)

    def append(self, session_id: str, record_id: str, record: str) -> None:
        self._ask("append")
        super().append(session_id, record_id, record)

    def remove(self, session_id: str, record_id: str) -> None:
        self._ask("remove")
        super().remove(session_id, record_id)


class OfOneLoop(MemoryStore):
    """An async store whose connection belongs to the loop it was made in, as that of most async clients does."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.get_running_loop()

    def _check(self) -> None:
        if asyncio.get_running_loop() is not self.loop:
            raise RuntimeError("attached to a different loop")

    async def load(self, session_id: str) -> Sequence[str]:  # type: ignore[override]
        self._check()
        return super().load(session_id)

    async def append(self, session_id: str, record_id: str, record: str) -> None:  # type: ignore[override]
        self._check()
        super().append(session_id, record_id, record)

    async def remove(self, session_id: str, record_id: str) -> None:  # type: ignore[override]
        self._check()
        super().remove(session_id, record_id)


def worker(
    store: RecordStore,
    summarizer: Callable[[SummaryRequest], str] | Scripted | None = None,
    events: list[CompactionEvent] | None = None,
    clock: Clock | None = None,
) -> Controller:
    settings = CompactionSettings(clear_tool_results=False)
    return controller(8_192, summarizer=summarizer, store=store, settings=settings, events=events, clock=clock)


def long(count: int = 22) -> list[Chat]:
    return [system(), user("Port the parser."), *steps(count, 300)]


def failures(events: list[CompactionEvent]) -> list[tuple[str, str]]:
    return [(event.action, event.error) for event in events if isinstance(event, StoreFailed)]


# -- two workers


def test_a_second_worker_uses_the_first_ones_summary_instead_of_paying_for_another() -> None:
    """Both had loaded the records before either compacted."""
    store, asked = MemoryStore(), Scripted("- made once")
    one, other = worker(store, asked), worker(store, asked)
    short, messages = long(4), long()
    one.transform_context_sync(short)
    other.transform_context_sync(short)
    assert "- made once" in texts(one.transform_context_sync(messages))
    assert texts(other.transform_context_sync(messages)) == texts(one.transform_context_sync(messages))
    assert len(asked.requests) == 1


class WrittenAtOnce(MemoryStore):
    """A store in which neither of two workers finds the record of the other before it writes its own."""

    def __init__(self) -> None:
        super().__init__()
        self.both_write = threading.Barrier(2)

    def append(self, session_id: str, record_id: str, record: str) -> None:
        self.both_write.wait(timeout=20)
        super().append(session_id, record_id, record)


def test_two_workers_that_compact_at_once_agree_on_the_next_call() -> None:
    """Both pay, both views are right, and then one record is active for both."""
    store, messages = WrittenAtOnce(), long()
    views: dict[str, str] = {}

    def run(name: str, hooks: Controller) -> None:
        views[name] = texts(hooks.transform_context_sync(messages))

    workers = {name: worker(store, Scripted(f"- by worker {name}")) for name in ("a", "b")}
    threads = [threading.Thread(target=run, args=item) for item in workers.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert all(f"- by worker {name}" in views[name] for name in workers)
    assert len(store.load("default")) == 2
    after = {texts(hooks.transform_context_sync(messages)) for hooks in workers.values()}
    assert len(after) == 1
    assert after <= set(views.values())


def test_a_worker_that_finds_a_summary_when_its_own_is_made_agrees_at_once() -> None:
    store, messages = MemoryStore(), long()
    first = worker(store, Scripted("- by the first"))

    def ask(_: SummaryRequest) -> str:
        first.transform_context_sync(messages)
        return "- by the second"

    second = worker(store, ask)
    view = texts(second.transform_context_sync(messages))
    assert len(store.load("default")) == 2
    assert [texts(hooks.transform_context_sync(messages)) for hooks in (first, second)] == [view, view]


def test_another_workers_summary_of_an_edited_history_is_not_taken() -> None:
    store = MemoryStore()
    worker(store, Scripted("- of the first history")).transform_context_sync(long())
    edited = [system(), user("Port the lexer."), *long()[2:]]
    view = worker(store, Scripted("- of the edited history")).transform_context_sync(edited)
    assert "- of the edited history" in texts(view)
    assert "first history" not in texts(view)


# -- a store that fails for a while


def test_a_record_that_could_not_be_written_is_written_later() -> None:
    """Nothing that was paid for is lost with the process, as long as the store comes back."""
    store, clock, events = Flaky("append"), Clock(), list[CompactionEvent]()
    hooks = worker(store, Scripted("- paid for"), events, clock)
    messages = long()
    hooks.transform_context_sync(messages)
    assert failures(events) == [("save", "OSError: cannot append now")]
    store.failing.clear()
    hooks.transform_context_sync(messages)
    assert store.load("default") == []
    clock.seconds += 31
    hooks.transform_context_sync(messages)
    assert "- paid for" in store.load("default")[0]


def test_a_store_that_failed_is_left_alone_for_a_while() -> None:
    """Else every call would wait for the time-out of a store that hangs."""
    store, clock, events = Flaky("load"), Clock(), list[CompactionEvent]()
    hooks = worker(store, Scripted(), events, clock)
    for _ in range(5):
        hooks.transform_context_sync(long(4))
    assert store.asked == ["load"]
    assert failures(events) == [("load", "OSError: cannot load now")]
    clock.seconds += 31
    store.failing.clear()
    hooks.transform_context_sync(long(4))
    hooks.transform_context_sync(long(4))
    assert store.asked == ["load", "load"]


def test_a_store_that_failed_before_a_summary_is_not_asked_before_the_next_one_either() -> None:
    """The records were read; a failure to read them again does not prevent a compaction, and is reported once."""
    store, clock, events = Flaky(), Clock(), list[CompactionEvent]()
    hooks = worker(store, Scripted(ConnectionError("down")), events, clock)
    hooks.transform_context_sync(long(4))
    store.failing.add("load")
    messages = long(19)
    for _ in range(3):
        assert hooks.transform_context_sync(messages) is messages
    assert store.asked == ["load", "load"]
    assert failures(events) == [("load", "OSError: cannot load now")]
    clock.seconds += 31
    hooks.transform_context_sync(messages)
    assert store.asked == ["load", "load", "load"]


class Slow(OfOneLoop):
    """An async store that writes when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []
        self.begun, self.release = asyncio.Event(), asyncio.Event()

    async def append(self, session_id: str, record_id: str, record: str) -> None:  # type: ignore[override]
        self.writes.append(record_id)
        self.begun.set()
        await self.release.wait()
        await super().append(session_id, record_id, record)


async def test_a_record_that_is_being_written_is_not_written_by_another_caller_too() -> None:
    store = Slow()
    hooks = worker(store, Scripted("- made once"))
    messages = long()
    leader = asyncio.create_task(hooks.transform_context(messages))
    await store.begun.wait()
    assert "- made once" in texts(await hooks.transform_context(messages))
    assert len(store.writes) == 1
    store.release.set()
    assert "- made once" in texts(await leader)
    assert len(store.writes) == len(await store.load("default")) == 1


def test_an_undo_the_store_missed_reaches_it_later() -> None:
    store, clock = Flaky("remove"), Clock()
    hooks = worker(store, Scripted(), clock=clock)
    hooks.compact_sync(long(10))
    hooks.undo()
    assert len(store.load("default")) == 1
    store.failing.clear()
    clock.seconds += 31
    hooks.transform_context_sync(long(10))
    assert store.load("default") == []


def test_a_store_that_forgets_costs_no_summary() -> None:
    """Records that the store lost, or does not show yet, are still in memory."""
    store, asked = MemoryStore(), Scripted("- remembered")
    hooks = worker(store, asked)
    messages = long()
    record = hooks.compact_sync(messages).record
    assert record is not None
    store.remove("default", record.id)
    assert "- remembered" in texts(hooks.transform_context_sync(messages))
    assert len(asked.requests) == 1


def test_imported_records_are_written_to_the_store() -> None:
    origin = worker(MemoryStore(), Scripted("- from elsewhere"))
    messages = long()
    origin.transform_context_sync(messages)
    store = MemoryStore()
    hooks = worker(store)
    hooks.session("default").import_records(origin.session("default").export_records())
    hooks.transform_context_sync(messages)
    assert "- from elsewhere" in store.load("default")[0]


def test_records_that_are_imported_later_reach_the_store_too() -> None:
    """They are written with the next call, though the store was read already and need not be read again."""
    origin = worker(MemoryStore(), Scripted("- from elsewhere"))
    messages = long()
    origin.transform_context_sync(messages)
    store = Flaky()
    hooks = worker(store)
    hooks.transform_context_sync(long(4))
    assert hooks.session("default").import_records(origin.session("default").export_records()) == 1
    assert "- from elsewhere" in texts(hooks.transform_context_sync(messages))
    assert store.asked == ["load", "append"]
    assert "- from elsewhere" in store.load("default")[0]


# -- records that cannot be read


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("{damaged", "not JSON", id="damaged"),
        pytest.param('{"id": "x"}', "reason", id="a field is missing"),
        pytest.param(json.dumps({"version": RECORD_VERSION + 1}), "update compaction-hooks", id="of a later version"),
        pytest.param("\x00\x00\x00", "not JSON", id="zeroed"),
    ],
)
def test_a_record_that_cannot_be_read_is_reported_once_and_skipped(text: str, says: str) -> None:
    """The session goes on with the others."""
    store, events = MemoryStore(), list[CompactionEvent]()
    messages = long()
    worker(store, Scripted("- good")).transform_context_sync(messages)
    store.append("default", "bad", text)
    asked = Scripted("- more")
    hooks = worker(store, asked, events)
    assert "- good" in texts(hooks.transform_context_sync(messages))
    grown = [*messages, *steps(20, 300, first=50)]
    assert "- more" in texts(hooks.transform_context_sync(grown))
    hooks.transform_context_sync(grown)
    assert len(failures(events)) == 1
    action, error = failures(events)[0]
    assert action == "read"
    assert says in error


def test_an_imported_record_that_cannot_be_read_is_reported() -> None:
    events: list[CompactionEvent] = []
    hooks = controller(events=events)
    assert hooks.session("default").import_records([{"version": RECORD_VERSION + 1}]) == 0
    assert [action for action, _ in failures(events)] == ["read"]


# -- versions

OF_VERSION_1: dict[str, object] = {
    "version": 1,
    "id": "fc7d0d9c949f6928978f11f7",
    "parent": None,
    "prompt_version": 1,
    "reason": "manual",
    "summary": "- ported parser.py",
    "previous_summary": None,
    "rendered": "[Conversation summary]\nAs it was rendered then.\n\n- ported parser.py",
    "compacted_message_count": 9,
    "covered_runs": 7,
    "covered_digest": "16c401fb686525f23e1bb1e59563eb77332949c9d79f1470d66d6526180849e9",
    "seen_runs": 9,
    "tokens_before": 2576,
    "tokens_after": 204,
    "compaction_count": 1,
    "last_compacted_at": "2026-02-10T21:30:00Z",
    "pins": [
        {"run": 6, "digest": "bf8948a488cd5452c1698c9e30b54739c6120b36a05f889368161d6c5c572042", "is_users": False}
    ],
    "reductions": [],
    "base": None,
    "read_files": ["parser.py"],
    "modified_files": ["parser.rs"],
    "digest": {"messages": {"user": 2, "assistant": 3, "tool": 3}, "files_written": ["parser.rs"]},
    "usage": None,
}
"""As the first version of records wrote it; the digests are those of `then()`."""


def then() -> list[Chat]:
    """Return the conversation the old record was made of."""
    return [
        system(),
        user("Port the parser to Rust."),
        assistant("I read it first.", call("c1", path="parser.py"), call("c2", name="list_files", path=".")),
        tool("c1", "def parse(): ... " + "x = 1\n" * 400),
        tool("c2", "parser.py lexer.py"),
        assistant("Now I write it.", call("c3", name="write_file", path="parser.rs", text="fn parse() {}")),
        tool("c3", "written"),
        assistant("Done."),
        user("Now the lexer."),
        assistant("Reading.", call("c4", path="lexer.py")),
        tool("c4", "def lex(): ..."),
    ]


@pytest.mark.parametrize("reader_version", [1, 2])
def test_a_record_of_an_earlier_version_is_in_force(reader_version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What version N wrote, N+1 reads: the digests of a conversation never change, nor does the text that was rendered."""
    monkeypatch.setattr("compaction_hooks.view.record.RECORD_VERSION", reader_version)
    store = MemoryStore()
    store.append("default", "old", json.dumps(OF_VERSION_1))
    messages = then()
    view = worker(store).transform_context_sync(messages)
    assert view == [messages[0], user(str(OF_VERSION_1["rendered"])), *messages[8:]]
    assert all(mine is theirs for mine, theirs in zip(view[2:], messages[8:], strict=True))


def test_a_record_without_a_version_is_read_as_the_first() -> None:
    """Absent means none, no migration."""
    store = MemoryStore()
    needed = ("id", "reason", "summary", "rendered", "compacted_message_count", "covered_runs", "covered_digest")
    store.append("default", "old", json.dumps({name: OF_VERSION_1[name] for name in needed}))
    view = worker(store).transform_context_sync(then())
    assert "As it was rendered then." in texts(view)


async def test_an_undo_reaches_an_async_store_from_within_its_own_loop() -> None:
    """`undo` is no coroutine: it leaves the removal to the next call."""
    store, events = OfOneLoop(), list[CompactionEvent]()
    hooks = worker(store, Scripted(), events)
    await hooks.compact(long(10))
    assert len(await store.load("default")) == 1
    hooks.undo()
    await hooks.transform_context(long(10))
    assert await store.load("default") == []
    assert failures(events) == []
