"""Recorded conversations, replayed call by call, and shares of cases with their intervals."""

import gzip
import hashlib
import json
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from compaction_hooks import CompactionController, CompactionFinished, CompactionRecord, Summarizer
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.messages import Message, Text, ToolCall, ToolResult
from compaction_hooks.tokens import CharacterEstimator

Chat: TypeAlias = dict[str, Any]
Tally: TypeAlias = dict[str, dict[Hashable, bool]]
"""By name of a measure, its cases: whether each is so."""

ESTIMATOR = CharacterEstimator()
FORMAT = OpenAIChatFormat()
FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "sessions"
NEVER_DUE = 0.5
"""The part of the window below which a conversation is certainly never compacted."""


class Step(NamedTuple):
    """One model call of a replay.

    Attributes:
        at: Index of its answer in the recorded list.
        record: The record of a compaction right before the call, if it has a summary.
        session: The session of the whole replay.
    """

    at: int
    view: Sequence[Chat]
    record: CompactionRecord | None
    session: Any


def replay(
    messages: list[Chat], window: int, summarizer: Summarizer | None = None, *, recall: bool = False
) -> Iterator[Step]:
    """Yield the model calls of a conversation, with views as the controller makes them.

    Args:
        recall: Whether the session has the recall tool.
    """
    records: list[CompactionRecord] = []

    def keep_record(event: object) -> None:
        if isinstance(event, CompactionFinished):
            records.append(event.record)

    hooks = CompactionController(context_window=window, summarizer=summarizer, on_event=keep_record)
    session: Any = hooks.session("replay")
    if recall:
        session.recall_tool(lambda: messages)
    for index in (index for index, message in enumerate(messages) if index and message["role"] == "assistant"):
        view = session.transform_context_sync(messages[:index])
        made = records[-1] if records and records[-1].rendered else None
        records.clear()
        yield Step(index, view, made, session)


def conversations(folder: Path, half: str) -> Iterator[tuple[str, list[Chat]]]:
    """Yield (id, messages) of the recorded conversations; of "both" halves, or of the one on which weights may be "tuned"."""
    for path in sorted(folder.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for session in map(json.loads, lines):
                is_tuned = hashlib.sha256(session["id"].encode()).digest()[0] % 2 == 0
                if half == "both" or is_tuned == (half == "tuned"):
                    yield session["id"], session["messages"]


def message_text(message: Mapping[str, Any]) -> str:
    """Return texts, arguments and results of a message; a tool's name is known from its definition."""
    return "\n".join(text for piece in FORMAT.read(message) for text in _piece_texts(piece))


def _piece_texts(message: Message) -> Iterator[str]:
    for part in message.parts:
        match part:
            case Text(text=text) | ToolResult(text=text):
                yield text
            case ToolCall():
                yield from _leaves(read_arguments(part))
            case _:
                pass


def read_arguments(call: ToolCall) -> object:
    """Return the arguments of a call; their text if they are no JSON."""
    try:
        return json.loads(call.arguments)
    except ValueError:
        return call.arguments


def _leaves(value: object) -> Iterator[str]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _leaves(inner)
    elif value is not None:
        yield str(value)


def share(cases: Iterable[bool]) -> str:
    """Return the part that is true in percent, with its 95 % interval by Wilson and the number of cases."""
    listed = list(cases)
    if not listed:
        return "-"
    total, z = len(listed), 1.96
    part = sum(listed) / total
    middle, half = part + z * z / 2 / total, z * math.sqrt(part * (1 - part) / total + (z / 2 / total) ** 2)
    low, high = ((middle + sign * half) / (1 + z * z / total) for sign in (-1, 1))
    return f"{part:.0%} ({max(low, 0):.0%} to {min(high, 1):.0%}), n = {total:,}"
