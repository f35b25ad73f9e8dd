"""A store that is read-only, full, slow, hung, corrupt or gives nonsense: no call fails, no summary is lost, an event tells."""

import asyncio
import errno
import json
import sqlite3
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path as FilePath
from typing import Any, overload

import pytest

from compaction_hooks import CompactionFinished, SummaryRequest
from compaction_hooks.engine.persistence import STORE_COOLDOWN_SECONDS
from compaction_hooks.events import StoreFailed
from compaction_hooks.stores import MemoryStore, SQLiteStore
from tests.cases import crossed, folded, sampled_rows
from tests.conversations import talk, texts
from tests.faults.harness import (
    PATHS,
    SIDES,
    Hang,
    PanicError,
    Path,
    Rig,
    Side,
    above_threshold,
    fallback_settings,
    leaving_threads,
    list_for,
    rig,
    works,
)
from tests.stores.opened import LaterStore


class Store(MemoryStore):
    """A store whose three methods go through `fault(action)`, sync; `heal()` makes it a good one."""

    def __init__(self, fault: Callable[[str], Any]) -> None:
        super().__init__()
        self.fault = fault
        self.calls: list[str] = []

    def heal(self) -> None:
        self.fault = nothing_odd

    def _meet(self, action: str) -> Any:
        self.calls.append(action)
        return self.fault(action)

    def load(self, session_id: str) -> Any:
        odd = self._meet("load")
        return super().load(session_id) if odd is None else odd

    def append(self, session_id: str, record_id: str, record: str) -> Any:
        odd = self._meet("save")
        return super().append(session_id, record_id, record) if odd is None else odd

    def remove(self, session_id: str, record_id: str) -> Any:
        odd = self._meet("remove")
        return super().remove(session_id, record_id) if odd is None else odd


class Lazy(Sequence[str]):
    """Records that fail when they are looked at, as a database's lazy results do."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __len__(self) -> int:
        return 3

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        raise self._error


def nothing_odd(action: str) -> None:
    """Do nothing more than a good store."""


def raising(error: BaseException, *actions: str) -> Callable[[str], Any]:
    def fault(action: str) -> None:
        if action in (actions or ("load", "save", "remove")):
            raise error

    return fault


def giving(value: object) -> Callable[[str], Any]:
    return lambda action: value if action == "load" else None


def both(store: Store, is_async: bool) -> Any:
    return LaterStore(store) if is_async else store


FAULTS: dict[str, tuple[Callable[[str], Any], str]] = {
    "down": (raising(ConnectionError("refused")), "ConnectionError: refused"),
    "read-only": (raising(PermissionError(errno.EACCES, "Permission denied"), "save", "remove"), "PermissionError"),
    "full": (raising(OSError(errno.ENOSPC, "No space left on device"), "save"), "No space left on device"),
    "exits": (raising(SystemExit(2)), "SystemExit: 2"),
    "panics": (raising(PanicError("rust")), "PanicError: rust"),
    "cancels itself": (raising(asyncio.CancelledError()), "ancelled"),
    "gives nothing": (lambda action: NotImplemented if action == "load" else None, "gave NotImplementedType"),
    "gives a number": (giving(7), "gave int"),
    "gives a dict": (giving({"records": []}), "gave dict"),
    "gives a text": (giving("[]"), "gave str"),
    "gives bytes": (giving(b"[]"), "gave bytes"),
    "gives an iterator": (lambda action: iter(("{}",)) if action == "load" else None, "gave tuple_iterator"),
    "gives records that fail when read": (
        giving(Lazy(ConnectionError("the cursor is closed"))),
        "ConnectionError: the cursor is closed",
    ),
    "gives records that panic when read": (giving(Lazy(PanicError("rust"))), "PanicError: rust"),
    "gives records of the wrong type": (giving([None, 3, b"{}", ["x"]]), "RecordError"),
    "gives damaged records": (giving(["", "{", '{"version": 1}', "[]", '"x"', "null"]), "RecordError"),
    "gives a record nested too deep": (giving(["[" * 100_000]), "RecordError"),
    "gives a record of a later version": (giving([json.dumps({"version": 99})]), "RecordError: version=99"),
}
"""By id: the store's fault, and the words that name it in the event."""


def list_told(driven: Rig) -> list[StoreFailed]:
    return [event for event in driven.events if isinstance(event, StoreFailed)]


@pytest.mark.parametrize(("path", "is_async", "side"), sampled_rows(product(PATHS, [False, True], SIDES), 3))
@folded("fault, named", FAULTS)
def test_a_store_that_fails_does_not_fail_the_run(
    fault: Callable[[str], Any], named: str, path: Path, is_async: bool, side: Side
) -> None:
    driven = rig(side, summarizer=works, settings=fallback_settings(), store=both(Store(fault), is_async))
    messages = list_for(path)
    with leaving_threads():
        driven.go(path, messages)
    assert any(isinstance(event, CompactionFinished) for event in driven.events)
    assert named in " ".join(event.error for event in list_told(driven))


@crossed(side=SIDES, is_async=[False, True])
def test_a_store_that_works_again_gets_the_missed_records(is_async: bool, side: Side) -> None:
    store = Store(raising(OSError(errno.ENOSPC, "No space left on device")))
    asked: list[SummaryRequest] = []

    def counted(request: SummaryRequest) -> str:
        asked.append(request)
        return works(request)

    driven = rig(side, summarizer=counted, settings=fallback_settings(), store=both(store, is_async))
    messages = above_threshold()
    view = driven.transform(messages)
    store.heal()
    driven.clock.jump(STORE_COOLDOWN_SECONDS + 1)
    assert texts(driven.transform(messages)) == texts(view)
    assert len(store.load("default")) == 1
    other = rig(side, summarizer=counted, settings=fallback_settings(), store=both(store, is_async))
    assert texts(other.transform(list(messages))) == texts(view)
    assert len(asked) == 1


@crossed(side=SIDES, is_async=[False, True])
def test_a_store_that_hangs_is_left_alone(is_async: bool, side: Side, short_timeouts: float) -> None:
    hang = Hang()

    class Hung:
        load = append = remove = staticmethod(hang.later if is_async else hang)

    driven = rig(side, summarizer=works, settings=fallback_settings(), store=Hung())
    try:
        with leaving_threads(0 if is_async else 1):
            for count in range(4):
                driven.transform([*above_threshold(), *talk(count, first=100)])
            calls = hang.calls
            driven.clock.jump(STORE_COOLDOWN_SECONDS + 1)
            driven.transform(above_threshold())
        assert calls <= 2, "every call waited for it again"  # one load, and one save of the new record
        assert any(isinstance(event, CompactionFinished) for event in driven.events)
        assert "the store did not answer within 0.05 seconds" in list_told(driven)[0].error
        if not is_async:
            assert hang.calls == 1, "a second thread was begun while the first hangs"
            assert "the store still hangs in an earlier call" in list_told(driven)[-1].error
    finally:
        hang.release()


@pytest.mark.parametrize("side", SIDES)
def test_a_hung_store_costs_one_thread_for_all_conversations(side: Side, short_timeouts: float) -> None:
    hang = Hang()

    class Hung:
        load = append = remove = staticmethod(hang)

    driven = rig(side, store=Hung())
    messages = above_threshold()
    try:
        with leaving_threads(1):
            for n in range(5):
                session = driven.hooks.session(f"agent-{n}")
                driven.run(
                    lambda session=session: session.transform_context(messages),  # type: ignore[misc]
                    lambda session=session: session.transform_context_sync(messages),  # type: ignore[misc]
                )
        assert hang.calls == 1
    finally:
        hang.release()


@crossed(side=SIDES, is_async=[False, True])
def test_a_store_that_hangs_while_saving_loses_nothing(is_async: bool, side: Side, short_timeouts: float) -> None:
    hang = Hang()
    store = Store(lambda action: None)

    class HangsWhenSaving:
        def load(self, session_id: str) -> Any:
            return store.load(session_id)

        def append(self, *arguments: str) -> Any:
            return hang.later() if is_async else hang()

        remove = append

    driven = rig(side, summarizer=works, settings=fallback_settings(), store=HangsWhenSaving())
    messages = above_threshold()
    try:
        with leaving_threads(0 if is_async else 1):
            assert "port the parser" in texts(driven.transform(messages))
            assert "port the parser" in texts(driven.transform(messages))
        assert [event.action for event in list_told(driven)] == ["save"]
        assert driven.session.export_records()
    finally:
        hang.release()


@pytest.mark.parametrize("side", SIDES)
def test_undo_works_where_the_store_does_not(side: Side) -> None:
    store = Store(raising(ConnectionError("refused")))
    driven = rig(side, summarizer=works, settings=fallback_settings(), store=store)
    messages = above_threshold()
    assert driven.transform(messages) is not messages
    driven.clock.jump(STORE_COOLDOWN_SECONDS + 1)
    assert driven.session.undo() is not None
    assert driven.transform(messages) is messages


# -- a real file


@pytest.fixture
def file(tmp_path: FilePath) -> FilePath:
    return tmp_path / "records.db"


def as_directory(path: FilePath) -> None:
    path.mkdir()


def as_garbage(path: FilePath) -> None:
    path.write_bytes(b"not a database at all" * 500)


def halve(path: FilePath) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE compaction_records (position INTEGER PRIMARY KEY, record TEXT)")
        connection.executemany("INSERT INTO compaction_records (record) VALUES (?)", [("x" * 900,)] * 50)
    connection.close()
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def with_another_table(path: FilePath) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE compaction_records (something TEXT)")
    connection.close()


def without_its_folder(path: FilePath) -> None:
    path.with_name("gone").mkdir()
    path.symlink_to(path.with_name("gone") / "deeper" / "records.db")


SPOILED = [as_directory, as_garbage, halve, with_another_table, without_its_folder]


@crossed(spoil=SPOILED, side=SIDES)
def test_a_file_that_is_spoiled_later_does_not_fail_the_run(
    spoil: Callable[[FilePath], None], side: Side, file: FilePath
) -> None:
    store = SQLiteStore(str(file))
    store.close()
    for part in file.parent.iterdir():
        part.unlink()
    spoil(file)
    driven = rig(side, summarizer=works, settings=fallback_settings(), store=store)
    assert "port the parser" in texts(driven.transform(above_threshold()))
    assert str(file) in list_told(driven)[0].error
    store.close()
