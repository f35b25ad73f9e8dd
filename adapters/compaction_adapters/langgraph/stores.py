"""Records in a LangGraph `BaseStore`, which outlives threads and can be shared by many processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from langgraph.store.base import BaseStore

from compaction_hooks.stores import KeyValueStore, is_tombstone

_PAGE: Final = 100
"""Number of records, or of conversations, in one request."""


class BaseStoreRecordStore(KeyValueStore):
    """Keeps compaction records in a store such as `InMemoryStore` or `PostgresStore`: `CompactionNode(store=...)`.

    Its methods are sync; an async controller calls them in a thread, where stores with async connections take sync calls too.

    Args:
        store: The store; it may be the one of `compile(store=...)`.
        namespace: The namespace above those of the conversations.
    """

    _lists_forgotten = False

    def __init__(self, store: BaseStore, namespace: Sequence[str] = ("compaction_records",)) -> None:
        super().__init__(_Items(store, tuple(namespace)), prefix="session ")


class _Items:
    """A store's items as entries; a folder is the last label of a namespace, and must not contain a period."""

    def __init__(self, store: BaseStore, namespace: tuple[str, ...]) -> None:
        self._store = store
        self._namespace = namespace

    def values(self, folder: str) -> list[str]:
        namespace = (*self._namespace, folder)
        found: dict[str, str] = {}
        seen = 0
        while page := self._store.search(namespace, limit=_PAGE, offset=seen):
            seen += len(page)
            # Some stores also return items of namespaces whose text begins with this one.
            own = (item for item in page if tuple(item.namespace) == namespace)
            found.update((item.key, str(item.value.get("record"))) for item in own)
        return list(found.values())

    def list_folders(self, prefix: str) -> list[str]:
        depth = len(self._namespace) + 1
        found: list[str] = []
        seen = 0
        while page := self._store.list_namespaces(prefix=self._namespace, limit=_PAGE, offset=seen):
            seen += len(page)
            own = (labels for labels in page if len(labels) == depth and labels[:-1] == self._namespace)
            found += (labels[-1] for labels in own if labels[-1].startswith(prefix))
        # Some stores list namespaces that became empty, and a forgotten conversation has nothing but a tombstone.
        return [folder for folder in found if not all(map(is_tombstone, self.values(folder)))]

    def add(self, folder: str, name: str, value: str) -> None:
        namespace = (*self._namespace, folder)
        # Two processes at once write the same text: the name is a hash of the content.
        if self._store.get(namespace, name) is None:
            self._store.put(namespace, name, {"record": value}, index=False)

    def delete(self, folder: str, name: str) -> None:
        self._store.delete((*self._namespace, folder), name)
