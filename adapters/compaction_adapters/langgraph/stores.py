"""Records in a LangGraph `BaseStore`, which outlives threads and may be shared by many processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from langgraph.store.base import BaseStore, SearchItem

_PAGE: Final = 100
"""Records fetched at once. A conversation has one for each compaction."""


class BaseStoreRecordStore:
    """Keeps compaction records in a store such as `InMemoryStore` or `PostgresStore`: `CompactionNode(store=...)`.

    Its methods are sync; an async controller calls them in a thread, where stores with async connections take sync calls too.

    Args:
        store: The store; give the same one to `compile(store=...)` or not.
        namespace: Under it, each conversation has a namespace of its own.
    """

    def __init__(self, store: BaseStore, namespace: Sequence[str] = ("compaction_records",)) -> None:
        self._store = store
        self._namespace = tuple(namespace)

    def load(self, session_id: str) -> Sequence[str]:
        """Return the session's records, in the order they were appended."""
        items: list[SearchItem] = []
        while page := self._store.search(self._of(session_id), limit=_PAGE, offset=len(items)):
            items += page
        items.sort(key=lambda item: item.created_at)
        return [str(item.value["record"]) for item in items]

    def append(self, session_id: str, record_id: str, record: str) -> None:
        """Add a record at the end unless its id is there already."""
        namespace = self._of(session_id)
        if self._store.get(namespace, record_id) is None:
            self._store.put(namespace, record_id, {"record": record}, index=False)

    def remove(self, session_id: str, record_id: str) -> None:
        """Take a record out if it is there."""
        self._store.delete(self._of(session_id), record_id)

    def _of(self, session_id: str) -> tuple[str, ...]:
        # A label must not be empty and must not hold a period (langgraph.store.base, `_validate_namespace`).
        label = session_id.replace("%", "%25").replace(".", "%2E")
        return (*self._namespace, f"session {label}")
