"""What a call attempts, by name: a later success of one name mends the failures that wait for it."""

from __future__ import annotations

import re
from collections.abc import Iterator

NAME_WORDS = 3
"""Words of a command, options left out, that make it another attempt at the same: `mise run test`, `go test ./x`."""

_SEPARATOR = re.compile(r"&&|\|\||;|<<-?\s*[\"']?\w+[\"']?|\|(?:[^;&]|>&)*|\d?[<>]+(?:&\d|\s*[^\s<>&;|]*)")
"""Between the commands of a line: also redirections, what comes behind a pipe, and marks of here-documents."""
_RUNNER = re.compile(
    r"\s*(?:(?:cd\s+\S+|\w+=\S*|(?:\S*/)?(?:python[\d.]*|node|bash|sh|npx|sudo|time|env)|timeout\s+\S+|(?:uv|poetry|pdm)\s+run)"
    r"(?:\s+-\S+)*(?:\s+|$))*(?:[\w.~-]*/)*"
)
"""What may be in front of a script or a program, or not: the same is run. The folder of a script too."""
_INSTALLED = re.compile(
    r"\b(?:pip[\d.]*|uv|npm|pnpm|yarn|cargo|go|gem|brew|conda|apk|dnf|apt(?:-get)?) (?:install|add|get|i)\b([^|;&]*)"
)
_PACKAGE = re.compile(r"(?<!\S)[\"']?(@?[A-Za-z][\w/-]*|\.)")
_FILE_NAME = re.compile(r"(?<![\w.-])[\w-][\w.-]*\.\w+")
_LACKING = re.compile(
    r"(?:no module named|cannot find (?:module|package)|provides package|command not found:) ['\"]?(@?\w[\w/-]*)"
    r"|(?<![\w+-])([\w+-]+): (?:command )?not found(?!:)"
    r"|(?<![\w.-])([\w-]+\.[\w.-]+)['\"]?:(?: \[Errno 2\])? no such file"
    r"|(?:no such file or directory|does not exist|file not found)[:,]\s*['\"]?(?:[^\s'\"]*/)?([\w.-]+)",
    re.IGNORECASE,
)
"""A module, a program, or the name of a file that an error misses."""
_STILL_FAILING = re.compile(r"\b(?:FAIL(?:ED|URE)?|ERROR)\b|\b[1-9]\d* (?:failed|errors?)\b|\w(?:Error|Exception): ")


def name_attempts(call: str, kind: str) -> list[str]:
    """Return the names of the attempts in a step's call: the edited file, the tool and its first argument, or the first words of
    each command of a line, of which the last is the one that failed.

    >>> name_attempts("bash(cd /r && pip install -q x; python3 ./test.py -v 2>&1 | tail)", "command")
    ['run(pip install x', 'run(test.py']
    """
    name, _, arguments = call.removesuffix(")").partition("(")

    if kind in ("edit", "action", "read"):
        values = arguments.split(", ")
        file = next((value for value in values if "=" not in value), values[0])  # it is shown without its key
        return [f"edit({file}" if kind == "edit" else f"{name}({values[0]}"]

    line, option, script = arguments.partition(" -c ")
    *names, last = [*filter(None, map(_name_command, _SEPARATOR.split(line)))] or [call]
    return [*names, last + option + script]


def name_awaited(call: str, kind: str, outcome: str) -> set[str]:
    """Return the names whose later success mends a failure: of its attempt, and of a file or a package that it misses."""
    lacking = _LACKING.findall(outcome)
    files = (f"file {before or behind}" for _, _, before, behind in lacking if before or behind)
    packages = [
        *_installed(call),
        *(_package(module or program) for module, program, _, _ in lacking if module or program),
    ]
    return {name_attempts(call, kind)[-1], *files, *packages, *([_package(".")] if packages else [])}


def name_successes(call: str, kind: str) -> list[str]:
    """Return the names that a successful call is a success of: its attempts, the files that it names, the packages it installs."""
    return [*name_attempts(call, kind), *(f"file {name}" for name in _FILE_NAME.findall(call)), *_installed(call)]


def tells_failure(call: str, outcome: str) -> bool:
    """Return whether a call failed although the status of its last pipe says that it succeeded."""
    return "|" in call and _STILL_FAILING.search(outcome) is not None


def _name_command(command: str) -> str:
    runner = _RUNNER.match(command)
    words = command[runner.end() if runner else 0 :].split()
    words = [word.strip("'\"") for word in words if not word.startswith("-")]
    return f"run({' '.join(words[:NAME_WORDS])}" if words else ""


def _installed(call: str) -> Iterator[str]:
    return (_package(name) for names in _INSTALLED.findall(call) for name in _PACKAGE.findall(names))


def _package(name: str) -> str:
    return f"install {name.lower().replace('-', '_')}"
