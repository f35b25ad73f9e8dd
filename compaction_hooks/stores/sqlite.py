"""Records in one SQLite file."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from compaction_hooks import arguments
from compaction_hooks.errors import RecordError
from compaction_hooks.stores.key_value import text_of
from compaction_hooks.stores.tombstones import TOMBSTONE_PREFIX

if TYPE_CHECKING:
    import sqlite3  # some Pythons are built without it: only a program with a SQLiteStore needs it

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
    "malformed": "move the file away, a new one is made; or mend it with the sqlite3 program's .recover",
    "locked": "let the process that is writing to it finish",
    "disk is full": "free some space",
    "disk I/O error": "look after the disk, its free space and its quota",
    "surrogates not allowed": "give records as `CompactionRecord.to_json` writes them, in ASCII",
}
"""Remedies, by a part of SQLite's message."""


@arguments.validate(arguments.KINDS)
class SQLiteStore(AbstractContextManager["SQLiteStore"]):
    """Records in one SQLite file, shared by threads and processes on one machine. Each call is atomic.

    The file and its table are made when missing; its folder is not. The first call in a process opens a connection, which
    `close()` frees; later calls open it again, as they do when the file was removed or replaced. Not for network file
    systems, where SQLite's locks do not hold. (https://www.sqlite.org/wal.html, "Overview".)

    Args:
        path: The file; may already hold other tables.

    Raises:
        ConfigurationError: here, `path` is none.
        RecordError: here and in every method, when SQLite cannot do its part; the text names the path and the remedy.
    """

    _connection = cast("sqlite3.Connection | None", None)

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._file: tuple[int, int] | None = None
        self._inherited: list[sqlite3.Connection] = []

        # Opened once to fail here and not in the first compaction, then closed: a connection must not be carried into
        # forked workers (https://www.sqlite.org/howtocorrupt.html#_carrying_an_open_database_file_across_a_fork_).
        self.load("")
        self.close()

    def load(self, session_id: str) -> Sequence[str]:
        """Return the session's records, oldest first."""
        rows = self._run(
            "SELECT record FROM compaction_records WHERE session_id = ? ORDER BY position", _encode_id(session_id)
        )
        return [record for (record,) in rows]

    def append(self, session_id: str, record_id: str, record: str) -> None:
        """Add a record at the end unless its id is there already."""
        self._run(
            "INSERT INTO compaction_records (session_id, record_id, record) VALUES (?, ?, ?)"
            " ON CONFLICT (session_id, record_id) DO NOTHING",
            _encode_id(session_id),
            _encode_id(record_id),
            record,
        )

    def remove(self, session_id: str, record_id: str) -> None:
        """Take a record out if it is there."""
        self._run(
            "DELETE FROM compaction_records WHERE session_id = ? AND record_id = ?",
            _encode_id(session_id),
            _encode_id(record_id),
        )

    def session_ids(self, prefix: str = "") -> Sequence[str]:
        """Return the ids of the sessions that have records and begin with `prefix`."""
        rows = self._run(
            "SELECT DISTINCT session_id FROM compaction_records WHERE record_id NOT GLOB ?", f"{TOMBSTONE_PREFIX}*"
        )
        ids = (id if isinstance(id, str) else id.decode("utf-8", "surrogatepass") for (id,) in rows)  # see `_encode_id`
        return [id for id in ids if id.startswith(prefix)]

    def close(self) -> None:
        """Free this process's connection."""
        with self._lock:
            self._disconnect()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        """Free the connection of a store that was not closed: since 3.13 Python warns of one that is collected open."""
        self._disconnect()

    def _run(self, statement: str, *values: str | bytes) -> list[tuple[Any]]:
        import sqlite3

        with self._lock:
            try:
                return self._connect().execute(statement, values).fetchall()
            except (sqlite3.Error, UnicodeEncodeError) as exc:
                remedy = next(
                    (advice for sign, advice in _REMEDIES.items() if sign in str(exc)), "see the cause of this error"
                )
                raise RecordError(
                    f"the record store {arguments.format_path(self._path)} failed ({exc}): {remedy}"
                ) from exc

    def _connect(self) -> sqlite3.Connection:
        """Return this process's connection to the file at the path; open one if there is none."""
        if self._connection is not None and self._process != os.getpid():
            self._inherited.append(self._connection)  # closing it here would break the parent's
            self._connection = None

        if self._file != _file_identity(self._path):
            self._disconnect()  # SQLite would go on writing to the removed file

        if self._connection is None:
            self._connection, self._process = self._open(), os.getpid()
            self._file = _file_identity(self._path)
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None and self._process == os.getpid():
            self._connection.close()
            self._connection = None

    def _open(self) -> sqlite3.Connection:
        import sqlite3

        connection = sqlite3.connect(self._path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        connection.text_factory = text_of  # one text that is no UTF-8 would hide the others
        try:
            with suppress(sqlite3.OperationalError):  # read-only, or another process is just doing it: works without
                connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(_SCHEMA)
        except sqlite3.Error:
            connection.close()
            raise
        return connection


def _encode_id(id: str) -> str | bytes:
    """Return an id as SQLite takes it: bytes, which never equal a text, if it holds lone surrogates."""
    try:
        id.encode()
    except UnicodeEncodeError:
        return id.encode("utf-8", "surrogatepass")
    return id


def _file_identity(path: str) -> tuple[int, int] | None:
    """Return device and inode of the file at a path; None when there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
