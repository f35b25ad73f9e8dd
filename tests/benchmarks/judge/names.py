"""The names in a text, by rules of this benchmark: the library is not measured by its own."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_EXTENSIONS: Final = (
    r"pyi?|go|tsx?|[mc]?jsx?|jsonl?|mdx?|ya?ml|toml|sh|rs|java|kt|cc?|h|[ch]pp|html|s?css|sql"
    r"|txt|log|rst|cfg|ini|lock|png|svg|rb|php|swift|xml|csv|ipynb|env|mod|sum"
)
_KINDS: Final = {
    kind: re.compile(rule)
    for kind, rule in {
        "url": r"https?://[^\s\"'`<>\\)\]}|，。]+",
        "address": r"(?a:[\w.+-]+@[\w-]+(?:\.[\w-]+)+)",
        "uuid": r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b",
        "path": r"(?a:(?<![\w/.@~-])(?:~/|\.{1,2}/|/)?(?:[\w.@+-]+/)+[\w.@+-]*\w)",
        "file": rf"(?a:(?<![\w/.-])[\w-]+(?:\.[\w-]+)*\.(?:{_EXTENSIONS})\b)",
        "hash": r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b",
        "symbol": (
            r"(?a:\b(?:[A-Za-z]\w*_\w+|_\w*[a-z]\w*_\w*|[A-Za-z]*[a-z][A-Z]\w*"
            r"|[A-Za-z_]\w+(?:\.[A-Za-z_]\w+)+)\b)"
        ),
        "error": r"(?a:\b(?:[A-Z]{1,6}\d{3,6}|ERR_\w+|[A-Z]\w*(?:Error|Exception))\b)",
        "code": r"(?a:#\d{1,8}\b|\b(?=\w*\d\w*\d)(?=\w*[A-Za-z])[A-Za-z0-9]+(?:[-_][A-Za-z0-9]+)*\b)",
        "number": r"(?a:(?<![\w.])\d{4,}(?![\w.]*\d))",
    }.items()
}
_MEASURE: Final = re.compile(
    r"[+-]?\d[\d.,]*(?:st|nd|rd|th|x|h|m|s|ms|us|ns|px|em|rem|pt|d|k|kb|mb|gb|b|am|pm|v|K|M|G|KB|MB|GB)?"
)
"""A number with its unit, which is no code."""
_ESCAPE: Final = re.compile(r"\\[ntr\"\\]")
_OUR_TAGS: Final = ("tool_call", "tool_response")


class Name(NamedTuple):
    """A name, and its place in a text."""

    start: int
    end: int
    word: str


def find_names(text: str) -> Iterator[Name]:
    """Yield the names in a text; those of different kinds may overlap. Escapes of JSON count as spaces."""
    plain = _ESCAPE.sub("  ", text)
    for kind, pattern in _KINDS.items():
        for match in pattern.finditer(plain):
            word = match[0].rstrip(".,:;!?*")
            if _is_name(kind, word):
                yield Name(match.start(), match.start() + len(word), word)


def _is_name(kind: str, word: str) -> bool:
    if not (5 if kind == "symbol" else 4) <= len(word) <= 200 or word in _OUR_TAGS:
        return False
    if kind == "path":  # no date, no fraction, no "and/or"
        is_deep = word.count("/") > 1 or "." in word or word.startswith("/")
        return is_deep and not re.fullmatch(r"[\d./]+", word)
    return kind != "code" or not _MEASURE.fullmatch(word)


def is_word_in(word: str, text: str) -> bool:
    """Return whether a text has a word, not as a part of a longer one."""
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


def find_needed(text: str, kept: str, covered: str, seen: str) -> list[str | None]:
    """Return for each character of a next message the longest needed name that it is in.

    A name is needed if the covered part has it, and neither the kept messages nor anything since: without the covered part it can
    only be guessed.
    """
    needed: list[str | None] = [None] * len(text)
    for start, end, word in find_names(text):
        known = (kept, seen, text[:start])
        if is_word_in(word, covered) and not any(is_word_in(word, earlier) for earlier in known):
            longest = (other if other and len(other) >= len(word) else word for other in needed[start:end])
            needed[start:end] = [*longest]
    return needed
