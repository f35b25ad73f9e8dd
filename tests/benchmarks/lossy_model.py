"""A simulated summarizer that loses as much as an average model: it sees half of the names, and says nothing in the words it read.

Each answer fills the headings of our prompt. The same request gives the same answer: chance is the hash of a name and of the
messages, so that every compaction draws anew.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import islice

from compaction_hooks import SummaryRequest
from compaction_hooks.replay.needs import find_identifiers, text_of
from tests.benchmarks.searches import ESTIMATOR

SEEN = 0.5
"""The part of the names, of the messages and of the previous summary, that an answer may have."""
FILLED = 0.4
"""The part of `SummaryRequest.max_tokens` that the sentences of an answer take at most."""
NAMES_RATIO = 0.15
"""The part for the list of names at its end; others are in sentences."""
NEWEST_RATIO = 0.25
"""The newest part of the messages, whose names count twice."""
MOST_WORDS = 24
"""The most words of a sentence."""
MOST_SENTENCES = 6
"""The most sentences of a message."""

_CUE = re.compile(
    r"a|an|the|is|are|was|were|be|been|to|of|in|on|at|and|or|but|so|that|this|it|its|i|you|we|please|always|never|must|should|do|not"
    r"|don't|make|sure|because|root|caused?|due|fixed|by|problem|issue|will|can|could|would|just|now|let's|let|me",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_MARKS = "`*#>\"'()[]{}<>,;:!?.|=-"


def lossy_summary(request: SummaryRequest) -> str:
    """Return the summary of an average model."""
    return _Answer(request).text()


class _Answer:
    """The answer to one request."""

    def __init__(self, request: SummaryRequest) -> None:
        self._request, self._messages = request, request.messages
        self._previous = request.previous_summary or ""
        first = text_of([self._messages[0]])[:200] if self._messages else ""
        self._seed = f"{len(self._messages)} {len(self._previous)} {first}"

    def text(self) -> str:
        """Return the sections, each with as many lines as its part of the room takes."""
        room = FILLED * self._request.max_tokens
        names = ", ".join(_fitting(self._names(), NAMES_RATIO * self._request.max_tokens))
        asked, told = [[*self._sentences(role)] for role in ("user", "assistant")]
        plan = (
            ("## Goal", self._lines(asked[:3], "- "), 0.1),
            ("## Constraints & Preferences", self._lines(asked[3:], "- The user cares about "), 0.1),
            ("## Progress\n### Done", self._lines(told[::2], "- [x] "), 0.45),
            ("### In Progress", self._lines(told[-1:], "- [ ] "), 0.05),
            ("### Blocked", iter(()), 0.0),
            ("## Key Decisions", self._lines(told[1::2], "- "), 0.25),
            ("## Next Steps", self._lines(told[-2:], "1. Go on: "), 0.05),
        )
        sections = [
            f"{heading}\n" + ("\n".join(_fitting(lines, part * room)) or "(none)") for heading, lines, part in plan
        ]
        return "\n".join((*sections, "## Critical Context", f"- Names that matter: {names}" if names else "(none)"))

    def _names(self) -> Iterator[str]:
        """Yield the names that the model sees, the commonest first; those of the newest messages count twice."""
        counts: Counter[str] = Counter()
        newest = len(self._messages) * (1 - NEWEST_RATIO)
        for index, message in enumerate(self._messages):
            for name, _ in find_identifiers(text_of([message])):
                counts[name] += 2 if index >= newest else 1
        counts.update(name for name, _ in find_identifiers(self._previous))
        return (name for name, _ in counts.most_common() if self._sees(name))

    def _sentences(self, role: str) -> Iterator[str]:
        """Yield the sentences and calls of a speaker that the model takes up."""
        for message in self._messages:
            if message.role == role:
                said = (sentence for sentence in _SENTENCE_END.split(message.text) if len(sentence.split()) > 3)
                calls = (f"{call.name} {call.arguments}".replace("\\n", " ") for call in message.calls)
                yield from filter(self._sees, (*islice(said, MOST_SENTENCES), *calls))

    def _lines(self, sentences: Iterable[str], bullet: str) -> Iterator[str]:
        return (f"{bullet}{line}" for line in map(self._paraphrase, sentences) if line)

    def _paraphrase(self, sentence: str) -> str:
        """Return a sentence without its cue words and the names that the model does not see, in another order."""
        words = [word.strip(_MARKS) for word in sentence.split()]
        kept = [word for word in words if word and not _CUE.fullmatch(word) and self._says(word)][:MOST_WORDS]
        return " ".join(word for pair in zip(kept[1::2], kept[::2], strict=False) for word in pair)

    def _says(self, word: str) -> bool:
        return all(self._sees(name) for name, _ in find_identifiers(word))

    def _sees(self, name: str) -> bool:
        """Draw whether the model takes up a name or a sentence."""
        return sha256(f"{self._seed} {name}".encode()).digest()[0] < 256 * SEEN


def _fitting(lines: Iterable[str], room: float) -> Iterator[str]:
    """Yield lines until the room is full."""
    for line in lines:
        room -= ESTIMATOR.estimate_tokens(f"{line}, ")
        if room < 0:
            return
        yield line
