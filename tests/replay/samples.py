"""Sessions of each kind of file, and generated ones."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.replay import Probe, RecordedSession, ReplayError
from compaction_hooks.replay.readers import read_sessions
from compaction_hooks.replay.recorded import Fields
from tests.conversations import assistant, call, prose, step, steps, system, tool, user

Json = dict[str, Any]


def write(path: Path, *objects: object) -> Path:
    """Write objects as JSON Lines and texts unchanged; return the path."""
    path.write_text(
        "".join((each if isinstance(each, str) else json.dumps(each)) + "\n" for each in objects), encoding="utf-8"
    )
    return path


def read_one(path: Path) -> RecordedSession:
    (session,) = read_sessions(path)
    return session


def read_all(path: Path) -> tuple[list[RecordedSession], ReplayError | None]:
    """Return the sessions of a file, and the error after them, if any."""
    sessions: list[RecordedSession] = []
    try:
        for session in read_sessions(path):
            sessions.append(session)  # noqa: PERF402 - sessions before an error count
    except ReplayError as error:
        return sessions, error
    return sessions, None


def blocks(message: Fields) -> list[Json]:
    content = message["content"]
    return cast(list[Json], content) if isinstance(content, list) else []


def shape(session: RecordedSession) -> list[str]:
    """Return the speaker and block types of each message: "user", "assistant:text,tool_use"."""
    said: list[str] = []
    for message in session.messages:
        kinds = ",".join(str(block["type"]) for block in blocks(message))
        said.append(f"{message['role']}:{kinds}" if kinds else str(message["role"]))
    return said


def assert_calls_of_sessions_are_answered(sessions: Iterable[RecordedSession]) -> None:
    """Assert it for the sessions whose messages were made by a reader, in Anthropic's form."""
    for session in sessions:
        if session.format.name == "anthropic" and session.format_name != "Anthropic messages":
            assert_calls_are_answered(session.messages)


def assert_calls_are_answered(messages: Iterable[Mapping[str, Any]]) -> None:
    """Assert that every tool_use has its result in the next message, and that there is no other result."""
    waiting: list[str] = []
    for message in messages:
        results = [block["tool_use_id"] for block in blocks(message) if block.get("type") == "tool_result"]
        assert results == waiting
        waiting = [block["id"] for block in blocks(message) if block.get("type") == "tool_use"]
    assert not waiting


FILE = Path(__file__).resolve().parents[1] / "fixtures" / "replay_kinds.json"


class Record(NamedTuple):
    """One entry of a session file, a line or a message of a document, with the texts that are found only in it."""

    value: Json | None

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


WINDOW = 8_000
"""The trigger is 6,000 tokens, the target 3,600."""

OLD_FILE = "/project/src/ledger.py"
OLD_ORDER = "TX-48213"


def session(messages: Sequence[Mapping[str, Any]], **fields: Any) -> RecordedSession:
    given: dict[str, Any] = {
        "id": "s1",
        "format_name": "OpenAI chat messages",
        "format": OpenAIChatFormat(),
        "messages": tuple(messages),
        **fields,
    }
    return RecordedSession(**given)


def short_conversation() -> list[Mapping[str, Any]]:
    """Return a conversation of two calls that fit any window."""
    return [system(), user("What is in the folder?"), *step(0, 50), assistant("A parser.")]


def long_conversation(count: int = 20, tokens: int = 600) -> list[Mapping[str, Any]]:
    """Return one request, `count` tool steps and an answer: one call more than steps."""
    return [system(), user("Read all modules of the project."), *steps(count, tokens), assistant("All read.")]


def forgetful_conversation(
    reminder: str = "",
    between: Sequence[Mapping[str, Any]] = tuple(steps(12, 600)),
    found: str = f"{OLD_ORDER}, written to {OLD_FILE}\n{prose(300)}",
) -> list[Mapping[str, Any]]:
    """Return a conversation whose first step names an order and a file; later the agent names both again twice.

    Shortly before, the user says `reminder`.
    """
    return [
        system(),
        user("Look after the order."),
        assistant(None, call("first", "look_up", what="the latest order")),
        tool("first", found),
        *between,
        user(f"Which order was it, and where is it? {reminder}"),
        assistant(f"The order was {OLD_ORDER}.", call("again", "open", what=OLD_FILE)),
        tool("again", "as before"),
        assistant(f"Once more: {OLD_ORDER} in {OLD_FILE}."),
    ]


def probe(*answers: str, kind: str = "entity") -> Probe:
    return Probe(kind=kind, question="Which one?", answers=answers)


def write_sessions(path: Path, *conversations: Sequence[Mapping[str, Any]], **fields: Any) -> Path:
    """Write normalized records, one conversation a line, each with `fields`; return the path."""
    lines = [json.dumps({"id": f"s{n}", "messages": list(one), **fields}) for n, one in enumerate(conversations, 1)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
