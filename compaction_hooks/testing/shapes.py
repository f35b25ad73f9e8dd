"""A wrapper of a format that checks the types of its return values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Generic, TypeVar, cast, get_args

from compaction_hooks.messages import (
    Media,
    Message,
    MessageFormat,
    NativeSummary,
    Opaque,
    PartAddress,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

M = TypeVar("M")

_OPAQUE: Final = ("kind", "text", "call_id", "name", "content")
_TEXTS: Final[Mapping[type, tuple[str, ...]]] = {
    Text: ("text",),
    Thinking: ("text",),
    Media: ("media_type", "identity"),
    ToolCall: ("id", "name", "arguments"),
    ToolResult: ("call_id", "text", "name"),
    Opaque: _OPAQUE,
    NativeSummary: _OPAQUE,
}
"""The kinds of parts, and their fields of type str."""


class Watched(Generic[M]):
    """Wrapper of a format that checks return values at once, so that an error names the method.

    Attributes:
        where: The sample being read, for error texts.

    Every method raises AssertionError if the format's own method raises or returns a wrong type.
    """

    def __init__(self, message_format: MessageFormat[M]) -> None:
        self._format = message_format
        self.name = message_format.name
        self.where = ""

    def read(self, message: M, /) -> Sequence[Message]:
        pieces = self._call("read", message)
        what = f"{self.where}: read()"
        if not isinstance(pieces, (list, tuple)):
            raise AssertionError(f"{what} must give a sequence of Message (a list or a tuple), not {_kind(pieces)}")
        for piece in cast("Sequence[object]", pieces):
            _check_piece(piece, what)
        return cast("Sequence[Message]", pieces)

    def take(self, message: M, pieces: Sequence[int], /) -> M:
        return cast("M", self._call("take", message, pieces))

    def rewrite(self, message: M, texts: Mapping[PartAddress, str], /) -> M:
        return cast("M", self._call("rewrite", message, texts))

    def summary(self, text: str, /) -> M:
        return self._call_for_text("summary", text)

    def request(self, text: str, /) -> M:
        return self._call_for_text("request", text)

    def answer(self, message: M, call: PartAddress, text: str, /) -> M:
        return cast("M", self._call("answer", message, call, text))

    def drop(self, message: M, parts: Collection[PartAddress], /) -> M:
        return cast("M", self._call("drop", message, parts))

    def rename(self, message: M, ids: Mapping[PartAddress, str], /) -> M:
        return cast("M", self._call("rename", message, ids))

    def _call_for_text(self, method: str, text: str) -> M:
        self.where = f"{method}({text!r}) must give a message of your framework that read() takes"
        return cast("M", self._call(method, text))

    def _call(self, method: str, *arguments: object) -> object:
        try:
            return cast("object", getattr(self._format, method)(*arguments))
        except Exception as error:
            raise AssertionError(f"{self.where}: {method}() raised {type(error).__name__}: {error}") from error


def _kind(value: object) -> str:
    return type(value).__name__


def _check_piece(piece: object, what: str) -> None:
    if not isinstance(piece, Message):
        raise AssertionError(f"{what} must give pieces of type Message, not {_kind(piece)}")
    if piece.role not in get_args(Role):
        raise AssertionError(f"{what} gave the role {piece.role!r}: it must be one of {', '.join(get_args(Role))}")
    _check_parts(piece.parts, what, "Message.parts", tuple(_TEXTS))


def _check_parts(parts: object, what: str, name: str, kinds: tuple[type, ...]) -> None:
    if not isinstance(parts, tuple):
        raise AssertionError(f"{what}: {name} must be a tuple of parts, not {_kind(parts)}")

    for part in cast("tuple[object, ...]", parts):
        if not isinstance(part, kinds):
            names = ", ".join(kind.__name__ for kind in kinds)
            raise AssertionError(f"{what}: {name} must hold {names}, not {_kind(part)}")
        for field in _TEXTS[type(part)]:
            value = cast("object", getattr(part, field))
            if not isinstance(value, str):
                raise AssertionError(f"{what}: {_kind(part)}.{field} must be a str, not {_kind(value)}")
        if isinstance(part, ToolResult):
            _check_parts(part.media, what, "ToolResult.media", (Media,))
