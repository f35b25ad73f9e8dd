"""Search in a context: for the answers of probes, and for names that the agent uses again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import cast

from compaction_hooks import Message
from compaction_hooks.replay.recorded import Probe
from compaction_hooks.replay.replayed import NamesUsedAgain

MAX_NAME_CHARS = 200
"""A longer word is data rather than a name."""

_WORD = re.compile(r"https?://[^\s\"'`<>\\]+|[\w.@/~+%#-]+", re.ASCII)
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", re.ASCII)
_PATH = re.compile(r"~?/?[\w@.+-]+(?:/[\w@.+-]+)+", re.ASCII)
_ID = re.compile(r"#?(?=(?:\D*\d){2})(?=[^A-Za-z]*[A-Za-z])\w[\w.-]{3,}\w", re.ASCII)
_MEASURE = re.compile(r"\d[\d.]*[A-Za-z]{1,3}", re.ASCII)
_NUMBER = re.compile(r"#?(?=(?:\D*\d){5})\d[\d-]*\d", re.ASCII)


def names(text: str) -> Iterator[str]:
    """Yield each path, URL, e-mail address, id and number of a text, with repetitions.

    An id has letters and at least two digits. A number has at least five digits and is not round: 120000 is a time-out, not a name.

    >>> list(names("see src/a.py and/or https://x.org/a?b=1, order TX-48213 of me@x.org: 10ms, 2024-02-03, utf-8"))
    ['src/a.py', 'https://x.org/a?b=1', 'TX-48213', 'me@x.org', '2024-02-03']
    """
    return filter(_is_name, _split_words(text))


def _split_words(text: str) -> Iterator[str]:
    for run in _WORD.findall(text):
        if len(run) <= MAX_NAME_CHARS:
            yield run.rstrip(".,:;!?)]}*-/").removeprefix("./").lstrip("-+")


def _is_name(word: str) -> bool:
    if word.startswith(("http://", "https://")):
        return True
    if "/" in word:
        return _is_path(word)
    if _NUMBER.fullmatch(word):
        return not word.endswith("000")
    if _EMAIL.fullmatch(word):
        return True
    return _ID.fullmatch(word) is not None and _MEASURE.fullmatch(word) is None


def _is_path(word: str) -> bool:
    """Whether a word with a slash is a path rather than an alternative ("and/or") or a fraction."""
    return (word.count("/") > 1 or "." in word) and _PATH.fullmatch(word) is not None


def _path_ends(path: str) -> Iterator[str]:
    """Yield the ends of a path, the longest first, down to its last name."""
    while "/" in path:
        path = path.partition("/")[2]
        if path:
            yield path


@dataclass(slots=True)
class Vocabulary:
    """The words of some texts.

    A path is found if one of its ends is among the words, or if it is the end of a path among them: file lists are relative to a
    folder.
    """

    _words: set[str] = field(default_factory=set[str])
    _ends: set[str] = field(default_factory=set[str])

    def add(self, text: str) -> None:
        """Add the words of a text."""
        for word in _split_words(text):
            if word not in self._words:
                self._words.add(word)
                if _is_path(word):
                    self._ends.update(_path_ends(word))

    def __contains__(self, name: str) -> bool:
        if name in self._words or name in self._ends:
            return True
        return _is_path(name) and any(tail in self._words for tail in _path_ends(name))


# -- texts


def visible_text(pieces: Iterable[Message]) -> str:
    """Return the text that a model reads in these messages and may quote: prose, calls and results, without thinking."""
    return "\n".join(text for piece in pieces for text in _texts(piece))


def spoken_text(pieces: Iterable[Message]) -> str:
    """Return the assistant's text and the arguments of its tool calls."""
    return "\n".join(text for piece in pieces if piece.role == "assistant" for text in _texts(piece))


def _texts(piece: Message) -> Iterator[str]:
    yield piece.text
    for call in piece.calls:
        yield call.name
        yield from _argument_texts(call.arguments)
    yield from (result.text for result in piece.results)


def _argument_texts(arguments: str) -> Iterator[str]:
    """Yield the texts in a tool call's arguments without JSON's escapes; the whole string if it is not JSON."""
    try:
        yield from _leaves(json.loads(arguments))
    except (ValueError, RecursionError):
        yield arguments


def _leaves(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for inner in cast("dict[str, object]", value).values():
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _leaves(inner)
    elif value is not None:
        yield str(value)


# -- search


class Haystack:
    """A context to be searched for the answers of probes."""

    def __init__(self, text: str) -> None:
        self._text = _fold(text)
        self._vocabulary = Vocabulary()
        self._vocabulary.add(text)

    def holds(self, probe: Probe) -> bool:
        """Whether every text of the answer is in it: regardless of case and white space, a path also in its relative form."""
        return all(_fold(answer) in self._text or answer in self._vocabulary for answer in probe.answers)


def _fold(text: str) -> str:
    return " ".join(text.casefold().split())


class Reuse:
    """Tracks names in messages removed by one compaction, until the next one.

    Args:
        hidden: Names in messages that are no longer sent word for word.
        summary: The summary; empty if there is none.
        messages: Text of the other messages in the view.
    """

    def __init__(self, hidden: frozenset[str], summary: str, messages: str) -> None:
        self._hidden = set(hidden)
        self._summary = Vocabulary()
        self._summary.add(summary)
        self._messages = Vocabulary()
        self._messages.add(messages)
        self._in_messages = 0
        self._in_summary = 0
        self._gone: list[str] = []

    def add_sent(self, text: str) -> None:
        """Add the text of new messages in the view."""
        self._messages.add(text)

    def add_answer(self, text: str) -> None:
        """Count the names in the agent's answer to the current view."""
        for name in names(text):
            if name not in self._hidden:
                continue
            self._hidden.remove(name)
            if name in self._messages:
                self._in_messages += 1
            elif name in self._summary:
                self._in_summary += 1
            else:
                self._gone.append(name)

    def figures(self) -> NamesUsedAgain:
        """Return the figures so far."""
        return NamesUsedAgain(in_messages=self._in_messages, in_summary=self._in_summary, gone=tuple(self._gone))
