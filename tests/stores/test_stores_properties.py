"""Whatever is appended and removed, a store holds what a dict would."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hypothesis")

from hypothesis import given
from hypothesis import strategies as st

from compaction_hooks.stores import KeyValueStore, MemoryStore, SQLiteStore
from tests.strategies import examples

ids = st.one_of(
    st.sampled_from(["a", "A", "a/b", "a%2Fb", "", "x" * 500]), st.text(max_size=20), st.text("x~.%-/", max_size=200)
)
steps = st.lists(st.tuples(st.sampled_from(["append", "remove"]), ids, ids, st.text(max_size=30)), max_size=30)


class Flat:
    """A key-value store with one dict and joined keys."""

    def __init__(self) -> None:
        self._entries: dict[str, str] = {}

    def values(self, folder: str) -> list[str]:
        return [value for key, value in self._entries.items() if key.startswith(f"{folder}/")]

    def add(self, folder: str, name: str, value: str) -> None:
        self._entries.setdefault(f"{folder}/{name}", value)

    def delete(self, folder: str, name: str) -> None:
        self._entries.pop(f"{folder}/{name}", None)


@given(steps)
@examples(60)
def test_every_store_holds_the_records_that_a_dict_would(script: list[tuple[str, str, str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder, SQLiteStore(Path(folder) / "records.db") as sqlite:
        stores: list[Any] = [MemoryStore(), KeyValueStore(Flat()), sqlite]
        wanted: dict[str, dict[str, str]] = {}
        for action, session, name, text in script:
            record = json.dumps(text)
            for store in stores:
                store.append(session, name, record) if action == "append" else store.remove(session, name)
            if action == "append":
                wanted.setdefault(session, {}).setdefault(name, record)
            else:
                wanted.get(session, {}).pop(name, None)
        for session in {session for _, session, _, _ in script}:
            for store in stores:
                assert sorted(store.load(session)) == sorted(wanted.get(session, {}).values())
