"""Messages as labelled text for a summarizer: escaped, so that no content can pose as a turn, and never above a bound.

A transcript is blocks separated by an empty line, each begun by a label: `[User]:`, `[Assistant]:`, `[Tool Call]:`,
`[Tool Result]:` (also for tools that the provider ran), `[Conversation Summary]:` (the provider's or another
system's). System messages, thinking and reminders are left out, media are named and not shown.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate, groupby, pairwise, takewhile
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from compaction_hooks.files.operations import call_arguments
from compaction_hooks.harness import is_summary_message, read_xml_calls
from compaction_hooks.messages import (
    Media,
    Message,
    NativeSummary,
    Opaque,
    Part,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from compaction_hooks.text.escaping import neutralize, remove_noise
from compaction_hooks.text.shortening import remove_blocks, shorten


class Transcript(NamedTuple):
    """Messages as labelled text, in the pieces it is joined from: most are the host's own strings, and take no memory.

    Attributes:
        pieces: The parts of the text, to be joined without a separator.
        shown_messages: Number of messages, from the oldest on, that the text shows; the others did not fit.
    """

    pieces: Sequence[str]
    shown_messages: int

    @property
    def text(self) -> str:
        """The whole text, joined anew each time."""
        return "".join(self.pieces)


class _Caps(NamedTuple):
    """The most characters one tool result or argument, and one text of a speaker, may show."""

    result_chars: int
    text_chars: int = sys.maxsize


_STEPS = (_Caps(2_000), _Caps(1_000), _Caps(500), _Caps(200, 32_000), _Caps(200, 8_000))
"""Tried in order until everything fits. pi and OpenCode cut results at 2000 characters, TunaCode and Opal at 500."""
_TIGHT = (_STEPS[-1], _Caps(200, 2_000), _Caps(100, 500), _Caps(50, 50))
"""Tried in order for a first item larger than the whole bound; of other items only the mildest: they can wait for the next part."""
_MOST_CHARS_PER_TOKEN = 32
"""Prose has about four. A text with more characters for each token of the bound cannot fit whole: it is cut before it is
escaped, because escaping takes seconds for tens of megabytes."""
_NOISE_CHARS = 50_000
"""Characters read at each end of a text in addition to those it may show, in case noise is removed; a pattern that runs over
100 MB stops every thread for seconds."""
_SEPARATOR = "\n\n"
_SEPARATOR_TOKENS = 1
"""An empty line is one token in the cl100k and o200k vocabularies."""

_Block: TypeAlias = list[str]
"""The text of one message, in pieces: for each of its turns a label, with an empty line before it, and the words."""
_USER, _ASSISTANT, _OTHER, _CALL, _RESULT, _ERROR, _SUMMARY = (
    f"{_SEPARATOR}[{name}]: "
    for name in (
        "User",
        "Assistant",
        "Other",
        "Tool Call",
        "Tool Result",
        "Tool Result (error)",
        "Conversation Summary",
    )
)
_LABELS: dict[Role, str] = {"user": _USER, "assistant": _ASSISTANT, "tool": _RESULT, "other": _OTHER}


def transcript(messages: Sequence[Message], *, max_tokens: int, estimate: Callable[[str], int]) -> Transcript:
    """Return the messages as labelled text of at most `max_tokens` tokens.

    When it would be larger, tool results and arguments are cut harder (2000, 1000, 500, 200 characters), then very long
    texts of speakers; then only the oldest messages are shown, a call always together with its results. Empty when not even
    one message fits.

    Args:
        estimate: Size of a text in tokens; the size of the empty text counts once, not for every item. It reads the same
            characters a few times at most, for any number of messages.
    """
    messages = read_xml_calls(messages)
    pieces = _whole(messages, _STEPS, max_tokens, estimate)
    return _oldest(messages, max_tokens, estimate) if pieces is None else Transcript(pieces, len(messages))


def newest(messages: Sequence[Message], *, max_tokens: int, estimate: Callable[[str], int]) -> str:
    """Return a transcript of at least half of the newest messages that fit, each cut alike; empty if not even the last one fits."""
    messages = read_xml_calls(messages)
    # What does not fit when it is cut hardest is not tried with the other caps.
    cut = (estimate("".join(_block(message, _STEPS[-1]))) for message in reversed(messages))
    fitting = sum(1 for _ in takewhile(lambda tokens: tokens <= max_tokens, accumulate(cut)))
    while len(messages) > fitting:
        messages = messages[(len(messages) + 1) // 2 :]
    return "".join(_whole(messages, _STEPS, max_tokens, estimate) or ())


def _whole(
    messages: Sequence[Message], steps: Sequence[_Caps], max_tokens: int, estimate: Callable[[str], int]
) -> _Block | None:
    """Return the text of all messages under the mildest of these caps that fits; None if none does."""
    most_chars = max(max_tokens, 1) * _MOST_CHARS_PER_TOKEN
    for step in steps:
        caps = _Caps(step.result_chars, min(step.text_chars, most_chars))
        pieces = _begin([piece for message in messages for piece in _block(message, caps)])
        # Joined for this alone: kept, it would be held in addition to the prompt.
        if sum(map(len, pieces)) <= most_chars and estimate("".join(pieces)) <= max_tokens:
            return pieces
    return None


def _begin(pieces: list[str]) -> list[str]:
    """Remove the empty line before the first of these blocks, in place, and return them all."""
    pieces[:1] = [piece.removeprefix(_SEPARATOR) for piece in pieces[:1]]
    return pieces


def _oldest(messages: Sequence[Message], max_tokens: int, estimate: Callable[[str], int]) -> Transcript:
    """Return a transcript of the oldest of these messages that fit."""
    overhead = estimate("")

    @cache
    def cost(text: str) -> int:
        return estimate(text) - overhead + _SEPARATOR_TOKENS

    # The parts are measured one by one: if their sum says too little for the whole, less is tried.
    budget = max_tokens - overhead
    while budget > 0:
        pieces, count = _fill(_groups(messages), budget, cost)
        if estimate("".join(pieces)) <= max_tokens:
            return Transcript(pieces, count)
        budget = budget * 9 // 10
    return Transcript((), 0)


def _fill(groups: Sequence[Sequence[Message]], room: int, cost: Callable[[str], int]) -> tuple[_Block, int]:
    """Return the texts of the first groups that fit the room, and the number of their messages."""
    pieces: list[str] = []
    count = 0

    for group in groups:
        block = _whole(group, _TIGHT if not pieces else _TIGHT[:1], max(room, 1), cost)
        if block is None and not pieces and len(group) > 1:  # a result can be an hour later than its call
            return _fill([[message] for message in group], room, cost)
        if block is None:
            break

        count += len(group)
        if block:
            pieces += (_SEPARATOR, *block)
            room -= cost("".join(block))
    return _begin(pieces), count


def _groups(messages: Sequence[Message]) -> list[Sequence[Message]]:
    """Return the messages in order, in groups: a cut inside a group would part a call from its result."""
    caller: dict[str, int] = {}
    ends = list(range(len(messages)))
    for index, message in enumerate(messages):
        for call in message.calls:
            caller[call.id] = index
        for result in message.results:
            ends[caller.get(result.call_id, index)] = index

    cuts = [index + 1 for index, end in enumerate(accumulate(ends, max)) if index == end]
    return [messages[start:end] for start, end in pairwise((0, *cuts))]


# -- one message

_as_json = json.JSONEncoder(ensure_ascii=False).encode


def _block(message: Message, caps: _Caps) -> _Block:
    """Return a message with its labels, each turn escaped; empty when it has nothing to show."""
    if message.role == "system":
        return []

    pieces: list[str] = []
    turns = [_label_and_text(part, message.role, caps) for part in message.parts]

    for label, group in groupby(turns, key=itemgetter(0)):
        texts = [text for _, text in group if text]
        if label is None:
            # Escaped only when joined: two adjacent texts could make one tag.
            label = _SUMMARY if is_summary_message(message) else _LABELS[message.role]
            texts = list(filter(None, [neutralize("\n".join(texts))]))
        pieces += (piece for text in texts for piece in (label, text))
    return pieces


def _label_and_text(part: Part, role: Role, caps: _Caps) -> tuple[str | None, str]:
    """Return the label and the escaped text of a part that is its own turn; or None and the speaker's words, not escaped."""
    match part:
        case ToolResult():
            return _ERROR if part.is_error else _RESULT, _result_text(part, caps)
        case ToolCall():
            return _CALL, _call_text(part, caps.result_chars)
        case NativeSummary():
            return _SUMMARY, neutralize(_readable(part.content, caps.text_chars))
        case Opaque(content=content) if content and role == "assistant":
            # A tool that the provider ran, with its query, its output or both: untrusted words, as a result is.
            name = _one_line(part.name or part.kind)
            return _RESULT, neutralize(f"{name}\n{_readable(content, caps.result_chars)}")
        case Opaque():
            return None, f"[block: {_one_line(part.kind)}]\n{_readable(part.content, caps.result_chars)}".strip()
        case Text():
            return None, _readable(part.text, caps.text_chars)
        case Media():
            return None, _placeholder(part)
        case Thinking():
            return None, ""


def _result_text(result: ToolResult, caps: _Caps) -> str:
    lines = [_readable(result.text, caps.result_chars), *map(_placeholder, result.media)]
    return neutralize("\n".join(filter(None, lines))) or "(empty)"


def _call_text(call: ToolCall, max_chars: int) -> str:
    """Return `name(key="value", ...)`, each value cut."""
    values = (f"{_one_line(key)}={_value_text(value, max_chars)}" for key, value in call_arguments(call).items())
    return neutralize(f"{_one_line(call.name)}({', '.join(values)})")


def _value_text(value: object, max_chars: int) -> str:
    if isinstance(value, str):
        return _as_json(_limit(remove_noise(value), max_chars))
    return _limit(remove_noise(_as_json(value)), max_chars)


def _placeholder(media: Media) -> str:
    """Return `[image: image/png "name.png"]`; never the URL, which may hold the data itself."""
    kind = _one_line(media.media_type)
    name = f' "{_one_line(media.name)}"' if media.name else ""
    return f"[{kind.partition('/')[0]}: {kind}{name}]"


def _one_line(name: str) -> str:
    return name if name.isidentifier() and len(name) <= 80 else " ".join(remove_noise(name).split())[:80]


# -- cutting


def _readable(text: str, max_chars: int) -> str:
    """Return the text without noise and reminders, cut. Of a text much longer than `max_chars`, only the two ends are read."""
    reach = max_chars + _NOISE_CHARS
    if len(text) <= 2 * reach:
        return _limit(_without_noise(text), max_chars)
    head, tail = _without_noise(text[:reach]), _without_noise(text[-reach:])
    head_chars, tail_chars = min(max_chars - max_chars // 2, len(head)), min(max_chars // 2, len(tail))
    return shorten(head + tail, head_chars, tail_chars, len(text) - 2 * reach)


def _without_noise(text: str) -> str:
    return remove_blocks(remove_noise(text), "system-reminder").strip()


def _limit(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else shorten(text, max_chars - max_chars // 2, max_chars // 2)
