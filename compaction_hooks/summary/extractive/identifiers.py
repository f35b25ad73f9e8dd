"""The names, numbers and addresses later steps are likely to need, with the key they had.

The past use of an identifier gives its value: one that the user named, or that was an argument of a call, will be asked for
again; one from a single listing will not, and is not kept.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from compaction_hooks.files.operations import CallMade, as_fields, as_items
from compaction_hooks.messages import Message, Part, Text, ToolCall, ToolResult
from compaction_hooks.summary.extractive.outline import Item, Section
from compaction_hooks.summary.extractive.text import defuse

MAX_CHARS = 200
"""A longer word is data, not a name."""
MAX_VALUE_CHARS = 80
"""A longer value under a key is data, not a name."""
SCAN_CHARS = 1_000
"""The most characters of one result or argument that are read at each end: the middle is data."""
MAX_ITEMS = 300
"""The most candidates that are returned; a summary of the largest size has room for half as many."""
MAX_DEPTH = 20
"""Levels of nested arguments that are read: deeper ones would exhaust the stack before they named anything."""
LISTING = 25
"""A result that names more than this is a listing: its names share the weight of this many."""
CARRIED = 3.0
"""Additional mentions for the first place in an earlier summary's list; the last place gets none."""

USER, CALL, ASSISTANT, SUMMARY, RESULT = 4.0, 3.0, 2.0, 1.9, 1.0
"""Weights of a mention."""
KIND_WEIGHTS = {"url": 1.5, "email": 2.0, "id": 1.5, "number": 1.2, "path": 1.0, "symbol": 0.8}
"""Likelihood that a word of this kind names one thing that will be asked for again; under a key that says so, `KEY_WEIGHT`."""
KEY_WEIGHT = 2.0
OTHER_WEIGHT = 0.5

_SPEAKERS = {Section.GOAL: USER, Section.CONSTRAINTS: USER, Section.DONE: CALL}
"""The speakers of the items of an earlier summary; in the other sections they are unknown."""
_RUN = re.compile(r"[^\s\"'`<>(){}\[\],;=|\\\u0080-\U0010ffff]{3,}")
_GAP = re.compile(r"[\s\"'`<>(){}\[\],;=|\\\u0080-\U0010ffff]")
_KEYED = re.compile(r'"([A-Za-z_][\w.-]{0,40})"\s{0,20}:\s{0,20}(?:"([^"\\\n]{1,100})"|(-?\d[\d.]{0,20}))')
_TELLING = re.compile(r"[/@_]|[a-z][A-Z]|\d(?:\D|\d{5}|(?<=\D.))")
"""Fewer than six digits alone are no name: half of all words with digits."""
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
_NAMING_KEY = lru_cache(
    re.compile(
        r"(?:id|ids|key|code|number|email|phone|url|uri|branch|commit|sha|hash|token|ref|version|name|username|host|port)$",
        re.I,
    ).search
)
_DULL_KEY = lru_cache(
    re.compile(r"(?:description|timeout|limit|offset|output_?mode|status|active_?form)$", re.I).search
)
"""Both are asked for each value, and there are few keys."""


@dataclass(slots=True)
class Mention:
    """The past use of one value.

    Attributes:
        weight: Of all mentions together.
        last: Position of the newest message that named it: 1 for the newest message, towards 0 for older ones.
        key: The key it had, preferably in a call: the next call will use that one. Empty when it had none.
    """

    weight: float = 0.0
    last: float = 0.0
    key: str = ""

    def add(self, weight: float, position: float, key: str = "") -> None:
        """Count one mention."""
        self.weight += weight
        self.last = max(self.last, position)
        if key and (weight == CALL or not self.key):
            self.key = key

    @property
    def score(self) -> float:
        """The logarithm of the weight of all mentions; it counts twice when the last mention is new."""
        return math.log2(1 + self.weight) * (1 + self.last)


Mentions: TypeAlias = defaultdict[str, Mention]
"""Values worth carrying, in the order they were first named."""


def collect_mentions(messages: Sequence[Message], calls: Iterable[CallMade], earlier: Sequence[Item]) -> Mentions:
    """Return the identifiers that these messages, and the items of an earlier summary, name.

    A name that is only in results counts from the second result on, or under a key for names; a programmer's symbol counts
    if the user, the assistant or a call named it.
    """
    mentions: Mentions = defaultdict(Mention)
    _count_earlier(earlier, mentions)
    arguments = {id(made.call): made for made in calls}
    for position, message, part in _parts(messages):
        if isinstance(part, ToolCall):
            for value, key in _argument_names(arguments[id(part)]).items():
                mentions[value].add(CALL, position, key)
        elif isinstance(part, Text) and message.role in ("user", "assistant"):
            for value in _find_words(part.text):
                mentions[value].add(USER if message.role == "user" else ASSISTANT, position)

    # Results last: a name in them counts more readily if a message or a call has it too.
    seen: set[int] = set()  # hashes: the names themselves take twice the memory
    for position, _, part in _parts(messages):
        if isinstance(part, ToolResult):
            _read_result(part.text, position, mentions, seen)
    return mentions


def identifier_items(mentions: Mapping[str, Mention], known: AbstractSet[str]) -> list[Item]:
    """Return the most valuable identifiers, best first.

    Args:
        known: Values that are elsewhere in the summary, such as the paths in the file lists.
    """
    scored: list[tuple[float, str, str]] = []
    for value, mention in mentions.items():
        if value not in known:
            kind = kind_of(value)
            weight = KEY_WEIGHT if _NAMING_KEY(mention.key) else KIND_WEIGHTS.get(kind, OTHER_WEIGHT)
            scored.append((-mention.score * weight, value, mention.key or kind))
    return [
        Item(section=Section.IDENTIFIERS, text=value, value=-score, group=group)
        for score, value, group in sorted(scored)[:MAX_ITEMS]
    ]


def kind_of(word: str) -> str:
    """Return the kind of identifier that a word is, or an empty text.

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


def _parts(messages: Sequence[Message]) -> Iterator[tuple[float, Message, Part]]:
    """Yield every part with the position of its message."""
    return ((at / len(messages), message, part) for at, message in enumerate(messages, 1) for part in message.parts)


def _count_earlier(items: Sequence[Item], mentions: Mentions) -> None:
    """Count the identifiers of an earlier summary: its own list, best first, and those in its other lines."""
    carried = [item for item in items if item.section is Section.IDENTIFIERS]
    for rank, item in enumerate(carried):
        key, _, values = item.text.partition(": ")
        weight = SUMMARY * (1.0 + CARRIED * (1 - rank / len(carried)))
        for value in filter(None, values.split(", ")):
            mentions[value].add(weight, 0.0, "" if key in KIND_WEIGHTS else key)
    for item in items:
        if item.section is not Section.IDENTIFIERS:
            for value in _find_words(item.text.partition(" -> ")[0]):
                mentions[value].add(_SPEAKERS.get(item.section, SUMMARY), 0.0)


def _read_result(text: str, position: float, mentions: Mentions, seen: set[int]) -> None:
    """Count the names of one result that are worth a mention now, and add the others to `seen`."""
    text = _read_ends(text)
    kinds, keys = _find_words(text), _find_members(text)
    named = {**kinds, **keys}
    weight = RESULT * min(1.0, LISTING / max(len(named), 1))
    for value in named:
        key = keys.get(value, "")
        if value not in mentions and kinds.get(value) == "symbol":
            continue
        if value in mentions or hash(value) in seen or (weight >= 0.5 and _NAMING_KEY(key)):
            mentions[value].add(weight, position, key)
        else:
            seen.add(hash(value))


def _find_words(text: str) -> dict[str, str]:
    """Return the identifier-like words of a text in their order, each with its kind."""
    found: dict[str, str] = {}
    for run in filter(_TELLING.search, dict.fromkeys(_RUN.findall(text))):
        if len(run) > MAX_CHARS:
            continue
        for piece in _split_run(run) if ":" in run else (run,):
            word = piece.lstrip("!?*_-&").rstrip(".!?*_-&~")
            if len(word) > 2 and (kind := kind_of(word)):
                found[word] = kind
    return found


def _read_ends(text: str) -> str:
    """Return both ends of a text, cut between two names: half a name would be a wrong name."""
    if len(text) <= 2 * SCAN_CHARS:
        return text
    cuts = (SCAN_CHARS, len(text) - SCAN_CHARS)
    head, tail = (at + len(_GAP.split(text[at : at + MAX_CHARS], maxsplit=1)[0]) for at in cuts)
    return f"{text[:head]}\n{text[tail:]}"


def _split_run(run: str) -> Sequence[str]:
    """Return the parts of a run with colons that may be identifiers."""
    run = run.strip(":").rstrip(".")
    return (run,) if "://" in run or _WITH_LINE.fullmatch(run) else run.split(":")


def _find_members(text: str) -> dict[str, str]:
    """Return the values of JSON members in a text that may be names, each with its key."""
    if '":' not in text and '" :' not in text:
        return {}
    members = ((match[1], (match[2] or match[3]).strip()) for match in _KEYED.finditer(text))
    return {defuse(value): key for key, value in members if not _DULL_KEY(key) and _is_value(value, key)}


def _argument_names(made: CallMade) -> dict[str, str]:
    """Return the arguments of a call that may be names, each with its key: short values, and the names in a command."""
    named = dict.fromkeys(_find_words(_read_ends(made.command or "")), "")
    for key, value in _leaves("", made.arguments):
        if value != made.command and not _DULL_KEY(key) and _is_value(value, key):
            named.setdefault(defuse(value), key)
    return named


def _leaves(key: str, value: object, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield (key, text) for every scalar in a JSON value, `MAX_DEPTH` levels down, except booleans and null."""
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
    """Return whether a keyed value is short enough for a name and looks like one, or has a key for names."""
    if not 2 <= len(value) <= MAX_VALUE_CHARS or not value.isprintable() or ", " in value:
        return False
    return bool(_NAMING_KEY(key) or kind_of(value))
