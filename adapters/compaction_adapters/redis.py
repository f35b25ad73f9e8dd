"""Redis: records in one hash for each conversation, through the client library redis-py."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Awaitable, Generator, Iterable
from contextlib import contextmanager
from typing import Any, Final, Protocol, cast

from compaction_hooks import arguments
from compaction_hooks.errors import MissingExtraError, RecordError
from compaction_hooks.stores import KeyValueStore

try:
    from redis.exceptions import AuthenticationError, ConnectionError, NoPermissionError, RedisError, TimeoutError
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "redis":
        raise
    raise MissingExtraError("compaction_adapters.redis", "redis-py", "redis") from error

__all__ = ["RedisClient", "RedisStore"]

_ADD_FOR_A_WHILE: Final = """
local added = redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[3])
return added
"""
"""One script for both commands: if only the first were run, the hash would have no time to live."""

_REMEDIES: Final[tuple[tuple[type[Exception], str, str], ...]] = (
    (AuthenticationError, "", "give the client the right user name and password"),
    (NoPermissionError, "", "allow its user HVALS, HSETNX, HDEL, SCAN, and EVAL and EXPIRE where records expire"),
    (ConnectionError, "", "start Redis, or give the client the right address"),
    (TimeoutError, "", "see why Redis is slow, or give the client a longer socket_timeout"),
    (RedisError, "maxmemory", "raise Redis' maxmemory, or give records a time to live"),
    (RedisError, "read only replica", "give the client the address of the primary"),
    (RedisError, "WRONGTYPE", "choose another prefix: something else is under this key"),
    (RedisError, "MISCONF", "see in Redis' log why it cannot write to its disk"),
)
"""Remedies by type of error and a word of its text. AuthenticationError comes first: it is a ConnectionError too."""


_SCANNED: Final = 1_000
"""Keys that Redis looks at in one step of a list: it answers others in between."""
_GLOB: Final = str.maketrans({char: f"\\{char}" for char in "\\*?[]"})


class RedisClient(Protocol):
    """The methods used of `redis.Redis`, `redis.asyncio.Redis`, their cluster clients, and clients like them."""

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Send a command; return its reply, or an awaitable of it."""
        ...

    def scan_iter(self, match: Any = None, count: int | None = None) -> Any:
        """Yield the names of keys that match a pattern; from async clients, an async iterator of them."""
        ...


@arguments.validate({"prefix": arguments.TEXT, "ttl_seconds": arguments.whole("seconds")})
class RedisStore(KeyValueStore):
    """Records in Redis, for many processes on many machines.

    Args:
        client: From `redis` or `redis.asyncio`; its time-outs and retries are yours to set. A client of `redis` serves sync and
            async controllers. A client of `redis.asyncio` belongs to the event loop of its first use: only for async methods there.
        prefix: The first characters of every key.
        ttl_seconds: A conversation's records are removed this many seconds after the last one was saved; if the conversation goes
            on after that, it is summarized anew. None: records are kept for ever.

    Raises:
        RecordError: in every method, when Redis cannot carry out a command; the text names its address and the remedy.
        ConfigurationError: `ttl_seconds` is not a whole number above zero.
    """

    def __init__(
        self, client: RedisClient, prefix: str = "compaction_records:", *, ttl_seconds: int | None = None
    ) -> None:
        super().__init__(_Hashes(client, ttl_seconds), prefix)


class _Hashes:
    """Redis' hashes as folders: one command for each method, so each is atomic."""

    def __init__(self, client: RedisClient, ttl_seconds: int | None) -> None:
        self._client = client
        self._ttl_seconds = ttl_seconds

    def values(self, folder: str) -> list[str | bytes] | Awaitable[list[str | bytes]]:
        # As bytes, even from a client that decodes: it would raise for one value that is not UTF-8, and hide all others.
        return cast("list[str | bytes] | Awaitable[list[str | bytes]]", self._run("HVALS", folder, NEVER_DECODE=True))

    def add(self, folder: str, name: str, value: str) -> object:
        if self._ttl_seconds is None:
            return self._run("HSETNX", folder, name, value)
        return self._run("EVAL", _ADD_FOR_A_WHILE, 1, folder, name, value, self._ttl_seconds)

    def delete(self, folder: str, name: str) -> object:
        return self._run("HDEL", folder, name)

    def list_folders(self, prefix: str) -> list[str | bytes] | Awaitable[list[str | bytes]]:
        found = self._client.scan_iter(match=f"{prefix.translate(_GLOB)}*", count=_SCANNED)
        if isinstance(found, AsyncIterable):
            return self._collect(cast("AsyncIterable[str | bytes]", found))
        with self._explain_errors():
            return [*cast("Iterable[str | bytes]", found)]

    async def _collect(self, found: AsyncIterable[str | bytes]) -> list[str | bytes]:
        with self._explain_errors():
            return [name async for name in found]

    def _run(self, *command: str | int, **options: bool) -> object:
        with self._explain_errors():
            reply = self._client.execute_command(*command, **options)
        return self._await_reply(reply) if inspect.isawaitable(reply) else reply

    async def _await_reply(self, reply: Awaitable[object]) -> object:
        with self._explain_errors():
            return await reply

    @contextmanager
    def _explain_errors(self) -> Generator[None]:
        try:
            yield
        except RedisError as exc:
            raise RecordError(f"the record store {_address(self._client)} failed ({exc}): {_find_remedy(exc)}") from exc


def _find_remedy(error: Exception) -> str:
    remedies = (remedy for kind, word, remedy in _REMEDIES if isinstance(error, kind) and word in str(error))
    return next(remedies, "see the cause of this error")


def _address(client: object) -> str:
    """Return a client's address without its user and password."""
    options = getattr(getattr(client, "connection_pool", None), "connection_kwargs", {})
    if "path" in options:
        return f"redis at {options['path']}"
    return (
        f"redis at {options['host']}:{options.get('port', 6379)}/{options.get('db', 0)}"
        if "host" in options
        else "redis"
    )
