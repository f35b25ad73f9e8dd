"""The contract of a store, and a smaller one for key-value stores."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from typing import Protocol


class RecordStore(Protocol):
    """Keeps compaction records. Each method may be sync or async. Errors never fail the agent; they are reported as events.

    Several workers may use one store at once. None of them changes a record, so a store needs no lock across calls: it must only
    never lose or tear an appended record.
    """

    def load(self, session_id: str, /) -> Sequence[str] | Awaitable[Sequence[str]]:
        """Return the session's records as JSON texts, in any order; empty for an unknown session."""
        ...

    def append(self, session_id: str, record_id: str, record: str, /) -> Awaitable[None] | None:
        """Add a record, which is ASCII text; does nothing when the session already has one with this id."""
        ...

    def remove(self, session_id: str, record_id: str, /) -> Awaitable[None] | None:
        """Take a record out; does nothing when there is none with this id."""
        ...


class KeyValue(Protocol):
    """A store of texts under two keys: a folder for each conversation, a name for each record in it.

    A hash, a table with two key columns, a partition key and a sort key; if keys are flat, `f"{folder}/{name}"`. Each method
    may be sync or async, and each is one atomic step. Keys are safe to use as they are: after the prefix given to
    `KeyValueStore` they hold ASCII letters, digits and `_-%`, at least one and at most 150.
    """

    def values(self, folder: str, /) -> Iterable[str | bytes] | Awaitable[Iterable[str | bytes]]:
        """Return all values of a folder in any order, as they were added or as UTF-8; none for an unknown folder."""
        ...

    def add(self, folder: str, name: str, value: str, /) -> object:
        """Keep a value, ASCII text, unless the folder has one under this name already. The returned or awaited value is ignored."""
        ...

    def delete(self, folder: str, name: str, /) -> object:
        """Remove a value if it is there. The returned or awaited value is ignored."""
        ...
