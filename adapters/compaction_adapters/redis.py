"""Redis: records in one hash for each conversation, through the client library redis-py."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Generator
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

_ADD_FOR_A_WHILE: Final = """
local added = redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[3])
return added
"""
"""Both or neither: a hash that was added to without a time to live would stay for good."""

_REMEDIES: Final[tuple[tuple[type[Exception], str, str], ...]] = (
    (AuthenticationError, "", "give the client the right user name and password"),
    (NoPermissionError, "", "allow its user HVALS, HSETNX, HDEL, and EVAL and EXPIRE where records expire"),
    (ConnectionError, "", "start Redis, or give the client the right address"),
    (TimeoutError, "", "see why Redis is slow, or give the client a longer socket_timeout"),
    (RedisError, "maxmemory", "raise Redis' maxmemory, or give records a time to live"),
    (RedisError, "read only replica", "give the client the address of the primary"),
    (RedisError, "WRONGTYPE", "choose another prefix: something else is under this key"),
    (RedisError, "MISCONF", "see in Redis' log why it cannot write to its disk"),
)
"""What to do, by the kind of error and what its text holds. An AuthenticationError is a ConnectionError too."""


class RedisClient(Protocol):
    """What is used of `redis.Redis`, `redis.asyncio.Redis`, their cluster clients, and clients made after them."""

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Send a command; return its answer, or what gives it when awaited."""
        ...


@arguments.checked({"prefix": arguments.TEXT, "ttl_seconds": arguments.whole("seconds").or_none()})
class RedisStore(KeyValueStore):
    """Records in Redis, for many processes on many machines.

    Args:
        client: From `redis` or `redis.asyncio`; its time-outs and retries are yours to set. One of `redis` serves sync and async
            controllers. One of `redis.asyncio` belongs to the event loop it is used in first: only for async methods there.
        prefix: What every key begins with.
        ttl_seconds: A conversation's records are removed this long after the last of them was saved, and a conversation that goes
            on after that is summarised anew. None: they stay.

    Raises:
        RecordError: in every method, when Redis cannot do what is asked; the text names its address and the remedy.
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
        # A hash's values, of a sync client; of an async one what gives them. Bytes also from a client that decodes: it would
        # raise for a value that is no UTF-8, and hide the others.
        return cast("list[str | bytes] | Awaitable[list[str | bytes]]", self._run("HVALS", folder, NEVER_DECODE=True))

    def add(self, folder: str, name: str, value: str) -> object:
        if self._ttl_seconds is None:
            return self._run("HSETNX", folder, name, value)
        return self._run("EVAL", _ADD_FOR_A_WHILE, 1, folder, name, value, self._ttl_seconds)

    def delete(self, folder: str, name: str) -> object:
        return self._run("HDEL", folder, name)

    def _run(self, *command: str | int, **options: bool) -> object:
        with self._explained():
            answer = self._client.execute_command(*command, **options)
        return self._awaited(answer) if inspect.isawaitable(answer) else answer

    async def _awaited(self, answer: Awaitable[object]) -> object:
        with self._explained():
            return await answer

    @contextmanager
    def _explained(self) -> Generator[None]:
        try:
            yield
        except RedisError as exc:
            raise RecordError(f"the record store {_address(self._client)} failed ({exc}): {_remedy(exc)}") from exc


def _remedy(error: Exception) -> str:
    fits = (what for kind, sign, what in _REMEDIES if isinstance(error, kind) and sign in str(error))
    return next(fits, "see the cause of this error")


def _address(client: object) -> str:
    """Where a client connects to; user and password, which stand beside it, left out."""
    options = getattr(getattr(client, "connection_pool", None), "connection_kwargs", {})
    if "path" in options:
        return f"redis at {options['path']}"
    return (
        f"redis at {options['host']}:{options.get('port', 6379)}/{options.get('db', 0)}"
        if "host" in options
        else "redis"
    )
