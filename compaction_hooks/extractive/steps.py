"""What was done, one line for each step: the call with what identifies it, and how it ended."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from compaction_hooks.extractive.outline import Item, Section
from compaction_hooks.extractive.text import defuse, one_line
from compaction_hooks.files.operations import (
    EDIT_KEYS,
    PATH_KEYS,
    as_fields,
    as_items,
    call_arguments,
    command_line,
    is_failure,
    paired_calls,
)
from compaction_hooks.files.shell import simple_commands
from compaction_hooks.messages import Message, ToolCall, ToolResult

CALL_CHARS = 120
"""Of a call, its name and arguments together."""
ARGUMENT_CHARS = 60
"""Of one argument among several."""
OUTCOME_CHARS = 70
"""Of what a call answered."""
ERROR_CHARS = 140
"""Of an error line."""
SCAN_CHARS = 4_000
"""Of a result, so much is looked at from each end for its error line: compilers and test runners put theirs there."""

VALUES = {"action": 6.0, "edit": 2.0, "command": 2.5, "read": 0.6}
"""By kind of step: what changed the world outside is asked for most, what was only read can be read again."""

_READ_NAME = re.compile(
    r"^(?:get|read|list|ls|find|search|grep|glob|view|open|show|fetch|look|lookup|query|check|describe|calculate|count|"
    r"cat|head|tail|stat|inspect|browse|web|download_?output|task_?output|tool_?search)",
    re.IGNORECASE,
)
_NO_STEP = re.compile(
    r"^(?:think|todo|task_?(?:create|update|list|get)|update_?plan|send_?message$|exit_?plan|enter_?plan)",
    re.IGNORECASE,
)
_READ_PROGRAMS = frozenset(
    "cat head tail less more nl ls tree find grep egrep rg ag fd wc pwd echo which stat file sed awk cd sort uniq cut test true diff".split()
)
_READ_GIT = frozenset("status log diff show branch blame ls-files grep rev-parse remote".split())
_ERROR_LINE = re.compile(
    r"error|exception|failed|failure|fatal|panic|denied|not found|no such|cannot|can't|unable|invalid|undefined|unexpected|"
    r"--- FAIL|错误|失败|エラー|오류",
    re.IGNORECASE,
)
_WRAPPER = re.compile(r"</?[a-z_]+>|\[Command finished with exit code \d+\]|\[Python Interpreter: [^\]]*\]")
_RULE = re.compile(r"[=*_~#-]{4,}")
_EXIT_LINE = re.compile(r"(?:exit code|returncode|command exited)\W*\d+\W*$", re.IGNORECASE)
_LEADING_CD = re.compile(r"^(?:\s*cd\s+\S+\s*(?:&&|;)\s*)+")
_HEREDOC_BODY = re.compile(r"(<<-?\s*[\"']?\\?(\w+)[\"']?[^\n]*)\n.*?\n\s*\2\b", re.DOTALL)
_COUNT = re.compile(r" \(x(\d+)\)$")
_OMITTED = re.compile(r"(\d+) more steps?, not listed: (.+)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call or several alike.

    Attributes:
        call: `name(what identifies it)`.
        outcome: What it answered in a few words, or its error line; may be empty.
        kind: Key into `VALUES`.
        count: How often the same was done with the same outcome.
    """

    call: str
    outcome: str
    failed: bool
    kind: str
    count: int = 1

    @property
    def text(self) -> str:
        """The line that `parse_step` reads back."""
        outcome = f" -> {'FAILED: ' if self.failed else ''}{self.outcome}" if self.outcome or self.failed else ""
        return f"{self.call}{outcome}{f' (x{self.count})' if self.count > 1 else ''}"

    @property
    def signature(self) -> str:
        """What a later attempt at the same thing shares: the tool and what it works on."""
        name, _, arguments = self.call.partition("(")
        words = _LEADING_CD.sub("", arguments.rstrip(")")).split()
        size = 3 if len(words) > 1 and words[1].startswith("-") else 2
        return (
            f"{name}({' '.join(words[:size])}"
            if self.kind in ("command", "read")
            else f"{name}({arguments.split(',')[0]}"
        )


def steps(messages: Sequence[Message]) -> Iterator[Step]:
    """Yield one step for each tool call that does something, oldest first."""
    for call, result in paired_calls(messages):
        if not _NO_STEP.match(call.name):
            yield _step(call, result)


def parse_step(text: str) -> Step | None:
    """Read back the line of a step, or return None for a line that is none."""
    count = _COUNT.search(text)
    body = text[: count.start()] if count else text
    call, arrow, outcome = body.rpartition(" -> ")
    if not arrow:
        call, outcome = body, ""
    name, parenthesis, arguments = call.partition("(")
    if not parenthesis or not call.endswith(")") or " " in name:
        return None
    failed = outcome.startswith("FAILED: ")
    return Step(
        call=call,
        outcome=outcome.removeprefix("FAILED: "),
        failed=failed,
        kind=_kind(name, arguments.rstrip(")"), is_command=_looks_like_command(name)),
        count=int(count[1]) if count else 1,
    )


def step_items(earlier: Sequence[Item], new: Iterable[Step]) -> list[Item]:
    """Return the items for what was done and what still fails, oldest first.

    A failure that a later attempt at the same thing mended is done; the others are blocked until mended.

    Args:
        earlier: The items an earlier summary holds under "Done" and "Blocked".
    """
    done: list[Step | str] = []
    for item in earlier:
        if not _OMITTED.search(item.text):
            done.append(parse_step(item.text) or item.text)
    done += new
    mended: dict[str, int] = {}
    for index, step in enumerate(done):
        if isinstance(step, Step) and not step.failed:
            mended[step.signature] = index
    items: list[Item] = []
    for index, step in enumerate(_merged(done)):
        age = (index + 1) / max(len(done), 1)
        items.append(_item(step, age, mended))
    return items


def _item(step: Step | str, age: float, mended: Mapping[str, int]) -> Item:
    if isinstance(step, str):
        return Item(section=Section.DONE, text=one_line(step, CALL_CHARS + ERROR_CHARS), value=2.0 * (0.5 + age))
    value = VALUES[step.kind] * (0.5 + age)
    if not step.failed:
        return Item(section=Section.DONE, text=step.text, value=value)
    if step.signature in mended:
        text = step.text if step.text.endswith("; later ok") else f"{step.text}; later ok"
        return Item(section=Section.DONE, text=text, value=value * 0.4)
    section = Section.DONE if step.kind == "read" else Section.BLOCKED
    return Item(section=section, text=step.text, value=value * 1.5)


def omitted_line(dropped: Iterable[Item], earlier: Iterable[Item]) -> str:
    """Return a line that counts the steps that were left out, those of earlier rounds included; empty when there are none."""
    counts: Counter[str] = Counter()
    for item in dropped:
        step = parse_step(item.text)
        counts[step.call.partition("(")[0] if step else "other"] += step.count if step else 1
    for item in earlier:
        match = _OMITTED.search(item.text)
        for name, number in re.findall(r"([^,:]+?) (\d+)(?:,|$)", match[2] if match else ""):
            counts[name.strip()] += int(number)
    if not counts:
        return ""
    listed = ", ".join(f"{name} {number}" for name, number in sorted(counts.items(), key=lambda pair: -pair[1])[:8])
    return f"{sum(counts.values())} more steps, not listed: {listed}"


def _merged(done: Sequence[Step | str]) -> list[Step | str]:
    """Return the steps with repetitions of one line counted where the last of them stands."""
    counts: Counter[str] = Counter()
    for step in done:
        if isinstance(step, Step):
            counts[replace(step, count=1).text] += step.count
    merged: list[Step | str] = []
    seen: set[str] = set()
    for step in reversed(done):
        key = step if isinstance(step, str) else replace(step, count=1).text
        if key not in seen:
            seen.add(key)
            merged.append(step if isinstance(step, str) else replace(step, count=counts[key]))
    return merged[::-1]


def _step(call: ToolCall, result: ToolResult | None) -> Step:
    arguments = call_arguments(call)
    command = command_line(arguments)
    failed = result is not None and is_failure(result)
    shown = _command_text(command) if command is not None else _arguments_text(arguments)
    kind = _kind(call.name, command or shown, is_command=command is not None)
    if kind == "action" and any(key.replace("_", "").lower() in EDIT_KEYS for key in arguments):
        kind = "edit"
    outcome = "" if result is None else _error_line(result.text) if failed else _outcome(result.text, kind)
    return Step(
        call=f"{one_line(call.name, 60).replace('(', '[')}({_safe(shown)})",
        outcome=_safe(outcome),
        failed=failed,
        kind=kind,
    )


def _kind(name: str, arguments: str, *, is_command: bool) -> str:
    if is_command:
        return "read" if _only_reads(arguments) else "command"
    base = name.rsplit("__", 1)[-1].rsplit(".", 1)[-1]
    if _READ_NAME.match(base):
        return "read"
    if re.search(r"edit|write|replace|creat\w*file|insert|patch", base, re.IGNORECASE):
        return "read" if arguments.startswith("command=view") or ", command=view" in arguments else "edit"
    return "action"


def _looks_like_command(name: str) -> bool:
    return re.search(r"bash|shell|exec|terminal|command|run", name, re.IGNORECASE) is not None


def _only_reads(command: str) -> bool:
    """Whether a command line consists of programs that look and do not touch."""
    for words, targets in simple_commands(command[:SCAN_CHARS]):
        if targets and targets[0] != "/dev/null":
            return False
        program = words[0].rsplit("/", 1)[-1] if words else ""
        if program == "git" and len(words) > 1 and words[1] in _READ_GIT:
            continue
        if program not in _READ_PROGRAMS or (program == "sed" and any(word.startswith("-i") for word in words)):
            return False
    return True


def _command_text(command: str) -> str:
    """Return a command line on one line, without the bodies of its here-documents and the `cd` before it."""
    command = _HEREDOC_BODY.sub(r"\1", command[: 4 * SCAN_CHARS])
    return one_line(_LEADING_CD.sub("", command), CALL_CHARS)


def _arguments_text(arguments: Mapping[str, object]) -> str:
    """Return arguments as `key=value, key=value`, long ones shortened, contents of edits left out."""
    shown = [
        f"{key}={_argument(value)}" if not _is_file(key, value) else str(value).rsplit("/", 1)[-1]
        for key, value in arguments.items()
        if key.replace("_", "").lower() not in EDIT_KEYS and value not in (None, "", [], False)
    ]
    return one_line(", ".join(shown), 2 * CALL_CHARS)


def _is_file(key: str, value: object) -> bool:
    """Whether an argument is a file's path, which the file lists hold in full."""
    return isinstance(value, str) and key.replace("_", "").lower() in PATH_KEYS


def _argument(value: object) -> str:
    if isinstance(value, str):
        return one_line(value, 2 * ARGUMENT_CHARS)
    if as_fields(value) is None and as_items(value) is None:
        return str(value)
    return one_line(json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace('\\"', "'").replace('"', ""), 2 * ARGUMENT_CHARS)


def _outcome(text: str, kind: str) -> str:
    """Return how a successful call ended, in a few words: its last line when that is short, nothing for what was only read."""
    if kind == "read" or not text.strip():
        return ""
    lines = _informative_lines(text[-SCAN_CHARS:])
    if kind == "edit" or not lines:
        return ""
    if lines[0][0] in "{[" and len(text) > OUTCOME_CHARS:
        return "ok" if kind == "action" else ""
    return one_line(lines[-1], OUTCOME_CHARS * 2 if kind == "action" else OUTCOME_CHARS)


def _error_line(text: str) -> str:
    """Return the line that says what went wrong: the last that speaks of an error, else the first."""
    ends = text if len(text) <= 2 * SCAN_CHARS else text[:SCAN_CHARS] + "\n" + text[-SCAN_CHARS:]
    lines = [line for line in _informative_lines(ends) if not _EXIT_LINE.match(line)]
    if not lines:
        return one_line(text, ERROR_CHARS)
    return one_line(next((line for line in reversed(lines) if _ERROR_LINE.search(line)), lines[0]), ERROR_CHARS)


def _informative_lines(text: str) -> list[str]:
    stripped = (_RULE.sub(" ", _WRAPPER.sub("", line)).strip() for line in text.splitlines())
    return [line for line in stripped if len(line) > 1]


def _safe(text: str) -> str:
    """Text of tools on one line, without what the line format itself uses."""
    return defuse(" ".join(text.replace(" -> ", " => ").split()))
