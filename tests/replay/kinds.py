"""Small generated sessions of every readable kind: one conversation in each agent's form (tests/fixtures/replay_kinds.json).

A turn is a prompt, a tool call with its result, and an answer. In its entries `{n}` is the number of the turn, "@..." a number.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.replay.samples import Json

FILE = Path(__file__).resolve().parents[1] / "fixtures" / "replay_kinds.json"


class Record(NamedTuple):
    """One entry of a session file, a line or a message of a document, with the texts that are found only in it."""

    value: Json

    @property
    def marks(self) -> list[str]:
        return re.findall(r"<\w+-\d+>", json.dumps(self.value))

    @property
    def is_answer(self) -> bool:
        """Whether it has output of a model."""
        return any(mark.startswith(("<called", "<said")) for mark in self.marks)


class Kind:
    """The form of one agent's sessions: JSON Lines, or a document around the entries."""

    def __init__(self, name: str, turn: list[Json], header: list[Json], document: object) -> None:
        self.name = name
        self.document = document
        self._turn = json.dumps(turn)
        self._header = header

    @property
    def is_lines(self) -> bool:
        return self.document is None

    def records(self, turns: int) -> list[Record]:
        return [*map(Record, self._header), *(Record(value) for n in range(1, turns + 1) for value in self._entries(n))]

    def _entries(self, n: int) -> list[Json]:
        first_parent = re.sub(r'"\w\{previous\}-\d"', "null", self._turn) if n == 1 else self._turn
        text = first_parent.replace("{n}", str(n)).replace("{previous}", str(n - 1))
        entries: list[Json] = json.loads(re.sub(r'"@(\d+)"', r"\1", text))
        return entries

    def text(self, records: Sequence[Record], *, indent: int | None = None) -> str:
        values: Any = [record.value for record in records]
        if self.is_lines:
            return "".join(json.dumps(value) + "\n" for value in values)
        if isinstance(self.document, dict):
            values = {name: values if inner == "@entries" else inner for name, inner in self.document.items()}
        return json.dumps(values, indent=indent)


def _kinds() -> tuple[Kind, ...]:
    stored: list[Json] = json.loads(FILE.read_text(encoding="utf-8"))
    turns = {each["name"]: each["turn"] for each in stored}
    # Several kinds have the turn of another one.
    shared = {name: turns[turn] if isinstance(turn, str) else turn for name, turn in turns.items()}
    return tuple(
        Kind(each["name"], shared[each["name"]], each.get("header", []), each.get("document")) for each in stored
    )


KINDS = _kinds()
