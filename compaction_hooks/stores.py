"""Where records live between processes: in memory, or in one SQLite file.

A store holds, for each session id, a list of records as JSON texts, and knows nothing about what is in them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from compaction_hooks.errors import RecordError

if TYPE_CHECKING:
    import sqlite3  # some Pythons are built without it: only who uses SQLiteStore needs it


class RecordStore(Protocol):
    """Keeps compaction records. Each method may be sync or async. Errors never fail the agent; they are reported as events."""

    def load(self, session_id: str, /) -> Sequence[str] | Awaitable[Sequence[str]]:
        """The session's records as JSON texts, in the order they were appended; empty for an unknown session."""
        ...

    def append(self, session_id: str, record_id: str, record: str, /) -> Awaitable[None] | None:
        """Add a record at the end; does nothing when the session already has one with this id."""
        ...

    def remove(self, session_id: str, record_id: str, /) -> Awaitable[None] | None:
        """Take a record out; does nothing when there is none with this id."""
        ...


class MemoryStore:
    """Records for the life of the process. May be shared by threads, event loops and controllers."""

    def __init__(self) -> None:
        self._sessions: dict[str, dict[str, str]] = {}
        self._lock = threading.Lock()

    def load(self, session_id: str) -> Sequence[str]:
        """Return the session's records, oldest first."""
        with self._lock:
            return list(self._sessions.get(session_id, {}).values())

    def append(self, session_id: str, record_id: str, record: str) -> None:
        """Add a record at the end unless its id is there already."""
        with self._lock:
            self._sessions.setdefault(session_id, {}).setdefault(record_id, record)

    def remove(self, session_id: str, record_id: str) -> None:
        """Take a record out if it is there."""
        with self._lock:
            self._sessions.get(session_id, {}).pop(record_id, None)


BUSY_SECONDS = 10.0
"""How long a call waits for another process to finish writing. A write takes milliseconds."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS compaction_records (
    position INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL,
    record_id TEXT NOT NULL,
    record TEXT NOT NULL,
    UNIQUE (session_id, record_id)
)"""

_REMEDIES = {
    "unable to open": "create its folder, and make both readable and writable",
    "readonly": "make the file and its folder writable",
    "not a database": "choose another path: something else is in this file",
    "locked": "let the process that is writing to it finish",
    "disk is full": "free some space",
    "surrogates not allowed": "use ids and records that can be written as UTF-8",
}
"""What to do, by what SQLite's message holds."""


class SQLiteStore:
    """Records in one SQLite file, shared by threads and processes on one machine. Each call is atomic.

    The file and its table are made when missing; its folder is not. The first call in a process opens a connection, which
    `close()` frees; later calls open it again. Not for network file systems, where SQLite's locks do not hold.
    (https://www.sqlite.org/wal.html, "Overview".)

    Args:
        path: The file; may already hold other tables.

    Raises:
        RecordError: here and in every method, when SQLite cannot do what is asked; the text names the path and the remedy.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._process = os.getpid()
        self._inherited: list[sqlite3.Connection] = []
        # Opened once to fail here and not in the first compaction, then closed: a connection must not be carried into
        # forked workers (https://www.sqlite.org/howtocorrupt.html#_carrying_an_open_database_file_across_a_fork_).
        self.load("")
        self.close()

    def load(self, session_id: str) -> Sequence[str]:
        """Return the session's records, oldest first."""
        rows = self._run("SELECT record FROM compaction_records WHERE session_id = ? ORDER BY position", session_id)
        return [record for (record,) in rows]

    def append(self, session_id: str, record_id: str, record: str) -> None:
        """Add a record at the end unless its id is there already."""
        self._run(
            "INSERT INTO compaction_records (session_id, record_id, record) VALUES (?, ?, ?)"
            " ON CONFLICT (session_id, record_id) DO NOTHING",
            session_id,
            record_id,
            record,
        )

    def remove(self, session_id: str, record_id: str) -> None:
        """Take a record out if it is there."""
        self._run("DELETE FROM compaction_records WHERE session_id = ? AND record_id = ?", session_id, record_id)

    def close(self) -> None:
        """Free this process's connection."""
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
                self._connection = None

    def __enter__(self) -> SQLiteStore:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _run(self, statement: str, *values: str) -> list[tuple[str]]:
        import sqlite3

        try:
            with self._lock:
                return self._connected().execute(statement, values).fetchall()
        except (sqlite3.Error, UnicodeEncodeError) as exc:
            remedy = next((what for sign, what in _REMEDIES.items() if sign in str(exc)), "see the cause of this error")
            raise RecordError(f"the record store {self._path} failed ({exc}): {remedy}") from exc

    def _connected(self) -> sqlite3.Connection:
        """This process's connection, opened when there is none."""
        if self._process != os.getpid():
            if self._connection is not None:
                self._inherited.append(self._connection)  # closing it here would break the parent's
            self._connection, self._process = None, os.getpid()
        if self._connection is None:
            self._connection = self._open()
        return self._connection

    def _open(self) -> sqlite3.Connection:
        import sqlite3

        connection = sqlite3.connect(self._path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            with suppress(sqlite3.OperationalError):  # read-only, or another process is just doing it: works without
                connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(_SCHEMA)
        except sqlite3.Error:
            connection.close()
            raise
        return connection
