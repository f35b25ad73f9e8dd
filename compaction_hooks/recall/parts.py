"""The parts of a conversation that a view leaves out or shortens."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from compaction_hooks.history import History
from compaction_hooks.history.digests import text_digest
from compaction_hooks.history.history import texts_of
from compaction_hooks.messages import M, Message, Opaque, Role, ToolCall, Value
from compaction_hooks.tokens.estimator import find_media
from compaction_hooks.view.parts import Reducible, RunHandles, by_name, list_parts, run_texts
from compaction_hooks.view.references import View
from compaction_hooks.view.texts import RECALL_TOOL, quote_call

CoveredKind: TypeAlias = Literal["text", "arguments", "result", "media", "block"]
"""A kind of part that a view leaves out; `arguments` are those of a tool call."""

MOST_LINE_CHARS = 400
"""A longer line is read as several, so that a short passage can show any part of it: minified JSON is one line of megabytes."""

_CUT_LINE = re.compile(
    r"\w{N}|"  # data
    r".{1,N}(?:(?=[\s\"'`<>(){}\[\],;=|\\])(?<!\\)|(?<=[\s\"'`<>(){}\[\],;=|])|\Z)|"  # not behind the backslash of an escape
    r".{1,N}(?:(?!\w)(?<!\\)|(?<![\w\\]))|"  # between the words of a name
    r".{1,N}".replace("N", str(MOST_LINE_CHARS))
)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CoveredPart(Value):
    """A part of a conversation that the view leaves out or shortens.

    Attributes:
        handle: Its name: the same in every process and framework, and after later compactions.
        kind: "text" (all that one side said in a row), "arguments" of a call, "result" of a call, "media", or "block" (of a tool
            that the provider ran).
        role: The speaker.
        text: Its full text; of media, their types and names.
        message: Index of its message in the host's list; of a text, of the first one.
        call: The call whose arguments or result it is, or None.
        is_shortened: Whether the view still shows its ends, or a marker in its place.
    """

    handle: str
    kind: CoveredKind
    role: Role
    text: str = field(repr=False)
    message: int
    call: ToolCall | None = field(default=None, repr=False)
    is_shortened: bool = False

    @property
    def source(self) -> str:
        """A short name for readers: the call in one line, escaped, or the speaker."""
        if self.kind == "arguments":
            return f"the arguments of {quote_call(self.call)}" if self.call else "arguments"
        if self.call is not None:
            return quote_call(self.call)
        return {"user": "the user", "assistant": "the assistant"}.get(self.role, "a tool")

    @property
    def lines(self) -> list[str]:
        """Its lines; a line of more than `MOST_LINE_CHARS` characters as several, cut between names or words."""
        return self.lines_of(len(self.text))

    def lines_of(self, most_chars: int) -> list[str]:
        """Return the lines of its first characters."""
        lines = self.text[:most_chars].split("\n")
        return [
            part for line in lines for part in ([line] if len(line) <= MOST_LINE_CHARS else _CUT_LINE.findall(line))
        ]


def list_covered(history: History[M], view: View[M]) -> Iterator[CoveredPart]:
    """Yield the parts that a view of this history leaves out or shortens, in order.

    A part that the list itself has only in a shortened form, because the host stored a view, is not among them: its text is not
    there. Neither is reasoning.
    """
    covered_runs = history.run_of(view.cut - 1) + 1 if view.cut else 0
    reduced = by_name(view.reductions)
    yield from _read_head(history, view)

    for run in sorted({*range(history.runs_before_list, covered_runs), *(run for _, run, *_ in reduced)}):
        hidden = {piece for piece in history.run_pieces(run) if piece < view.cut}.difference(view.pinned)
        handles = RunHandles(history, run)
        parts: dict[str, CoveredPart] = {}

        for part in list_parts(history, [run]):
            is_hidden = part.piece in hidden
            is_reduced = not is_hidden and part.name in reduced
            if (is_hidden or is_reduced) and not is_own_text(history, part):
                covered = _read_part(history, part, handles.find(part), is_shortened=is_reduced)
                if covered.text:
                    parts.setdefault(covered.handle, covered)

        yield from parts.values()
        yield from _read_blocks(history, handles, hidden)


def _read_head(history: History[M], view: View[M]) -> Iterator[CoveredPart]:
    """Yield the hidden pins of a stored view, which are in no run of the list."""
    end = min(view.cut, history.run_start(history.runs_before_list))
    handles = RunHandles(history, history.runs_before_list)
    for index in sorted({*range(end)}.difference(view.pinned, history.systems(), [history.summary_piece])):
        piece = history.piece(index)
        text = "\n".join(texts_of([piece.message]))
        handle = handles.add("text", text_digest(text))
        yield CoveredPart(handle=handle, kind="text", role=piece.message.role, text=text, message=piece.host)


def known_texts(view: Sequence[Message]) -> Iterator[str]:
    """Yield the texts of a view that the model has without asking: not its newest answer, nor its calls of the recall tool.

    The host's list has them by the time that the tool runs, but a word is not known because the model asks for it.
    """
    end = next((index for index in reversed(range(len(view))) if view[index].role != "assistant"), -1) + 1
    for message in view[:end]:
        parts = (part for part in message.parts if not (isinstance(part, ToolCall) and part.name == RECALL_TOOL))
        yield from texts_of([replace(message, parts=tuple(parts))])


def _read_part(history: History[M], part: Reducible, handle: str, *, is_shortened: bool) -> CoveredPart:
    piece, text = history.piece(part.piece), part.text
    if part.kind == "text":
        text = "\n".join(run_texts(map(history.piece, history.run_pieces(part.run))))
    elif part.kind == "media":
        text = "\n".join(f"{media.media_type} {media.name or media.identity}" for media in find_media(part.content))

    return CoveredPart(
        handle=handle,
        kind=part.kind,
        role=piece.message.role,
        text=text,
        message=piece.host,
        call=part.call,
        is_shortened=is_shortened,
    )


def is_own_text(history: History[M], part: Reducible) -> bool:
    """Return whether the list has only our shortened form of a part."""
    if part.kind == "media":
        return False
    name = part.name
    # The same digest: only the escapes of JSON were shortened, and nothing is left out.
    return history.own_texts.originals.get(name, name[-1]) != name[-1]


def _read_blocks(history: History[M], handles: RunHandles, hidden: Set[int]) -> Iterator[CoveredPart]:
    """Yield the readable content of all hidden blocks of a run, as one part."""
    held = [
        (history.piece(index), part.content)
        for index in sorted(hidden)
        for part in history.piece(index).message.parts
        if isinstance(part, Opaque) and part.content
    ]

    if held:
        first, text = held[0][0], "\n".join(content for _, content in held)
        handle = handles.add("block", text_digest(text))
        yield CoveredPart(handle=handle, kind="block", role=first.message.role, text=text, message=first.host)
