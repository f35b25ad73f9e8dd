"""Records in a real PostgreSQL, which the tests start themselves; skipped if none is installed."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import psycopg
import psycopg.rows
import psycopg_pool
import pytest
from compaction_adapters.postgres import TABLE, PostgresStore

from compaction_hooks import CompactionController
from compaction_hooks.command.opening import open_store
from compaction_hooks.errors import ConfigurationError, RecordError
from compaction_hooks.testing import check_store
from tests.conversations import system, talk
from tests.stores import page
from tests.stores.kills import check_kills
from tests.stores.servers import PASSWORD, Server, free_port, postgres_server
from tests.stores.stage import check_two_workers
from tests.stores.test_stores_damaged import check


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgres_server() as started:
        yield started


def url_of(port: int, user: str = "worker", password: str = PASSWORD) -> str:
    return f"postgresql://{user}:{password.replace(' ', '%20')}@127.0.0.1:{port}/postgres"


@pytest.fixture
def url(server: Server) -> str:
    address = url_of(server.port)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS compaction_records")
    return address


@pytest.fixture
def connection(url: str) -> Iterator[Any]:
    with psycopg.connect(url, autocommit=True) as opened:
        yield opened


@pytest.fixture
def pool(url: str) -> Iterator[Any]:
    with psycopg_pool.ConnectionPool(url, min_size=1, max_size=3, open=True) as opened:
        yield opened


@pytest.fixture
async def async_pool(url: str) -> AsyncIterator[Any]:
    async with psycopg_pool.AsyncConnectionPool(url, min_size=1, max_size=3, open=False) as opened:
        yield opened


@pytest.mark.full
async def test_keeps_the_contract(url: str) -> None:
    await check_store(lambda: PostgresStore(url))


@pytest.mark.full
async def test_keeps_the_contract_with_pairs_and_pools(server: Server, url: str, pool: Any, async_pool: Any) -> None:
    pairs = f"host=127.0.0.1 port={server.port} user=worker password='{PASSWORD}' dbname=postgres connect_timeout=30"
    for source in (pairs, pool, async_pool):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP TABLE IF EXISTS compaction_records")
        await check_store(partial(PostgresStore, source))


async def test_lists_with_an_async_pool_what_is_not_forgotten(async_pool: Any, url: str) -> None:
    store: Any = PostgresStore(async_pool)
    await store.append("user-7/a", "a", "{}")
    await store.append("user_7", "a", "{}")
    await store.append("user-7/b", "a", '{"id": "a"}')
    await CompactionController(store=store).forget("user-7/b")
    assert await store.session_ids("user-7/") == ["user-7/a"]


def test_the_command_opens_the_address_in_a_variable(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PostgresStore(url).append("thread", "a", "{}")
    monkeypatch.setenv("MY_STORE", url)
    opened = open_store("env:MY_STORE", "")
    assert (opened.session_ids("thr"), opened.load("thread")) == (["thread"], ["{}"])


async def test_does_not_depend_on_how_the_pool_is_set_up(url: str) -> None:
    """Rows as dicts, autocommit: other parts of the program may use the same pool."""
    settings = {"row_factory": psycopg.rows.dict_row, "autocommit": True}
    with psycopg_pool.ConnectionPool(url, min_size=1, max_size=2, kwargs=settings, open=True) as pool:
        await check_store(lambda: PostgresStore(pool))


def test_a_value_that_cannot_be_read_hides_no_other(server: Server, connection: Any) -> None:
    """A database without an encoding keeps any bytes as a text."""
    connection.execute("DROP DATABASE IF EXISTS bytes")
    connection.execute("CREATE DATABASE bytes ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    address = url_of(server.port).replace("/postgres", "/bytes")

    def damage() -> None:
        with psycopg.connect(address, autocommit=True) as opened:
            opened.execute(
                "INSERT INTO compaction_records (folder, name, record)"
                " VALUES ('default', 'odd', convert_from('\\x7bff7d'::bytea, 'SQL_ASCII'))"
            )

    check(PostgresStore(f"{address}?client_encoding=utf8"), damage)


@pytest.mark.full
def test_many_processes_make_the_table_at_once(url: str, connection: Any) -> None:
    script = """
import sys
from compaction_adapters.postgres import PostgresStore
store = PostgresStore(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for number in range(50):
    store.append("one", f"{sys.argv[2]}-{number}", "{}")
"""
    commands = [[sys.executable, "-c", script, url, str(name)] for name in range(4)]
    pipe = subprocess.PIPE
    writers = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for command in commands]
    assert {writer.stdout and writer.stdout.readline() for writer in writers} == {"ready\n"}
    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda writer: writer.communicate("\n"), writers))
    assert [writer.returncode for writer in writers] == [0] * 4
    assert connection.execute("SELECT count(*) FROM compaction_records").fetchone() == (200,)


@pytest.mark.full
def test_two_workers_at_once_are_both_right_and_agree(url: str) -> None:
    check_two_workers("postgres", url)


@pytest.mark.parametrize("kind", ["connection string", "pool", "async pool"])
async def test_nothing_is_held_while_a_summary_is_written(
    url: str, connection: Any, kind: str, pool: Any, async_pool: Any
) -> None:
    """No transaction and no lock: only pooled connections stay, idle."""
    sources: dict[str, Any] = {"connection string": url, "pool": pool, "async pool": async_pool}
    store = PostgresStore(sources[kind])
    asked, release = asyncio.Event(), asyncio.Event()

    async def slow(_: object) -> str:
        asked.set()
        await release.wait()
        return "- done"

    controller = CompactionController(context_window=8_192, summarizer=slow, store=store)
    call = asyncio.create_task(controller.session("s").transform_context([system(), *talk(15)]))
    await asked.wait()
    others = "FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
    states = {state for (state,) in connection.execute(f"SELECT state {others}").fetchall()}
    locks = connection.execute(f"SELECT count(*) FROM pg_locks WHERE pid IN (SELECT pid {others})").fetchone()
    release.set()
    await call
    assert states <= {"idle"}
    assert locks == (0,)


# -- kills


@pytest.mark.full
def test_a_killed_process_leaves_every_acknowledged_record(url: str) -> None:
    assert check_kills("postgres", url, 10).rounds == 10


@pytest.mark.full
def test_a_server_stopped_in_the_middle_has_every_acknowledged_record(server: Server, url: str) -> None:
    """Stopped "immediate": as after a crash, it recovers from its log when it starts again."""

    def strike(_: object) -> None:
        server.stop(signal.SIGQUIT)
        server.start()

    assert check_kills("postgres", url, 3, seed=1, strike=strike).rounds == 3


# -- errors


def error_of(store: PostgresStore, append: bool = False) -> str:
    with pytest.raises(RecordError) as caught:
        store.append("s", "a", "{}") if append else store.load("s")
    text = str(caught.value)
    assert PASSWORD not in text
    assert caught.value.__cause__ is not None
    return text


def test_says_when_no_server_is_there() -> None:
    port = free_port()
    text = error_of(PostgresStore(url_of(port)))
    assert text.startswith(f"the record store postgres at 127.0.0.1:{port}/postgres failed (")
    assert "start PostgreSQL" in text


def test_says_when_the_password_is_wrong(server: Server) -> None:
    assert "user name and password" in error_of(PostgresStore(url_of(server.port, password="guess")))


@pytest.mark.parametrize("wrong", [f"postgresql://worker:{PASSWORD}@host:notaport/x?y", f"worker {PASSWORD}"])
def test_a_wrong_connection_string_is_refused_and_not_repeated(wrong: str) -> None:
    with pytest.raises(ConfigurationError, match="postgresql://user@host") as caught:
        PostgresStore(wrong)
    assert PASSWORD not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_says_when_the_user_may_not_make_the_table_and_works_where_it_was_made(server: Server, connection: Any) -> None:
    connection.execute("DROP USER IF EXISTS clerk")
    connection.execute("CREATE USER clerk PASSWORD 'clerk'")
    store = PostgresStore(url_of(server.port, "clerk", "clerk"))
    assert "make it or have it made" in error_of(store)
    connection.execute(TABLE)
    assert "let its user read and write" in error_of(store)
    connection.execute("GRANT SELECT, INSERT, DELETE ON compaction_records TO clerk")
    store.append("s", "a", "{}")
    assert store.load("s") == ["{}"]
    store.remove("s", "a")
    assert store.load("s") == []
    connection.execute("DROP OWNED BY clerk")
    connection.execute("DROP USER clerk")


def test_uses_the_search_path_it_is_given(url: str, connection: Any) -> None:
    connection.execute("DROP SCHEMA IF EXISTS agents CASCADE")
    connection.execute("CREATE SCHEMA agents")
    store = PostgresStore(f"{url}?options=-csearch_path%3Dagents")
    store.append("s", "a", "{}")
    assert connection.execute("SELECT folder, name FROM agents.compaction_records").fetchall() == [("s", "a")]
    connection.execute("DROP SCHEMA agents CASCADE")


def test_says_when_the_server_is_read_only(url: str) -> None:
    PostgresStore(url).append("s", "a", "{}")
    store = PostgresStore(f"{url}?options=-cdefault_transaction_read_only%3Don")
    assert store.load("s") == ["{}"]
    assert "primary" in error_of(store, append=True)


@pytest.mark.full
def test_goes_on_when_the_server_is_back(server: Server, url: str) -> None:
    """A pool may still lend connections of before, unless it is told to look first."""
    check = psycopg_pool.ConnectionPool.check_connection
    with psycopg_pool.ConnectionPool(url, min_size=2, max_size=2, check=check, open=True) as pool:
        stores = [PostgresStore(url), PostgresStore(pool)]
        stores[0].append("s", "a", "{}")
        assert stores[1].load("s") == ["{}"]
        server.stop(signal.SIGQUIT)
        assert "start PostgreSQL" in error_of(stores[0])
        server.start()
        assert [store.load("s") for store in stores] == [["{}"], ["{}"]]


async def test_a_store_that_is_down_fails_no_call() -> None:
    events: list[Any] = []
    store = PostgresStore(url_of(free_port()))
    controller = CompactionController(context_window=8_192, store=store, on_event=events.append)
    view = await controller.session("s").transform_context([system(), *talk(15)])
    assert len(view) < 31
    assert any("the record store postgres at" in repr(event) for event in events)
    assert not any(PASSWORD in repr(event) for event in events)


def test_the_example_of_the_docs_makes_a_store() -> None:
    assert isinstance(page.run(*page.blocks("PostgreSQL"))["store"], PostgresStore)
