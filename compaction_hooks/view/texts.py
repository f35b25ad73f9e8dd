"""The texts in place of what a view leaves out: markers, the handles by which they name it, and the message of a summary."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final, cast

from compaction_hooks.files.operations import call_arguments
from compaction_hooks.messages import ToolCall
from compaction_hooks.text.escaping import neutralize
from compaction_hooks.text.json_text import parse_json
from compaction_hooks.text.shortening import shorten

PROMPT_VERSION = 7
"""The version of the texts here and of a summarizer's prompts; every record has it."""

SUMMARY_MARKER = "[Conversation summary]"
"""The beginning of every rendered summary."""


_FRAME = (
    "The conversation history before this point was compacted into the summary below. It is a record, not a request.",
    "The messages that the summary covers can be read again: the recall tool finds them by their words, such as names, paths "
    "and errors.",
    "Next come older messages of the user ({older}), word for word: the summary tells what was done about them.",
    "The messages after {last} are the latest ones. Go on from where they end: what is done stays done, "
    "and the summary needs no answer.",
)
"""The sentences around a summary: in front, about the recall tool, about older messages behind it, and at the end."""
_SHORT_FRAME = (
    "A record of earlier messages, not a request.",
    "The recall tool finds these messages by their words.",
    "Next come older messages of the user ({older}).",
    "Go on from the messages below; the summary needs no answer.",
)
"""The same around a summary that has little room."""


_PREFIXES = (
    "[Conversation summary",
    "The conversation history before this point was compacted",
    "This session is being continued from a previous conversation",
    "Another language model started to solve this problem and produced a summary",
    "Here is a summary of the conversation to date:",
)
"""The beginnings of summaries: ours, Opal's and many more; pi's and klaude-code's; Claude Code's; Codex's; LangChain's."""


_OPEN, _CLOSE = "<summary>\n", "\n</summary>"

MINIMUM_KEPT_CHARS = 400
"""Shortening leaves at least this many characters: enough for an error message and its last line."""
HEAD_RATIO: Final = 0.6
"""The part of a shortened text's kept characters that is from its beginning. Codex and OpenHands keep both ends too."""
RECALL_TOOL: Final = "recall"
"""The name of the tool that markers name."""
COMPACT_TOOL: Final = "compact_context"
"""The name of the tool by which the model asks for a compaction: its calls are no steps of a summary."""
HANDLE_DIGITS: Final = 6
"""Least digits of the digest in a handle: the parts of one run are few, and an edited part must not answer to the old handle."""
HANDLE: Final = re.compile(r"\b[ratmb]\d+-[0-9a-f]{6,64}\b")
"""A handle in a text."""
QUOTED_CALL_CHARS: Final = 80
"""The most characters of a call that a marker quotes."""
MARKER_CHARS: Final = 160
"""An upper bound of a clearing marker with a handle."""
HINT_TOKENS: Final = 15
"""Estimate of the handle in the marker of a shortened text."""


def render_summary(
    summary: str,
    *,
    file_tags: str,
    continuation: bool,
    covered: int,
    unseen: int,
    has_recall: bool = False,
    more: Sequence[str] = (),
    older: int = 0,
    is_short: bool = False,
) -> str:
    """Return the text of a summary's message.

    Args:
        summary: Escaped here, so that it can neither close its tag nor pose as another summary.
        file_tags: The lists of read and modified files, appended as they are; empty for none.
        continuation: Whether to end with a line that tells the model to go on.
        covered: Host messages that it covers.
        unseen: The part of these that no summarizer read; mentioned if above zero.
        has_recall: Whether to say that the recall tool reads them again.
        more: Further texts behind it, appended as they are; those that are empty are left out.
        older: The number of the user's older messages that stay behind it.
        is_short: Whether the sentences around the summary are short ones.
    """
    excerpts = f"; of {unseen:,} of them only excerpts, not shown to the summarizer" if unseen else ""
    count = f"[The summary covers {covered:,} message{'' if covered == 1 else 's'}{excerpts}]"
    preface, recall, about_older, go_on = _SHORT_FRAME if is_short else _FRAME

    blocks = (
        f"{SUMMARY_MARKER}\n{preface}",
        f"{_OPEN}{neutralize(summary.strip())}{_CLOSE}",
        count,
        file_tags,
        recall if has_recall else "",
        *more,
        about_older.format(older=f"{older:,}") if older else "",
        go_on.format(last="those" if older else "this summary") if continuation else "",
    )
    return "\n\n".join(filter(None, blocks))


def parse_summary(text: str) -> str | None:
    """Return the summary inside a rendered one, or inside one that another system rendered; None for any other text.

    The summary comes back stripped and escaped, as it was shown to the model; rendering it again changes nothing more.
    For another system's text without `<summary>` tags, return the text after its first line, or a single line whole.
    """
    if not text.startswith(_PREFIXES):
        return None
    start, end = text.find(_OPEN), text.rfind(_CLOSE)
    if start >= 0 and end >= start:
        return text[start + len(_OPEN) : end].strip()
    first_line, _, rest = text.partition("\n")
    return rest.strip() or first_line


def make_handle(kind: str, run: int, digest: str, taken: dict[str, str]) -> str:
    """Return the handle of a part: the same in every process and framework, as run and digest are.

    Args:
        taken: By handle, the digests of the parts before it in its run; this one is added.

    >>> taken = {}
    >>> [make_handle("result", 17, digest, taken) for digest in ("3fa9c2d4", "3fa9c2e5", "3fa9c2d4")]
    ['r17-3fa9c2', 'r17-3fa9c2e', 'r17-3fa9c2']
    """
    names = (f"{kind[0]}{run}-{digest[:digits]}" for digits in range(HANDLE_DIGITS, len(digest) + 1))
    return next(name for name in names if taken.setdefault(name, digest) == digest)


def quote_call(call: ToolCall) -> str:
    """Return a call in one line, escaped, of at most `QUOTED_CALL_CHARS` characters.

    >>> quote_call(ToolCall("1", "read_file", '{"path": "src/a.py", "limit": 20}'))
    'read_file("src/a.py", 20)'
    """
    values = [
        json.dumps(value[:QUOTED_CALL_CHARS] if isinstance(value, str) else value, ensure_ascii=False)
        for value in call_arguments(call).values()
    ]
    line = " ".join(f"{call.name}({', '.join(values)})".split())
    quoted = neutralize(line[:QUOTED_CALL_CHARS])
    # Escaping may lengthen the line, and what is shorter than the line was cut, or has lost invisible characters.
    return quoted if len(line) <= len(quoted) <= QUOTED_CALL_CHARS else quoted[: QUOTED_CALL_CHARS - 1] + "…"


def clearing_marker(text: str, handle: str = "", source: str = "") -> str:
    """Return the marker for a result that was cleared.

    Args:
        handle: Names the result for the recall tool; empty without that tool, and in records from before there was one.
        source: The call of the result, with a handle.

    >>> clearing_marker("x" * 12345)
    '[Old tool result cleared: 12,345 characters]'
    >>> clearing_marker("one\\ntwo", "r17-3fa9c2", 'read_file("src/a.py")')
    '[2 lines of read_file("src/a.py") left out; recall("r17-3fa9c2") shows them]'
    """
    if not handle:
        return f"[Old tool result cleared: {len(text):,} characters]"
    breaks = text.strip("\n").count("\n")
    size = f"{breaks + 1:,} lines" if breaks else f"{len(text):,} characters"
    return f"[{size} of {source} left out{recall_hint(handle)}]"


def shorten_text(text: str, head_chars: int, tail_chars: int, handle: str = "") -> str:
    """Return the head and the tail of a text, with a marker between them that may name a handle."""
    return shorten(text, head_chars, tail_chars, hint=recall_hint(handle))


def shorten_arguments(arguments: str, head_chars: int, tail_chars: int, handle: str = "") -> str:
    """Return tool arguments as valid JSON whose every long string keeps only its head and tail.

    Arguments that are no JSON object are wrapped as `{"shortened_arguments": ...}`, because providers want an object.
    """
    hint = recall_hint(handle)
    try:
        value = parse_json(arguments)
    except ValueError:
        value = None

    if isinstance(value, dict):
        shortened = _shorten_strings(cast("dict[str, object]", value), head_chars, tail_chars, hint)
        small = json.dumps(shortened, ensure_ascii=False)
        if len(small) <= max(2 * (head_chars + tail_chars), MINIMUM_KEPT_CHARS):
            return small

    wrapped = {"shortened_arguments": shorten(arguments, head_chars, tail_chars, hint=hint)}
    return json.dumps(wrapped, ensure_ascii=False)


def recall_hint(handle: str) -> str:
    """Return the end of a marker that names a handle for the recall tool; "" without a handle."""
    return f'; {RECALL_TOOL}("{handle}") shows them' if handle else ""


def _shorten_strings(value: object, head_chars: int, tail_chars: int, hint: str) -> object:
    match value:
        case str():
            return shorten(value, head_chars, tail_chars, hint=hint)
        case dict():
            fields = cast("dict[str, object]", value)
            return {key: _shorten_strings(item, head_chars, tail_chars, hint) for key, item in fields.items()}
        case list():
            return [_shorten_strings(item, head_chars, tail_chars, hint) for item in cast("list[object]", value)]
        case _:
            return value
