"""Shorter texts: cut in the middle without splitting a visible character, or without blocks."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

MOST_CHARS_PER_TOKEN = 20
"""More characters than a token has in any text; a larger text is cut before it is sized."""
_HEAD_RATIO, _STEP = 0.6, 0.95


def shorten_to(text: str, most_tokens: int, size: Callable[[str], int], *, hint: str = "", least_chars: int = 0) -> str:
    """Return a text of at most so many tokens: without its middle if it has more, as `shorten` does.

    Args:
        size: Returns the tokens of a text.
        hint: Ends the marker.
        least_chars: If fewer would be left of a text that is too long, "" is returned.

    >>> shorten_to("a" * 500 + "b" * 500, 50, len)
    'aaaaaaaaa\\n[... 985 characters left out ...]\\nbbbbbb'
    """
    kept = min(len(text), most_tokens * MOST_CHARS_PER_TOKEN)
    while True:
        head = int(kept * _HEAD_RATIO)
        short = shorten(text, head, kept - head, hint=hint) if kept < len(text) else text
        tokens = size(short)
        if tokens <= most_tokens or not kept:
            return short
        kept = int(kept * _STEP * most_tokens / tokens)
        if kept < least_chars:
            return ""


def shorten(text: str, head_chars: int, tail_chars: int, unread_chars: int = 0, *, hint: str = "") -> str:
    """Return the head and the tail of a text with a marker between them that counts the characters left out.

    An emoji, a surrogate pair or a letter with its accents is not split: up to 32 characters less are kept for that. A
    text that would not get smaller comes back unchanged.

    Args:
        unread_chars: Characters between the head and the tail that are not in `text`; the marker counts them too.
        hint: Ends the marker.

    >>> shorten("a" * 50 + "b" * 1000 + "c" * 50, 50, 50).replace("a" * 50, "A").replace("c" * 50, "C")
    'A\\n[... 1,000 characters left out ...]\\nC'
    """
    head = _find_boundary(text, min(head_chars, len(text)), -1)
    tail = _find_boundary(text, max(len(text) - tail_chars, 0), 1)
    gone = tail - head + unread_chars
    marker = f"\n[... {gone:,} characters left out{hint} ...]\n"
    if gone <= len(marker):
        return text
    return text[:head] + marker + text[tail:]


def remove_blocks(text: str, tag: str) -> str:
    """Return the text without the blocks between `<tag>` and `</tag>`; one that is never closed stays.

    >>> remove_blocks("a<note>b</note>c<note>d", "note")
    'ac<note>d'
    """
    opening, closing = f"<{tag}>", f"</{tag}>"
    kept: list[str] = []
    at = 0
    while (start := text.find(opening, at)) >= 0 and (end := text.find(closing, start)) >= 0:
        kept.append(text[at:start])
        at = end + len(closing)
    return "".join([*kept, text[at:]]) if kept else text


def _find_boundary(text: str, index: int, step: int) -> int:
    """Return the nearest index, from `index` in direction `step`, at which a text may be cut; stop after 16 steps."""
    for _ in range(16):
        if not 0 < index < len(text) or not _is_joined(text[index - 1], text[index]):
            break
        index += step
    return index


def _is_joined(before: str, after: str) -> bool:
    """Return whether two characters show as one: accents, emoji joined or modified, surrogate pairs."""
    return (
        unicodedata.combining(after) > 0
        or "\u200d" in (before, after)
        or "\ufe00" <= after <= "\ufe0f"
        or "\U0001f3fb" <= after <= "\U0001f3ff"
        or ("\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff")
    )
