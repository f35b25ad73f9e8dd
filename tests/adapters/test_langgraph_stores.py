"""Records in any LangGraph `BaseStore`."""

from pathlib import Path
from typing import Any

import pytest
from compaction_adapters.langgraph import BaseStoreRecordStore
from langgraph.store.memory import InMemoryStore

from compaction_hooks.testing import check_store
from tests.stores.kills import check_kills
from tests.stores.opened import open_store
from tests.stores.stage import check_two_workers
from tests.stores.test_stores_damaged import check

sqlite_store = pytest.importorskip("langgraph.store.sqlite", reason="needs langgraph-checkpoint-sqlite")


class FindsByBeginning(InMemoryStore):
    """Finds namespaces by the beginning of their text, in any case of letters, as stores on SQL's LIKE did."""

    def search(self, namespace_prefix: tuple[str, ...], /, **options: Any) -> Any:
        wanted, limit, offset = ".".join(namespace_prefix).lower(), options["limit"], options["offset"]
        namespaces = self.list_namespaces(limit=10_000)
        items = [item for one in namespaces for item in super(InMemoryStore, self).search(one, limit=10_000)]
        found = [item for item in items if ".".join(item.namespace).lower().startswith(wanted)]
        return found[offset : offset + limit]


@pytest.mark.full
async def test_a_store_in_a_file_that_is_opened_again_keeps_the_contract(tmp_path: Path) -> None:
    await check_store(lambda: open_store("langgraph sqlite", str(tmp_path / "store.db")))


async def test_every_kind_of_store_keeps_the_contract() -> None:
    for store in (InMemoryStore(), FindsByBeginning()):
        await check_store(lambda store=store: BaseStoreRecordStore(store))  # type: ignore[misc]
    aio = pytest.importorskip("langgraph.store.sqlite.aio")
    async with aio.AsyncSqliteStore.from_conn_string(":memory:") as connected:
        await connected.setup()
        await check_store(lambda: BaseStoreRecordStore(connected))


def test_an_item_that_cannot_be_read_hides_no_record() -> None:
    store = InMemoryStore()
    namespace = ("compaction_records", "session default")
    check(BaseStoreRecordStore(store), lambda: store.put(namespace, "odd", {"text": "no record"}))


def test_other_items_of_the_store_are_left_alone() -> None:
    store = InMemoryStore()
    store.put(("compaction_records",), "mine", {"text": "mine"})
    store.put(("compaction_records", "session a", "deeper"), "mine", {"text": "mine"})
    records = BaseStoreRecordStore(store)
    records.append("a", "r1", "{}")
    assert records.load("a") == ["{}"]
    store.put(("compaction_records", "session"), "mine", {"text": "mine"})
    assert records.session_ids() == ["a"]
    store.delete(("compaction_records", "session"), "mine")
    records.remove("a", "r1")
    assert [item.value for item in store.search(("compaction_records",))] == [{"text": "mine"}] * 2


def test_records_are_under_the_given_namespace() -> None:
    store = InMemoryStore()
    BaseStoreRecordStore(store, ("team", "records")).append("a.b", "r1", "{}")
    assert store.list_namespaces() == [("team", "records", "session a%2Eb")]
    assert BaseStoreRecordStore(store).load("a.b") == []


def test_more_conversations_than_one_request_returns_are_listed() -> None:
    records = BaseStoreRecordStore(InMemoryStore())
    ids = [f"user-{number:03}" for number in range(250)]
    for id in ids:
        records.append(id, "r1", "{}")
    assert records.session_ids("user-") == ids


@pytest.mark.full
def test_two_workers_and_a_killed_process_lose_no_record(tmp_path: Path) -> None:
    for name in ("workers", "kills"):
        open_store("langgraph sqlite", str(tmp_path / name))
    check_two_workers("langgraph sqlite", str(tmp_path / "workers"))
    assert check_kills("langgraph sqlite", str(tmp_path / "kills"), 3).rounds == 3
