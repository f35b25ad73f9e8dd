"""The names, numbers and addresses later steps are likely to need, with the key they stood under.

An identifier is worth what its use so far says: one that the user named, or that a call was made with, will be asked for
again; one that stood in a single listing will not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from enum import Enum

from compaction_hooks.extractive.outline import Item, Section
from compaction_hooks.extractive.text import defuse
from compaction_hooks.files.operations import as_fields, as_items, call_arguments, command_line
from compaction_hooks.messages import Message, Part, Text, ToolCall, ToolResult
from compaction_hooks.patterns import lazy_pattern
from compaction_hooks.values import dataclass

MAX_CHARS = 200
"""A longer word is data, not a name."""
MAX_VALUE_CHARS = 80
"""The same for a value under a key."""
SCAN_CHARS = 200_000
"""Of one result or argument, so much is looked at from each end: what is larger is data."""
MAX_ITEMS = 300
"""Candidates handed on, the most valuable ones; a summary of the largest size has room for half of them."""
MAX_DEPTH = 20
"""Levels of nested arguments that are looked at: deeper ones would exhaust the stack before they named anything."""
LISTING = 25
"""A result that names more than this is a listing: its names share the weight of so many."""
MAX_MENTIONS = 4.0
"""Mentions from one source beyond this add nothing."""
CARRIED = 3.0
"""Mentions that the first place in an earlier summary's list is worth, beyond one; the last place is worth none."""


class Source(Enum):
    """Who named an identifier; the value is the weight of a mention, and no two may be equal, for they would be one."""

    USER = 4.0
    CALL = 3.0
    ASSISTANT = 2.0
    SUMMARY = 1.9
    RESULT = 1.0
    CONTENT = 0.6  # what a call wrote or edited: it now stands in a file


KIND_WEIGHTS = {"url": 1.5, "email": 2.0, "id": 1.5, "number": 1.2, "path": 1.0, "symbol": 0.8}
"""How likely a word of this kind names one thing that will be asked for again; under a key that says so, `KEY_WEIGHT`."""
KEY_WEIGHT = 2.0
OTHER_WEIGHT = 0.5

_RUN = lazy_pattern(r"[^\s\"'`<>(){}\[\],;=|\\\u0080-\U0010ffff]{3,}")
_KEYED = lazy_pattern(r'"([A-Za-z_][\w.-]{0,40})"\s{0,20}:\s{0,20}(?:"([^"\\\n]{1,100})"|(-?\d[\d.]{0,20}))')
_LABELLED = lazy_pattern(
    r"\b([A-Za-z][A-Za-z_-]{0,30}(?:[Ii][Dd]|[Nn]ame|[Nn]umber|[Kk]ey|[Hh]ash|[Bb]ranch|[Cc]ommit|[Pp]ort|[Vv]ersion|[Cc]ode))"
    r"(?: is)?\s?[:=]?\s([\w#@./+-]{2,80})"
)
_TELLING = lazy_pattern(r"[\d/@_]|[a-z][A-Z]")
_WITH_LINE = lazy_pattern(r"[^:]+(?::\d+)+")
_URL = lazy_pattern(r"https?://\S{3,}")
_EMAIL = lazy_pattern(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_PATH = lazy_pattern(r"(?!/dev/)[~.]{0,2}/?(?:[\w@.+~-]+/)+[\w@.+-]*(?::\d+)*")
_NUMBER = lazy_pattern(r"#\d{1,8}|(?!\d{1,5}-\d{1,5}$)\+?\d[\d-]{4,20}\d")
_CODE = lazy_pattern(r"(?=[^\d]*\d)(?=[^A-Za-z]*[A-Za-z])[#@]?\w[\w.:#-]*\w")
_MEASURE = lazy_pattern(
    r"x\d+|[+-]?\d[\d.,]*(?:st|nd|rd|th|x|h|m|s|ms|us|ns|px|em|rem|pt|d|k|kb|mb|gb|b|am|pm|v)?",
    re.IGNORECASE,
)
_SYMBOL = lazy_pattern(r"[A-Za-z]\w*(?:_\w+|[a-z][A-Z]\w*)(?:\.\w+)*")
_KEY = lazy_pattern(r"[\w.$@/-]+(?: [\w.$@/-]+){0,2}")
"""Any other name of an argument is a text of its own, and heads no line."""
_NAMING_KEY = lazy_pattern(
    r"(?:id|ids|key|code|number|email|phone|url|uri|branch|commit|sha|hash|token|ref|version|name|username|host|port)$",
    re.I,
)
_DULL_KEY = lazy_pattern(r"(?:description|timeout|limit|offset|output_?mode|status|active_?form)$", re.I)


@dataclass(slots=True)
class Mention:
    """What is known of one value.

    Attributes:
        weights: How often whom named it; a place in a long listing counts as part of one.
        keys: The keys it stood under, with their weight.
        last: Position of the last message that named it: 1 for the newest, towards 0 for older ones.
    """

    weights: dict[Source, float] = field(default_factory=dict[Source, float])
    keys: dict[str, int] = field(default_factory=dict[str, int])
    last: float = 0.0

    def add(self, source: Source, position: float, key: str = "", weight: float = 1.0) -> None:
        """Count one mention."""
        self.weights[source] = self.weights.get(source, 0.0) + weight
        self.last = max(self.last, position)
        if key:
            # The key a tool was called with is the one the next call will use.
            self.keys[key] = self.keys.get(key, 0) + (3 if source is Source.CALL else 1)

    @property
    def key(self) -> str:
        """The key it stood under most, empty when it stood under none."""
        return max(self.keys, key=lambda key: self.keys[key], default="")

    @property
    def score(self) -> float:
        """The weight of all mentions; it counts twice when the last one is new."""
        weight = sum(source.value * math.log2(1 + min(count, MAX_MENTIONS)) for source, count in self.weights.items())
        return weight * (1 + self.last)


Mentions = dict[str, Mention]


def collect(messages: Sequence[Message]) -> Mentions:
    """Count who named which identifier in these messages."""
    mentions: Mentions = {}
    reader = _Reader()
    for index, message in enumerate(messages):
        for part in message.parts:
            named = list(_named(message, part, reader))
            is_result = bool(named) and named[0][0] is Source.RESULT
            weight = min(1.0, LISTING / len(named)) if is_result else 1.0
            for source, key, value in named:
                mentions.setdefault(value, Mention()).add(source, (index + 1) / len(messages), key, weight)
    return mentions


def recall(mentions: Mentions, items: Sequence[Item]) -> None:
    """Add what an earlier summary holds: its identifiers under their keys, best first, and those its other lines name."""
    carried = [item for item in items if item.section is Section.IDENTIFIERS]
    for rank, item in enumerate(carried):
        key, _, values = item.text.partition(": ")
        weight = 1.0 + CARRIED * (1 - rank / len(carried))
        for value in filter(None, values.split(", ")):
            mentions.setdefault(value, Mention()).add(Source.SUMMARY, 0.0, "" if key in KIND_WEIGHTS else key, weight)
    reader = _Reader()
    for item in items:
        if item.section is not Section.IDENTIFIERS:
            for word in reader.words(item.text.partition(" -> ")[0]):
                mentions.setdefault(word, Mention()).add(_SPEAKERS.get(item.section, Source.SUMMARY), 0.0)


def identifier_items(mentions: Mapping[str, Mention], known: AbstractSet[str]) -> list[Item]:
    """Return the identifiers worth carrying, the most valuable first.

    Args:
        known: Values that are carried elsewhere, such as the paths in the file lists.
    """
    scored: list[tuple[float, str, str]] = []
    for value, mention in mentions.items():
        key, kind = mention.key, kind_of(value)
        if value not in known and _is_worth(mention, key, kind):
            weight = KEY_WEIGHT if _NAMING_KEY.search(key) else KIND_WEIGHTS.get(kind, OTHER_WEIGHT)
            scored.append((-mention.score * weight, value, key or kind))
    scored.sort()
    return [
        Item(section=Section.IDENTIFIERS, text=value, value=-score, group=group)
        for score, value, group in scored[:MAX_ITEMS]
    ]


def kind_of(word: str) -> str:
    """Return what kind of identifier a word is, empty when it is none.

    >>> [kind_of(word) for word in ("https://x.org/a", "a@b.org", "src/a.py", "M20IZO", "#123", "is_open")]
    ['url', 'email', 'path', 'id', 'number', 'symbol']
    >>> [kind_of(word) for word in ("and/or", "hello", "10ms", "1st", "42")]
    ['', '', '', '', '']
    """
    if "/" in word:
        if _URL.fullmatch(word):
            return "url"
        return "path" if (word.count("/") > 1 or "." in word) and _PATH.fullmatch(word) else ""
    if "@" in word and _EMAIL.fullmatch(word):
        return "email"
    if _NUMBER.fullmatch(word):
        return "number"
    if _MEASURE.fullmatch(word):
        return ""
    if _CODE.fullmatch(word):
        return "id"
    return "symbol" if _SYMBOL.fullmatch(word) else ""


_SPEAKERS = {Section.GOAL: Source.USER, Section.CONSTRAINTS: Source.USER, Section.DONE: Source.CALL}
"""Who said what stands in a section of an earlier summary; in the others nobody in particular."""


def _named(message: Message, part: Part, reader: _Reader) -> Iterator[tuple[Source, str, str]]:
    """Yield (source, key, value) for each identifier of one part, each once."""
    match part:
        case Text(text=text) if message.role in ("user", "assistant"):
            source = Source.USER if message.role == "user" else Source.ASSISTANT
            yield from _keyed_and_bare(source, reader.words(text), dict(_labelled(text)))
        case ToolCall():
            yield from _argument_names(part, reader)
        case ToolResult(text=text):
            text = _ends(text)
            yield from _keyed_and_bare(Source.RESULT, reader.words(text), dict(_members(text)))
        case _:
            return


def _keyed_and_bare(
    source: Source, words: Iterable[str], key_of: Mapping[str, str]
) -> Iterator[tuple[Source, str, str]]:
    yield from ((source, key, value) for value, key in key_of.items())
    yield from ((source, "", word) for word in words if word not in key_of)


class _Reader:
    """Finds identifier-like words; remembers what it made of each run of characters, for they come again and again."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, ...]] = {}

    def words(self, text: str) -> dict[str, None]:
        """Return the identifier-like words of a text, each once, in the order they stand."""
        known = self._known
        found: dict[str, None] = {}
        for run in dict.fromkeys(_RUN.findall(text)):
            words = known.get(run)
            if words is None:
                words = known[run] = _words_of(run)
            for word in words:
                found[word] = None
        return found


def _words_of(run: str) -> tuple[str, ...]:
    if len(run) > MAX_CHARS or not _TELLING.search(run):
        return ()
    run = run.strip(":").rstrip(".")
    is_whole = ":" not in run or "://" in run or _WITH_LINE.fullmatch(run)
    pieces = (piece.lstrip("!?*_-&").rstrip(".!?*_-&~") for piece in ((run,) if is_whole else run.split(":")))
    return tuple(word for word in pieces if len(word) > 2 and kind_of(word))


def _labelled(text: str) -> Iterator[tuple[str, str]]:
    """Yield (value, key) where prose says "user ID is x_1" or "branch: fix-2" and the value looks like an identifier."""
    for match in _LABELLED.finditer(text):
        value = match[2].strip(".:")
        if kind_of(value):
            yield value, match[1].lower()


def _members(text: str) -> Iterator[tuple[str, str]]:
    """Yield (value, key) for each JSON member of a text whose value may be a name."""
    if '":' not in text and '" :' not in text:
        return
    for match in _KEYED.finditer(text):
        value = (match[2] or match[3]).strip()
        if not _DULL_KEY.search(match[1]) and _is_value(value, match[1]):
            yield defuse(value), match[1]


def _argument_names(call: ToolCall, reader: _Reader) -> Iterator[tuple[Source, str, str]]:
    """Yield what a call was made with: short values under their keys, the names in commands and in written text."""
    arguments = call_arguments(call)
    command = command_line(arguments)
    seen: set[str] = set()
    for key, value in _leaves("", arguments):
        if value == command or not _is_value(value, key):
            source = Source.CALL if value == command else Source.CONTENT
            named = [(source, "", word) for word in reader.words(_ends(value))]
        else:
            named = [(Source.CALL, key, defuse(value))]
        for mention in named:
            if mention[2] not in seen and (value == command or not _DULL_KEY.search(key)):
                seen.add(mention[2])
                yield mention


def _leaves(key: str, value: object, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield (key, text) for every scalar in a JSON value, `MAX_DEPTH` levels down; booleans and null name nothing."""
    if isinstance(value, bool) or value is None or depth > MAX_DEPTH:
        return
    if (fields := as_fields(value)) is not None:
        for name, inner in fields.items():
            yield from _leaves(name if _KEY.fullmatch(name) else "", inner, depth + 1)
    elif (items := as_items(value)) is not None:
        for inner in items:
            yield from _leaves(key, inner, depth + 1)
    else:
        yield key, str(value).strip()


def _is_value(value: str, key: str) -> bool:
    """Whether a keyed value is short enough for a name and, unless its key says that it names something, looks like one."""
    if not 2 <= len(value) <= MAX_VALUE_CHARS or not value.isprintable() or ", " in value:
        return False
    return bool(_NAMING_KEY.search(key) or kind_of(value))


def _is_worth(mention: Mention, key: str, kind: str) -> bool:
    """Whether anyone but a single tool result named it; a programmer's symbol must have been spoken of."""
    spoken = mention.weights.keys() - {Source.RESULT, Source.CONTENT}
    if kind == "symbol" or spoken:
        return bool(spoken)
    results = mention.weights.get(Source.RESULT, 0.0)
    return results > 1 or (results >= 0.5 and _NAMING_KEY.search(key) is not None)


def _ends(text: str) -> str:
    return text if len(text) <= 2 * SCAN_CHARS else f"{text[:SCAN_CHARS]} {text[-SCAN_CHARS:]}"
