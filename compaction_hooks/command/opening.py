"""Open a store for the command: a file of `SQLiteStore`, or a server whose address is in an environment variable."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Final

from compaction_hooks.errors import ConfigurationError
from compaction_hooks.stores import ListingStore, SQLiteStore

VARIABLE: Final = "env:"
"""The beginning of a name of an environment variable, in place of a file."""
ANSWER_SECONDS: Final = 60.0
"""How long Redis may take for one answer, if its address does not say so."""


def open_store(where: str, redis_prefix: str) -> ListingStore:
    """Open the store in a file, or at the address in the environment variable that `where` names after "env:".

    Nothing is created: the file must be there, and hold records or have held some.

    Raises:
        ConfigurationError: there is no store at this place; the text names the fix and never the address.
        MissingExtraError: the server's client is not installed.
        RecordError: the store cannot be opened.
    """
    if where.startswith(VARIABLE):
        return _open_server(where.removeprefix(VARIABLE), redis_prefix)
    if "://" in where:
        raise ConfigurationError(
            "other users can see the arguments of a command, and an address may hold a password: put it into an environment "
            f"variable, and name that, as in {VARIABLE}DATABASE_URL"
        )
    return _open_file(Path(where))


def _open_file(path: Path) -> ListingStore:
    import sqlite3

    if not path.is_file():
        raise ConfigurationError(f"{path}: there is no such file; give the path that SQLiteStore was given")
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as file:
            has_table = file.execute("SELECT 1 FROM sqlite_master WHERE name = 'compaction_records'").fetchone()
    except sqlite3.Error as error:
        raise ConfigurationError(
            f"{path}: not a file of SQLiteStore ({error}); give the path that it was given"
        ) from error
    if not has_table:  # SQLiteStore would make one, in a file that may be another program's
        raise ConfigurationError(f"{path}: a SQLite file without records; give the path that SQLiteStore was given")
    return SQLiteStore(path)


def _open_server(variable: str, redis_prefix: str) -> ListingStore:
    address = os.environ.get(variable, "")
    match address.partition("://")[0] if "://" in address else "":
        case "postgresql" | "postgres":
            from compaction_adapters.postgres import PostgresStore

            return PostgresStore(address)
        case "redis" | "rediss" | "unix":
            from compaction_adapters.redis import RedisStore
            from redis import Redis

            try:
                client = Redis.from_url(address, socket_timeout=ANSWER_SECONDS)  # pyright: ignore[reportUnknownMemberType]
            except ValueError:  # its text, and so the chain, may hold the password
                raise ConfigurationError(
                    f"the address in {variable} cannot be read: write redis://user:password@host:6379/0, with the characters "
                    "/?#@: of a password as %2F%3F%23%40%3A"
                ) from None
            return RedisStore(client, redis_prefix)
        case _:
            found = "holds no address of a store" if address else "is not set"
            raise ConfigurationError(
                f"the environment variable {variable or '(without a name)'} {found}: it must begin with postgresql://, "
                "redis://, rediss:// or unix://"
            )
