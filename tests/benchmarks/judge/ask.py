"""The values that the agent's next calls need, asked of a served model behind FULL, CUT and the library's context.

A value is asked for if it stands in the covered part, and in no message that is kept or came since: without the covered part it can
only be guessed. The agent's message is begun up to the value, and the model goes on; the recorded value alone counts as right.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError

from tests.benchmarks.judge.contexts import ALWAYS, contexts
from tests.benchmarks.judge.moments import append_line, read_lines
from tests.benchmarks.judge.names import find_needed, is_word_in
from tests.benchmarks.judge.server import chat
from tests.benchmarks.judge.texts import CALL, SCORED_CHARS, Moment, Turn, joined, part_of_next, shown
from tests.benchmarks.tables import print_table

ANSWERS = "answers.jsonl"
ANSWER_TOKENS = 40
STOP = ('"', "\n")

_ARGUMENTS = '"arguments": '
_VALUE = re.compile(r'"((?:[^"\\]|\\.){4,80})"(?!:)')


class Gap(NamedTuple):
    """A value that is missing in one of the agent's next calls.

    Attributes:
        since: The next messages before the one with the gap.
        begun: The agent's message up to the gap.
        right: The recorded value.
    """

    since: list[Turn]
    begun: str
    right: str


def find_gaps(moment: Moment) -> Iterator[Gap]:
    """Yield the gaps of a moment: each needed name of its calls, or the whole value that it is in."""
    kept, covered = joined(moment["head"] + moment["pins"] + moment["recent"]), joined(moment["covered"])
    since: list[Turn] = []
    for role, text in moment["next"]:
        for call in CALL.finditer(text[:SCORED_CHARS]) if role == "assistant" else ():
            name, mark, values = call[1].partition(_ARGUMENTS)
            front = text[: call.start(1)] + name + mark
            needed = find_needed(values, kept, covered, f"{joined(since)}\n{front}")
            for right in dict.fromkeys(_whole_value(word, values, covered) for word in needed if word):
                before, *behind = re.split(rf"(?<!\w){re.escape(right)}(?!\w)", values)
                if behind and not behind[0].startswith('":'):  # no part of a longer word, and no parameter's name
                    yield Gap([*since], front + before, right)
        since.append([role, text if role == "assistant" else part_of_next(role, text)])


def _whole_value(word: str, values: str, covered: str) -> str:
    """Return the value that a name is in if the covered part has all of it, else the name."""
    return next((value for value in _VALUE.findall(values) if is_word_in(word, value) and value in covered), word)


def as_chat(messages: Sequence[Turn]) -> list[dict[str, str]]:
    """Return messages for any chat template: system, then user and assistant in turns, with results as the user's."""
    system = [{"role": role, "content": text} for role, text in messages[:1] if role == "system"]
    rest = [
        ("assistant", text) if role == "assistant" else ("user", shown(role, text))
        for role, text in messages[len(system) :]
    ]
    if rest[0][0] == "assistant":
        rest.insert(0, ("user", "(The conversation goes on.)"))
    turns = groupby(rest, key=lambda message: message[0])
    return system + [{"role": role, "content": "\n\n".join(text for _, text in turn)} for role, turn in turns]


def ask(address: str, context: Sequence[Turn], gap: Gap) -> str:
    """Return the words with which the model goes on at a gap."""
    messages = as_chat([*context, *gap.since, ["assistant", gap.begun]])
    said = chat(address, messages, ANSWER_TOKENS, STOP)
    return said.removeprefix(messages[-1]["content"]).strip(" \"'`")  # some servers repeat the beginning


def ask_all(folder: Path, moments: Sequence[Moment], address: str, most: int) -> None:
    """Ask for the gaps of all moments in every context, but for those that the folder has answers of; print the counts."""
    path = folder / ANSWERS
    answers = read_lines(path)
    done = {(line["case"], line["gap"], line["name"]) for line in answers}
    with_gaps = [(moment, gaps) for moment in moments if (gaps := [*find_gaps(moment)][:most])]
    for at, (moment, gaps) in enumerate(with_gaps, 1):
        print(f"moment {at} of {len(with_gaps)} with values to ask for", flush=True)
        for name, context in contexts(moment, ALWAYS):
            for number, gap in enumerate(gaps):
                if (moment["case"], number, name) in done:
                    continue
                try:
                    said = ask(address, context, gap)
                except HTTPError as error:  # a full context may be too long for the model
                    print(f"{name}: left out, {error}", flush=True)
                    break
                is_right = re.match(rf"{re.escape(gap.right)}(?!\w)", said) is not None
                line = {"case": moment["case"], "session": moment["session"], "gap": number, "name": name}
                line |= {"value": gap.right, "said": said, "exact": is_right}
                answers.append(line)
                append_line(path, line)
                print(f"{name:>5} {'right' if is_right else 'wrong'} {gap.right[:60]!r}: {said[:80]!r}", flush=True)
    print_counts(answers)


def print_counts(answers: Iterable[Mapping[str, Any]]) -> None:
    """Print how many of the values that were asked for in every context are right."""
    by_gap: defaultdict[tuple[str, int], dict[str, Mapping[str, Any]]] = defaultdict(dict)
    for line in answers:
        by_gap[line["case"], line["gap"]][line["name"]] = line
    names = [name for name in ALWAYS if any(name in found for found in by_gap.values())]
    common = [found for found in by_gap.values() if set(names) <= set(found)]
    sessions = {line["session"] for found in common for line in found.values()}
    print(f"\n{len(common)} values of {len(sessions)} sessions\n")
    print_table(
        ("context", "right"),
        ((name, f"{sum(found[name]['exact'] for found in common)} of {len(common)}") for name in names),
    )
