"""Replays of recorded conversations, and whether one search of the recall tool finds the identifiers that an agent no longer sees.

Each is searched for by one call of the tool, with the words of the answer that uses it: its text and the arguments of its calls,
once with and once without the identifier itself."""

import gzip
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from compaction_hooks import (
    CompactionController,
    CompactionFinished,
    CompactionRecord,
    CompactionSettings,
    Summarizer,
    SummaryRequest,
)
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.replay.needs import HARD, NEXT_STEPS, find_constraints, find_identifiers, is_in, plain, text_of
from compaction_hooks.tokens import CharacterEstimator

Chat: TypeAlias = dict[str, Any]
Tally: TypeAlias = dict[str, dict[Hashable, bool]]
"""By name of a measure, its cases: whether each is so."""

ESTIMATOR = CharacterEstimator()
FORMAT = OpenAIChatFormat()
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
    return text_of(FORMAT.read(message))


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


def search_needs(name: str, messages: list[Chat], window: int, tally: Tally) -> list[int]:
    """Search for the needs of the five steps after each compaction; return the bytes of the tool's answers."""
    sizes: list[int] = []
    texts = [message_text(message) for message in messages]
    steps_left = 0
    for step in replay(messages, window, recall=True):
        if step.record is not None:
            steps_left = NEXT_STEPS
        if not steps_left:
            continue
        steps_left -= 1
        listed, used = messages[: step.at], texts[step.at]
        shown = "\n".join(map(message_text, step.view))
        said = "\n".join(text for message, text in zip(listed, texts, strict=False) if message["role"] != "system")
        needed = {word: kind for word, kind in find_identifiers(used) if not is_in(word, shown) and is_in(word, said)}
        if not needed:
            continue
        recall = step.session.recall_tool(lambda listed=listed: listed)
        covered = [f"{part.source}\n{part.text}" for part in step.session.covered(listed)]
        answer = recall(used)
        sizes.append(len(answer.encode()))
        for word, kind in needed.items():
            case = name, window, step.at, word
            without = recall(used.replace(word, " "))
            found = _has(answer, word)
            tally["can be read again"][case] = any(_has(text, word) for text in covered)
            tally["found by one search"][case] = found
            tally["found without it in the query"][case] = _has(without, word)
            if kind in HARD:
                tally["found by one search, hard ones"][case] = found
    return sizes


def _has(text: str, name: str) -> bool:
    """Return whether a text has an identifier, also behind a line break that JSON escapes."""
    return is_in(name, text) or is_in(name, text.replace("\\n", "\n").replace("\\t", "\t"))


AGES = (1, 3, 10)
"""Compactions since a constraint was first summarized."""
CARRIED = 2
"""The most summaries that have the words of a refusal."""
SHARE = 0.5
"""The part of a summary up to which all constraints must be kept."""

_CARELESS = (
    "## Goal\n- go on\n## Progress\n- [x] worked\n- [ ] more\n### Blocked\n(none)\n"
    "## Key Decisions\n(none)\n## Next Steps\n(none)"
)
_REFUSED = re.compile(
    r"The user doesn't want to proceed with this tool use\. The tool use was rejected \(eg\. [^\n]{1,100}\)\. To tell you how to "
    r"proceed, the user said:\n"
)
_NOTE = "\n\nNote: The user's next message may contain a correction"


def forget_all(request: SummaryRequest) -> str:
    """Return the summary of a model that drops all of the user's words."""
    return request.prompt and _CARELESS


class Said:
    """The user's words in one replay."""

    def __init__(self, name: str, window: int, tally: Tally) -> None:
        self._name, self._tally = name, tally
        self._most = SHARE * CompactionSettings().budget(window).summary
        self._ages = Counter[str]()
        self._refused = Counter[str]()

    def judge(self, case: tuple[object, ...], covered: Sequence[Chat], view: Sequence[Chat]) -> None:
        """Look up the words of the user in summarized messages, after one compaction."""
        shown = plain("\n".join(map(message_text, view)))

        def count(measure: str, words: str) -> None:
            self._tally[f"{measure}{self._name}"][*case, words] = plain(words) in shown

        for words in dict.fromkeys(words for message in covered for words in refusals(message)):
            self._refused[words] += 1
            count("words in refusals" if self._refused[words] <= CARRIED else "words in older refusals", words)
        wanted = dict.fromkeys(text for message in covered for text in constraints(message))
        self._ages.update(wanted.keys())
        if sum(map(ESTIMATOR.estimate_tokens, wanted)) > self._most:
            return
        for text in wanted:
            count("constraints", text)
            if self._ages[text] in AGES:
                count(f"constraints after {self._ages[text]}", text)


def refusals(message: Chat) -> Iterator[str]:
    """Yield the words with which the user refused a call of Claude Code."""
    if message["role"] == "tool" and (found := _REFUSED.match(text := message_text(message))):
        yield text[found.end() :].partition(_NOTE)[0].strip()


def constraints(message: Chat) -> Iterator[str]:
    """Yield the sentences of a user's short message that begin as constraints do."""
    for piece in FORMAT.read(message):
        yield from find_constraints(piece)
