"""The channel of the records, in graphs of LangGraph and agents of LangChain. Needs LangGraph, which both have.

LangGraph puts each channel that has a value into every `values` event and into the values of `get_state`, whichever schema
declares it. This one reports to LangGraph that it is empty; `Task.read_hidden` returns its value within a task.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langgraph.channels import AnyValue  # pyright: ignore[reportMissingTypeStubs]
from langgraph.errors import EmptyChannelError  # pyright: ignore[reportMissingTypeStubs]

from compaction_adapters.langchain_core.conversations import Records, union_records


class RecordsChannel(AnyValue[Records]):
    """A channel for the records of a thread, checkpointed, joined by `union_records`, and not shown."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    @property
    def hidden_value(self) -> Records | None:
        """The records; None without any."""
        return self.value if super().is_available() else None

    def get(self) -> Records:
        """Raise EmptyChannelError: LangGraph sees an empty channel."""
        raise EmptyChannelError

    def is_available(self) -> bool:
        """Return False: LangGraph sees an empty channel."""
        return False

    def checkpoint(self) -> Any:
        """Return the records, or LangGraph's mark for no value."""
        return self.value

    def update(self, values: Sequence[Records]) -> bool:
        """Add records, and remove those that were undone; return whether there were any values."""
        for value in values:
            self.value = union_records(self.hidden_value, value)
        return bool(values)
