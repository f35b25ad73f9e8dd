"""Channels for the adapters' own use, in graphs of LangGraph and agents of LangChain. Needs LangGraph, which both have.

LangGraph puts each channel that has a value into every `values` event and into the values of `get_state`, whichever schema
declares it. A channel here tells LangGraph that it has none; `Task.held` reads it from within a task.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from langgraph.channels import AnyValue  # pyright: ignore[reportMissingTypeStubs]
from langgraph.errors import EmptyChannelError  # pyright: ignore[reportMissingTypeStubs]

from compaction_adapters.langchain_core.records import Records, union_records

V = TypeVar("V")


class HiddenChannel(AnyValue[V]):
    """The value last written, neither shown nor checkpointed."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    @property
    def held(self) -> V | None:
        """The value; None without one."""
        return self.value if super().is_available() else None

    def get(self) -> V:
        """Raise: to LangGraph the channel is empty."""
        raise EmptyChannelError

    def is_available(self) -> bool:
        """Return False, as `get` has it."""
        return False

    def update(self, values: Sequence[V]) -> bool:
        """Take the last of several values; return whether there was one."""
        return bool(values) and super().update(values)

    def checkpoint(self) -> Any:
        """Return LangGraph's sign that there is no value."""
        return type(self)(self.typ, self.key).value


class RecordsChannel(HiddenChannel[Records]):
    """The records of a thread: checkpointed, and joined by `union_records`."""

    __slots__ = ()

    def checkpoint(self) -> Any:
        """Return the records, or LangGraph's sign that there are none."""
        return self.value

    def update(self, values: Sequence[Records]) -> bool:
        """Add records, and remove those said to be undone; return whether there was anything to do."""
        for value in values:
            self.value = union_records(self.held, value)
        return bool(values)
