"""The common base of the formats whose messages are lists of blocks, results of tools among the user's words."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import ClassVar

from compaction_hooks.formats._dict_format import DictFormat, Located, call_at, check_pieces, part_at, without_items
from compaction_hooks.formats._json import Fields, fields_of, list_of, message_fields
from compaction_hooks.formats._reading import ROLES, build_message, content_blocks
from compaction_hooks.messages import (
    Media,
    Message,
    Part,
    PartAddress,
    Role,
    Text,
    ToolCall,
    ToolResult,
)


class BlockFormat(DictFormat):
    """Base of the formats in which each block is one part, or a cache mark, which is none.

    A user message that mixes tool results with text or images has one piece for each group of adjacent results ("tool") and one
    for each group of other blocks ("user"), in their order.
    """

    _subject: ClassVar[str]
    _answering_role: ClassVar[str] = "assistant"

    def read(self, message: Fields, /) -> tuple[Message, ...]:
        """Read one message; at least one piece.

        Raises:
            FormatError: the role is missing, the content is not of this format's type, or a part is of another format.
        """
        fields = message_fields(message)
        role = self._role(fields)
        pieces = self._pieces(fields, role)
        return tuple(
            [build_message(_speaker(role, piece), tuple([each.part for each in piece]), fields) for piece in pieces]
        )

    def _role(self, fields: Fields) -> Role:
        """Return the role of a message.

        Raises:
            FormatError: it has none, or the message is one of OpenAI chat.
        """
        role = fields.get("role")
        if not isinstance(role, str):
            raise self._unreadable(fields, f'{self._subject} needs "role": user or assistant')
        self._refuse_chat_message(fields)
        return ROLES.get(role, "other")

    @abstractmethod
    def _read_block(self, block: object, role: Role) -> Part | None:
        """Read a block; None for a cache mark."""

    @abstractmethod
    def _rewrite_block(self, block: Fields, part: Text | Media | ToolCall | ToolResult, text: str) -> object:
        """Return a block with another text."""

    @abstractmethod
    def _rename_block(self, block: Fields, id_: str) -> Fields:
        """Return a tool call or a result with another id."""

    @abstractmethod
    def _failure(self, call: ToolCall, text: str) -> Fields:
        """Return the block of a failed result of a tool call."""

    def _pieces(self, fields: Fields, role: Role) -> list[list[Located]]:
        """Return the parts of each piece of a message."""
        content = fields.get(self._content)
        if isinstance(content, str):
            return [[Located(0, Text(content))] if content else []]

        blocks = () if content is None else content_blocks(content)
        read = ((at, self._read_block(block, role)) for at, block in enumerate(blocks))
        located = [Located(at, part) for at, part in read if part is not None]
        if role != "user":
            return [located]
        return [list(group) for _, group in groupby(located, lambda one: isinstance(one.part, ToolResult))] or [[]]

    def answer(self, message: Fields, call: PartAddress, text: str, /) -> Fields:
        """Return a user message with a failed result of this tool call.

        Raises:
            ConfigurationError: the address names no tool call.
        """
        return {"role": "user", self._content: [self._failure(call_at(self.read(message), call), text)]}

    def take(self, message: Fields, pieces: Sequence[int], /) -> Fields:
        """Return a message with the blocks of these pieces; the message itself if these are all pieces."""
        fields = message_fields(message)
        found = self._pieces(fields, self._role(fields))
        check_pieces(pieces, len(found))
        if len(pieces) == len(found):
            return message

        # A cache mark belongs to the blocks before it.
        blocks = content_blocks(fields.get(self._content))
        starts = [0, *(piece[0].at for piece in found[1:]), len(blocks)]
        return {**fields, self._content: [block for i in pieces for block in blocks[starts[i] : starts[i + 1]]]}

    def _changes(self, fields: Fields, pieces: Sequence[Message], address: PartAddress, text: str) -> Fields:
        part, content = part_at(pieces, address), fields.get(self._content)
        if isinstance(content, str):
            return {self._content: text}
        blocks, at = list(content_blocks(content)), self._index(fields, address)
        block = fields_of(blocks[at])
        blocks[at] = text if block is None else self._rewrite_block(block, part, text)
        return {self._content: blocks}

    def drop(self, message: Fields, parts: Collection[PartAddress], /) -> Fields:
        """Return a copy without these blocks; the other blocks are the same objects."""
        fields = message_fields(message)
        pieces = self._pieces(fields, self._role(fields))
        gone = {located.at for piece, part in parts for located in pieces[piece][part : part + 1]}
        kept = {located.at for piece in pieces for located in piece} - gone

        for at in range(len(list_of(fields.get(self._content)) or ())):
            if at - 1 in gone and at not in kept:
                gone.add(at)  # a cache mark belongs to the blocks before it
        return {**fields, self._content: without_items(fields.get(self._content), gone)}

    def rename(self, message: Fields, ids: Mapping[PartAddress, str], /) -> Fields:
        """Return a copy with these ids in the addressed tool calls and results; the other blocks are the same objects."""
        fields = message_fields(message)
        blocks = list(content_blocks(fields.get(self._content)))
        for address, id_ in ids.items():
            at = self._index(fields, address)
            blocks[at] = self._rename_block(fields_of(blocks[at]) or {}, id_)
        return {**fields, self._content: blocks}

    def _index(self, fields: Fields, address: PartAddress) -> int:
        piece, part = address
        return self._pieces(fields, self._role(fields))[piece][part].at


def _speaker(role: Role, piece: Sequence[Located]) -> Role:
    is_result = role == "user" and any(isinstance(located.part, ToolResult) for located in piece)
    return "tool" if is_result else role
