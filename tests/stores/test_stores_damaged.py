"""One value in a store that cannot be read: the good records next to it hold, and it is reported once."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compaction_hooks import StoreFailed
from compaction_hooks.events import CompactionEvent
from compaction_hooks.stores import KeyValueStore, RecordStore, SQLiteStore
from tests.conversations import Scripted, controller, system, talk, texts

MESSAGES = [system(), *talk(20)]
DAMAGED = {
    "bytes that are no UTF-8": b'{"id": "\xff"}',
    "half a record": '{"id": "a',
    "another type": 5,
    "no value": None,
    "a table": {"id": "a"},
}


class Folders:
    """A key-value store whose values anybody may have written."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, Any]] = {}

    def values(self, folder: str) -> list[Any]:
        return [*self.kept.get(folder, {}).values()]

    def add(self, folder: str, name: str, value: str) -> None:
        self.kept.setdefault(folder, {}).setdefault(name, value)

    def delete(self, folder: str, name: str) -> None:
        self.kept.get(folder, {}).pop(name, None)


def check(store: RecordStore, damage: Callable[[], object]) -> None:
    """A record is stored, something next to it is damaged, and a new process goes on with the record."""
    controller(100_000, summarizer=Scripted("- kept"), store=store).compact_sync(MESSAGES, keep_recent_tokens=300)
    damage()
    events: list[CompactionEvent] = []
    hooks = controller(100_000, store=store, events=events)
    for _ in range(2):
        assert "- kept" in texts(hooks.transform_context_sync(MESSAGES))
        hooks.load_sync()
    assert [event.action for event in events if isinstance(event, StoreFailed)] == ["read"]


@pytest.mark.parametrize("value", DAMAGED.values(), ids=DAMAGED)
def test_in_a_key_value_store(value: object) -> None:
    folders = Folders()
    check(KeyValueStore(folders), lambda: folders.kept["compaction_records:default"].update(odd=value))


@pytest.mark.parametrize("value", ["CAST(x'7bff7d' AS TEXT)", "x'7bff7d'", "'{'"])
def test_in_sqlite(tmp_path: Path, value: str) -> None:
    path = tmp_path / "records.db"

    def damage() -> None:
        with sqlite3.connect(path) as connection:
            connection.execute(
                f"INSERT INTO compaction_records (session_id, record_id, record) VALUES ('default', 'odd', {value})"
            )
        connection.close()

    check(SQLiteStore(path), damage)


def test_a_record_that_is_damaged_in_the_store_stays_in_the_session_that_has_it() -> None:
    store = KeyValueStore(folders := Folders())
    hooks = controller(100_000, summarizer=Scripted("- kept"), store=store)
    hooks.compact_sync(MESSAGES, keep_recent_tokens=300)
    folder = folders.kept["compaction_records:default"]
    folder.update(dict.fromkeys(folder, "{"))
    result = hooks.compact_sync([*MESSAGES, *talk(8, 60, first=20)], keep_recent_tokens=300)
    assert result.record is not None
    assert result.record.compaction_count == 2
