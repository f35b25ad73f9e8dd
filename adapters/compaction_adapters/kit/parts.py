"""The writing half of a message format."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Generic, TypeAlias, TypeVar

from compaction_hooks.arguments import format_value
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.messages import Format, PartAddress, ToolCall

N = TypeVar("N")
"""The type of a framework's messages."""
P = TypeVar("P")
"""The type of a framework's parts: blocks, content items."""
V = TypeVar("V")
Pieces: TypeAlias = list[list[P | None]]
"""The parts of each piece of a message, in the order of `read`; None for a part that is left out."""


class PartsFormat(Format[N], Generic[N, P]):
    """The writing half of a format, for messages that hold lists of a framework's own parts.

    A subclass reads messages, takes a message apart and puts it together, and changes one part. The part at the address
    `(piece, number)` of `read(message)` is `pieces_of(message)[piece][number]`. Copies share all unchanged parts.
    """

    @abstractmethod
    def pieces_of(self, message: N, /) -> Pieces[P]:
        """Return the parts of each piece of a message, in new lists."""

    @abstractmethod
    def with_pieces(self, message: N, pieces: Pieces[P], /) -> N:
        """Return a copy of a message that holds these parts."""

    @abstractmethod
    def with_text(self, part: P, text: str, /) -> P:
        """Return a copy of a part with another text, result text or arguments."""

    @abstractmethod
    def with_id(self, part: P, call_id: str, /) -> P:
        """Return a copy of a call or a result with another id."""

    def rewrite(self, message: N, texts: Mapping[PartAddress, str], /) -> N:
        """Return a copy with other texts, result texts or call arguments."""
        return self._change_parts(message, texts, self.with_text)

    def rename(self, message: N, ids: Mapping[PartAddress, str], /) -> N:
        """Return a copy whose named calls and results have these ids."""
        return self._change_parts(message, ids, self.with_id)

    def drop(self, message: N, parts: Collection[PartAddress], /) -> N:
        """Return a copy without these parts."""
        return self._change_parts(message, dict.fromkeys(parts), lambda _part, _: None)

    def take(self, message: N, pieces: Sequence[int], /) -> N:
        """Return a copy with these pieces only, or the message itself if these are all its pieces."""
        own = self.pieces_of(message)
        if len(pieces) >= len(own):
            return message
        return self.with_pieces(
            message, [piece if index in pieces else [None] * len(piece) for index, piece in enumerate(own)]
        )

    def call_at(self, message: N, call: PartAddress) -> ToolCall:
        """Return the tool call at an address.

        Raises:
            ConfigurationError: the part at this address is no tool call.
        """
        part = self.read(message)[call[0]].parts[call[1]]
        if not isinstance(part, ToolCall):
            raise ConfigurationError(f"address {format_value(call)} names no tool call: take addresses from read()")
        return part

    def _change_parts(self, message: N, values: Mapping[PartAddress, V], change: Callable[[P, V], P | None]) -> N:
        if not values:
            return message

        pieces = self.pieces_of(message)
        for (piece, number), value in values.items():
            part = pieces[piece][number]
            if part is not None:
                pieces[piece][number] = change(part, value)
        return self.with_pieces(message, pieces)
