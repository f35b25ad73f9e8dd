"""Markers: the texts in place of what a view leaves out, and the handles by which they name it."""

from __future__ import annotations

import json
import re
from typing import Final, cast

from compaction_hooks.messages import ToolCall
from compaction_hooks.text.json_text import parse_json
from compaction_hooks.text.shortening import shorten

MINIMUM_KEPT_CHARS = 400
"""Shortening leaves at least this many characters: enough for an error message and its last line."""
HEAD_RATIO: Final = 0.6
"""The part of a shortened text's kept characters that is from its beginning. Codex and OpenHands keep both ends too."""
RECALL_TOOL: Final = "recall"
"""The name of the tool that markers name."""
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
    from compaction_hooks.files.operations import call_arguments  # few programs need its patterns
    from compaction_hooks.text.escaping import neutralize

    shown = [
        json.dumps(value[:QUOTED_CALL_CHARS] if isinstance(value, str) else value, ensure_ascii=False)
        for value in call_arguments(call).values()
    ]
    line = " ".join(f"{call.name}({', '.join(shown)})".split())
    quoted = neutralize(line[:QUOTED_CALL_CHARS])
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
    return f"[{size} of {source} left out{_hint(handle)}]"


def shorten_text(text: str, head_chars: int, tail_chars: int, handle: str = "") -> str:
    """Return the head and the tail of a text, with a marker between them that may name a handle."""
    return shorten(text, head_chars, tail_chars, hint=_hint(handle))


def shorten_arguments(arguments: str, head_chars: int, tail_chars: int, handle: str = "") -> str:
    """Return tool arguments as valid JSON whose every long string keeps only its head and tail.

    Arguments that are no JSON object are wrapped as `{"shortened_arguments": ...}`, because providers want an object.
    """
    hint = _hint(handle)
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


def _hint(handle: str) -> str:
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
