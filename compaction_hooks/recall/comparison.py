"""The difference between a list and its view, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from typing import Any, NamedTuple, cast

from compaction_hooks.formats import OpenAIChatFormat, format_of
from compaction_hooks.messages import M, Media, Message, MessageFormat, Opaque, Text, ToolCall, ToolResult
from compaction_hooks.view.texts import quote_call

LINE_CHARS = 100
"""The most characters of a part in its line."""
KEY_CHARS = 40
"""The characters at the beginning of a text by which its shortened form is known."""

_KINDS = {"-": "left out", "~": "shortened", "+": "added", " ": "kept"}


class _Part(NamedTuple):
    """A part of a message.

    Attributes:
        key: The same in its shortened form.
        name: Names its speaker, and its call.
    """

    key: tuple[str, ...]
    name: str
    text: str


def diff(messages: Sequence[M], view: Sequence[M], *, format: MessageFormat[Any] | None = None) -> str:
    """Return the difference between a list and its view, for people to read; empty if there is none. Neither is changed.

    The first line counts the parts of messages. Then each part has a line with its beginning and its size in characters, behind "-"
    if it is left out, "~" if it is shortened, and a space if it is kept; of many that are kept only the first and the last. A part
    that only the view has, such as the summary, is shown whole behind "+".

    Args:
        format: The format of the messages; None: found by their parts, among those of `compaction_hooks.formats`.

    Raises:
        FormatError: a message cannot be read.
    """
    chosen = cast("MessageFormat[M]", format or format_of(messages) or OpenAIChatFormat())  # it reads these messages
    before, after = (
        [part for message in listed for piece in chosen.read(message) for part in _read_parts(piece)]
        for listed in (messages, view)
    )

    marked = [*_compare(before, after)]
    counts = Counter(mark for mark, _ in marked)
    if len(counts) < 2:
        return ""

    total = ", ".join(f"{counts[mark]:,} {kind}" for mark, kind in _KINDS.items())
    return "\n".join([f"Parts of messages: {total}", *_show(marked)])


def _read_parts(message: Message) -> Iterator[_Part]:
    for part in message.parts:
        match part:
            case ToolCall(id=call_id, name=name, arguments=arguments):
                yield _Part(("call", call_id, name), f"{message.role} calls {quote_call(part)}", arguments)
            case ToolResult(call_id=call_id, text=text):
                yield _Part(("result", call_id), message.role, text)
            case Text(text=text) | Opaque(text=text):
                yield _Part((message.role, text[:KEY_CHARS]), message.role, text)
            case Media(media_type=media_type):
                yield _Part((message.role, media_type), message.role, f"[{media_type}]")
            case _:
                pass


def _compare(before: Sequence[_Part], after: Sequence[_Part]) -> Iterator[tuple[str, str]]:
    """Yield each part with the mark of its kind."""
    matcher = SequenceMatcher(None, [part.key for part in before], [part.key for part in after])

    for kind, first, end, start, stop in matcher.get_opcodes():
        if kind == "equal":
            for part, shown in zip(before[first:end], after[start:stop], strict=True):
                if part.text == shown.text:
                    yield " ", _line(part)
                else:
                    yield "~", _line(part, f"{len(part.text):,} -> {len(shown.text):,}")
        else:
            yield from (("-", _line(part)) for part in before[first:end])
            yield from (("+", f"{part.name}: {part.text}") for part in after[start:stop])


def _line(part: _Part, size: str = "") -> str:
    """Return the beginning of a part in one line, with its size if it is longer or the size is given."""
    start = " ".join(part.text[: 2 * LINE_CHARS].split())[:LINE_CHARS]
    is_whole = len(part.text) <= len(start)
    line = part.name if part.key[0] == "call" else f"{part.name}: {start}{'' if is_whole else '…'}"
    return line if is_whole and not size else f"{line} ({size or f'{len(part.text):,}'} characters)"


def _show(shown: Sequence[tuple[str, str]]) -> Iterator[str]:
    for mark, group in groupby(shown, key=lambda each: each[0]):
        texts = [text for _, text in group]
        if mark == " " and len(texts) > 3:
            texts[1:-1] = [f"({len(texts) - 2:,} more)"]
        yield from (f"{mark} {line}".rstrip() for text in texts for line in text.splitlines())
