"""Channels for the adapters' own use, in graphs of LangGraph and agents of LangChain. Needs LangGraph, which both have.

LangGraph puts each channel that has a value into every `values` event and into the values of `get_state`, whichever schema
declares it. A channel here tells LangGraph that it has none; `Task.held` reads it from within a task.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, TypeVar, cast

from langgraph.channels.base import BaseChannel  # pyright: ignore[reportMissingTypeStubs]
from langgraph.errors import EmptyChannelError  # pyright: ignore[reportMissingTypeStubs]

from compaction_adapters.langchain_core.records import Records, union_records

V = TypeVar("V")


class HiddenChannel(BaseChannel[V, V, V]):
    """The value last written, neither shown nor checkpointed."""

    __slots__ = ("held",)

    def __init__(self, typ: Any, key: str = "") -> None:
        super().__init__(typ, key)
        self.held: V | None = None

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    @property
    def ValueType(self) -> Any:  # noqa: N802 - LangGraph's name
        """The type of the value."""
        return self.typ

    @property
    def UpdateType(self) -> Any:  # noqa: N802 - LangGraph's name
        """The type of what is written."""
        return self.typ

    def copy(self) -> Self:
        """Return a channel with the same value."""
        made = type(self)(self.typ, self.key)
        made.held = self.held
        return made

    def from_checkpoint(self, checkpoint: Any) -> Self:  # noqa: ARG002 - the signature is LangGraph's
        """Return an empty channel."""
        return type(self)(self.typ, self.key)

    def get(self) -> V:
        """Raise: to LangGraph the channel is empty."""
        raise EmptyChannelError

    def is_available(self) -> bool:
        """Return False, as `get` has it."""
        return False

    def update(self, values: Sequence[V]) -> bool:
        """Take the last of several values; return whether there was one."""
        if values:
            self.held = values[-1]
        return bool(values)


class RecordsChannel(HiddenChannel[Records]):
    """The records of a thread: checkpointed, and joined by `union_records`."""

    __slots__ = ()

    def checkpoint(self) -> Any:
        """Return the records, or LangGraph's sign that there are none."""
        return super().checkpoint() if self.held is None else self.held

    def from_checkpoint(self, checkpoint: Any) -> Self:
        """Return a channel with the records of a checkpoint."""
        made = super().from_checkpoint(checkpoint)
        made.held = cast("Records", checkpoint) if isinstance(checkpoint, list) else None
        return made

    def update(self, values: Sequence[Records]) -> bool:
        """Add records, and remove those said to be undone; return whether there was anything to do."""
        for value in values:
            self.held = union_records(self.held, value)
        return bool(values)
