"""Stores keep records between processes."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from compaction_hooks.errors import RecordError
from compaction_hooks.stores import MemoryStore, SQLiteStore
from compaction_hooks.testing import check_store
from tests.stores.opened import make_read_only
from tests.stores.page import blocks, run


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MemoryStore | SQLiteStore]:
    if request.param == "memory":
        yield MemoryStore()
        return
    with SQLiteStore(tmp_path / "records.db") as opened:
        yield opened


# -- every store


def test_may_be_shared_by_threads(store: MemoryStore | SQLiteStore) -> None:
    def write(thread: int) -> None:
        for number in range(25):
            store.append("one", f"{thread}-{number}", f"{thread} {number}")
            store.append("one", f"shared-{number}", f"shared {number}")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(8)))
    found = list(store.load("one"))
    assert len(found) == len(set(found)) == 8 * 25 + 25
    for thread in range(8):
        assert [text for text in found if text.startswith(f"{thread} ")] == [f"{thread} {n}" for n in range(25)]


async def test_keeps_the_contract(store: MemoryStore | SQLiteStore) -> None:
    await check_store(lambda: store)


# -- SQLite


def test_the_example_of_the_docs_opens_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(*blocks("Keep records"))
    assert (tmp_path / "records.db").exists()


WRITER = """
import sys
from compaction_hooks.stores import SQLiteStore
path, name = sys.argv[1:]
sys.stdin.readline()
with SQLiteStore(path) as store:
    for number in range(50):
        store.append("one", f"{name}-{number}", f"{name} {number}")
"""


def test_opens_again_after_it_was_closed(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "records.db")
    store.append("one", "a", "first")
    store.close()
    store.close()
    assert store.load("one") == ["first"]
    store.close()


def test_several_processes_make_and_fill_one_file(tmp_path: Path) -> None:
    """Four begin at once, on a file that does not exist: no record is lost, none is there twice."""
    path = tmp_path / "records.db"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(name)], stdin=subprocess.PIPE)
        for name in range(4)
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(b"\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate()
    assert [writer.returncode for writer in writers] == [0] * 4
    with SQLiteStore(path) as store:
        found = store.load("one")
    assert len(found) == 200
    for name in range(4):
        assert [text for text in found if text.startswith(f"{name} ")] == [f"{name} {n}" for n in range(50)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_worker_opens_a_connection_of_its_own(tmp_path: Path) -> None:
    """Servers fork workers after the application was loaded; SQLite forbids sharing a connection with them."""
    script = """
import os, sqlite3, sys
from compaction_hooks.stores import SQLiteStore
connect, openers = sqlite3.connect, []
sqlite3.connect = lambda *given, **named: (openers.append(os.getpid()), connect(*given, **named))[1]
store = SQLiteStore(sys.argv[1])
store.append("one", "parent", "parent")
child = os.fork()
if not child:
    store.append("one", "child", "child")
    store.close()
    os._exit(openers[-1] != os.getpid())
assert os.waitpid(child, 0)[1] == 0
store.append("one", "after", "after")
print(*store.load("one"))
store.close()
"""
    ended = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "r.db")], capture_output=True, text=True, check=True
    )
    assert ended.stdout.split() == ["parent", "child", "after"]


def test_leaves_other_tables_of_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    own = sqlite3.connect(path)
    own.execute("CREATE TABLE notes (text)")
    own.execute("INSERT INTO notes VALUES ('mine')")
    own.commit()
    with SQLiteStore(path) as store:
        store.append("one", "a", "first")
    assert own.execute("SELECT text FROM notes").fetchall() == [("mine",)]
    own.close()


def test_a_path_that_cannot_be_opened_is_named_with_the_fix(tmp_path: Path) -> None:
    notes = "These are my notes. " * 100
    (tmp_path / "notes.txt").write_text(notes)
    for name, fix in {"missing/r.db": "create its folder", "": "unable to open", "notes.txt": "choose another"}.items():
        with pytest.raises(RecordError, match=fix) as caught:
            SQLiteStore(tmp_path / name)
        assert str(tmp_path / name) in str(caught.value)
        assert isinstance(caught.value.__cause__, sqlite3.Error)
    assert (tmp_path / "notes.txt").read_text() == notes


def test_reads_a_read_only_file_and_says_why_it_cannot_write(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    with SQLiteStore(path) as store:
        store.append("one", "a", "first")
    make_read_only(path)
    with SQLiteStore(path) as store:
        assert store.load("one") == ["first"]
        with pytest.raises(RecordError, match="make the file and its folder writable"):
            store.append("one", "b", "second")


async def test_several_stores_of_one_file_keep_the_contract(tmp_path: Path) -> None:
    opened: list[SQLiteStore] = []

    def open_store() -> SQLiteStore:
        opened.append(SQLiteStore(tmp_path / "records.db"))
        return opened[-1]

    await check_store(open_store)
    for store in opened:
        store.close()


def test_says_when_the_disk_is_full_and_goes_on_when_it_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect, limits = sqlite3.connect, [8]

    def limited(*given: Any, **named: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*given, **named)
        for pages in limits:
            connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    monkeypatch.setattr(sqlite3, "connect", limited)
    with SQLiteStore(tmp_path / "records.db") as store:
        store.append("one", "a", "first")
        with pytest.raises(RecordError, match="free some space"):
            store.append("one", "b", "x" * 100_000)
        assert store.load("one") == ["first"]
        store.append("one", "c", "third")
        limits.clear()
        store.close()
        store.append("one", "b", "x" * 100_000)
        assert store.load("one") == ["first", "third", "x" * 100_000]


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of a process")
def test_a_save_that_breaks_off_leaves_the_records_before_it(tmp_path: Path) -> None:
    """The system stops a write in its middle, as it does at a quota."""
    script = """
import resource, sys
from compaction_hooks.errors import RecordError
from compaction_hooks.stores import SQLiteStore
store = SQLiteStore(sys.argv[1])
store.append("one", "a", "first")
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    store.append("one", "b", "x" * 1_000_000)
except RecordError as error:
    print(error)
print(*store.load("one"))
"""
    path = tmp_path / "records.db"
    ended = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    said, loaded = ended.stdout.splitlines()
    assert "free space" in said
    assert loaded == "first"
    with SQLiteStore(path) as store:
        store.append("one", "c", "third")
        assert store.load("one") == ["first", "third"]


def test_says_when_the_file_is_damaged_and_goes_on_when_it_was_moved_away(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    with SQLiteStore(path) as store:
        for number in range(50):
            store.append("one", f"{number}", "x" * 1_000)
        store.close()
        content = bytearray(path.read_bytes())
        content[4_096 : len(content) - 4_096] = b"\xff" * (len(content) - 8_192)
        path.write_bytes(content)
        with pytest.raises(RecordError, match="move the file away") as caught:
            store.load("one")
        assert str(path) in str(caught.value)
        path.rename(tmp_path / "damaged.db")
        store.append("one", "a", "first")
        assert store.load("one") == ["first"]


def test_a_file_that_was_removed_is_made_anew(tmp_path: Path) -> None:
    """An open connection would write on into the removed file, where it cannot be found."""
    path = tmp_path / "records.db"
    with SQLiteStore(path) as store:
        store.append("one", "a", "first")
        for file in tmp_path.iterdir():
            file.unlink()
        store.append("one", "b", "second")
        assert store.load("one") == ["second"]
        with SQLiteStore(path) as other:
            assert other.load("one") == ["second"]


def test_a_failed_opening_leaves_no_connection_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[sqlite3.Connection] = []

    class Watched(sqlite3.Connection):
        def __init__(self, path: str, timeout: float, isolation_level: None, check_same_thread: bool) -> None:
            super().__init__(
                path, timeout=timeout, isolation_level=isolation_level, check_same_thread=check_same_thread
            )
            opened.append(self)

    monkeypatch.setattr(sqlite3, "connect", Watched)
    path = tmp_path / "notes.txt"
    path.write_text("These are my notes. " * 100)
    with pytest.raises(RecordError):
        SQLiteStore(path)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        opened[0].execute("SELECT 1")


def test_readers_and_writers_do_not_wait_for_one_another(tmp_path: Path) -> None:
    """Write-ahead logging: a reader in the middle of its work does not keep a record from being saved."""
    path = tmp_path / "records.db"
    with SQLiteStore(path) as store:
        store.append("one", "a", "first")
        reader = sqlite3.connect(path, isolation_level=None)
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM compaction_records").fetchone() == (1,)
        store.append("one", "b", "second")
        assert store.load("one") == ["first", "second"]
        reader.close()


def test_says_when_a_record_is_not_text_that_can_be_stored(tmp_path: Path) -> None:
    with SQLiteStore(tmp_path / "records.db") as store:
        with pytest.raises(RecordError, match="ASCII"):
            store.append("one", "a", "half \ud83d")
        assert store.load("one") == []


def test_says_when_another_process_holds_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compaction_hooks.stores.sqlite.BUSY_SECONDS", 0.0)
    path = tmp_path / "records.db"
    other = sqlite3.connect(path, isolation_level=None)
    with SQLiteStore(path) as store:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(RecordError, match="let the process that is writing"):
            store.append("one", "a", "first")
        other.execute("ROLLBACK")
        store.append("one", "a", "first")
        assert store.load("one") == ["first"]
    other.close()


def test_importing_stores_does_not_need_sqlite() -> None:
    """Some Pythons are built without it."""
    script = "import sys; sys.modules['sqlite3'] = None; import compaction_hooks.stores as s; print(s.MemoryStore().load('x'))"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"
