"""What an agent needs of messages that a compaction took away: the identifiers of its next steps, and the user's constraints.

The rules of this module know nothing of the summary's own, so that they can judge it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final, cast

from compaction_hooks.messages import Message, Text, ToolCall, ToolResult
from compaction_hooks.replay.replayed import UsedLater

NEXT_STEPS: Final = 5
"""How many calls after a compaction are searched for identifiers: later needs have other causes."""
HARD: Final = frozenset({"url", "email", "path", "id", "hash", "number", "error"})
"""Kinds that a model cannot guess; symbols and bare file names follow from their code."""
MAX_CHARS: Final = 200
"""A longer word is data rather than an identifier."""
MAX_CONSTRAINT_MESSAGE_CHARS: Final = 2_000
"""A longer message of the user is pasted, and is a request as a whole."""

_URL = re.compile(r"https?://[^\s\"'`<>()\[\]{}\\|]{4,}")
_WORD = re.compile(r"(?<![\w@/.~+-])[@~/.]{0,3}[A-Za-z0-9_][\w@./+-]*(?:[:#-][\w@./+-]+)*", re.ASCII)
_FILE_NAME = re.compile(r"[\w+-]+(?:\.[\w+-]+)*\.[a-z][a-z0-9]{0,4}", re.ASCII)
_EXTENSION = re.compile(
    r"pyi?|go|mod|sum|rs|[jt]sx?|[cm]js|jsonl?|ya?ml|toml|mdx?|rst|txt|html|s?css|java|kt|swift|cc|[ch](?:pp)?|rb|php|sh|sql|lock|cfg"
    r"|ini|conf|xml|csv|svg|png|jpg|gz|log|env|proto|ipynb|exs?|lua|vue"
)
_KIND = re.compile(
    r"(?P<email>[\w.+-]+@[\w-]+(?:\.[\w-]+)+)"
    r"|(?P<error>E(?:NO[A-Z]+|ACCES|PERM|XIST|EXIST|PIPE|CONN[A-Z]+|ADDR[A-Z]+|TIMEDOUT|INVAL|MFILE)|[A-Z]{1,5}\d{3,5}"
    r"|E(?:RR)?_[A-Z_]{3,})"
    r"|(?P<hash>(?=.*\d)(?=.*[a-f])[0-9a-f]{7,64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
    r"|(?P<number>#\d{1,8}|(?!\d*000$)(?!\d{1,5}-\d{1,5}$)\+?\d[\d-]{3,20}\d)"
    r"|(?P<id>(?=.*\d.*\d)(?=.*[A-Za-z])#?[A-Za-z0-9][\w-]{3,60})"
    r"|(?P<symbol>[A-Za-z_]\w*(?:\.[A-Za-z_]\w+)+|(?=\w*[a-z][A-Z])\w+|[A-Za-z][^\W_]*_\w+|_{1,2}[A-Za-z]\w{2,}|[A-Z]{2,}[a-z]\w+)",
    re.ASCII,
)
"""The first alternative that matches a whole word is its kind."""
_MEASURE = re.compile(r"\d[\d.]*[A-Za-z]{1,3}|v?\d+(?:\.\d+)*|\d+(?:st|nd|rd|th)", re.ASCII)
_CONSTRAINT = re.compile(
    r"(?:^|(?<=[.!?] ))(?:(?:[Pp]lease |[Aa]nd |[Bb]ut |[Yy]ou |[Ww]e |[Ii]t )*(?:never|always|do not|don't|must|should|make sure)"
    r"|Never|Always|Do not|Don't|Must|Make sure) [a-z][^.!?\n]{8,200}[.!?]?(?=\s|$)",
    re.MULTILINE,
)
HARNESS: Final = re.compile(r"\s*(?:[<\[{/#]|This session is being continued|Caveat:|Base directory)")
"""The beginning of a message of the user that a program wrote."""


# -- texts


def text_of(pieces: Iterable[Message]) -> str:
    """Return the texts, arguments and results of messages, one a line; a tool's name is known from its definition."""
    return "\n".join(text for piece in pieces for text in _texts(piece))


def _texts(message: Message) -> Iterator[str]:
    for part in message.parts:
        match part:
            case Text(text=text) | ToolResult(text=text):
                yield text
            case ToolCall():
                yield from leaves(read_arguments(part))
            case _:
                pass


def read_arguments(call: ToolCall) -> object:
    """Return the arguments of a call; their text if they are no JSON."""
    try:
        return json.loads(call.arguments)
    except (ValueError, RecursionError):
        return call.arguments


def leaves(value: object) -> Iterator[str]:
    """Yield the texts and numbers in a value of JSON, in order, without the names of its fields."""
    if isinstance(value, dict):
        for inner in cast("dict[str, object]", value).values():
            yield from leaves(inner)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from leaves(inner)
    elif value is not None:
        yield str(value)


# -- identifiers


def find_identifiers(text: str) -> Iterator[tuple[str, str]]:
    """Yield (identifier, kind) for each URL, path, address, id, hash, number, error code, symbol and file name, with repetitions.

    >>> list(find_identifiers("see src/a.py:12 and/or ag.GetSession in setup.go, order TX-48213: 10ms, ENOENT"))
    ... # doctest: +NORMALIZE_WHITESPACE
    [('src/a.py', 'path'), ('ag.GetSession', 'symbol'), ('setup.go', 'file'), ('TX-48213', 'id'), ('ENOENT', 'error')]
    """
    for url in _URL.findall(text):
        if len(url) <= MAX_CHARS:
            yield url.rstrip(".,:;!?*"), "url"
    for run in _WORD.findall(_URL.sub(" ", text)):
        if len(run) > MAX_CHARS:
            continue
        for piece in run.split(":"):
            word = piece.strip("-").rstrip("./+:#@")
            if len(word) >= 3 and (kind := kind_of(word)):
                yield word, kind


def kind_of(word: str) -> str:
    """Return the kind of one word, or an empty text."""
    if "/" in word:
        is_path = word.count("/") > 1 or "." in word.rpartition("/")[2]
        return "path" if is_path and "//" not in word and any(map(str.isalpha, word)) else ""
    if "." in word and _FILE_NAME.fullmatch(word) and _EXTENSION.fullmatch(word.rpartition(".")[2]):
        return "file"
    matched = _KIND.fullmatch(word)
    found = (matched and matched.lastgroup) or ""
    return "" if found in ("id", "symbol", "error") and _MEASURE.fullmatch(word) else found


def is_in(identifier: str, text: str) -> bool:
    """Return whether a text has an identifier as a word of its own, or as the end of a longer path or name."""
    start = text.find(identifier)
    while start >= 0:
        before, after = text[start - 1 : start], text[start + len(identifier) :][:1]
        if not _is_inner(before, identifier[0]) and not _is_inner(after, identifier[-1]):
            return True
        start = text.find(identifier, start + 1)
    return False


def _is_inner(neighbour: str, edge: str) -> bool:
    return bool(neighbour) and (neighbour.isalnum() or neighbour == "_") and (edge.isalnum() or edge == "_")


class Needs:
    """The identifiers that an agent uses in the steps after one compaction, if only the messages taken away have them.

    Args:
        hidden: The text of the messages that are no longer sent as they are.
        kept: The summary, and the pinned messages among these.
        sent: The text of the other messages that are sent.

    Attributes:
        kinds: By identifier needed so far, its kind.
        steps: The calls so far, at most `NEXT_STEPS`.
    """

    def __init__(self, hidden: str, kept: str, sent: str) -> None:
        self.kinds: dict[str, str] = {}
        self.steps = 0
        self._hidden, self._kept, self._sent = hidden, kept, sent

    def add_step(self, new: str, answer: str) -> None:
        """Search the answer of the next call; later answers than `NEXT_STEPS` are ignored.

        Args:
            new: The text of the messages added since the last call.
        """
        if self.steps == NEXT_STEPS:
            return
        self.steps += 1
        self._sent += f"\n{new}"
        for name, kind in find_identifiers(answer):
            if name not in self.kinds and not is_in(name, self._sent) and is_in(name, self._hidden):
                self.kinds[name] = kind

    def figures(self) -> UsedLater:
        """Return which of them the summary and the pinned messages have."""
        has = {name: is_in(name, self._kept) for name in self.kinds}
        return UsedLater(
            kept=tuple(name for name, is_kept in has.items() if is_kept),
            lost=tuple(name for name, is_kept in has.items() if not is_kept),
        )


# -- constraints


def find_constraints(message: Message) -> Iterator[str]:
    """Yield the sentences of a user's short message that begin as English constraints do ("never ...", "make sure ...").

    >>> list(find_constraints(Message(role="user", parts=(Text("Fix the bug. Never touch the public API."),))))
    ['Never touch the public API.']
    """
    if message.role != "user":
        return
    text = text_of([message])
    if len(text) < MAX_CONSTRAINT_MESSAGE_CHARS and "```" not in text and not HARNESS.match(text):
        yield from (found[0].strip() for found in _CONSTRAINT.finditer(text))


def plain(text: str) -> str:
    """Return a text without escapes and line breaks, in which quoted words are found."""
    return " ".join(text.replace("\\", "").replace("\u2039", "<").split())
