"""The names, numbers and addresses later steps are likely to need, with the key they stood under.

An identifier is worth what its use so far says: one that the user or the assistant named, or that a call was made with, will
be asked for again; one that stood in a single listing will not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from compaction_hooks.extractive.outline import Item, Section
from compaction_hooks.extractive.text import defuse
from compaction_hooks.files.operations import as_fields, as_items, call_arguments, command_line
from compaction_hooks.messages import Message, Text, ToolCall, ToolResult

MAX_CHARS = 200
"""A longer word is data, not a name."""
SCAN_CHARS = 200_000
"""Of one tool result, so much is looked at from each end: beyond it stands data, not names."""
MAX_VALUES = 400
"""Candidates handed on, the most valuable first; a summary has room for a tenth of them."""


class Source(Enum):
    """Who named an identifier, with the weight of one mention."""

    USER = 4.0
    CALL = 3.0
    ASSISTANT = 2.0
    SUMMARY = 2.0
    RESULT = 1.0
    CONTENT = 0.6


LISTING = 25
"""A result that names more identifiers than this is a listing: its names share the weight of so many."""
CARRIED = 3.0
"""Mentions that being first in an earlier summary's list is worth, beyond one; being last is worth none."""
MAX_MENTIONS = 4
"""Mentions from one source beyond this add nothing."""

_RUN = re.compile(r"[^\s\"'`<>(){}\[\],;|\\\u0080-\U0010ffff]{3,}")
_KEYED = re.compile(r'"([A-Za-z_][\w.-]{0,40})"\s{0,20}:\s{0,20}(?:"([^"\\\n]{1,100})"|(-?\d[\d.]{0,20}))')
_LABELLED = re.compile(
    r"\b([A-Za-z][A-Za-z_-]{0,30}(?:[Ii][Dd]|[Nn]ame|[Nn]umber|[Kk]ey|[Hh]ash|[Bb]ranch|[Cc]ommit|[Pp]ort|[Vv]ersion|[Cc]ode|[Tt]oken))"
    r"(?: is)?\s?[:=]?\s([\w#@./+-]{2,80})"
)
_URL = re.compile(r"https?://\S{3,}")
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_PATH = re.compile(r"[~.]{0,2}/?(?:[\w@.+~-]+/)+[\w@.+-]*(?::\d+)?")
_CODE = re.compile(r"(?=[^\d]*\d)(?=[^A-Za-z]*[A-Za-z])[#@]?\w[\w.:#-]*\w")
_NUMBER = re.compile(r"#\d{1,8}|\+?\d[\d-]{4,20}\d")
_SYMBOL = re.compile(r"[A-Za-z]\w*(?:_\w+|[a-z][A-Z]\w*)(?:\.\w+)*")
_MEASURE = re.compile(
    r"[+-]?\d[\d.,]*(?:st|nd|rd|th|x|h|m|s|ms|us|ns|px|em|rem|pt|d|k|kb|mb|gb|b|am|pm|lines?|chars?|v)?", re.IGNORECASE
)
_VALUABLE_KEY = re.compile(
    r"(?:id|ids|key|code|number|email|phone|url|uri|branch|commit|sha|hash|token|ref|version|name|username|host|port)$",
    re.I,
)
_DULL_KEY = re.compile(
    r"(?:description|prompt|content|text|timeout|limit|offset|output_?mode|status|active_?form)$", re.I
)


@dataclass(slots=True)
class Mention:
    """What is known of one value.

    Attributes:
        weights: How much of its mentions came from whom.
        last: Position of the last message that named it, 0 for the oldest to 1 for the newest.
    """

    weights: dict[Source, float] = field(default_factory=dict[Source, float])
    keys: dict[str, int] = field(default_factory=dict[str, int])
    last: float = 0.0

    def add(self, source: Source, position: float, key: str = "", weight: float = 1.0) -> None:
        """Count one mention."""
        self.weights[source] = self.weights.get(source, 0.0) + weight
        self.last = max(self.last, position)
        if key:
            # A key that was used to call a tool says more than one from a result.
            self.keys[key] = self.keys.get(key, 0) + (3 if source is Source.CALL else 1)

    @property
    def key(self) -> str:
        """The key it stood under most, empty when it stood under none."""
        return max(self.keys, key=lambda key: self.keys[key], default="")

    @property
    def score(self) -> float:
        """Weight of all mentions; recent ones count up to twice."""
        weight = sum(source.value * math.log2(1 + min(count, MAX_MENTIONS)) for source, count in self.weights.items())
        return weight * (1 + self.last)


Mentions = dict[str, Mention]


def collect(messages: Sequence[Message]) -> Mentions:
    """Count who named which identifier in these messages."""
    mentions: Mentions = {}
    for index, message in enumerate(messages):
        position = (index + 1) / len(messages)
        for part in message.parts:
            named = list(_named(message, part))
            # In a long listing each single name says little.
            weight = min(1.0, LISTING / len(named)) if named and named[0][0] is Source.RESULT else 1.0
            for source, key, value in named:
                mentions.setdefault(value, Mention()).add(source, position, key, weight)
    return mentions


def recall(mentions: Mentions, items: Sequence[Item]) -> None:
    """Add what an earlier summary holds: its identifiers under their keys, best first, and those its other lines name."""
    carried = [item for item in items if item.section is Section.IDENTIFIERS]
    for rank, item in enumerate(carried):
        key, _, values = item.text.partition(": ")
        weight = 1.0 + CARRIED * (1 - rank / len(carried))
        for value in filter(None, values.split(", ")):
            mentions.setdefault(value, Mention()).add(Source.SUMMARY, 0.0, "" if key in _KIND_NAMES else key, weight)
    for item in items:
        source = _SOURCES.get(item.section, Source.SUMMARY)
        if item.section is not Section.IDENTIFIERS:
            for value in _words(item.text):
                mentions.setdefault(value, Mention()).add(source, 0.0)


def identifier_items(mentions: Mapping[str, Mention], known: frozenset[str]) -> list[Item]:
    """Return the identifiers worth carrying, most valuable first.

    Args:
        known: Values the caller carries elsewhere, such as the paths in the file lists.
    """
    scored: list[tuple[float, str, str]] = []
    for value, mention in mentions.items():
        key = mention.key
        score = mention.score * _specificity(value, key)
        if value not in known and score > 0 and _is_worth(value, mention, key):
            scored.append((score, key or kind_of(value), value))
    scored.sort(key=lambda entry: (-entry[0], entry[2]))
    return [
        Item(section=Section.IDENTIFIERS, text=value, value=score, group=key)
        for score, key, value in scored[:MAX_VALUES]
    ]


def kind_of(word: str) -> str:
    """Return what kind of identifier a word is, empty when it is none.

    >>> [kind_of(word) for word in ("https://x.org/a", "a@b.org", "src/a.py", "M20IZO", "#123", "is_request", "and/or", "hello", "10ms")]
    ['url', 'email', 'path', 'id', 'number', 'symbol', '', '', '']
    """
    if _URL.fullmatch(word):
        return "url"
    if "/" in word:
        return "path" if _PATH.fullmatch(word) and (word.count("/") > 1 or "." in word) else ""
    if "@" in word and _EMAIL.fullmatch(word):
        return "email"
    if _NUMBER.fullmatch(word):
        return "number"
    if _CODE.fullmatch(word):
        return "" if _MEASURE.fullmatch(word) else "id"
    return "symbol" if _SYMBOL.fullmatch(word) else ""


_SOURCES = {Section.GOAL: Source.USER, Section.CONSTRAINTS: Source.USER, Section.DONE: Source.CALL}
_KIND_NAMES = frozenset({"url", "email", "path", "id", "number", "symbol"})


def _named(message: Message, part: object) -> Iterator[tuple[Source, str, str]]:
    """Yield (source, key, value) for each identifier of one part, each once."""
    match part:
        case Text(text=text) if message.role in ("user", "assistant"):
            source = Source.USER if message.role == "user" else Source.ASSISTANT
            keyed = {value: key for key, value in _labelled(text)}
            yield from ((source, key, value) for value, key in keyed.items())
            yield from ((source, "", value) for value in _words(text) if value not in keyed)
        case ToolCall():
            yield from _argument_values(part)
        case ToolResult(text=text):
            if len(text) > 2 * SCAN_CHARS:
                text = text[:SCAN_CHARS] + " " + text[-SCAN_CHARS:]
            keyed = {value: key for key, value in _pairs(text)}
            yield from ((Source.RESULT, key, value) for value, key in keyed.items())
            yield from ((Source.RESULT, "", value) for value in _words(text) if value not in keyed)
        case _:
            return


def _words(text: str) -> Iterator[str]:
    """Yield each identifier-like word of a text once, in a stable order."""
    for run in dict.fromkeys(_RUN.findall(text)):
        if len(run) > MAX_CHARS:
            continue
        word = run.strip(".:!?*_=-&") if not run.startswith("http") else run.rstrip(".:!?*")
        if len(word) > 2 and kind_of(word):
            yield defuse(word)


def _labelled(text: str) -> Iterator[tuple[str, str]]:
    """Yield (key, value) where prose says "user ID is x_1" or "branch: fix-2"; the value must look like an identifier."""
    for match in _LABELLED.finditer(text):
        value = match[2].strip(".:")
        if kind_of(value):
            yield match[1].lower().replace(" ", "_"), value


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Yield (key, value) for each JSON member of a text whose value may be a name."""
    if '":' not in text and '" :' not in text:
        return
    for match in _KEYED.finditer(text):
        value = (match[2] or match[3]).strip()
        if not _DULL_KEY.search(match[1]) and _is_value(value, match[1]):
            yield match[1], defuse(value)


def _argument_values(call: ToolCall) -> Iterator[tuple[Source, str, str]]:
    """Yield what a call was made with: short values under their keys, and the names in commands and in written text."""
    arguments = call_arguments(call)
    command = command_line(arguments)
    seen: set[str] = set()
    for key, value in _leaves("", arguments):
        if _DULL_KEY.search(key) and value != command:
            continue
        if value != command and _is_value(value, key):
            named = [(Source.CALL, key, defuse(value))]
        else:
            source = Source.CALL if value == command else Source.CONTENT
            named = [(source, "", word) for word in _words(value[:SCAN_CHARS])]
        for mention in named:
            if mention[2] not in seen:
                seen.add(mention[2])
                yield mention


def _leaves(key: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield (key, text) for every scalar in a JSON value; booleans and null are no names."""
    if isinstance(value, bool) or value is None:
        return
    if (fields := as_fields(value)) is not None:
        for name, inner in fields.items():
            yield from _leaves(name, inner)
    elif (items := as_items(value)) is not None:
        for inner in items:
            yield from _leaves(key, inner)
    else:
        yield key, str(value).strip()


def _is_value(value: str, key: str) -> bool:
    """Whether a keyed value is short enough for a name, and not a bare small number unless its key says it is an id."""
    if not 2 <= len(value) <= 80 or "\n" in value or ", " in value:
        return False
    if _VALUABLE_KEY.search(key):
        return True
    return bool(kind_of(value))


def _is_worth(value: str, mention: Mention, key: str) -> bool:
    """Whether anyone but a single tool result named it, or its key says that it names something."""
    results = mention.weights.get(Source.RESULT, 0.0)
    return (
        len(mention.weights) > 1 or results == 0 or results > 1 or (results >= 0.5 and bool(_VALUABLE_KEY.search(key)))
    )


def _specificity(value: str, key: str) -> float:
    """How likely a value of this kind names one thing that will be asked for again."""
    if _VALUABLE_KEY.search(key):
        return 2.0
    return {"url": 1.5, "email": 2.0, "id": 1.5, "number": 1.2, "path": 1.0, "symbol": 0.8}.get(kind_of(value), 0.5)
