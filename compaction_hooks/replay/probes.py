"""Search in a context for the answers of probes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from compaction_hooks.replay.recorded import Probe

MAX_WORD_CHARS = 200
"""A longer word is data."""

_WORD = re.compile(r"https?://[^\s\"'`<>\\]+|[\w.@/~+%#-]+", re.ASCII)
_PATH = re.compile(r"~?/?[\w@.+-]+(?:/[\w@.+-]+)+", re.ASCII)


def split_words(text: str) -> Iterator[str]:
    """Yield the words, paths and URLs of a text without the signs around them."""
    for run in _WORD.findall(text):
        if len(run) <= MAX_WORD_CHARS:
            yield run.rstrip(".,:;!?)]}*-/").removeprefix("./").lstrip("-+")


def is_path(word: str) -> bool:
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
        for word in split_words(text):
            if word not in self._words:
                self._words.add(word)
                if is_path(word):
                    self._ends.update(_path_ends(word))

    def __contains__(self, name: str) -> bool:
        if name in self._words or name in self._ends:
            return True
        return is_path(name) and any(tail in self._words for tail in _path_ends(name))


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
