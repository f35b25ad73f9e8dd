"""The names, numbers and addresses later steps are likely to need, with the key they stood under.

An identifier is worth what its use so far says: one that the user named, or that a call was made with, will be asked for
again; one that stood in a single listing will not.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeAlias

from compaction_hooks.files.operations import as_fields, as_items, call_arguments, command_line
from compaction_hooks.messages import Message, Part, Text, ToolCall, ToolResult
from compaction_hooks.summary.extractive.outline import Item, Section
from compaction_hooks.summary.extractive.text import defuse

MAX_CHARS = 200
"""A longer word is data, not a name."""
MAX_VALUE_CHARS = 80
"""The same for a value under a key."""
SCAN_CHARS = 50_000
"""Of one result or argument, so much is looked at from each end: what is larger is data."""
MAX_ITEMS = 300
"""Candidates handed on, the most valuable ones; a summary of the largest size has room for half of them."""
MAX_DEPTH = 20
"""Levels of nested arguments that are looked at: deeper ones would exhaust the stack before they named anything."""
STRETCH_CHARS = 16_384
"""Of a text, so much is split into words at a time."""
CHARS_PER_MARKS = 32
"""Characters of results for each byte of marks, one bit for a value that was named: there is about one in 100 characters."""
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

_RUN = re.compile(r"[^\s\"'`<>(){}\[\],;=|\\\u0080-\U0010ffff]{3,}")
_GAP = re.compile(r"[\s\"'`<>(){}\[\],;=|\\\u0080-\U0010ffff]")
"""What stands between runs, and in none."""
_KEYED = re.compile(r'"([A-Za-z_][\w.-]{0,40})"\s{0,20}:\s{0,20}(?:"([^"\\\n]{1,100})"|(-?\d[\d.]{0,20}))')
_LABELLED = re.compile(
    r"\b([A-Za-z][A-Za-z_-]{0,30}(?:[Ii][Dd]|[Nn]ame|[Nn]umber|[Kk]ey|[Hh]ash|[Bb]ranch|[Cc]ommit|[Pp]ort|[Vv]ersion|[Cc]ode))"
    r"(?: is)?\s?[:=]?\s([\w#@./+-]{2,80})"
)
_LABEL_GAP = re.compile(r"(?<=[^A-Za-z:=\s])\s")
"""A space that stands in nothing labelled."""
_LABEL_END = re.compile(r"(?:[iI][dD]|ame|umber|ey|ash|ranch|ommit|ort|ersion|ode)(?: is)?\s?[:=]?\s")
"""Quickly found where `_LABELLED` is, and seldom elsewhere."""
_TELLING = re.compile(r"[\d/@_]|[a-z][A-Z]")
_WITH_LINE = re.compile(r"[^:]+(?::\d+)+")
_URL = re.compile(r"https?://\S{3,}")
_PATH = re.compile(r"(?!/dev/)[~.]{0,2}/?(?:[\w@.+~-]+/)+[\w@.+-]*(?::\d+)*")
_NO_PATH = re.compile(
    r"(?P<email>[\w.+-]++@[\w-]+(?:\.[\w-]+)+)"
    r"|(?P<number>#\d{1,8}|(?!\d{1,5}-\d{1,5}$)\+?\d[\d-]{4,20}\d)"
    r"|(?i:x\d+|[+-]?\d[\d.,]*(?:st|nd|rd|th|x|h|m|s|ms|us|ns|px|em|rem|pt|d|k|kb|mb|gb|b|am|pm|v)?)"
    r"|(?P<id>(?=[^\d]*\d)(?=[^A-Za-z]*[A-Za-z])[#@]?\w[\w.:#-]*\w)"
    r"|(?P<symbol>[A-Za-z]\w*(?:_\w+|[a-z][A-Z]\w*)(?:\.\w+)*)"
)
"""The kinds of a word without a slash, the first that fits; measures, such as `10ms`, are of none."""
_KEY = re.compile(r"[\w.$@/-]+(?: [\w.$@/-]+){0,2}")
"""Any other name of an argument is a text of its own, and heads no line."""
_NAMING_KEY = re.compile(
    r"(?:id|ids|key|code|number|email|phone|url|uri|branch|commit|sha|hash|token|ref|version|name|username|host|port)$",
    re.I,
)
_DULL_KEY = re.compile(r"(?:description|timeout|limit|offset|output_?mode|status|active_?form)$", re.I)


@dataclass(frozen=True, slots=True)
class Naming:
    """One mention; all values that one part names under one key share it.

    Attributes:
        place: Number of the part, counted over all messages.
        position: Of its message: 1 for the newest, towards 0 for older ones.
        key: The key the value stood under, or empty.
        weight: What the mention counts; in a long listing part of one.
    """

    place: int
    position: float
    source: Source
    key: str = ""
    weight: float = 1.0


@dataclass(slots=True)
class Mention:
    """What is known of one value.

    Attributes:
        weights: How often whom named it.
        keys: The keys it stood under, with their weight.
        last: Position of the last message that named it.
    """

    weights: dict[Source, float] = field(default_factory=dict[Source, float])
    keys: dict[str, int] = field(default_factory=dict[str, int])
    last: float = 0.0

    def add(self, naming: Naming) -> None:
        """Count one mention."""
        source, key = naming.source, naming.key
        self.weights[source] = self.weights.get(source, 0.0) + naming.weight
        self.last = max(self.last, naming.position)
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


Namings: TypeAlias = "dict[str, tuple[Naming, ...] | list[Naming]]"
"""By value, who named it, oldest first. A tuple is shared by all values of one part that nothing else names."""


def collect(messages: Sequence[Message], earlier: Sequence[Item]) -> Namings:
    """Return who named which identifier in these messages, and in the items of an earlier summary.

    Of ten names nine stand in a single tool result and are not worth carrying (`_is_worth`). They are not held: what was spoken
    is read first, and of the results only what was spoken too, stands under a key that names something, or comes a second time.
    """
    recalled = [*_recalled(earlier)]
    namings: Namings = {value: () for value, _ in recalled}
    held = [*_read_spoken(messages, namings)]
    held += _read_results(messages, namings)
    while held:
        naming, lines = held.pop()
        for value, _, key in (line.partition("\t") for line in lines.split("\n")):
            if value in namings:
                _add(namings, value, (replace(naming, key=key),))
    for named in namings.values():
        if isinstance(named, list):
            named.sort(key=lambda naming: naming.place)
    for value, naming in recalled:
        _add(namings, value, (naming,))
    return namings


def identifier_items(namings: Mapping[str, Iterable[Naming]], known: AbstractSet[str]) -> list[Item]:
    """Return the identifiers worth carrying, the most valuable first.

    Args:
        known: Values that are carried elsewhere, such as the paths in the file lists.
    """
    scored: list[tuple[float, str, str]] = []
    for value, named in namings.items():
        mention = Mention()
        for naming in named:
            mention.add(naming)
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
    found = _NO_PATH.fullmatch(word)
    return (found and found.lastgroup) or ""


_SPEAKERS = {Section.GOAL: Source.USER, Section.CONSTRAINTS: Source.USER, Section.DONE: Source.CALL}
"""Who said what stands in a section of an earlier summary; in the others nobody in particular."""


_Held: TypeAlias = tuple[Naming, str]
"""Mentions that count only where their values are named elsewhere too: a line for each value, a tab and its key behind it."""


def _parts(messages: Sequence[Message]) -> Iterator[tuple[int, float, Message, Part]]:
    """Yield every part with its number and the position of its message."""
    place = itertools.count()
    for index, message in enumerate(messages, 1):
        for part in message.parts:
            yield next(place), index / len(messages), message, part


def _read_spoken(messages: Sequence[Message], namings: Namings) -> Iterator[_Held]:
    """Take in what was said and what calls were made with; yield what calls wrote."""
    for place, position, message, part in _parts(messages):
        if isinstance(part, ToolCall):
            named = _argument_names(part)
        elif isinstance(part, Text) and message.role in ("user", "assistant"):
            named = _said(Source.USER if message.role == "user" else Source.ASSISTANT, part.text)
        else:
            continue
        shared: dict[tuple[Source, str], tuple[Naming]] = {}
        written: list[str] = []
        for source, key, value in named:
            if source is Source.CONTENT:
                written.append(value)
                continue
            if (source, key) not in shared:
                shared[source, key] = (Naming(place, position, source, key),)
            _add(namings, value, shared[source, key])
        if written:
            yield Naming(place, position, Source.CONTENT), "\n".join(written)


def _read_results(messages: Sequence[Message], namings: Namings) -> Iterator[_Held]:
    """Take in of the results what is named elsewhere too, or may be worth carrying without; yield the rest."""
    marks = _Marks(messages)
    for place, position, _, part in _parts(messages):
        if not isinstance(part, ToolResult):
            continue
        text = _ends(part.text)
        values = _words(text)
        values.update(_members(text))
        weight = min(1.0, LISTING / len(values)) if values else 1.0
        shared: dict[str, tuple[Naming]] = {}
        first: list[str] = []
        for value, key in values.items():
            if value not in namings:
                if kind_of(value) == "symbol":
                    continue  # not spoken of
                if not (_is_telling(key, weight) or marks.has(value)):
                    first.append(f"{value}\t{key}" if key else value)
                    continue
            if key not in shared:
                shared[key] = (Naming(place, position, Source.RESULT, key, weight),)
            _add(namings, value, shared[key])
        if first:
            yield Naming(place, position, Source.RESULT, "", weight), "\n".join(first)


class _Marks:
    """Remembers which values were named, in a bit each. Where two share a bit, the second is held: that costs memory alone."""

    def __init__(self, messages: Iterable[Message]) -> None:
        chars = sum(len(part.text) for message in messages for part in message.parts if isinstance(part, ToolResult))
        self._marks = bytearray(1 + chars // CHARS_PER_MARKS)

    def has(self, value: str) -> bool:
        """Whether a value was asked for before, or one that shares its bit; from now on it was."""
        place, bit = divmod(hash(value), 8)
        place %= len(self._marks)
        marks = self._marks[place]
        self._marks[place] = marks | 1 << bit
        return bool(marks >> bit & 1)


def _add(namings: Namings, value: str, naming: tuple[Naming]) -> None:
    named = namings.get(value)
    if not named:
        namings[value] = naming
    elif isinstance(named, list):
        named += naming
    else:
        namings[value] = [*named, *naming]


def _said(source: Source, text: str) -> Iterator[tuple[Source, str, str]]:
    """Yield (source, key, value) for each identifier of a text, each once."""
    for value, key in {**_words(text), **dict(_labelled(text))}.items():
        yield source, key, value


def _recalled(items: Sequence[Item]) -> Iterator[tuple[str, Naming]]:
    """Yield what an earlier summary holds: its identifiers under their keys, best first, and those its other lines name."""
    carried = [item for item in items if item.section is Section.IDENTIFIERS]
    for rank, item in enumerate(carried):
        key, _, values = item.text.partition(": ")
        weight = 1.0 + CARRIED * (1 - rank / len(carried))
        naming = Naming(0, 0.0, Source.SUMMARY, "" if key in KIND_WEIGHTS else key, weight)
        yield from ((value, naming) for value in values.split(", ") if value)
    for item in items:
        if item.section is not Section.IDENTIFIERS:
            naming = Naming(0, 0.0, _SPEAKERS.get(item.section, Source.SUMMARY))
            yield from ((word, naming) for word in _words(item.text.partition(" -> ")[0]))


def _words(text: str) -> dict[str, str]:
    """Return the identifier-like words of a text, each once, in the order they stand; each with "", for no key."""
    found: dict[str, str] = {}
    for stretch in _stretches(text, _GAP):
        for run in filter(_TELLING.search, dict.fromkeys(_RUN.findall(stretch))):
            for piece in _pieces(run) if len(run) <= MAX_CHARS else ():
                word = piece.lstrip("!?*_-&").rstrip(".!?*_-&~")
                if len(word) > 2 and kind_of(word):
                    found[word] = ""
    return found


def _stretches(text: str, gap_pattern: re.Pattern[str]) -> Iterator[str]:
    """Yield a text in parts of about `STRETCH_CHARS`, cut at gaps."""
    start = 0
    while len(text) - start > STRETCH_CHARS and (gap := gap_pattern.search(text, start + STRETCH_CHARS)):
        yield text[start : gap.start()]
        start = gap.end()
    yield text[start:]


def _pieces(run: str) -> Sequence[str]:
    """Return what may be identifiers in a run of characters."""
    run = run.strip(":").rstrip(".")
    is_whole = ":" not in run or "://" in run or _WITH_LINE.fullmatch(run)
    return (run,) if is_whole else run.split(":")


def _labelled(text: str) -> Iterator[tuple[str, str]]:
    """Yield (value, key) where prose says "user ID is x_1" or "branch: fix-2" and the value looks like an identifier."""
    for stretch in _stretches(text, _LABEL_GAP):
        for match in _LABELLED.finditer(stretch) if _LABEL_END.search(stretch) else ():
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


def _argument_names(call: ToolCall) -> Iterator[tuple[Source, str, str]]:
    """Yield what a call was made with: short values under their keys, the names in commands and in written text."""
    arguments = call_arguments(call)
    command = command_line(arguments)
    seen: set[str] = set()
    for key, value in _leaves("", arguments):
        if value == command or not _is_value(value, key):
            source = Source.CALL if value == command else Source.CONTENT
            named = [(source, "", word) for word in _words(_ends(value))]
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
    return results > 1 or _is_telling(key, results)


def _is_telling(key: str, results: float) -> bool:
    """Whether so much of one result is enough, because the key says that it names something."""
    return results >= 0.5 and _NAMING_KEY.search(key) is not None


def _ends(text: str) -> str:
    return text if len(text) <= 2 * SCAN_CHARS else f"{text[:SCAN_CHARS]} {text[-SCAN_CHARS:]}"
