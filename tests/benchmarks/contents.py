"""What the lines of a summary are worth: whether listed names are used again, and whether steps have an outcome that is still true.

The names of a list count as used if any later message of the agent has them. A failure is stale if its like succeeded later by
the rules of this module: they compare scripts, files and commands of the recorded calls, and know nothing of the summary's own.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from compaction_hooks.replay.needs import NEXT_STEPS, is_in, read_arguments
from tests.benchmarks.searches import FORMAT, Chat, Tally, message_text

COMMAND_KEYS = ("command", "cmd", "script")
"""The arguments of tools that hold a shell command."""
LEADING_CD = re.compile(r"(?:\s*cd\s+\S+\s*(?:&&|;)\s*)+")
FILE_KEYS = ("file_path", "path", "filename")
ERROR_CHARS = 60
"""The first characters of a failure's outcome by which its call is found."""

_ARROW = " -> "
_UNLISTED = re.compile(r"\d+ (?:more )?steps, not listed\b")
_EMPTY = re.compile(r"[^\w]*(?:`{3,}\w*|ok(?:ay)?|done|none|null|true|success)?[^\w]*", re.IGNORECASE)
_REPEATED = re.compile(r" \(x\d+\)$")
_FAILED = re.compile(r"FAILED: (?:its result says: )?(.+)")
_FAILURE = re.compile(
    r"Traceback \(most recent|^(?:\S*Error|E  |FAIL|--- FAIL|.*\berror:|\[\S+\] ERROR)", re.MULTILINE | re.IGNORECASE
)
_SCRIPT = re.compile(
    r"(?:^|[\s;&|])(?:python[\d.]*|bash|sh|node|ruby|go run|npx \S+|(?=\./))(?: -[\w=-]+)* ?(\S*\w\.\w{1,4})(?=\s|$|[;&|)])"
)
_LACKING = re.compile(r"No module named '?([\w]+)|Cannot find module '([@\w/-]+)'")
_INSTALL = re.compile(r"\b(?:pip3?|uv pip|npm|conda|apt(?:-get)?|poetry|yarn|pnpm) (?:install|add|i)\b([^\n;&|]*)")
_SEGMENT = re.compile(r"&&|\|\||;|\n")


# -- names


def judge_list(
    case: tuple[str, int, int], model: str, names: Iterable[str], messages: Sequence[Chat], tally: Tally
) -> None:
    """Look up the listed names in the messages of the agent from the summary on.

    Args:
        case: Conversation, window and the first index of these messages.
    """
    answers = [message_text(message) for message in messages[case[-1] :] if message["role"] == "assistant"]
    soon, all_later = "\n".join(answers[:NEXT_STEPS]), "\n".join(answers)
    for name in names:
        tally[f"listed names used later{model}"][*case, name] = is_in(name, all_later)
        tally[f"listed names used in the next steps{model}"][*case, name] = is_in(name, soon)


def listed_names(lines: Iterable[str]) -> list[str]:
    """Return the names of a list: each line is "kind: name, name"."""
    return [*dict.fromkeys(name for line in lines for name in line.partition(": ")[2].split(", ") if name.strip())]


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


# -- outcomes


class Made(NamedTuple):
    """A recorded tool call and its result.

    Attributes:
        likes: What it did, in words by which its like is found: its script, its file or its commands.
    """

    tool: str
    likes: frozenset[str]
    installed: str
    result: str
    is_success: bool


def judge_outcomes(
    case: tuple[str, int, int], model: str, summary: str, messages: Sequence[Chat], tally: Tally
) -> None:
    """Count steps without an outcome, with one that says nothing, and failures whose like succeeded later in these messages."""
    for number, line in enumerate(lines_under(summary, "Done")):
        if not _UNLISTED.match(line):
            outcome = _REPEATED.sub("", line).partition(_ARROW)[2]
            tally[f"done without outcome{model}"][*case, number] = not outcome
            if outcome:
                tally[f"done, outcome says nothing{model}"][*case, number] = bool(_EMPTY.fullmatch(outcome))
    blocked = lines_under(summary, "Blocked")
    calls = [*read_made(messages)] if blocked else []
    for number, line in enumerate(blocked):
        if line.strip() != "(none)":
            tally[f"stale blocked{model}"][*case, number] = is_stale(line, calls)


def is_stale(line: str, calls: Sequence[Made]) -> bool:
    """Return whether the like of a failure succeeded after it."""
    found = _FAILED.search(_REPEATED.sub("", line))
    if not found:
        return False
    error = " ".join(found[1].split())[:ERROR_CHARS].partition("...")[0].replace("\u2039", "<").rstrip(" \u2026")
    tool = line.partition("(")[0]
    alike = [i for i, made in enumerate(calls) if made.tool == tool and error in made.result]
    if not alike:
        return False
    at = max(alike, key=lambda i: (any(like.rpartition(" ")[2] in line for like in calls[i].likes), i))
    failed, later = calls[at], [made for made in calls[at + 1 :] if made.is_success]
    succeeded = frozenset[str]().union(*(made.likes for made in later))
    lacking = _LACKING.search(error)
    module = (lacking[1] or lacking[2]) if lacking else ""
    is_installed = module and any(is_in(module.lower(), made.installed) for made in later)
    return bool(is_installed or (failed.likes and failed.likes <= succeeded))


def read_made(messages: Iterable[Chat]) -> Iterator[Made]:
    """Yield the calls that have a result, in the order of the results."""
    called: dict[str, tuple[str, object]] = {}
    for piece in (piece for message in messages for piece in FORMAT.read(message)):
        called |= {call.id: (call.name, read_arguments(call)) for call in piece.calls}
        for result in piece.results:
            if result.call_id in called:
                tool, arguments = called[result.call_id]
                values = arguments if isinstance(arguments, dict) else {}
                command = next(commands_of(values), "")
                installed = " ".join(_INSTALL.findall(command)).lower()
                is_success = not result.is_error and not _FAILURE.search(result.text)
                plain = " ".join(result.text.split())
                yield Made(tool, frozenset(_likes(tool, values, command)), installed, plain, is_success)


def commands_of(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Yield the shell commands among the arguments of a call."""
    for key in COMMAND_KEYS:
        value = arguments.get(key)
        if isinstance(value, str) and " " in value.strip():
            yield value


def _likes(tool: str, arguments: Mapping[str, Any], command: str) -> Iterator[str]:
    if not command:
        yield from (
            f"{tool} {PurePosixPath(value).name}" for key in FILE_KEYS if isinstance(value := arguments.get(key), str)
        )
    elif scripts := _SCRIPT.findall(command):
        yield from (f"run {PurePosixPath(script).name}" for script in scripts)
    else:
        for segment in _SEGMENT.split(LEADING_CD.sub("", command, count=1)):
            words = segment.partition("|")[0].split()
            if words and (bare := [word for word in words if not re.match(r"[-\d>&]", word)]):
                yield " ".join(bare[:4])
