"""Records in any key-value store."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import pytest

from compaction_hooks import CompactionController
from compaction_hooks.errors import ConfigurationError, RecordError
from compaction_hooks.stores import KeyValueStore, MemoryStore
from compaction_hooks.testing import check_store
from compaction_hooks.testing.stores import ODD_IDS
from tests.cases import folded
from tests.stores.page import blocks, run


class Folders:
    """A key-value store that notes the keys it was given."""

    def __init__(self) -> None:
        self.folders: dict[str, dict[str, str]] = {}

    def values(self, folder: str) -> Iterable[str | bytes]:
        return (value.encode() for value in list(self.folders.get(folder, {}).values()))

    def add(self, folder: str, name: str, value: str) -> int:
        before = len(self.folders.setdefault(folder, {}))
        self.folders[folder].setdefault(name, value)
        return len(self.folders[folder]) - before

    def delete(self, folder: str, name: str) -> bool:
        return self.folders.get(folder, {}).pop(name, None) is not None


class Listed(Folders):
    """One that lists its folders too, each twice: some stores do, while others write."""

    def list_folders(self, prefix: str) -> Iterable[str | bytes]:
        found = [folder for folder, names in self.folders.items() if names and folder.startswith(prefix)]
        return (folder.encode() for folder in [*found, *found])


class AsyncFolders:
    def __init__(self) -> None:
        self._folders = Listed()

    async def values(self, folder: str) -> Iterable[str | bytes]:
        return self._folders.values(folder)

    async def add(self, folder: str, name: str, value: str) -> int:
        return self._folders.add(folder, name, value)

    async def delete(self, folder: str, name: str) -> bool:
        return self._folders.delete(folder, name)

    async def list_folders(self, prefix: str) -> Iterable[str | bytes]:
        return self._folders.list_folders(prefix)


@pytest.mark.parametrize("make", [Folders, Listed, AsyncFolders])
async def test_a_key_value_store_keeps_the_contract(make: Callable[[], Any]) -> None:
    entries = make()
    await check_store(lambda: KeyValueStore(entries))


def test_keys_can_be_used_anywhere() -> None:
    """Whatever the ids: none of them can separate, match, end or overflow a key."""
    entries = Folders()
    store = KeyValueStore(entries, prefix="agents/")
    for id in ODD_IDS:
        store.append(id, id, "{}")
    keys = [(folder.removeprefix("agents/"), name) for folder, names in entries.folders.items() for name in names]
    assert len(set(keys)) == len(ODD_IDS)
    for folder, name in keys:
        assert folder == name
        assert re.fullmatch(r"[A-Za-z0-9_%-]{1,150}", folder)
    assert ("thread-1", "thread-1") in keys


def test_no_two_ids_share_a_key_however_long() -> None:
    entries = Folders()
    store = KeyValueStore(entries)
    ids = [*("x" * length for length in range(110, 130)), *("%" * length for length in range(1, 60)), "x" * 60 + "%-"]
    for id in ids:
        store.append(id, "a", id)
    assert [store.load(id) for id in ids] == [[id] for id in ids]


def test_two_stores_in_one_place_are_told_apart_by_prefix() -> None:
    entries = Folders()
    one, other = KeyValueStore(entries, prefix="one:"), KeyValueStore(entries, prefix="other:")
    one.append("s", "a", "first")
    other.append("s", "a", "second")
    assert (one.load("s"), other.load("s")) == (["first"], ["second"])


def listed(store: KeyValueStore, prefix: str = "") -> Any:
    return store.session_ids(prefix)


def test_a_long_id_is_listed_by_its_key_which_is_an_id_itself() -> None:
    entries = Listed()
    store = KeyValueStore(entries)
    id = "user/7/" + "x" * 200
    store.append(id, "a", "{}")
    (key,) = listed(store, "user/7")
    assert key == next(iter(entries.folders)).removeprefix("compaction_records:")
    assert key.startswith("user%2F7%2Fxxx")
    assert store.load(key) == ["{}"]
    store.append(key, "b", "[]")
    store.remove(key, "a")
    assert store.load(id) == ["[]"]
    assert listed(store, "user/8") == []
    store.append("要" * 50, "a", "{}")  # its beginning ends within a character
    assert len(listed(store, "要")) == 1


def test_a_beginning_longer_than_that_of_a_long_id_is_refused_not_guessed() -> None:
    store = KeyValueStore(Listed())
    short = "x" * 100
    store.append(short, "a", '{"id": "a"}')
    assert listed(store, "x" * 90) == [short]
    store.append("x" * 200, "a", '{"id": "a"}')
    with pytest.raises(RecordError, match=r"1 ids are too long .* at most 60 characters"):
        listed(store, "x" * 90)
    assert len(listed(store, "x" * 60)) == 2

    # Of a forgotten one the beginning matters to no caller.
    hooks = CompactionController[Any](store=store)
    hooks.forget_sync("x" * 200)
    assert listed(store, "x" * 90) == [short]
    assert hooks.forget_prefix_sync("x" * 90) == [short]
    assert listed(store, "x" * 90) == []


def test_folders_of_others_that_begin_with_the_same_text_are_not_listed() -> None:
    entries = Listed()
    KeyValueStore(entries, prefix="agents:").append("mine", "a", "{}")
    KeyValueStore(entries, prefix="agents:team:").append("theirs", "a", "{}")
    entries.add("agents:by hand", "a", "{}")
    assert listed(KeyValueStore(entries, prefix="agents:")) == ["mine"]


def test_a_list_of_more_folders_than_were_asked_for_is_no_list_of_their_ids() -> None:
    class All(Folders):
        def list_folders(self, prefix: str) -> Iterable[str]:
            return self.folders

    entries = All()
    KeyValueStore(entries, prefix="other-").append("theirs", "a", "{}")
    store = KeyValueStore(entries, prefix="own-")
    for id in ("user-7/a", "user-70/a", "user-7/" + "c" * 200, "user-70/" + "c" * 200):
        store.append(id, "a", "{}")
    assert [id.partition("c")[0] for id in listed(store, "user-7/")] == ["user-7%2F", "user-7/a"]
    assert [id.partition("c")[0] for id in listed(store)] == ["user-7%2F", "user-7/a", "user-70%2F", "user-70/a"]


def test_without_the_fourth_method_there_is_no_list() -> None:
    with pytest.raises(ConfigurationError, match=r"Folders cannot list .* a method list_folders\(prefix\)"):
        KeyValueStore(Folders()).session_ids()


def test_async_methods_give_awaitables_and_sync_ones_do_not() -> None:
    assert KeyValueStore(Folders()).load("s") == []
    answer = KeyValueStore(AsyncFolders()).load("s")
    assert isinstance(answer, Awaitable)

    async def awaited() -> object:
        return await answer

    assert asyncio.run(awaited()) == []


def test_errors_of_the_store_are_handed_on() -> None:
    class Broken(Folders):
        def values(self, folder: str) -> Iterable[str | bytes]:
            raise OSError("down")

    with pytest.raises(OSError, match="down"):
        KeyValueStore(Broken()).load("s")


def test_the_example_of_the_docs_passes_the_check_that_it_names() -> None:
    store, check = blocks("Any other key-value store")
    run(store, check)


# -- the check itself


class Mapped(MemoryStore):
    """A store that changes ids and records on their way in."""

    def __init__(self, id: Callable[[str], str] = str, record: Callable[[str], str] = str) -> None:
        super().__init__()
        self._id, self._record = id, record

    def load(self, session_id: str) -> Any:
        return super().load(self._id(session_id))

    def append(self, session_id: str, record_id: str, record: str) -> None:
        super().append(self._id(session_id), record_id, self._record(record))

    def remove(self, session_id: str, record_id: str) -> None:
        super().remove(self._id(session_id), record_id)


class Overwrites(MemoryStore):
    def append(self, session_id: str, record_id: str, record: str) -> None:
        self.remove(session_id, record_id)
        super().append(session_id, record_id, record)


class Live(MemoryStore):
    def load(self, session_id: str) -> Any:
        return self._sessions.setdefault(session_id, {}).values()


class Bytes(MemoryStore):
    def load(self, session_id: str) -> Any:
        return [text.encode() for text in super().load(session_id)]


class Mixes(MemoryStore):
    def load(self, session_id: str) -> Any:
        found = [MemoryStore.load(self, name) for name in [*self._sessions] if name.startswith(session_id)]
        return [text for texts in found for text in texts]


class RaisesIfNothingIsThere(MemoryStore):
    def remove(self, session_id: str, record_id: str) -> None:
        del self._sessions[session_id][record_id]


class RaisesForUnknown(MemoryStore):
    def load(self, session_id: str) -> Sequence[str]:
        return [*self._sessions[session_id].values()]


class ListsTheRemoved(MemoryStore):
    def session_ids(self, prefix: str = "") -> Sequence[str]:
        return [*super().session_ids(prefix), *(["odd"] if "odd".startswith(prefix) else [])]


class ListsTwice(MemoryStore):
    def session_ids(self, prefix: str = "") -> Sequence[str]:
        return [*super().session_ids(prefix)] * 2


class ListsAnyCase(MemoryStore):
    def session_ids(self, prefix: str = "") -> Sequence[str]:
        return [id for id in super().session_ids() if id.lower().startswith(prefix.lower())]


class ListsByPattern(MemoryStore):
    def session_ids(self, prefix: str = "") -> Sequence[str]:
        pattern = re.escape(prefix).replace("_", ".")  # as LIKE does in SQL
        return [id for id in super().session_ids() if re.match(pattern, id)]


class ListsFew(MemoryStore):
    def session_ids(self, prefix: str = "") -> Sequence[str]:
        return super().session_ids(prefix)[:10]


class ListsUnknownNames(MemoryStore):
    def session_ids(self, prefix: str = "") -> Sequence[str]:
        return [id if len(id) < 1_000 else id[:100] for id in super().session_ids(prefix)][:-1]


class NeverRemoves(MemoryStore):
    def remove(self, session_id: str, record_id: str) -> None:
        pass


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "overwrites": (Overwrites, "an id that is there must change nothing"),
    "a view instead of a list": (Live, "must give a sequence"),
    "bytes": (Bytes, "texts of type str"),
    "finds by the beginning of an id": (Mixes, "must have its own records"),
    "takes no notice of case": (lambda: Mapped(id=str.casefold), "must have its own records"),
    "cuts long records": (lambda: Mapped(record=lambda text: text[:65_535]), "must be kept whole"),
    "takes no notice of white space around an id": (lambda: Mapped(id=str.strip), "must have its own records"),
    "removal raises": (RaisesIfNothingIsThere, r"do nothing where there is none, but remove\(.*raised KeyError"),
    "load raises": (RaisesForUnknown, r"none where it is unknown, but load\('unknown'\) raised KeyError"),
    "no store": (object, "object is no RecordStore: it lacks load, append, remove"),
    "lists a session without records": (ListsTheRemoved, "must not list a session whose records were all removed"),
    "lists a session twice": (ListsTwice, "must list each session once"),
    "lists by the beginning in any case": (ListsAnyCase, r"session_ids\('thread-1'\) must list the ids that begin so"),
    "lists by a pattern": (ListsByPattern, r"session_ids\('thread_'\) must list the ids that begin so"),
    "lists some": (ListsFew, "must list each session with records, but lacks"),
    "lists ids that nothing is found by": (ListsUnknownNames, "must load the records of its session"),
    "keeps removed records": (NeverRemoves, r"remove\(\) must take out"),
}


@folded("make, says", WRONG)
async def test_a_wrong_store_fails_the_check(make: Callable[[], MemoryStore], says: str) -> None:
    store = make()
    with pytest.raises(AssertionError, match=says):
        await check_store(lambda: store)


async def test_a_store_instead_of_a_function_that_opens_it_is_named() -> None:
    with pytest.raises(AssertionError, match="give a function that opens the store, not the MemoryStore itself"):
        await check_store(MemoryStore())  # type: ignore[arg-type]


async def test_a_store_that_loses_appends_of_others_fails_the_check() -> None:
    """Each worker reads all, adds its own and writes all back: the mistake that `KeyValue` has no method for."""
    content: dict[str, dict[str, str]] = {}

    class Rewrites:
        def __init__(self) -> None:
            self._copy: dict[str, dict[str, str]] = {}

        def load(self, session_id: str) -> list[str]:
            self._copy[session_id] = dict(content.get(session_id, {}))
            return list(self._copy[session_id].values())

        def append(self, session_id: str, record_id: str, record: str) -> None:
            own = self._copy.setdefault(session_id, dict(content.get(session_id, {})))
            own.setdefault(record_id, record)
            content[session_id] = dict(own)

        def remove(self, session_id: str, record_id: str) -> None:
            content.get(session_id, {}).pop(record_id, None)

    with pytest.raises(AssertionError):
        await check_store(Rewrites)
