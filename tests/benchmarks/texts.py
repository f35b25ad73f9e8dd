"""Texts like those of agents, made from word lists and templates: prose, Python, JSON, logs, listings, tracebacks.

Every maker takes a random generator and a size, and returns the same text for the same state of the generator.
"""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TypeAlias

TextMaker: TypeAlias = Callable[[Random, int], str]
"""Returns a text from a random generator and a size in characters; the text ends with the first line that reaches the size."""


WORDS = json.loads(Path(__file__).with_name("words.json").read_text(encoding="utf-8"))
_NOUNS, _VERBS, _QUALITIES = (WORDS[kind].split() for kind in ("nouns", "verbs", "qualities"))
_PACKAGES, _LEVELS = WORDS["packages"], WORDS["levels"]
_SENTENCES, _STATEMENTS, _LOG_TAILS = WORDS["sentences"], WORDS["statements"], WORDS["log_tails"]


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
