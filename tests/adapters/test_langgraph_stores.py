"""Records in any LangGraph `BaseStore`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langgraph.graph")

from compaction_adapters.langgraph import BaseStoreRecordStore
from langgraph.store.memory import InMemoryStore

from compaction_hooks.testing import check_store
from tests.stores.kills import check_kills
from tests.stores.opened import open_store
from tests.stores.stage import check_two_workers
from tests.stores.test_stores_damaged import check

sqlite_store = pytest.importorskip("langgraph.store.sqlite", reason="needs langgraph-checkpoint-sqlite")


class FindsByBeginning(InMemoryStore):
    """Finds namespaces by the beginning of their text and takes no notice of case, as stores on SQL's LIKE did."""

    def search(self, namespace_prefix: tuple[str, ...], /, **options: Any) -> Any:
        wanted, limit, offset = ".".join(namespace_prefix).lower(), options["limit"], options["offset"]
        everything = [
            item
            for found in self.list_namespaces(limit=10_000)
            for item in super(InMemoryStore, self).search(found, limit=10_000)
        ]
        return [item for item in everything if ".".join(item.namespace).lower().startswith(wanted)][
            offset : offset + limit
        ]


@pytest.mark.parametrize("make", [InMemoryStore, FindsByBeginning])
async def test_keeps_the_contract(make: Any) -> None:
    store = make()
    await check_store(lambda: BaseStoreRecordStore(store))


async def test_keeps_the_contract_in_a_file(tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")
    await check_store(lambda: open_store("langgraph sqlite", path))


async def test_keeps_the_contract_with_async_connections() -> None:
    aio = pytest.importorskip("langgraph.store.sqlite.aio")
    async with aio.AsyncSqliteStore.from_conn_string(":memory:") as store:
        await store.setup()
        await check_store(lambda: BaseStoreRecordStore(store))


def test_an_item_that_cannot_be_read_hides_no_record() -> None:
    store = InMemoryStore()
    namespace = ("compaction_records", "session default")
    check(BaseStoreRecordStore(store), lambda: store.put(namespace, "odd", {"text": "no record"}))


def test_leaves_what_else_is_in_the_store_alone() -> None:
    store = InMemoryStore()
    store.put(("compaction_records",), "mine", {"text": "mine"})
    store.put(("compaction_records", "session a", "deeper"), "mine", {"text": "mine"})
    records = BaseStoreRecordStore(store)
    records.append("a", "r1", "{}")
    assert records.load("a") == ["{}"]
    records.remove("a", "r1")
    assert [item.value for item in store.search(("compaction_records",))] == [{"text": "mine"}] * 2


def test_stays_under_the_namespace_it_is_given() -> None:
    store = InMemoryStore()
    BaseStoreRecordStore(store, ("team", "records")).append("a.b", "r1", "{}")
    assert store.list_namespaces() == [("team", "records", "session a%2Eb")]
    assert BaseStoreRecordStore(store).load("a.b") == []


@pytest.mark.full
def test_two_workers_at_once_are_both_right_and_agree(tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")
    open_store("langgraph sqlite", path)
    check_two_workers("langgraph sqlite", path)


@pytest.mark.full
def test_a_killed_process_leaves_every_acknowledged_record(tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")
    open_store("langgraph sqlite", path)
    assert check_kills("langgraph sqlite", path, 3).rounds == 3
