"""Records in a real Redis, which the tests start themselves; skipped if none is installed."""

import re
import signal
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from compaction_adapters.redis import RedisStore
from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError
from redis.retry import Retry

from compaction_hooks.command.opening import open_store
from compaction_hooks.errors import ConfigurationError, RecordError
from compaction_hooks.testing import check_store
from tests.cases import folded
from tests.stores import page
from tests.stores.kills import check_kills
from tests.stores.servers import PASSWORD, Server, free_port, redis_server
from tests.stores.stage import check_two_workers
from tests.stores.test_stores_damaged import check


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with redis_server() as started:
        yield started


@pytest.fixture
def url(server: Server) -> str:
    address = url_of(server.port)
    with Redis.from_url(address) as client:
        client.flushall()
    return address


def url_of(port: int) -> str:
    return f"redis://:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{port}/3"


@pytest.fixture
def client(url: str) -> Iterator[Any]:
    with Redis.from_url(url) as opened:
        yield opened


@pytest.fixture
async def async_client(url: str) -> AsyncIterator[Any]:
    opened: Any = AsyncRedis.from_url(url)
    yield opened
    await opened.aclose()


@folded("options", {"plain": {}, "decoding": {"decode_responses": True}})
@pytest.mark.parametrize("ttl", [None, 1_000])
async def test_keeps_the_contract(url: str, options: dict[str, Any], ttl: int | None) -> None:
    with Redis.from_url(url, **options) as client:
        client.flushall()
        await check_store(lambda: RedisStore(client, ttl_seconds=ttl))


async def test_keeps_the_contract_with_an_async_client(async_client: Any) -> None:
    await check_store(lambda: RedisStore(async_client))


@pytest.mark.parametrize("decodes", [False, True])
def test_a_value_that_cannot_be_read_hides_no_other(url: str, decodes: bool) -> None:
    with Redis.from_url(url, decode_responses=decodes) as client:
        store = RedisStore(client)
        check(store, lambda: client.hset("compaction_records:default", "odd", b'{"id": "\xff"}'))


async def test_a_value_that_cannot_be_read_hides_no_other_from_an_async_client(url: str) -> None:
    opened: Any = AsyncRedis.from_url(url, decode_responses=True)
    await opened.hset("compaction_records:s", "odd", b"\xff")
    store: Any = RedisStore(opened)
    await store.append("s", "a", "{}")
    assert "{}" in await store.load("s")
    await opened.aclose()


def test_a_conversation_is_one_hash_with_a_readable_name(client: Any) -> None:
    store = RedisStore(client, prefix="my agents:")
    store.append("thread-1", "abc", "{}")
    assert client.keys() == [b"my agents:thread-1"]
    assert client.hgetall("my agents:thread-1") == {b"abc": b"{}"}
    assert client.ttl("my agents:thread-1") == -1
    store.remove("thread-1", "abc")
    assert client.keys() == []


def test_each_save_puts_the_end_off_for_all_records_of_a_conversation(client: Any) -> None:
    store = RedisStore(client, ttl_seconds=1_000)
    store.append("s", "a", "{}")
    assert 990 <= client.ttl("compaction_records:s") <= 1_000
    client.expire("compaction_records:s", 5)
    store.append("s", "b", "{}")
    assert 990 <= client.ttl("compaction_records:s") <= 1_000


def test_refuses_a_time_to_live_that_is_none(client: Any) -> None:
    wrong: Any
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(ConfigurationError, match="ttl_seconds"):
            RedisStore(client, ttl_seconds=wrong)


def test_only_keys_that_begin_with_the_prefix_word_for_word_are_listed(client: Any) -> None:
    store: Any = RedisStore(client, prefix="a*[b]?\\:")
    client.mset({f"other:{number}": 1 for number in range(2_500)})  # more than one step of SCAN
    client.hset("axb:thread", "a", "{}")
    store.append("thread", "a", "{}")
    assert list(store.session_ids()) == ["thread"]


def test_the_command_opens_the_address_in_a_variable(url: str, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    RedisStore(client, prefix="mine:").append("thread", "a", "{}")
    monkeypatch.setenv("MY_STORE", url)
    opened = open_store("env:MY_STORE", "mine:")
    assert (opened.session_ids("thr"), opened.load("thread")) == (["thread"], ["{}"])
    monkeypatch.setenv("MY_STORE", f"redis://:pass/{PASSWORD}@127.0.0.1:6379/0")
    with pytest.raises(ConfigurationError, match="the address in MY_STORE cannot be read") as caught:
        open_store("env:MY_STORE", "mine:")
    assert PASSWORD not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.full
@pytest.mark.parametrize("kind", ["redis", "redis.asyncio"])
def test_two_workers_at_once_are_both_right_and_agree(url: str, kind: str) -> None:
    check_two_workers(kind, url)


# -- kills


@pytest.mark.full
def test_a_killed_process_leaves_every_acknowledged_record(url: str) -> None:
    assert check_kills("redis", url, 10).rounds == 10


@pytest.mark.full
def test_a_killed_server_still_has_every_acknowledged_record(server: Server, url: str) -> None:
    """With `appendfsync always` Redis answers after it has written; it is killed by SIGKILL in the middle of saves."""

    def strike(_: object) -> None:
        server.stop(signal.SIGKILL)
        server.start()

    assert check_kills("redis", url, 5, seed=1, strike=strike).rounds == 5


# -- errors


def error_of(store: RedisStore, append: bool = False) -> str:
    with pytest.raises(RecordError) as caught:
        store.append("s", "a", "{}") if append else store.load("s")
    text = str(caught.value)
    assert PASSWORD not in text
    assert text.startswith("the record store redis at 127.0.0.1:")
    assert caught.value.__cause__ is not None
    return text


def test_says_when_no_server_is_there() -> None:
    with Redis.from_url(url_of(free_port())) as client:
        assert "start Redis" in error_of(RedisStore(client))


async def test_says_when_no_server_is_there_to_list_for_an_async_client() -> None:
    async with AsyncRedis.from_url(url_of(free_port())) as client:
        store: Any = RedisStore(client)
        with pytest.raises(RecordError, match="start Redis"):
            await store.session_ids()


def test_says_when_the_password_is_wrong(server: Server) -> None:
    with Redis(host="127.0.0.1", port=server.port, password="guess") as client:
        assert "right user name and password" in error_of(RedisStore(client))


def test_says_when_the_user_may_not(server: Server, client: Any) -> None:
    client.execute_command("ACL", "SETUSER", "reader", "on", ">reader", "~*", "+hvals")
    with Redis(host="127.0.0.1", port=server.port, username="reader", password="reader") as reader:
        assert RedisStore(reader).load("s") == []
        assert "allow its user" in error_of(RedisStore(reader), append=True)
        with pytest.raises(RecordError, match=r"allow its user .*SCAN"):
            RedisStore(reader).session_ids()


@folded(
    "command, undo, text",
    {
        "memory is full": (("CONFIG", "SET", "maxmemory", 1), ("CONFIG", "SET", "maxmemory", 0), "maxmemory"),
        "a replica": (("REPLICAOF", "127.0.0.1", 9), ("REPLICAOF", "NO", "ONE"), "primary"),
        "another value under the key": (("SET", "compaction_records:s", "mine"), ("FLUSHALL",), "another prefix"),
    },
)
def test_says_why_a_record_cannot_be_written(client: Any, command: Any, undo: Any, text: str) -> None:
    client.execute_command(*command)
    try:
        assert text in error_of(RedisStore(client), append=True)
    finally:
        client.execute_command(*undo)


def test_says_when_the_server_does_not_answer(server: Server, url: str) -> None:
    assert server.process is not None
    server.process.send_signal(signal.SIGSTOP)
    try:
        with Redis.from_url(url, socket_timeout=0.05) as client:
            assert "socket_timeout" in error_of(RedisStore(client))
    finally:
        server.process.send_signal(signal.SIGCONT)


ONCE = Retry(NoBackoff(), 0)


class OtherClient:
    def execute_command(self, *_: object, **__: object) -> None:
        raise ConnectionError("down")


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # redis 5.0.1 leaves some open
@folded(
    "client, where",
    {
        "socket": (Redis(unix_socket_path="/nowhere/redis.sock", retry=ONCE), "redis at /nowhere/redis.sock"),
        "default host": (Redis(port=9, retry=ONCE), "redis at localhost:9/0"),
        "of another library": (OtherClient(), "redis"),
    },
)
def test_names_the_address_it_knows(client: Any, where: str) -> None:
    with pytest.raises(RecordError, match=f"^the record store {re.escape(where)} failed"):
        RedisStore(client).load("s")


def test_the_example_of_the_docs_makes_a_store() -> None:
    assert isinstance(page.run(*page.blocks("Redis"))["store"], RedisStore)
