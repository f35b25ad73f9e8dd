"""The words, names and commands that an agent needs after a compaction, and whether it still has them: a table of docs/probes.md.

    python -m tests.benchmarks.recall [--windows 16000 32000 64000 128000 200000] [--half tuned] [--before FOLDER]
        [--data FOLDER | --public]

Replays every recorded conversation call by call. After each summary, the identifiers that the agent uses in its next five steps
are looked up in summary and pins, if they are in the summarized messages alone: neither in the messages kept word for word nor in
newer ones. The baselines choose as many tokens from the same messages. With --before and the checkout of another version, it is
measured in the same run, on the same cases too.
"""

import argparse
import logging
import os
import pickle
import random
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from compaction_hooks import CompactionRecord, ContextOverflowError, Summarizer, SummaryRequest
from compaction_hooks.replay.needs import HARD, NEXT_STEPS, Needs, find_identifiers, is_in, read_arguments
from tests.benchmarks.contents import (
    LEADING_CD,
    commands_of,
    judge_list,
    judge_outcomes,
    lines_under,
    listed_names,
)
from tests.benchmarks.lossy_model import lossy_summary
from tests.benchmarks.searches import (
    AGES,
    ESTIMATOR,
    FORMAT,
    NEVER_DUE,
    Chat,
    Said,
    Step,
    Tally,
    constraints,
    conversations,
    forget_all,
    message_text,
    refusals,
    replay,
    search_needs,
    share,
)
from tests.benchmarks.tables import print_table
from tests.data import add_data_options

COMMAND_CHARS = 80
"""Characters of a command that must be in the summary; longer ones are shortened there."""
POOLED = 100_000
"""Windows above this size share a column: few conversations are so long."""
BASELINES = ("head + tail", "random lines", "list of the commonest", "oracle")
CARELESS = ", careless model"
LOSSY = ", lossy model"
SAID = ("words in refusals", "words in older refusals", "constraints", *(f"constraints after {age}" for age in AGES))
WORTH = (
    "listed names used later",
    "listed names used in the next steps",
    "done without outcome",
    "done, outcome says nothing",
    "stale blocked",
)
TOKENS = ("tokens of a summary", "tokens of its list")
ROWS = (
    *(f"{way}{kinds}" for kinds in ("", ", hard ones") for way in ("summary or pins", *BASELINES)),
    *(f"{way}{LOSSY}{kinds}" for kinds in ("", ", hard ones") for way in ("summary or pins", "its own text or pins")),
    *(f"{row}{model}" for model in ("", LOSSY) for row in ("commands run again", *WORTH)),
    "open tasks already closed",
    *(f"{row}{model}" for model in ("", CARELESS) for row in SAID),
    *("can be read again", "found by one search", "found by one search, hard ones", "found without it in the query"),
)
COMPARED = (
    "summary or pins",
    "summary or pins, hard ones",
    f"summary or pins{LOSSY}",
    f"summary or pins{LOSSY}, hard ones",
    "commands run again",
)
Figures: TypeAlias = dict[str, list[float]]
"""By name of a figure, its values: a row shows their mean."""

_DONE = ("completed", "complete", "done", "cancelled", "deleted")
_TASK = re.compile(r"#(\w+) ")


def measure_summaries(name: str, messages: list[Chat], window: int, tally: Tally, figures: Figures) -> None:
    """Look up the needs of the steps after each default summary, and the user's words."""
    said = Said("", window, tally)
    for step, record in _look_up_needs("", name, messages, window, tally, figures):
        case = name, window, step.at
        said.judge(case, messages[: record.compacted_message_count], step.view)
        _judge_tasks(case, record, messages[: step.at], tally)


def measure_lossy(name: str, messages: list[Chat], window: int, tally: Tally, figures: Figures) -> None:
    """Look up the needs of the steps after each summary of a lossy model, as the controller completed it, and in its own text."""
    answers: list[str] = []

    def summarize(request: SummaryRequest) -> str:
        answers.append(lossy_summary(request))
        return answers[-1]

    for _ in _look_up_needs(LOSSY, name, messages, window, tally, figures, summarize, answers):
        answers.clear()


def _look_up_needs(
    model: str,
    name: str,
    messages: list[Chat],
    window: int,
    tally: Tally,
    figures: Figures,
    summarizer: Summarizer | None = None,
    answers: Sequence[str] = (),
) -> Iterator[tuple[Step, CompactionRecord]]:
    """Look up the needs of the steps after each summary; yield the steps that have one.

    Args:
        model: The end of the names of the rows.
        answers: The summarizer's answers since the last step that was yielded.
    """
    texts = [message_text(message) for message in messages]
    after: _AfterSummary | None = None
    for step in replay(messages, window, summarizer):
        if step.record is not None:
            case = name, window, step.at
            after = _AfterSummary(case, step, step.record, messages, texts, tally, model, answers)
            lines = lines_under(step.record.rendered, "Identifiers")
            figures[f"tokens of a summary{model}"].append(ESTIMATOR.estimate_tokens(step.record.rendered))
            figures[f"tokens of its list{model}"].append(ESTIMATOR.estimate_tokens("\n".join(lines)))
            judge_list(case, model, listed_names(lines), messages, tally)
            judge_outcomes(case, model, step.record.rendered, messages[: step.at], tally)
            yield step, step.record
        if after is not None:
            after.add_step(step.at)


def measure_careless(name: str, messages: list[Chat], window: int, tally: Tally) -> None:
    """Look up the user's words after each summary of a model that drops them."""
    if not any(True for message in messages for _ in (*refusals(message), *constraints(message))):
        return
    said = Said(CARELESS, window, tally)
    for step in replay(messages, window, forget_all):
        if step.record is not None:
            said.judge((name, window, step.at), messages[: step.record.compacted_message_count], step.view)


class _AfterSummary:
    """The texts of one compaction, and the steps after it."""

    def __init__(
        self,
        case: tuple[Hashable, ...],
        step: Step,
        record: CompactionRecord,
        messages: list[Chat],
        texts: Sequence[str],
        tally: Tally,
        model: str,
        answers: Sequence[str],
    ) -> None:
        self._case, self._messages, self._texts, self._tally, self._model = case, messages, texts, tally, model
        covered = range(record.compacted_message_count)
        in_view = {id(message) for message in step.view}
        pins = [texts[i] for i in covered if messages[i]["role"] != "system" and id(messages[i]) in in_view]
        own = {id(messages[i]) for i in covered}
        self._summary = "\n".join([record.rendered, *pins])
        self._own = "\n".join([*answers, *pins])
        self._hidden = "\n".join(texts[i] for i in covered if messages[i]["role"] != "system")
        shown = [message for message in step.view if id(message) not in own or message["role"] == "system"]
        sent = "\n".join(t for message in shown if (t := message_text(message)) != record.rendered)
        self._needs = Needs(self._hidden, self._summary, sent)
        self._sent_until = step.at
        kept = {c for message in messages[covered.stop : step.at] for c in commands(message)}
        self._commands = {c for i in covered for c in commands(messages[i])} - kept

    def add_step(self, index: int) -> None:
        """Look up the needs of the answer at `index`."""
        new = "\n".join(self._texts[self._sent_until : index])
        self._sent_until = index
        for command in self._commands.intersection(commands(self._messages[index])):
            self._commands.discard(command)
            is_kept = command[:COMMAND_CHARS] in " ".join(self._summary.split())
            self._tally[f"commands run again{self._model}"][*self._case[:2], index, command] = is_kept
        is_last = self._needs.steps == NEXT_STEPS - 1
        self._needs.add_step(new, self._texts[index])
        if is_last and self._needs.kinds:
            self._look_up()

    def _look_up(self) -> None:
        """Count the needed identifiers that the summary and each baseline have, or the model's own text."""
        if self._model:
            others = {"its own text or pins": self._own}
        else:
            others = baselines(self._hidden, ESTIMATOR.estimate_tokens(self._summary), self._needs.kinds)
        for way, text in {"summary or pins": self._summary, **others}.items():
            for name, kind in self._needs.kinds.items():
                has = is_in(name, text)
                self._tally[f"{way}{self._model}"][*self._case, name] = has
                if kind in HARD:
                    self._tally[f"{way}{self._model}, hard ones"][*self._case, name] = has


def commands(message: Mapping[str, Any]) -> Iterator[str]:
    """Yield the shell commands that a message runs, on one line, without a leading change of folder."""
    for piece in FORMAT.read(message):
        for call in piece.calls:
            arguments = read_arguments(call)
            if isinstance(arguments, dict):
                for command in commands_of(arguments):
                    yield " ".join(LEADING_CD.sub("", command, count=1).split())


# -- tasks


def _judge_tasks(case: tuple[Hashable, ...], record: CompactionRecord, messages: Sequence[Chat], tally: Tally) -> None:
    """Count open tasks that the conversation closed already."""
    is_closed = closed_tasks(messages)
    for task in lines_under(record.rendered, "In Progress"):
        tally["open tasks already closed"][*case, task] = is_closed(task)


def closed_tasks(messages: Iterable[Chat]) -> Callable[[str], bool]:
    """Return a predicate for tasks that a whole list, or a tool for single tasks, has closed by the end of these messages."""
    open_texts: set[str] | None = None
    closed: set[str] = set()
    for call in (call for message in messages for piece in FORMAT.read(message) for call in piece.calls):
        arguments = read_arguments(call)
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
    texts = (
        f"{hidden[: chars // 2]}\n{hidden[-chars // 2 :]}",
        _fill(lines, tokens, "\n"),
        _fill(common, tokens, " "),
        _fill(sorted(needed, key=len), tokens, " "),
    )
    return dict(zip(BASELINES, texts, strict=True))


def _fill(texts: Iterable[str], tokens: int, separator: str) -> str:
    chosen: list[str] = []
    for text in texts:
        tokens -= ESTIMATOR.estimate_tokens(text + separator)
        if tokens < 0:
            break
        chosen.append(text)
    return separator.join(chosen)


# -- the table


def measure(chosen: argparse.Namespace, sizes: dict[str, list[int]]) -> tuple[dict[str, Tally], dict[str, Figures]]:
    """Return cases and figures of all conversations by column; without the tool's answers for another version."""
    results: dict[str, Tally] = {column_of(window): defaultdict(dict) for window in chosen.windows}
    figures: dict[str, Figures] = {column: defaultdict(list) for column in results}
    for name, messages in conversations(chosen.data, chosen.half):
        tokens = sum(ESTIMATOR.estimate_tokens(message_text(message)) for message in messages)
        for window in (window for window in chosen.windows if tokens >= NEVER_DUE * window):
            column = column_of(window)
            try:
                measure_summaries(name, messages, window, results[column], figures[column])
                measure_lossy(name, messages, window, results[column], figures[column])
                if not chosen.is_other:
                    measure_careless(name, messages, window, results[column])
                    sizes[column] += search_needs(name, messages, window, results[column])
            except ContextOverflowError:  # the conversation's own request fills the window
                continue
    return results, figures


def column_of(window: int) -> str:
    """Return the heading of a window's column."""
    return f"{window:,}" if window <= POOLED else f"above {POOLED:,}"


def measure_other(library: Path, arguments: Sequence[str]) -> tuple[dict[str, Tally], dict[str, Figures]]:
    """Return cases and figures that another version of the library gives, by this program in a process of its own."""
    with TemporaryDirectory() as folder:
        Path(folder, "compaction_hooks").symlink_to((library / "compaction_hooks").resolve())
        path = os.pathsep.join((folder, str(Path(__file__).resolve().parents[2])))
        command = (sys.executable, "-P", "-m", "tests.benchmarks.recall", *arguments, "--is-other")
        done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, check=True)
    results: tuple[dict[str, Tally], dict[str, Figures]] = pickle.loads(done.stdout)
    return results


def print_rows(rows: Iterable[str], results: Mapping[str, Tally]) -> None:
    print_table(("", *results), ((row, *(share(tally[row].values()) for tally in results.values())) for row in rows))


def print_figures(figures: Mapping[str, Figures]) -> None:
    """Print the mean tokens of summaries and of their lists, and the part of the tokens that the lists take."""
    for model in ("", LOSSY):
        pairs = [[sum(of[row + model]) for row in TOKENS] for of in figures.values()]
        numbers = [len(of[TOKENS[0] + model]) for of in figures.values()]
        means = (f"{whole / n:,.0f}, n = {n:,}" if n else "-" for (whole, _), n in zip(pairs, numbers, strict=True))
        shares = (f"{part / whole:.0%}" if whole else "-" for whole, part in pairs)
        print(f"| tokens of a summary, mean{model} | {' | '.join(means)} |")
        print(f"| part of them in the list of names{model} | {' | '.join(shares)} |")


def print_comparison(now: Mapping[str, Tally], before: Mapping[str, Tally]) -> None:
    """Print the rows of two versions, and of the cases that both have."""
    print("\nThe other version, and both on the cases that they share:\n")
    both: dict[str, Tally] = {column: defaultdict(dict) for column in now}
    for column, tally in both.items():
        for row in COMPARED:
            shared = now[column][row].keys() & before[column][row].keys()
            tally[f"{row}, before"] = before[column][row]
            tally[f"{row}, now, shared"] = {case: now[column][row][case] for case in shared}
            tally[f"{row}, before, shared"] = {case: before[column][row][case] for case in shared}
    print_rows((f"{row}, {which}" for row in COMPARED for which in ("before", "before, shared", "now, shared")), both)
    print("\nThe other version's lists and steps:\n")
    print_rows((f"{row}{model}" for model in ("", LOSSY) for row in WORTH), before)


def main() -> None:
    # Hide the warnings about conversations whose own request fills the window.
    logging.getLogger("compaction_hooks").setLevel(logging.CRITICAL)
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_data_options(parser)
    parser.add_argument("--windows", type=int, nargs="+", default=[16_000, 32_000, 64_000, 128_000, 200_000])
    parser.add_argument("--half", choices=("tuned", "kept aside", "both"), default="both")
    parser.add_argument("--before", type=Path, help="checkout of another version to measure in the same run")
    parser.add_argument("--is-other", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    sizes: dict[str, list[int]] = defaultdict(list)
    if chosen.is_other:
        sys.stdout.buffer.write(pickle.dumps(measure(chosen, sizes)))
        return

    results, figures = measure(chosen, sizes)
    print_rows(ROWS, results)
    print_figures(figures)
    answers = [sorted(sizes[column]) or [0] for column in results]
    print(f"| bytes of an answer, median | {' | '.join(f'{median(each):,.0f}' for each in answers)} |")
    print(
        f"| bytes of an answer, 95 % at most | {' | '.join(f'{each[len(each) * 95 // 100]:,}' for each in answers)} |"
    )
    if chosen.before:
        windows = map(str, chosen.windows)
        arguments = ("--data", str(chosen.data), "--half", chosen.half, "--windows", *windows)
        before, earlier_figures = measure_other(chosen.before, arguments)
        print_comparison(results, before)
        print_figures(earlier_figures)


if __name__ == "__main__":
    main()
