"""`await controller.forget(id)`, `controller.forget_sync(id)`: nothing is left, and nothing comes back."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compaction_hooks import SummaryRequest
from compaction_hooks.errors import RecordError
from compaction_hooks.formats import AnthropicFormat
from compaction_hooks.stores import KeyValueStore, MemoryStore, RecordStore, SQLiteStore
from tests.conversations import Chat, Controller, Scripted, controller, system, talk, texts
from tests.stores.test_stores_damaged import Folders

SECRET = "- the secret"
MESSAGES = [system(), *talk(20)]
STORES: dict[str, Callable[[Path], RecordStore]] = {
    "memory": lambda _: MemoryStore(),
    "SQLite": lambda folder: SQLiteStore(folder / "records.db"),
    "key-value": lambda _: KeyValueStore(Folders()),
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return STORES[request.param](tmp_path)


def worker(store: RecordStore | None, *answers: str) -> Controller:
    return controller(100_000, summarizer=Scripted(*answers), store=store)


def compact(hooks: Controller, messages: list[Chat]) -> str:
    return texts([*hooks.session("thread").compact_sync(messages, keep_recent_tokens=300).messages])


async def test_nothing_is_left_in_memory_and_store(store: Any) -> None:
    hooks = worker(store, SECRET)
    held = hooks.session("thread")
    other = hooks.session("thread", AnthropicFormat())
    compact(hooks, MESSAGES)
    hooks.session("thread").pin(MESSAGES[1])
    await hooks.forget("thread")
    assert list(store.load("thread")) == []
    assert held.transform_context_sync(MESSAGES) is MESSAGES
    for session in (held, other, hooks.session("thread")):
        session.load_sync()
        assert (session.history(), session.export_records()) == ([], [])


def test_other_conversations_stay(store: Any) -> None:
    hooks = worker(store, SECRET)
    compact(hooks, MESSAGES)
    hooks.session("thread-2").compact_sync(MESSAGES, keep_recent_tokens=300)
    hooks.forget_sync("thread")
    hooks.forget_sync("never seen")
    assert len(store.load("thread-2")) == 1
    assert SECRET in texts(hooks.session("thread-2").transform_context_sync(MESSAGES))


def test_another_worker_that_still_holds_it_does_not_write_it_back(store: Any) -> None:
    one, other = worker(store, SECRET), worker(store, SECRET, "- anew")
    compact(other, MESSAGES)
    other.session("thread").pin(MESSAGES[1])
    one.forget_sync("thread")
    more = [*MESSAGES, *talk(10, first=20)]
    other.session("thread").transform_context_sync(more)
    assert list(store.load("thread")) == []
    assert SECRET not in compact(other, more)
    assert not [text for text in store.load("thread") if SECRET in text or '"is_users": true' in text]


def test_a_summary_that_another_worker_is_writing_is_not_kept(store: Any) -> None:
    one = worker(store, SECRET)

    def summarize(request: SummaryRequest) -> str:
        if request.previous_summary:
            one.forget_sync("thread")
        return SECRET

    other = controller(100_000, summarizer=summarize, store=store)
    compact(other, MESSAGES)
    compact(other, [*MESSAGES, *talk(20, first=20)])
    assert list(store.load("thread")) == []


def test_a_summary_that_this_worker_is_writing_is_not_kept(store: Any) -> None:
    def summarize(_: SummaryRequest) -> str:
        hooks.forget_sync("thread")
        return SECRET

    hooks = controller(100_000, summarizer=summarize, store=store)
    assert SECRET in compact(hooks, MESSAGES)
    assert list(store.load("thread")) == []
    assert hooks.session("thread").transform_context_sync(MESSAGES) is MESSAGES


def test_without_a_store_memory_is_forgotten() -> None:
    hooks = worker(None, SECRET)
    compact(hooks, MESSAGES)
    hooks.session("thread").undo()
    hooks.forget_sync("thread")
    assert hooks.session("thread").export_records() == []


def test_a_store_that_fails_is_said_and_may_be_asked_again() -> None:
    class Fragile(MemoryStore):
        is_down = False

        def remove(self, session_id: str, record_id: str) -> None:
            if self.is_down:
                raise OSError("no such host")
            super().remove(session_id, record_id)

    store = Fragile()
    hooks = worker(store, SECRET)
    compact(hooks, MESSAGES)
    store.is_down = True
    with pytest.raises(RecordError, match="call it again: OSError: no such host"):
        hooks.forget_sync("thread")
    store.is_down = False
    hooks.forget_sync("thread")
    assert store.load("thread") == []


def test_an_entry_that_cannot_be_named_is_said() -> None:
    store = MemoryStore()
    compact(worker(store, SECRET), MESSAGES)
    store.append("thread", "odd", "{damaged")
    with pytest.raises(RecordError, match="1 entries"):
        worker(store).forget_sync("thread")
    assert store.load("thread") == ["{damaged"]
