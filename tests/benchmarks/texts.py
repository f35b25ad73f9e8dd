"""Texts like those of agents, made from word lists and templates: prose, Python, JSON, logs, listings, tracebacks.

Every maker takes a random generator and a size, and returns the same text for the same state of the generator.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import TypeAlias

TextMaker: TypeAlias = Callable[[Random, int], str]
"""Returns a text from a random generator and a size in characters; the text ends with the first line that reaches the size."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_NOUNS = _words("""
account adapter address answer archive balance batch branch budget buffer cache call catalogue channel check client
clock column command commit config connection context cursor customer delivery document draft driver endpoint entry error
event export failure fixture folder format gateway handler header history import index invoice item job journal key label
ledger limit line link list listener lock message method migration model module note number object offset operation order
owner packet page parcel parser path payment period plan policy price process product project protocol query queue quota
range reader receipt record region registry release report request response result retry review role route rule sample
schedule schema scope script section server service session setting shipment signal snapshot socket source stage state
statement step storage stream summary supplier table target task template tenant test thread ticket timeout token total
trace transfer tree trigger type unit update upload user value vendor version view volume warehouse window worker""")
_VERBS = _words("""
accept add apply archive assign build cache cancel check close collect commit compare confirm convert copy count
create decode delete deliver detect drop encode export fetch filter find finish flush format group handle import insert
invoke join keep limit list load lock mark match measure merge move notify open parse pass plan poll print process publish
pull push queue read record refresh reject release remove rename repair replace report request reset resolve restart retry
return route run save schedule select send serve set sort split start stop store submit sync test track transfer trim
update upload validate verify wait warn watch write""")
_QUALITIES = _words("""
active broken cached complete current default deprecated empty expected external failed final first hidden
idle internal invalid large last late legacy local locked main manual missing new next nested old open optional pending
previous primary private public random raw recent remote safe secondary shared slow small stale static strict temporary
total unique unknown unused upstream valid visible""")
_PACKAGES = (
    "accounts",
    "billing",
    "catalogue",
    "delivery",
    "gateway",
    "inventory",
    "ledger",
    "orders",
    "payments",
    "reports",
)
_LEVELS = ("DEBUG", "INFO", "INFO", "INFO", "INFO", "WARNING", "ERROR")
_SENTENCES = (
    "The {quality} {noun} has to {verb} the {noun2} before the {noun3} can {verb2} it.",
    "I would {verb} the {noun} in `{path}` first, because the {quality} {noun2} depends on it.",
    "When the {noun} is {quality}, `{function}` should {verb} the {noun2} and {verb2} the {noun3}.",
    "There are {number} cases where the {noun} is not {quality}; each of them fails in `{function}`.",
    "So the {noun2} does {verb} twice, once for the {quality} {noun} and once for the {noun3}.",
    "Nobody else seems to {verb} this {noun}, which means that the {quality} {noun2} is safe to {verb2}.",
    "After that the tests for the {noun} and the {noun2} pass, but {number} of the {quality} ones are skipped.",
    "Please do not {verb} the {quality} {noun}: the {noun2} still needs it to {verb2} the {noun3}.",
)
_STATEMENTS = (
    "    {noun} = self._{noun2}.{verb}({noun3}, {quality}=True)",
    "    if {noun} is None or {noun}.{noun2} != {number}:",
    '        raise ValueError(f"{quality} {noun} {{{noun2}!r}} cannot be {verb}ed")',
    "    for {noun} in sorted(self.{noun2}s, key=lambda entry: entry.{noun3}):",
    "        {noun2}s[{noun}.{noun3}] = {verb}_{noun2}({noun}, limit={number})",
    "    # The {quality} {noun} is kept here, since {function} reads it again.",
    "    with self._{noun}_lock:",
    '        logger.debug("{verb} %s of %s", {noun}, {noun2})',
    "    return [{verb2}_{noun}({noun2}) for {noun2} in self.{noun3}s if {noun2}.is_{quality}]",
)
_LOG_TAILS = (
    "{verb} {noun}={number} {noun2}_id={hex} took={milliseconds}ms",
    'POST /v1/{noun}s/{hex} status={status} bytes={number} {noun2}="{quality}"',
    "{quality} {noun} could not {verb} the {noun2} at {path}:{number}",
    "retry {digit} of 5 for {noun}-{hex} in {milliseconds}ms",
)


def words(rng: Random) -> dict[str, object]:
    """Return random words for all blanks in the templates."""
    choice = rng.choice
    noun, noun2, verb = choice(_NOUNS), choice(_NOUNS), choice(_VERBS)
    return {
        "noun": noun,
        "noun2": noun2,
        "noun3": choice(_NOUNS),
        "verb": verb,
        "verb2": choice(_VERBS),
        "quality": choice(_QUALITIES),
        "function": f"{verb}_{noun2}",
        "path": f"src/{choice(_PACKAGES)}/{noun}_{noun2}.py",
        "number": rng.randrange(2, 5_000),
        "digit": rng.randrange(1, 6),
        "milliseconds": rng.randrange(1, 900) / 10,
        "status": choice((200, 200, 200, 201, 404, 500)),
        "hex": f"{rng.getrandbits(48):012x}",
    }


def path(rng: Random) -> str:
    """Return the path of a source file."""
    return str(words(rng)["path"])


def prose(rng: Random, size: int) -> str:
    """Return English paragraphs of up to six sentences."""
    return _lines(rng, size, _paragraph)


def python(rng: Random, size: int) -> str:
    """Return Python methods."""
    return _lines(rng, size, _method)


def python_with_numbers(rng: Random, size: int) -> str:
    """Return Python with line numbers, as shown by a file reader."""
    lines = python(rng, size * 5 // 6).splitlines()  # a number and its tab are about a sixth of a line
    return "\n".join(f"{number:6}\t{line}" for number, line in enumerate(lines, rng.randrange(1, 400)))


def json_document(rng: Random, size: int) -> str:
    """Return a JSON answer of an interface: a list of records."""
    rows: list[dict[str, object]] = []
    length = 0
    while length < size:
        rows.append(_row(rng))
        length += len(json.dumps(rows[-1])) + 2
    return json.dumps({"items": rows, "total": len(rows), "next": None})


def log(rng: Random, size: int) -> str:
    """Return lines of a service's log."""
    return _lines(rng, size, _log_line)


def listing(rng: Random, size: int) -> str:
    """Return the matches of a search: paths, line numbers, lines."""
    return _lines(rng, size, _match)


def suite_output(rng: Random, size: int) -> str:
    """Return the output of a test run: outcomes, then a traceback or two."""
    return _lines(rng, size, _test_outcome)


def _lines(rng: Random, size: int, line: Callable[[Random], str]) -> str:
    made: list[str] = []
    length = 0
    while length < size:
        made.append(line(rng))
        length += len(made[-1]) + 1
    return "\n".join(made)


def _paragraph(rng: Random) -> str:
    sentences = (rng.choice(_SENTENCES).format_map(words(rng)) for _ in range(rng.randrange(1, 7)))
    return " ".join(sentences)


def _method(rng: Random) -> str:
    head = "def {function}(self, {noun}: {type}, {noun3}: int = {digit}) -> {type} | None:"
    filled = words(rng)
    lines = [head.format(type=str(filled["noun"]).title(), **filled)]
    lines += (rng.choice(_STATEMENTS).format_map(words(rng)) for _ in range(rng.randrange(3, 12)))
    return "\n".join((*lines, ""))


def _row(rng: Random) -> dict[str, object]:
    filled = words(rng)
    return {
        "id": filled["hex"],
        "name": f"{filled['quality']} {filled['noun']}",
        "created_at": _time(rng),
        "state": filled["quality"],
        "amount": filled["milliseconds"],
        "tags": [filled["noun2"], filled["verb"]],
        "links": {"self": f"/v1/{filled['noun']}s/{filled['number']}", "owner": None},
    }


def _time(rng: Random) -> str:
    date = f"2026-0{rng.randrange(1, 10)}-1{rng.randrange(10)}"
    return f"{date}T{rng.randrange(10, 24)}:{rng.randrange(10, 60)}:{rng.random() * 60:06.3f}Z"


def _log_line(rng: Random) -> str:
    filled = words(rng)
    tail = rng.choice(_LOG_TAILS).format_map(filled)
    return f"{_time(rng)} {rng.choice(_LEVELS):7} [{rng.choice(_PACKAGES)}.{filled['noun']}] {tail}"


def _match(rng: Random) -> str:
    filled = words(rng)
    return f"{filled['path']}:{filled['number']}:{rng.choice(_STATEMENTS).format_map(filled)}"


def _test_outcome(rng: Random) -> str:
    filled = words(rng)
    name = "tests/test_{noun}.py::test_{function}_when_{quality}".format_map(filled)
    if rng.random() < 0.9:
        return f"{name} PASSED"
    frames = "\n".join(
        '  File "/srv/app/{path}", line {number}, in {function}\n    {noun} = {verb}({noun2})'.format_map(words(rng))
        for _ in range(rng.randrange(2, 6))
    )
    return (
        f"{name} FAILED\nTraceback (most recent call last):\n{frames}\nValueError: {filled['quality']} {filled['noun']}"
    )
