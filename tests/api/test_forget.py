"""`await controller.forget(id)`, `controller.forget_sync(id)`: nothing is left, and nothing comes back.

`forget_prefix` does the same for all conversations whose id begins so.
"""

import gc
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from compaction_hooks import SummaryRequest
from compaction_hooks.errors import ConfigurationError, RecordError
from compaction_hooks.formats import AnthropicFormat
from compaction_hooks.stores import KeyValueStore, MemoryStore, RecordStore, SQLiteStore, is_tombstone
from tests.conversations import Chat, Controller, Scripted, controller, system, talk, texts
from tests.stores.test_stores_key_value import Folders, Listed

SECRET = "- the secret"
MESSAGES = [system(), *talk(20)]


class Patterned(Listed):
    """One that takes the beginning of a folder's name as a pattern, as LIKE does in SQL."""

    def list_folders(self, prefix: str) -> Iterable[str | bytes]:
        pattern = re.escape(prefix).replace("%", ".*").replace("_", ".")
        return [folder for folder, names in self.folders.items() if names and re.match(pattern, folder)]


class ListsAll(MemoryStore):
    def session_ids(self, prefix: str = "") -> Sequence[str]:
        return super().session_ids()


STORES: dict[str, Callable[[Path], RecordStore]] = {
    "memory": lambda _: MemoryStore(),
    "SQLite": lambda folder: SQLiteStore(folder / "records.db"),
    "key-value": lambda _: KeyValueStore(Listed()),
    "key-value by pattern": lambda _: KeyValueStore(Patterned()),
    "lists all": lambda _: ListsAll(),
}
FAST = ("SQLite", "key-value by pattern", "lists all")
"""The stores of the fast suite; the others are easier ones of the same kinds."""


@pytest.fixture(params=[pytest.param(name, marks=() if name in FAST else pytest.mark.full) for name in STORES])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return STORES[request.param](tmp_path)


def worker(store: RecordStore | None, *answers: str) -> Controller:
    return controller(100_000, summarizer=Scripted(*answers), store=store)


def compact(hooks: Controller, messages: list[Chat], id: str = "thread") -> str:
    return texts([*hooks.session(id).compact_sync(messages, keep_recent_tokens=300).messages])


def kept(store: Any, id: str = "thread") -> list[str]:
    """Return what a store has of a conversation, next to the tombstone that says it was forgotten."""
    return [text for text in store.load(id) if not is_tombstone(text)]


async def test_nothing_is_left_in_memory_and_store(store: Any) -> None:
    hooks = worker(store, SECRET)
    held = hooks.session("thread")
    other = hooks.session("thread", AnthropicFormat())
    compact(hooks, MESSAGES)
    hooks.session("thread").pin(MESSAGES[1])
    await hooks.forget("thread")
    assert kept(store) == []
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
    assert kept(store) == []
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
    assert kept(store) == []


def test_a_summary_that_this_worker_is_writing_is_not_kept(store: Any) -> None:
    def summarize(_: SummaryRequest) -> str:
        hooks.forget_sync("thread")
        return SECRET

    hooks = controller(100_000, summarizer=summarize, store=store)
    assert SECRET in compact(hooks, MESSAGES)
    assert kept(store) == []
    assert hooks.session("thread").transform_context_sync(MESSAGES) is MESSAGES


def test_a_record_that_is_being_saved_is_taken_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    # The store is busy with the record when it is asked for the conversation.
    monkeypatch.setattr("compaction_hooks.runtime.drivers.STORE_TIMEOUT_SECONDS", 0.2)

    class Late(MemoryStore):
        def append(self, session_id: str, record_id: str, record: str) -> None:
            hooks.forget_sync(session_id)
            super().append(session_id, record_id, record)

    store = Late()
    hooks = worker(store, SECRET)
    compact(hooks, MESSAGES)
    assert store.session_ids() == []


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
    assert kept(store) == []


def test_an_entry_that_cannot_be_named_is_said() -> None:
    store = MemoryStore()
    compact(worker(store, SECRET), MESSAGES)
    store.append("thread", "odd", "{damaged")
    with pytest.raises(RecordError, match="1 entries"):
        worker(store).forget_sync("thread")
    assert kept(store) == ["{damaged"]


# -- by the beginning of ids

OF_SEVEN = ["user-7/a", "user-7/b", "user-7/" + "c" * 200]
OTHERS = ["user-70/a", "User-7/a", "user-7", "user-70/" + "c" * 200]


def begin_all(hooks: Controller) -> None:
    for id in (*OF_SEVEN, *OTHERS):
        compact(hooks, MESSAGES, id)


async def test_all_conversations_that_begin_so_are_gone_from_memory_and_store(store: Any) -> None:
    hooks = worker(store, *[SECRET] * 7)
    begin_all(hooks)
    held = hooks.session("user-7/a")
    assert set(await hooks.forget_prefix("user-7/")) >= set(OF_SEVEN)
    assert [id for id in OF_SEVEN if kept(store, id)] == []
    assert held.history() == []
    assert await hooks.forget_prefix("user-7/") == []  # `held` has nothing
    assert [len(store.load(id)) for id in OTHERS] == [1, 1, 1, 1]
    assert SECRET in texts(hooks.session("user-70/a").transform_context_sync(MESSAGES))


def test_another_worker_s_conversations_are_found_in_the_store(store: Any) -> None:
    begin_all(worker(store, *[SECRET] * 7))
    forgotten = worker(store).forget_prefix_sync("user-7/")
    assert {*OF_SEVEN[:2]} < {*forgotten}
    assert len(forgotten) == 3  # the long id, as the store lists it
    assert [id for id in OF_SEVEN if kept(store, id)] == []
    assert worker(store).forget_prefix_sync("user-7/") == []


def test_without_a_store_memory_is_forgotten_by_prefix() -> None:
    hooks = worker(None, *[SECRET] * 7)
    begin_all(hooks)
    assert hooks.forget_prefix_sync("user-7/") == sorted(OF_SEVEN)
    assert hooks.session("user-7/a").export_records() == []
    assert len(hooks.session("user-7").export_records()) == 1


def test_evicted_conversations_are_forgotten_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """One is held by the host, and of another the records made by hand are."""
    monkeypatch.setattr("compaction_hooks.session.controller.MAX_SESSIONS", 1)
    hooks = worker(None, SECRET)
    held = hooks.session("user-7/a")
    held.transform_context_sync(MESSAGES)
    compact(hooks, MESSAGES, "user-7/b")
    hooks.session("other")
    gc.collect()
    assert hooks.forget_prefix_sync("user-7/") == ["user-7/a", "user-7/b"]
    assert held.state().context_tokens is None
    assert hooks.session("user-7/b").export_records() == []


@pytest.mark.parametrize("wrong", ["", None, 7])
def test_an_empty_beginning_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=r'prefix=.* must be the beginning of ids, such as "user-7/"'):
        worker(MemoryStore()).forget_prefix_sync(wrong)


class CannotList:
    """A store with the three methods of `RecordStore` only."""

    def __init__(self) -> None:
        inner = MemoryStore()
        self.load, self.append, self.remove = inner.load, inner.append, inner.remove


@pytest.mark.parametrize(
    ("make", "method"),
    [(CannotList, r"session_ids\(prefix\)"), (lambda: KeyValueStore(Folders()), r"list_folders\(prefix\)")],
)
def test_a_store_that_cannot_list_is_told_the_method_to_add_and_memory_is_free(
    make: Callable[[], Any], method: str
) -> None:
    store = make()
    hooks = worker(store, SECRET)
    compact(hooks, MESSAGES)
    with pytest.raises(ConfigurationError, match=method):
        hooks.forget_prefix_sync("thr")
    assert repr(hooks) == "CompactionController(0 sessions)"
    assert len(store.load("thread")) == 1


def test_an_entry_that_cannot_be_named_keeps_no_other_conversation(store: Any) -> None:
    begin_all(worker(store, *[SECRET] * 7))
    store.append("user-7/a", "odd", "{damaged")
    with pytest.raises(RecordError, match="1 entries of session 'user-7/a' cannot be read"):
        worker(store).forget_prefix_sync("user-7/")
    assert [kept(store, id) for id in OF_SEVEN] == [["{damaged"], [], []]


def test_a_list_that_fails_is_said() -> None:
    class Fragile(MemoryStore):
        def session_ids(self, prefix: str = "") -> list[str]:
            raise OSError("no such host")

    with pytest.raises(RecordError, match=r"'user-7/'.*call it again: OSError: no such host"):
        worker(Fragile()).forget_prefix_sync("user-7/")
