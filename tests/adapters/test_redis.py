"""Records in a real Redis, which the tests start themselves; skipped where none is installed."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, cast

import pytest

pytest.importorskip("redis")

from compaction_adapters.redis import RedisStore
from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from compaction_hooks import CompactionController
from compaction_hooks.errors import ConfigurationError, RecordError
from compaction_hooks.testing import check_store
from tests.conversations import system, talk, texts
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


async def test_keeps_the_contract(url: str) -> None:
    clients: list[Any] = []

    def open_store() -> RedisStore:
        clients.append(Redis.from_url(url))
        return RedisStore(clients[-1])

    await check_store(open_store)
    for client in clients:
        client.close()


async def test_keeps_the_contract_with_an_async_client(async_client: Any) -> None:
    await check_store(lambda: RedisStore(async_client))


async def test_keeps_the_contract_with_a_client_that_decodes(url: str) -> None:
    with Redis.from_url(url, decode_responses=True) as client:
        await check_store(lambda: RedisStore(client))


@pytest.mark.parametrize("decodes", [False, True])
def test_a_value_that_cannot_be_read_hides_no_other(url: str, decodes: bool) -> None:
    with Redis.from_url(url, decode_responses=decodes) as client:
        store = RedisStore(client)
        check(store, lambda: client.hset("compaction_records:default", "odd", b'{"id": "\xff"}'))


async def test_a_value_that_cannot_be_read_hides_no_other_from_an_async_client(url: str) -> None:
    opened: Any = AsyncRedis.from_url(url, decode_responses=True)
    await opened.hset("compaction_records:s", "odd", b"\xff")
    store = RedisStore(opened)
    await cast("Any", store.append("s", "a", "{}"))
    assert "{}" in await cast("Any", store.load("s"))
    await opened.aclose()


async def test_keeps_the_contract_where_records_expire(client: Any) -> None:
    await check_store(lambda: RedisStore(client, ttl_seconds=1_000))


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


@pytest.mark.parametrize("ttl", [0, -1, 1.5, True])
def test_refuses_a_time_to_live_that_is_none(client: Any, ttl: Any) -> None:
    with pytest.raises(ConfigurationError, match="ttl_seconds"):
        RedisStore(client, ttl_seconds=ttl)


@pytest.mark.parametrize("kind", ["redis", "redis.asyncio"])
def test_two_workers_at_once_are_both_right_and_agree(url: str, kind: str) -> None:
    check_two_workers(kind, url)


async def test_a_sync_controller_uses_an_async_controllers_records(client: Any, async_client: Any) -> None:
    messages = [system(), *talk(15)]
    asked = CompactionController(
        context_window=8_192, store=RedisStore(async_client), summarizer=lambda request: "- once"
    )
    view = await asked.session("s").transform_context(messages)
    other = CompactionController(context_window=8_192, store=RedisStore(client), summarizer=lambda request: "- twice")
    assert await asyncio.to_thread(other.session("s").transform_context_sync, messages) == view
    assert "- once" in texts(view)


# -- kills


def test_a_killed_process_leaves_every_acknowledged_record(url: str) -> None:
    assert check_kills("redis", url, 10).rounds == 10


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


async def test_says_when_no_server_is_there_to_async_callers() -> None:
    client: Any = AsyncRedis.from_url(url_of(free_port()))
    answer: Any = RedisStore(client).load("s")
    with pytest.raises(RecordError, match="start Redis"):
        await answer
    await client.aclose()


def test_says_when_the_password_is_wrong(server: Server) -> None:
    with Redis(host="127.0.0.1", port=server.port, password="guess") as client:
        assert "right user name and password" in error_of(RedisStore(client))


def test_says_when_the_user_may_not(server: Server, client: Any) -> None:
    client.execute_command("ACL", "SETUSER", "reader", "on", ">reader", "~*", "+hvals")
    with Redis(host="127.0.0.1", port=server.port, username="reader", password="reader") as reader:
        assert RedisStore(reader).load("s") == []
        assert "allow its user" in error_of(RedisStore(reader), append=True)


def test_says_when_something_else_is_under_the_key(client: Any) -> None:
    client.set("compaction_records:s", "mine")
    assert "another prefix" in error_of(RedisStore(client))


def test_says_when_memory_is_full(client: Any) -> None:
    client.config_set("maxmemory", 1)
    try:
        assert "maxmemory" in error_of(RedisStore(client), append=True)
    finally:
        client.config_set("maxmemory", 0)


def test_says_when_the_server_is_a_replica(client: Any) -> None:
    client.execute_command("REPLICAOF", "127.0.0.1", free_port())
    try:
        assert "primary" in error_of(RedisStore(client), append=True)
    finally:
        client.execute_command("REPLICAOF", "NO", "ONE")


def test_says_when_the_server_does_not_answer(server: Server, url: str) -> None:
    assert server.process is not None
    server.process.send_signal(signal.SIGSTOP)
    try:
        with Redis.from_url(url, socket_timeout=0.05) as client:
            assert "socket_timeout" in error_of(RedisStore(client))
    finally:
        server.process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize(
    ("made", "where"),
    [
        pytest.param(
            lambda: Redis(unix_socket_path="/nowhere/redis.sock"), "redis at /nowhere/redis.sock", id="socket"
        ),
        pytest.param(Redis, "redis at localhost:6379/0", id="default"),
        pytest.param(object, "redis", id="of another library"),
    ],
)
def test_names_the_address_it_knows(made: Callable[[], object], where: str) -> None:
    from compaction_adapters.redis import _address

    assert _address(made()) == where


async def test_a_store_that_is_down_fails_no_call() -> None:
    """The agent goes on; the event says what failed."""
    events: list[Any] = []
    with Redis.from_url(url_of(free_port())) as client:
        controller = CompactionController(context_window=8_192, store=RedisStore(client), on_event=events.append)
        view = await controller.session("s").transform_context([system(), *talk(15)])
    assert len(view) < 31
    assert any("start Redis" in repr(event) for event in events)
    assert not any(PASSWORD in repr(event) for event in events)


def test_the_example_of_the_docs_makes_a_store() -> None:
    assert isinstance(page.run(*page.blocks("Redis"))["store"], RedisStore)
