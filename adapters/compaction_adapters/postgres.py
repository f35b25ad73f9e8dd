"""PostgreSQL: records in one table, through the client library psycopg 3."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

from compaction_hooks.errors import ConfigurationError, MissingExtraError, RecordError
from compaction_hooks.stores import KeyValueStore

try:
    import psycopg
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "psycopg":
        raise
    raise MissingExtraError("compaction_adapters.postgres", "psycopg", "postgres") from error

from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import tuple_row

__all__ = ["CONNECT_TIMEOUT_SECONDS", "TABLE", "AsyncPool", "Pool", "PostgresStore"]

CONNECT_TIMEOUT_SECONDS: Final = 10
"""Time limit of a connection, unless the connection string sets one; psycopg's default is 130 seconds."""

TABLE: Final = """
CREATE TABLE IF NOT EXISTS compaction_records (
    folder text NOT NULL,
    name text NOT NULL,
    record text NOT NULL,
    saved_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (folder, name)
)"""
"""The statement that makes the table; run it yourself if the store's database user may not create tables."""

_REMEDIES: Final = (
    (errors.InvalidPassword, "give the right user name and password"),
    (errors.InvalidAuthorizationSpecification, "give the right user name and password"),
    (
        errors.InsufficientPrivilege,
        "let its user read and write the table compaction_records, and make it or have it made",
    ),
    (errors.ReadOnlySqlTransaction, "give the address of the primary"),
    (errors.UndefinedColumn, "set another search_path: something else is called compaction_records there"),
    (errors.DiskFull, "free some space"),
    (psycopg.OperationalError, "start PostgreSQL, or give the right address, user name and password"),
)
"""Remedies by type of error; the most general type comes last."""

_Texts: TypeAlias = list[str | bytes]
_Rows: TypeAlias = list[tuple[str | bytes]]


class Pool(Protocol):
    """The one method used of `psycopg_pool.ConnectionPool`."""

    def connection(self) -> AbstractContextManager[psycopg.Connection[Any]]:
        """Lend a connection."""
        ...


class AsyncPool(Protocol):
    """The one method used of `psycopg_pool.AsyncConnectionPool`."""

    def connection(self) -> AbstractAsyncContextManager[psycopg.AsyncConnection[Any]]:
        """Lend a connection."""
        ...


class PostgresStore(KeyValueStore):
    """Records in PostgreSQL, for many processes on many machines.

    Each method runs one transaction on a new connection or one from the pool, and keeps no connection between transactions. If the
    table `compaction_records` is missing, it is made in the first schema of the search path.

    Args:
        where: A connection string (a URL or `key=value` pairs), or a pool of psycopg_pool. A `ConnectionPool`, like a connection
            string, serves sync and async controllers. An `AsyncConnectionPool` belongs to the event loop that opened it: only
            for async methods there.

    Raises:
        RecordError: in every method, when PostgreSQL cannot run a statement; the text names the remedy, and the address if a
            connection string gave it.
        ConfigurationError: the connection string cannot be parsed.
    """

    _lists_forgotten = False

    def __init__(self, where: str | Pool | AsyncPool) -> None:
        if isinstance(where, str):
            options = _parse(where)
            connect = partial(psycopg.connect, where, autocommit=True, connect_timeout=options["connect_timeout"])
            super().__init__(_Table(connect, _address(options)), prefix="")
        else:
            super().__init__(_Table(where.connection, "postgres"), prefix="")


class _Table:
    """The table's rows as entries."""

    def __init__(
        self,
        connection: Callable[
            [],
            AbstractContextManager[psycopg.Connection[Any]] | AbstractAsyncContextManager[psycopg.AsyncConnection[Any]],
        ],
        address: str,
    ) -> None:
        self._connection = connection
        self._address = address

    def values(self, folder: str) -> _Texts | Awaitable[_Texts]:
        # As bytes: in a database without an encoding, one text that is not UTF-8 would hide all others.
        rows = self._run(
            "SELECT convert_to(record::text, 'SQL_ASCII') FROM compaction_records WHERE folder = %s", folder
        )
        return _unpack(rows) if isinstance(rows, list) else _unpack_async(rows)

    def list_folders(self, prefix: str) -> _Texts | Awaitable[_Texts]:
        # A conversation that was forgotten has nothing but a tombstone.
        rows = self._run(
            "SELECT DISTINCT folder FROM compaction_records"
            " WHERE starts_with(folder, %s) AND NOT starts_with(name, 'forgotten-')",
            prefix,
        )
        return _unpack(rows) if isinstance(rows, list) else _unpack_async(rows)

    def add(self, folder: str, name: str, value: str) -> object:
        return self._run(
            "INSERT INTO compaction_records (folder, name, record) VALUES (%s, %s, %s)"
            " ON CONFLICT (folder, name) DO NOTHING",
            folder,
            name,
            value,
        )

    def delete(self, folder: str, name: str) -> object:
        return self._run("DELETE FROM compaction_records WHERE folder = %s AND name = %s", folder, name)

    def _run(self, statement: str, *values: str) -> _Rows | Awaitable[_Rows]:
        with self._explain_errors():
            lent = self._connection()
            if isinstance(lent, AbstractAsyncContextManager):
                return self._run_async(lent, statement, values)

            with lent as connection:
                try:
                    return _rows(connection, statement, values)
                except errors.UndefinedTable:
                    with suppress(errors.UniqueViolation, errors.DuplicateTable):  # another process was faster
                        _rows(connection, TABLE, ())
                    return _rows(connection, statement, values)

    async def _run_async(
        self,
        lent: AbstractAsyncContextManager[psycopg.AsyncConnection[Any]],
        statement: str,
        values: tuple[str, ...],
    ) -> _Rows:
        with self._explain_errors():
            async with lent as connection:
                try:
                    return await _rows_async(connection, statement, values)
                except errors.UndefinedTable:
                    with suppress(errors.UniqueViolation, errors.DuplicateTable):
                        await _rows_async(connection, TABLE, ())
                    return await _rows_async(connection, statement, values)

    @contextmanager
    def _explain_errors(self) -> Generator[None]:
        try:
            yield
        except psycopg.Error as exc:
            remedy = next(
                (remedy for kind, remedy in _REMEDIES if isinstance(exc, kind)), "see the cause of this error"
            )
            raise RecordError(f"the record store {self._address} failed ({exc}): {remedy}") from exc


# prepare=False: poolers such as PgBouncer may lend another server connection for the next statement.


def _rows(connection: psycopg.Connection[Any], statement: str, values: tuple[str, ...]) -> _Rows:
    with connection.transaction(), connection.cursor(row_factory=tuple_row) as cursor:
        cursor.execute(statement.encode(), values, prepare=False)
        return cursor.fetchall() if cursor.description else []


async def _rows_async(connection: psycopg.AsyncConnection[Any], statement: str, values: tuple[str, ...]) -> _Rows:
    async with connection.transaction(), connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(statement.encode(), values, prepare=False)
        return await cursor.fetchall() if cursor.description else []


def _unpack(rows: _Rows) -> _Texts:
    return [text for (text,) in rows]


async def _unpack_async(rows: Awaitable[_Rows]) -> _Texts:
    return _unpack(await rows)


def _parse(conninfo: str) -> dict[str, Any]:
    try:
        options = conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError:  # its text, and so the chain, may hold the password
        raise ConfigurationError(
            "where= is not a connection string: write postgresql://user@host/database, or host=... dbname=... user=..."
        ) from None
    return {"connect_timeout": CONNECT_TIMEOUT_SECONDS, **options}


def _address(options: dict[str, Any]) -> str:
    """Return a connection string's address without its user and password."""
    place = f"{options.get('host') or options.get('hostaddr') or 'its default host'}:{options.get('port') or 5432}"
    return f"postgres at {place}/{options.get('dbname') or ''}"
