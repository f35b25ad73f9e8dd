"""The identifiers and commands that an agent needs next, and whether its summary has them: the table of docs/probes.md.

    python -m tests.benchmarks.recall [FOLDER] [--windows 16000 32000 64000 128000 200000] [--half tuned]

Replays every recorded conversation call by call. After each summary, the identifiers that the agent uses in its next five steps
are looked up, if they are in the summarized messages alone: neither in the messages kept word for word nor in newer ones. The
baselines choose as many tokens from the same messages as summary and pins have. Only public names are used, so an older version
of the library can be measured: put its folder on PYTHONPATH in front.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import logging
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from compaction_hooks import CompactionController, CompactionFinished, CompactionRecord, ContextOverflowError
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.messages import Message, Text, ToolCall, ToolResult
from compaction_hooks.tokens import CharacterEstimator
from tests.benchmarks.identifiers import HARD, find_identifiers, is_in
from tests.benchmarks.tables import print_table

Chat: TypeAlias = dict[str, Any]

ESTIMATOR = CharacterEstimator()
FORMAT = OpenAIChatFormat()
NEXT_STEPS = 5
SAMPLES = 500
"""Draws of conversations for an interval."""
COMMAND_CHARS = 80
"""Characters of a command that must be in the summary; longer ones are shortened there."""
NEVER_DUE = 0.5
"""The part of the window below which a conversation is certainly never compacted."""
FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "sessions"
BASELINES = ("head + tail", "random lines", "commonest", "oracle")

_COMMAND_KEYS = ("command", "cmd", "script")
_LEADING_CD = re.compile(r"(?:\s*cd\s+\S+\s*(?:&&|;)\s*)+")
_DONE = ("completed", "complete", "done", "cancelled", "deleted")
_TASK = re.compile(r"#(\w+) ")


@dataclass(slots=True)
class Counts:
    """Found and all, by name of a measure."""

    found: Counter[str] = field(default_factory=Counter[str])
    all: Counter[str] = field(default_factory=Counter[str])

    def add(self, name: str, is_found: bool) -> None:
        self.all[name] += 1
        self.found[name] += is_found

    def update(self, other: Counts) -> None:
        self.found.update(other.found)
        self.all.update(other.all)

    def share(self, name: str) -> float:
        return self.found[name] / self.all[name] if self.all[name] else float("nan")


def measure(messages: list[Chat], window: int) -> Counts:
    """Replay one conversation, and look up the needs of the steps after each summary."""
    finished: list[CompactionRecord] = []

    def keep_record(event: object) -> None:
        if isinstance(event, CompactionFinished):
            finished.append(event.record)

    session = CompactionController(context_window=window, on_event=keep_record).session("recall")
    texts = [message_text(message) for message in messages]
    calls = [index for index, message in enumerate(messages) if index and message["role"] == "assistant"]
    counts = Counts()
    after: _AfterSummary | None = None
    for index in calls:
        view = session.transform_context_sync(messages[:index])
        if finished and (record := finished[-1]).rendered and (after is None or after.record is not record):
            after = _AfterSummary(record, messages, index, view, texts, counts)
        if after is not None:
            after.add_step(index)
    return counts


class _AfterSummary:
    """The texts of one compaction, and the steps after it."""

    def __init__(
        self,
        record: CompactionRecord,
        messages: list[Chat],
        index: int,
        view: Sequence[Chat],
        texts: Sequence[str],
        counts: Counts,
    ) -> None:
        self.record = record
        self._messages, self._texts, self._counts = messages, texts, counts
        covered = range(record.compacted_message_count)
        in_view = {id(message) for message in view}
        pins = [texts[i] for i in covered if messages[i]["role"] != "system" and id(messages[i]) in in_view]
        own = {id(messages[i]) for i in covered}
        self.summary = "\n".join([record.rendered, *pins])
        self._hidden = "\n".join(texts[i] for i in covered if messages[i]["role"] != "system")
        shown = [message for message in view if id(message) not in own or message["role"] == "system"]
        self._sent = "\n".join(t for message in shown if (t := message_text(message)) != record.rendered)
        self._start = self._sent_until = index
        self._steps = 0
        self._needed: dict[str, str] = {}
        self._commands = {c for i in covered for c in commands(messages[i])}
        self._kept_commands = {c for message in messages[covered.stop : index] for c in commands(message)}
        self._judge_tasks(record, index)

    def add_step(self, index: int) -> None:
        """Look up the needs of the answer at `index`."""
        self._sent += "\n" + "\n".join(self._texts[self._sent_until : index])
        self._sent_until = index
        for command in commands(self._messages[index]):
            if command in self._commands and command not in self._kept_commands:
                self._commands.discard(command)
                self._counts.add("commands", _shortened(command) in " ".join(self.summary.split()))
        self._steps += 1
        if self._steps > NEXT_STEPS:
            return
        for name, kind in find_identifiers(self._texts[index]):
            if name not in self._needed and not is_in(name, self._sent) and is_in(name, self._hidden):
                self._needed[name] = kind
        if self._steps == NEXT_STEPS:
            self.close()

    def close(self) -> None:
        """Count the needed identifiers that the summary and each baseline have."""
        if not self._needed:
            return
        tokens = ESTIMATOR.estimate_tokens(self.summary)
        texts = {"ours": self.summary, **baselines(self._hidden, tokens, self._needed)}
        for way, text in texts.items():
            for name, kind in self._needed.items():
                has = is_in(name, text)
                self._counts.add(way, has)
                if kind in HARD:
                    self._counts.add(f"{way}, hard", has)
                if way == "ours":
                    self._counts.add(f"kind {kind}", has)

    def _judge_tasks(self, record: CompactionRecord, index: int) -> None:
        """Count open tasks that the conversation closed already, and next steps that kept messages overtake."""
        is_closed = closed_tasks(self._messages[:index])
        for task in lines_under(record.rendered, "In Progress"):
            self._counts.add("closed tasks", is_closed(task))
        is_overtaken = any(
            message["role"] == "assistant" for message in self._messages[record.compacted_message_count : index]
        )
        for _ in lines_under(record.rendered, "Next Steps"):
            self._counts.add("stale next steps", is_overtaken)


# -- texts of messages


def message_text(message: Mapping[str, Any]) -> str:
    """Return texts, arguments and results of a message; a tool's name is known from its definition."""
    return "\n".join(text for piece in FORMAT.read(message) for text in _piece_texts(piece))


def _piece_texts(message: Message) -> Iterator[str]:
    for part in message.parts:
        match part:
            case Text(text=text) | ToolResult(text=text):
                yield text
            case ToolCall():
                yield from _leaves(_arguments(part))
            case _:
                pass


def _arguments(call: ToolCall) -> object:
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


def commands(message: Mapping[str, Any]) -> Iterator[str]:
    """Yield the shell commands that a message runs, on one line, without a leading change of folder."""
    for piece in FORMAT.read(message):
        for call in piece.calls:
            arguments = _arguments(call)
            if isinstance(arguments, dict):
                for key in _COMMAND_KEYS:
                    value = arguments.get(key)
                    if isinstance(value, str) and " " in value.strip():
                        yield " ".join(_LEADING_CD.sub("", value, count=1).split())


def _shortened(command: str) -> str:
    return command[:COMMAND_CHARS]


def lines_under(summary: str, title: str) -> list[str]:
    """Return the lines under the headings that begin with a title, without bullets."""
    found: list[str] = []
    is_under = False
    for line in summary.splitlines():
        if line.startswith("#"):
            is_under = line.lstrip("# ").startswith(title)
        elif line.startswith(("<", "[")):
            is_under = False
        elif is_under and line.strip():
            found.append(re.sub(r"^(?:[-*]|\d+\.) (?:\[.\] )?", "", line))
    return found


def closed_tasks(messages: Iterable[Chat]) -> Callable[[str], bool]:
    """Return a predicate for tasks that a whole list, or a tool for single tasks, has closed by the end of these messages."""
    open_texts: set[str] | None = None
    closed: set[str] = set()
    for call in (call for message in messages for piece in FORMAT.read(message) for call in piece.calls):
        arguments = _arguments(call)
        if not isinstance(arguments, dict):
            continue
        for rows in arguments.values():
            if isinstance(rows, list) and rows and all(isinstance(row, dict) and "status" in row for row in rows):
                open_texts = {_task_text(row) for row in rows if row["status"] not in _DONE}
        number = arguments.get("taskId") or arguments.get("task_id")
        if number and arguments.get("status") in _DONE:
            closed.add(str(number))

    def is_closed(task: str) -> bool:
        single = _TASK.match(task)
        if single:
            return single[1] in closed
        return open_texts is not None and not any(task[:60] == text[:60] for text in open_texts)

    return is_closed


def _task_text(row: Mapping[str, Any]) -> str:
    return " ".join(
        str(next((row[key] for key in ("content", "step", "title", "task", "text") if key in row), "")).split()
    )


# -- the baselines


def baselines(hidden: str, tokens: int, needed: Mapping[str, str]) -> dict[str, str]:
    """Return other texts of as many tokens, from the same messages."""
    chars = int(tokens * len(hidden) / max(ESTIMATOR.estimate_tokens(hidden), 1))
    lines = [line for line in hidden.splitlines() if line.strip()]
    random.Random(0).shuffle(lines)
    common = (name for name, _ in Counter(name for name, _ in find_identifiers(hidden)).most_common())
    return {
        "head + tail": f"{hidden[: chars // 2]}\n{hidden[-chars // 2 :]}",
        "random lines": _fill(lines, tokens, "\n"),
        "commonest": _fill(common, tokens, " "),
        "oracle": _fill(sorted(needed, key=len), tokens, " "),
    }


def _fill(texts: Iterable[str], tokens: int, separator: str) -> str:
    chosen: list[str] = []
    for text in texts:
        tokens -= ESTIMATOR.estimate_tokens(text + separator)
        if tokens < 0:
            break
        chosen.append(text)
    return separator.join(chosen)


# -- the tables


def is_tuned(name: str) -> bool:
    """Return whether a conversation is of the half on which weights may be chosen."""
    return hashlib.sha256(name.encode()).digest()[0] % 2 == 0


def conversations(folder: Path, half: str) -> Iterator[tuple[str, list[Chat]]]:
    for path in sorted(folder.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                session = json.loads(line)
                if half == "both" or is_tuned(session["id"]) == (half == "tuned"):
                    yield session["id"], session["messages"]


def interval(counts: Sequence[Counts], name: str) -> str:
    """Return a share in percent with its 95 % interval, by draws of conversations."""
    pairs = [(each.found[name], each.all[name]) for each in counts if each.all[name]]
    if not pairs:
        return "-"
    draw = random.Random(0)
    shares: list[float] = []
    for _ in range(SAMPLES):
        drawn = draw.choices(pairs, k=len(pairs))
        shares.append(sum(found for found, _ in drawn) / sum(total for _, total in drawn))
    shares.sort()
    low, high = shares[SAMPLES // 40], shares[-SAMPLES // 40]
    share = sum(found for found, _ in pairs) / sum(total for _, total in pairs)
    return f"{share:.0%} ({low:.0%} to {high:.0%})"


def print_measures(results: Mapping[str, Sequence[Counts]]) -> None:
    """Print one column for each window or pool of windows."""
    ways = ("ours", *BASELINES)
    rows = [(name, name) for name in [*ways, *(f"{way}, hard" for way in ways), "commands"]]
    rows += [("stale next steps", "stale next steps"), ("closed tasks", "closed tasks")]
    totals: Counter[str] = Counter()
    for each in (each for column in results.values() for each in column):
        totals.update(each.all)
    rows += [(name, name) for name in sorted(totals) if name.startswith("kind ")]
    print_table(("", *results), ((title, *(interval(c, name) for c in results.values())) for title, name in rows))
    for title, name in (("n, all kinds", "ours"), ("n, hard", "ours, hard"), ("n, commands", "commands")):
        print(f"| {title} | {' | '.join(str(sum(c.all[name] for c in column)) for column in results.values())} |")


def make_parser(text: str) -> argparse.ArgumentParser:
    """Return the parser of a command over recorded conversations, described by the first line of a text."""
    parser = argparse.ArgumentParser(description=text.partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER, help="folder of recorded conversations")
    parser.add_argument("--windows", type=int, nargs="+", default=[16_000, 32_000, 64_000, 128_000, 200_000])
    parser.add_argument("--half", choices=("tuned", "kept aside", "both"), default="both")
    return parser


def main() -> None:
    # Hide the warnings about conversations whose own request fills the window; the table counts them like others.
    logging.getLogger("compaction_hooks").setLevel(logging.CRITICAL)
    chosen = make_parser(__doc__ or "").parse_args()
    results: dict[str, list[Counts]] = {f"{window:,}": [] for window in chosen.windows}
    for _, messages in conversations(chosen.folder, chosen.half):
        tokens = sum(ESTIMATOR.estimate_tokens(message_text(message)) for message in messages)
        for window in chosen.windows:
            if tokens < NEVER_DUE * window:
                continue
            try:
                results[f"{window:,}"].append(measure(messages, window))
            except ContextOverflowError:
                continue
    large = [f"{window:,}" for window in chosen.windows if window > 100_000]
    if len(large) > 1:
        results["pooled above 100,000"] = [counts for name in large for counts in results[name]]
    print_measures(results)


if __name__ == "__main__":
    main()
