"""The names, numbers and addresses that later steps are likely to need, with the key they had.

Past use alone gives the value of a name: the messages that name it, each by its speaker and its age. Recorded agents soon use
again the names that they and the user named, of any kind, and rarely a name that is only in results.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import lru_cache

from compaction_hooks.digest.outline import Item, Section
from compaction_hooks.digest.text import defuse
from compaction_hooks.files.operations import CallMade, as_fields, as_items
from compaction_hooks.history.history import texts_of
from compaction_hooks.messages import Message, Role, Text, ToolCall, ToolResult
from compaction_hooks.text.escaping import remove_noise
from compaction_hooks.view.texts import HANDLE

MAX_CHARS = 200
"""A longer word is data, not a name."""
MAX_VALUE_CHARS = 80
"""A longer value under a key is data, not a name."""
SCAN_CHARS = 10_000
"""The most characters of one result or argument that are read at each end; of an older result less, by its weight."""
MAX_ITEMS = 600
"""The most names that are read; a summary of the largest size has room for as many."""
MAX_DEPTH = 20
"""Levels of nested arguments that are read: deeper ones would exhaust the stack before they named anything."""

CALL, RESULT = 3.0, 0.5
"""Weights of a tool call and of a result that names a word."""
SPEAKERS: Mapping[Role, float] = {"user": 3.0, "assistant": 2.0}
"""Weights of a text that names a word, by its speaker."""
LEAST_CHARS = 6
"""Added to the length of a name, whose root divides its weight: the next steps of recorded agents used 3 to 7 % more of as many
tokens of names than by weight alone."""
KEYED = 2.0
"""Factor for a name with a key: recorded agents used a third and more of those that only a key makes a name, a tenth of others."""
LISTING = 100
"""A message that names more than this is a listing: its names share the weight of this many."""
LEAST_WEIGHT = 0.1
"""A name below this weight is not listed: an old listing would fill the room that nothing else needs."""
HALF_AGE = 20
"""The number of later messages at which a mention has half of its weight."""
SUMMARY = 3.0
"""Weight of the first place in a line of an earlier summary; later places count as older messages do."""

KINDS = frozenset({"url", "email", "id", "number", "path", "symbol"})
_GAP = re.compile(r"[^!#-&*+\-.-:?-Z^_a-z~]")
"""All but some ASCII characters: a set with a large range takes milliseconds to compile."""
_GAP_BYTES = bytes(ord(" ") if _GAP.match(chr(byte)) else byte for byte in range(256))
"""A table that makes spaces of gaps: splitting bytes takes a third of the time of a pattern."""
_KEYED = re.compile(r'"([A-Za-z_][\w.-]{0,40})"\s{0,20}:\s{0,20}(?:"([^"\\\n]{1,100})"|(-?\d[\d.]{0,20}))')
_KEY_ALONE = re.compile(r'"[A-Za-z_][\w.-]{0,40}"(?=\s{0,20}:)')
_TELLING = re.compile(r"[/@_]|[a-z][A-Z]|\w\.[A-Za-z_]|\d(?:\D|\d{4}|(?<=\D.))")
"""Fewer than five digits alone are no name: half of all words with digits."""
_WITH_PORT = re.compile(r"[^:/]+:\d{4,5}")
UNSPOKEN = frozenset({"url", "number"})
"""Kinds that are no names if only results have them: at most 2 % are used again."""
_URL = re.compile(r"https?://\S{3,}")
_PATH = re.compile(r"(?!/dev/)[~.]{0,2}/?(?:[\w@.+~-]+/)+[\w@.+-]*(?::\d+)*")
_NO_PATH = re.compile(
    r"(?P<email>[\w.+-]++@[\w-]+(?:\.[\w-]+)+)"
    r"|(?P<number>#\d{1,8}|(?!\d{1,5}-\d{1,5}$|\d*000$)\+?\d[\d-]{3,20}\d)"
    r"|(?i:x\d+|[+-]?\d[\d.,]*(?:st|nd|rd|th|x|h|m|s|ms|us|ns|px|em|rem|pt|d|k|kb|mb|gb|b|am|pm|v|z)?|\d{4}-\d\d-\d\dT[\d:.+-]+)"
    r"|(?P<id>(?=[^\d]*\d)(?=[^A-Za-z]*[A-Za-z])[#@]?\w[\w.:#-]*\w)"
    r"|(?P<symbol>(?=[\w-]*(?:_|[a-z][A-Z]|\.\w\w))[A-Za-z_][\w-]*+(?:\.[A-Za-z_][\w-]*+)*)"
)
"""The kinds of a word without a slash, the first that fits; measures, such as `10ms`, are of none. Symbols are also file names."""
_KEY = re.compile(r"[\w.$@/-]+(?: [\w.$@/-]+){0,2}")
"""Any other name of an argument is a text of its own, and heads no line."""
_NAMING_KEY = lru_cache(
    re.compile(
        r"(?:id|ids|key|code|number|email|phone|url|uri|branch|commit|sha|hash|token|ref|version|name|username|host|port)$",
        re.I,
    ).search
)
"""It is asked for each value, and there are few keys."""


@dataclass(eq=False, repr=False)
class Mentions:
    """The past use of names.

    Attributes:
        weights: The weight of all mentions of a name.
        keys: The key for names that it had, the newest one of a call.
    """

    weights: dict[str, float] = field(default_factory=dict[str, float])
    keys: dict[str, str] = field(default_factory=dict[str, str])

    def add(self, names: Collection[str], weight: float) -> None:
        """Count one mention of each name."""
        for name in names:
            self.weights[name] = self.weights.get(name, 0.0) + weight * min(1.0, LISTING / len(names))


def find_words(text: str) -> set[str]:
    """Return the identifier-like words of a text."""
    return {word for run in _split(text) for word in _read_run(run)}


def _split(text: str) -> set[bytes]:
    """Return the parts of a text without gaps, each once, but for plain words: they are most, and no names."""
    data = text.encode("utf-8", "replace")
    if b"\\" in data:  # the letters of JSON's escapes are no part of the next word
        data = data.replace(b"\\n", b" ").replace(b"\\t", b" ").replace(b"\\r", b" ")
    return {run for run in {*data.translate(_GAP_BYTES).split()} if not (run.isalpha() and run[1:].islower())}


def collect_mentions(messages: Sequence[Message], calls: Iterable[CallMade], earlier: Sequence[Item]) -> Mentions:
    """Return the identifiers that these messages, and the items of an earlier summary, name."""
    mentions = Mentions()
    age = _decay(len(messages))
    for item in earlier:
        _count_earlier(item, mentions, age)

    arguments = {id(made.call): made for made in calls}
    for place, message in enumerate(messages):
        decay = _decay(len(messages) - place)
        for part in message.parts:
            match part:
                case ToolResult() if RESULT * decay >= LEAST_WEIGHT:  # of less weight, alone, it would not be listed
                    _count_result(remove_noise(_read_ends(part.text, int(SCAN_CHARS * decay))), mentions, decay)
                case ToolCall():
                    _count_call(arguments[id(part)], mentions, decay)
                case Text() if message.role in SPEAKERS:
                    mentions.add(find_words(part.text), SPEAKERS[message.role] * decay)
                case _:
                    pass
    return mentions


def identifier_items(mentions: Mentions, known: AbstractSet[str], shown: Iterable[Message]) -> Iterator[Item]:
    """Yield the most valuable identifiers, best first.

    Args:
        known: Values that are elsewhere in the context, such as the paths in the file lists.
        shown: Messages that stay: what they name is not listed.
    """
    text = "\n".join(texts_of(shown))
    each_once = b" ".join(_split(text)).decode()  # shorter than the text
    rated = (
        (-weight * (KEYED if name in mentions.keys else 1.0) / math.sqrt(LEAST_CHARS + len(name)), name)
        for name, weight in mentions.weights.items()
        if weight >= LEAST_WEIGHT and name not in known
    )

    for _, name in sorted(rated)[:MAX_ITEMS]:
        if name in (text if _GAP.search(name) else each_once):
            continue
        # The key of a name that does not say itself of what kind it is, or its kind.
        kind, key = kind_of(name), mentions.keys.get(name, "")
        group = key or kind if kind in ("", "id", "number") else kind
        yield Item(Section.IDENTIFIERS, name, group)


@lru_cache(maxsize=1_024)
def kind_of(word: str) -> str:
    """Return the kind of identifier that a word is, or an empty text.

    >>> [kind_of(word) for word in ("https://x.org/a", "a@b.org", "src/a.py", "M20IZO", "#123", "is_open", "setup.go")]
    ['url', 'email', 'path', 'id', 'number', 'symbol', 'symbol']
    >>> [kind_of(word) for word in ("and/or", "hello", "10ms", "1st", "42", "e.g")]
    ['', '', '', '', '', '']
    """
    if "/" in word:
        if _URL.fullmatch(word):
            return "url"
        return "path" if (word.count("/") > 1 or "." in word) and _PATH.fullmatch(word) else ""
    match = _NO_PATH.fullmatch(word)
    return (match and match.lastgroup) or ""


def _decay(age: int) -> float:
    return 1 / (1 + age / HALF_AGE)


def _count_earlier(item: Item, mentions: Mentions, decay: float) -> None:
    """Count the identifiers of an item of an earlier summary; those of its own list by their place, best first."""
    if item.section is not Section.IDENTIFIERS:
        mentions.add(find_words(item.text), SPEAKERS["assistant"] * decay)
        return

    key, _, values = item.text.partition(": ")
    for place, value in enumerate(filter(None, values.split(", "))):
        mentions.add((value,), SUMMARY * _decay(place) * decay)
        if key not in KINDS:
            mentions.keys.setdefault(value, key)


def _count_result(text: str, mentions: Mentions, decay: float) -> None:
    """Count the names of a result once each, with the keys of its members."""
    keys = _find_members(text)
    names = {word for word in find_words(_KEY_ALONE.sub(" ", text)) if kind_of(word) not in UNSPOKEN}.union(keys)
    mentions.add(names, RESULT * decay)
    for value, key in keys.items():
        mentions.keys.setdefault(value, key)


@lru_cache(maxsize=1_024)
def _read_run(run: bytes) -> tuple[str, ...]:
    """Return the identifiers in a text without gaps, of which a conversation has most many times.

    Numbers of lines behind a file's name are left out.
    """
    text = run.decode()
    if len(text) > MAX_CHARS or not _TELLING.search(text):
        return ()
    bare = text.strip(":").rstrip(".")
    is_one = "://" in bare or _WITH_PORT.fullmatch(bare)
    words: list[str] = []
    for piece in (bare,) if is_one else bare.split(":"):
        word = piece.lstrip("!?*&-").rstrip(".!?*_-&~")
        if len(word) > 2 and kind_of(word) and not HANDLE.fullmatch(word):  # the recall tool alone uses handles
            words.append(word)
    return tuple(words)


def _read_ends(text: str, chars: int) -> str:
    """Return so many characters from both ends of a text, cut between two names: half a name would be a wrong name."""
    if len(text) <= 2 * chars:
        return text
    cuts = (chars, len(text) - chars)
    head, tail = (at + len(_GAP.split(text[at : at + MAX_CHARS], maxsplit=1)[0]) for at in cuts)
    return f"{text[:head]}\n{text[tail:]}"


def _find_members(text: str) -> dict[str, str]:
    """Return the values of JSON members in a text that have a key for names, each with its key."""
    members = ((match[1], defuse((match[2] or match[3]).strip())) for match in _KEYED.finditer(text))
    return {value: key for key, value in members if _is_named(value, key)}


def _count_call(made: CallMade, mentions: Mentions, decay: float) -> None:
    """Count the names in the arguments of a call: its values under a key for names, and the words of the others."""
    names: set[str] = set()
    for key, value in _leaves("", made.arguments):
        if _is_named(value, key):
            names.add(defuse(value))
            mentions.keys[defuse(value)] = key
        else:
            names |= find_words(_read_ends(value, SCAN_CHARS))
    mentions.add(names, CALL * decay)


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


def _is_named(value: str, key: str) -> bool:
    """Return whether a value is short enough for a name and has a key for names."""
    return (
        2 <= len(value) <= MAX_VALUE_CHARS
        and value.isprintable()
        and ", " not in value
        and _NAMING_KEY(key) is not None
    )
