"""The steps of the agent, one line each: the call with the arguments that tell it apart, and the beginning of its outcome.

A failure is told by the first line of its error, as printed, and its step is one among others: the steps behind it tell whether it
was mended, in whatever way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from compaction_hooks.digest.outline import Item, Section
from compaction_hooks.digest.text import CHARS_PER_TOKEN, both_ends, defuse, one_line
from compaction_hooks.files.operations import (
    EDIT_KEYS,
    PATH_KEYS,
    CallMade,
    as_fields,
    as_items,
    plain_key,
    words_of_refusal,
)
from compaction_hooks.files.shell import split_heredocs
from compaction_hooks.text.escaping import neutralize, remove_noise
from compaction_hooks.view.texts import COMPACT_TOOL, RECALL_TOOL

NAME_CHARS, COMMAND_CHARS, ARGUMENTS_CHARS, ARGUMENT_CHARS = 60, 120, 240, 120
"""The most characters in a line of a tool's name, a command, all arguments, and one argument."""
OUTCOME_CHARS, MOST_OUTCOME_CHARS, CHANGE_CHARS, ERROR_CHARS = 80, 400, 80, 200
"""The most characters of the beginning of a result, if there are many steps and if there are few; of a changed line, and of an
error's."""
PATH_NAMES = 2
"""The last names of a path that tell which file it is: the file lists have the whole."""
PATCHES = ("*** Begin", "*** Update", "*** Add", "--- ", "diff --git", "@@ ")
"""The beginnings of a patch."""
REFUSED = "FAILED: its result says: "
"""The outcome of a call that was refused with words. They are said to be the user's, and may be a web page's."""
REFUSAL_CHARS = 400
"""The most characters of the words that the result of a refused call gives as the user's; recorded ones are shorter."""
SCAN_CHARS = 2_000
"""Characters of a result that are read at each end: compilers and test runners state the outcome there."""

_NO_STEP = re.compile(
    rf"think$|{RECALL_TOOL}$|{COMPACT_TOOL}$|todo|task_?(?:create|update|list|get)|update_?plan|send_?message$"
    r"|(?:enter|exit)_?plan",
    re.IGNORECASE,
)
_ERROR = re.compile(
    r"error|exception|traceback|fail(?:ed|ure|ing)|fatal|panic|denied|not found|no such|cannot|can't|unable|invalid|undefined"
    r"|unexpected|assert|错误|失败|エラー|오류"
)
"""Words of failures, in lower case."""
_NAMED_ERROR = re.compile(r"(?:\w(?:Error|Exception)|\b(?:error|fatal|panic|FAIL(?:ED)?))\b[^()]{0,20}(?::|$)")
_FRAME = re.compile(r"File \"([^\"\n]{1,200})\", line (\d{1,7})")
_WRAPPER = re.compile(
    r"</?[a-z_]+>|\[Command finished with exit code \d+\]|\[Python Interpreter: [^\[\]]*\]|[=*_~#-]{4,}"
)
_SAYS_NOTHING = re.compile(r"\W*(?:ok|no output|\w|(?:exit code|returncode|command exited)\W*\d+)?\W*$", re.IGNORECASE)
"""A line without a word, or of one that is said of all: a bracket, the fence of a code block, "ok"."""
_NUMBERED = re.compile(r"^ *(\d{1,7})(?:\t|→|: |\| ?)", re.MULTILINE)
"""The number of a line, as tools show a changed file."""
_LEADING_CD = re.compile(r"\A(?:\s*cd\s+\S+\s*(?:&&|;)\s*)+")


def step_items(earlier: Sequence[Item], calls: Sequence[CallMade], max_tokens: float) -> list[Item]:
    """Return an item for each step, each line once: first those whose new result has words of the user, then the newest.

    Args:
        earlier: Those of an earlier summary.
        max_tokens: The room of all lines: few steps tell more of their results.
    """
    spare = CHARS_PER_TOKEN * max_tokens / (len(calls) + len(earlier) or 1) - COMMAND_CHARS
    chars = int(min(max(spare, OUTCOME_CHARS), MOST_OUTCOME_CHARS))
    lines = [*(item.text for item in earlier), *_read_steps(calls, chars)]
    newest = {line: place for place, line in enumerate(lines)}
    refused = {line for line in lines[len(earlier) :] if REFUSED in line}  # later summaries have them if there is room
    ranked = sorted(newest.items(), key=lambda step: (step[0] not in refused, -step[1]))
    return [Item(Section.DONE, line, place=place) for line, place in ranked]


def _read_steps(calls: Iterable[CallMade], outcome_chars: int) -> Iterator[str]:
    """Return one line for each tool call, except those for thinking, recalling and to-do lists, unless refused."""
    for made in calls:
        name = made.call.name.rpartition("__")[2].rpartition(".")[2]  # without the server that offers the tool
        if not _NO_STEP.match(name) or (made.result and words_of_refusal(made.result.text)):
            yield _tell(made, outcome_chars)


def _tell(made: CallMade, outcome_chars: int) -> str:
    """Return a call and its outcome in a few words."""
    name = re.sub(r"[\s()]+", "_", one_line(made.call.name, NAME_CHARS)) or "tool"
    text, is_edit = made.result.text if made.result else "", _writes(made.arguments)

    if words := words_of_refusal(text):
        outcome = f"{REFUSED}{one_line(words, REFUSAL_CHARS)}"
    elif made.has_failed:
        outcome = f"FAILED: {_first_error(text) or _beginning(text, outcome_chars)}"
    elif is_edit:
        numbers = _NUMBERED.findall(both_ends(text, SCAN_CHARS))
        outcome = (f"lines {numbers[0]}-{numbers[-1]}: " if numbers else "") + _first_change(made.arguments)
    elif made.command is not None:
        outcome = _first_error(text) or _beginning(text, outcome_chars)
    else:
        outcome = _beginning(text, outcome_chars)

    call = f"{name}({_describe(made, is_edit=is_edit)})"
    return neutralize(defuse(f"{call} -> {outcome}" if made.result and outcome else call))


def _describe(made: CallMade, *, is_edit: bool) -> str:
    """Return a command on one line, or arguments as `key=value`: long ones shortened, written texts left out."""
    if made.command is not None:
        line, _ = split_heredocs(made.command)
        return one_line(_LEADING_CD.sub("", line[:SCAN_CHARS]), COMMAND_CHARS)

    texts: list[str] = []
    for key, value in made.arguments.items():
        if isinstance(value, str) and plain_key(key) in PATH_KEYS:
            texts.append("/".join(value.rstrip("/").split("/")[-PATH_NAMES:]))
        elif not (is_edit and plain_key(key) in EDIT_KEYS) and value not in (None, "", [], False, True):
            texts.append(f"{key}={_describe_value(value)}")
    return one_line(", ".join(texts), ARGUMENTS_CHARS)


def _writes(arguments: Mapping[str, object]) -> bool:
    """Return whether arguments hold a text next to the file that it goes to, or a patch."""
    keys = {plain_key(key) for key in arguments}
    is_patch = any(isinstance(value, str) and value.startswith(PATCHES) for value in arguments.values())
    return is_patch or not (keys.isdisjoint(EDIT_KEYS) or keys.isdisjoint(PATH_KEYS))


def _describe_value(value: object) -> str:
    if as_fields(value) is None and as_items(value) is None:
        return one_line(str(value), ARGUMENT_CHARS)
    compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return one_line(compact.replace('\\"', "'").replace('"', ""), ARGUMENT_CHARS)


def _first_change(arguments: Mapping[str, object]) -> str:
    """Return the first line that an edit changed; of a new text, its first line that says something."""
    old, new = _edited_lines(arguments)
    changed = next(iter([line for line in new if line not in old] or [line for line in old if line not in new]), "")
    return one_line(changed, CHANGE_CHARS)


def _edited_lines(arguments: Mapping[str, object]) -> tuple[list[str], list[str]]:
    """Return the telling lines of an edit's old and new texts; in a patch they are marked."""
    old: list[str] = []
    new: list[str] = []
    for key, value in arguments.items():
        name = plain_key(key)
        if isinstance(value, str) and (name in EDIT_KEYS or value.startswith(PATCHES)):
            lines = [line for line in value[:SCAN_CHARS].splitlines() if not _SAYS_NOTHING.match(line)]
            if value.startswith(PATCHES):
                old += [line[1:] for line in lines if line[0] == "-" and not line.startswith("---")]
                new += [line[1:] for line in lines if line[0] == "+" and not line.startswith("+++")]
            else:
                (old if name.startswith("old") or name == "search" else new).extend(lines)
        for item in as_items(value) or ():
            before, after = _edited_lines(as_fields(item) or {})
            old, new = old + before, new + after
    return old, new


def _beginning(text: str, max_chars: int) -> str:
    """Return the beginning of a result, without lines that say nothing."""
    told = ""
    for line in map(_bare, remove_noise(text[:SCAN_CHARS]).splitlines()):
        if len(told) > max_chars:
            break
        told += "" if _SAYS_NOTHING.match(line) else f" {line}"
    return f"{told[1:max_chars]}…" if len(told) > max_chars + 1 else told[1:] or "nothing"


def _first_error(text: str) -> str:
    """Return the first line that names an error, or speaks of one, as printed; of a traceback with its last file and line."""
    text = remove_noise(both_ends(text, SCAN_CHARS))
    told = (line for line in text.splitlines() if _ERROR.search(line.lower()))
    lines = [line for line in map(_bare, told) if not _SAYS_NOTHING.match(line)]
    line = next(filter(_NAMED_ERROR.search, lines), lines[0] if lines else "")
    frames = _FRAME.findall(text[: text.find(line)]) if line else ()
    where = f" ({frames[-1][0].rpartition('/')[2]}:{frames[-1][1]})" if frames else ""
    return one_line(line, ERROR_CHARS) + where


def _bare(line: str) -> str:
    return " ".join(_WRAPPER.sub(" ", line).split())
