"""Channels for the adapters' own use, in graphs of LangGraph and agents of LangChain. Needs LangGraph, which both have.

LangGraph puts each channel that has a value into every `values` event and into the values of `get_state`, whichever schema
declares it. The channels here report to LangGraph that they are empty; `Task.read_hidden` returns their values within a task.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from langgraph.channels import AnyValue  # pyright: ignore[reportMissingTypeStubs]
from langgraph.errors import EmptyChannelError  # pyright: ignore[reportMissingTypeStubs]

from compaction_adapters.langchain_core.records import Records, union_records

V = TypeVar("V")


class HiddenChannel(AnyValue[V]):
    """A channel for the last value written, which is neither shown nor checkpointed."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    @property
    def hidden_value(self) -> V | None:
        """The value; None without one."""
        return self.value if super().is_available() else None

    def get(self) -> V:
        """Raise EmptyChannelError: LangGraph sees an empty channel."""
        raise EmptyChannelError

    def is_available(self) -> bool:
        """Return False: LangGraph sees an empty channel."""
        return False

    def update(self, values: Sequence[V]) -> bool:
        """Store the last of several values; return whether there was one."""
        return bool(values) and super().update(values)

    def checkpoint(self) -> Any:
        """Return LangGraph's mark for no value."""
        return type(self)(self.typ, self.key).value


class RecordsChannel(HiddenChannel[Records]):
    """A channel for the records of a thread, checkpointed, and joined by `union_records`."""

    __slots__ = ()

    def checkpoint(self) -> Any:
        """Return the records, or LangGraph's mark for no value."""
        return self.value

    def update(self, values: Sequence[Records]) -> bool:
        """Add records, and remove those marked as undone; return whether there were any values."""
        for value in values:
            self.value = union_records(self.hidden_value, value)
        return bool(values)
