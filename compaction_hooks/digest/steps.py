"""The steps of the agent, one line each: the call with its identifying arguments, and its outcome."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from compaction_hooks.digest.attempts import name_attempts, name_awaited, name_successes, tells_failure
from compaction_hooks.digest.outline import Item, Section
from compaction_hooks.digest.text import both_ends, defuse, one_line, size
from compaction_hooks.files.operations import (
    EDIT_KEYS,
    PATH_KEYS,
    CallMade,
    as_fields,
    as_items,
    plain_key,
    reads_files,
    words_of_refusal,
)
from compaction_hooks.files.shell import simple_commands, split_heredocs
from compaction_hooks.text.escaping import neutralize, remove_noise
from compaction_hooks.view.texts import COMPACT_TOOL, RECALL_TOOL

NAME_CHARS = 60
COMMAND_CHARS = 120
ARGUMENTS_CHARS = 240
ARGUMENT_CHARS = 120
OUTCOME_CHARS = 70
CHANGE_CHARS = 50
ERROR_CHARS = 140
"""The most characters in a line of a tool's name, a command line, all arguments, one argument, an answer, a changed line
and an error line."""
SCAN_CHARS = 4_000
"""Characters of a result that are read at each end for its outcome: compilers and test runners state it there."""
MOST_TOOLS = 4
"""The most tools that the line of counted steps names."""
REFUSAL_CHARS, MOST_REFUSALS = 400, 8
"""The most characters of the words that the result of a refused call gives as the user's, and the most such calls, the newest,
that are never dropped. Recorded words are shorter, and recorded conversations have at most six: more are from no user."""
MOST_FAILURES = 1_000
"""The most things that failed that are remembered: half a megabyte. A summary has room for about ten that were mended."""

Kind: TypeAlias = Literal["action", "edit", "command", "look", "read", "told"]
VALUES: dict[Kind, float] = {"action": 6.0, "edit": 0.5, "command": 2.5, "look": 1.5, "read": 0.4, "told": 2.0}
"""Changes of the outside world are asked for most; edits and reads are in the file lists too. A command that only reads is a
"look", and so is a search of the web, whose words nothing else names. A line of another system's summary is "told"."""
LEAST_COST = 8.0
"""Added to the size of a line, in tokens, which divides its value: agents repeat short commands, and many of them fit."""
FAILING, MENDED, REPEATED, SILENT = 1.5, 0.4, 0.1, 0.9
"""Factors for a step that still fails, for a failure before a success, for a step that kept messages repeat, and for one without an
outcome."""

_READ_NAME = re.compile(
    r"get|read|list|ls$|find|search|grep|glob|view|open|show|fetch|look|query|check|describe|calculat|count|cat$|head$|tail$"
    r"|stat$|inspect|task_?output",
    re.IGNORECASE,
)
_WEB_NAME = re.compile(r"browse|web", re.IGNORECASE)
_EDIT_NAME = re.compile(r"edit|write|replace|insert|patch", re.IGNORECASE)
_SHELL_NAME = re.compile(r"bash|shell|exec|terminal|command|run", re.IGNORECASE)
_NO_STEP = re.compile(
    rf"think$|{RECALL_TOOL}$|{COMPACT_TOOL}$|todo|task_?(?:create|update|list|get)|update_?plan|send_?message$"
    r"|(?:enter|exit)_?plan",
    re.IGNORECASE,
)
# fmt: off
_READ_PROGRAMS = frozenset({
    "cat", "head", "tail", "less", "more", "nl", "ls", "tree", "find", "grep", "egrep", "rg", "ag", "fd", "wc", "pwd", "echo",
    "which", "stat", "file", "sed", "awk", "cd", "sort", "uniq", "cut", "test", "true", "diff",
})
_READ_GIT = frozenset({"status", "log", "diff", "show", "branch", "blame", "ls-files", "grep", "rev-parse", "remote"})
# fmt: on
_ERROR_LINE = re.compile(
    r"error|exception|failed|failure|fatal|panic|denied|not found|no such|cannot|can't|unable|invalid|undefined|unexpected"
    r"|--- FAIL|错误|失败|エラー|오류",
    re.IGNORECASE,
)
_CANCELLED = re.compile(r"sibling tool call|command (?:was )?(?:aborted|cancelled)", re.IGNORECASE)
"""Of a call that another call or the user stopped: it says nothing of the call itself."""
_WRAPPER = re.compile(
    r"</?[a-z_]+>|\[Command finished with exit code \d+\]|\[Python Interpreter: [^\[\]]*\]|[=*_~#-]{4,}"
)
_SAYS_NOTHING = re.compile(r"\W*(?:ok|no output|\w|(?:exit code|returncode|command exited)\W*\d+)?\W*$", re.IGNORECASE)
"""A line without a word, or of one that is said of all: a bracket, the fence of a code block, "ok"."""
_COMMITTED = re.compile(r"^\[[\w./-]+ (?:\(root-commit\) )?[0-9a-f]{7,40}\] \S.*", re.MULTILINE)
"""The line of Git about a commit."""
_PATCH = re.compile(r"\*\*\* (?:Begin|Update|Add)|--- |diff --git|@@ ")
_DEFINITION = re.compile(
    r"\s*(?:(?:export|default|public|private|protected|internal|static|async|abstract|final|override|pub(?:\(\w+\))?)\s+)*"
    r"(?:def|class|func|function|fn|fun|struct|enum|interface|trait|impl|type|module|protocol)\s+[\w(]"
)
_LEADING_CD = re.compile(r"\A(?:\s*cd\s+\S+\s*(?:&&|;)\s*)+")
_COUNT = re.compile(r" \(x(\d{1,9})\)$")
_OMITTED = re.compile(r"\d+ more steps?, not listed: (.+)$")
_OMITTED_TOOL = re.compile(r"([^;()]+) (\d{1,9})")
_FAILED, _LATER_OK = "FAILED: ", "; later ok"

SAYS, SAID, REFUSED = "its result says: ", "its result said: ", "refused"
"""The outcome of such a call in the first summary and in the next, in front of the words; and in all later ones, without them."""
_TOLD = re.compile(rf"^(.* -> FAILED: )(?:{SAYS}|({SAID}))(.*?)((?:; later ok)?(?: \(x\d{{1,9}}\))?)$", re.MULTILINE)
"""The line of such a call in a summary."""


class Step(NamedTuple):
    """One call, or several with the same outcome.

    Attributes:
        call: `name(identifying arguments)`; the whole line if it is no step.
        outcome: The answer in a few words, or its error line; may be empty.
    """

    call: str
    outcome: str
    failed: bool
    kind: Kind
    times: int = 1

    @property
    def text(self) -> str:
        """The line that `parse_step` reads back."""
        outcome = f" -> {_FAILED if self.failed else ''}{self.outcome}" if self.outcome or self.failed else ""
        return f"{self.call}{outcome}{f' (x{self.times})' if self.times > 1 else ''}"

    @property
    def signature(self) -> str:
        """The name that another attempt at the same thing shares."""
        return name_attempts(self.call, self.kind)[-1]


def read_steps(calls: Iterable[CallMade]) -> Iterator[Step]:
    """Return one step for each tool call, oldest first, except those for thinking, recalling and to-do lists, unless refused."""
    steps = ((made.call.name, _read_step(made)) for made in calls)
    return (step for name, step in steps if step.outcome.startswith(SAYS) or not _NO_STEP.match(_base_name(name)))


def parse_step(text: str) -> Step:
    """Read back the line of a step."""
    count = _COUNT.search(text)
    body = text[: count.start()] if count else text
    call, arrow, outcome = body.rpartition(" -> ")
    if not arrow:
        call, outcome = body, ""

    name, parenthesis, arguments = call.partition("(")
    if not parenthesis or not call.endswith(")") or not name or " " in name:
        return Step(call=one_line(text, ARGUMENTS_CHARS), outcome="", failed=False, kind="told")

    return Step(
        call=call,
        outcome=outcome.removeprefix(_FAILED),
        failed=outcome.startswith(_FAILED),
        kind=_kind_of(name, arguments[:-1], is_command=_SHELL_NAME.search(name) is not None),
        times=int(count[1]) if count else 1,
    )


def step_items(earlier: Sequence[Item], new: Iterable[Step], later: Iterable[Step] = ()) -> list[Item]:
    """Return the items for the steps done and those that still fail, oldest first.

    A failure before a successful attempt at the same thing is done, and so is one before another failure of it; other failures
    are blocked.

    Args:
        earlier: The items an earlier summary holds under "Done" and "Blocked".
        later: Steps that are still shown: they mend failures before them, and the same steps before are worth less.
    """
    lines = [item.text for item in earlier if not _OMITTED.match(item.text)]
    done = _merge_repeats([*map(parse_step, lines), *new])
    newer = list(later)
    steps = [*done, *newer]

    failed = {step.signature: at for at, step in enumerate(steps) if step.failed}
    succeeded = {
        name: at
        for at, step in enumerate(steps if failed else ())
        if not step.failed and not tells_failure(step.call, step.outcome)
        for name in name_successes(step.call, step.kind)
    }

    calls = {step.call for step in newer}
    refused = [at for at, step in enumerate(done) if step.outcome.startswith(SAYS)][-MOST_REFUSALS:]
    items: list[Item] = []
    for at, step in enumerate(done):
        is_mended = step.failed and any(
            succeeded.get(name, -1) > at for name in name_awaited(step.call, step.kind, step.outcome)
        )
        item = _make_item(step, (at + 1) / len(done), is_mended=is_mended)
        if (
            item.section is Section.BLOCKED
            and failed[step.signature] > at
            and not step.outcome.startswith((SAYS, SAID))
        ):
            item = item._replace(section=Section.DONE, value=item.value * MENDED)

        value = item.value * REPEATED if step.call in calls else item.value
        items.append(item._replace(value=value, must=at in refused))
    return items


class Failures(NamedTuple):
    """The failures among the steps so far, by signature: all that must be known of them to go on behind a cut.

    Attributes:
        failed: The last failure of each thing that ever failed.
        mended: Those that succeeded the last time, with the words that say so; by the time of their first success.
    """

    failed: Mapping[str, Step] = MappingProxyType({})
    mended: Mapping[str, Step] = MappingProxyType({})

    def add(self, steps: Iterable[Step]) -> Failures:
        """Return the failures after these steps too. Of more than `MOST_FAILURES` the oldest are forgotten."""
        failed, mended = dict(self.failed), dict(self.mended)
        awaited = {name: name_awaited(step.call, step.kind, step.outcome) for name, step in failed.items()}

        for step in steps:
            if not step.failed:
                succeeded = name_successes(step.call, step.kind) if failed else ()
                found = {name: _as_mended(failed[name]) for name in failed if not awaited[name].isdisjoint(succeeded)}
                mended |= found if found and not tells_failure(step.call, step.outcome) else {}
            elif not step.outcome.startswith(SAYS):
                name = step.signature
                failed.pop(name, None)
                failed[name], awaited[name] = step, name_awaited(step.call, step.kind, step.outcome)
                mended.pop(name, None)

        for name in [*failed][:-MOST_FAILURES]:
            del failed[name]
            mended.pop(name, None)

        return Failures(failed, mended)

    def mended_items(self) -> list[Item]:
        """Return an item for each thing that failed before and succeeded the last time, oldest first."""
        return [Item(section=Section.DONE, text=step.text) for step in self.mended.values()]


def refused_items(calls: Iterable[CallMade]) -> list[Item]:
    """Return an item for each refused call whose result gives words as the user's, oldest first."""
    refused = [made for made in calls if made.has_failed and made.result and words_of_refusal(made.result.text)]
    return step_items((), read_steps(refused))


def age_refusals(summary: str) -> str:
    """Return an earlier summary for the next one to carry on: words of refusals that it had from the one before are left out.

    >>> age_refusals("- [ ] push() -> FAILED: its result says: Not main!")
    '- [ ] push() -> FAILED: its result said: Not main!'
    >>> age_refusals("- [ ] push() -> FAILED: its result said: Not main!")
    '- [ ] push() -> FAILED: refused'
    """
    return _TOLD.sub(lambda line: line[1] + (REFUSED if line[2] else SAID + line[3]) + line[4], summary)


def told_refusals(summary: str) -> list[str]:
    """Return the words of refusals that a summary tells."""
    return [line[3] for line in _TOLD.finditer(summary)]


def is_reported(mended: Item, text: str) -> bool:
    """Return whether the words of another writer tell of a mended failure, by its outcome or by its command or file."""
    step = parse_step(mended.text)
    outcome = step.outcome.removesuffix(_LATER_OK)
    words = step.signature.partition("(")[2].split()
    return (outcome != "" and outcome in text) or (words != [] and all(word in text for word in words))


def tells_error(text: str) -> bool:
    """Return whether a text speaks of an error."""
    return _ERROR_LINE.search(text) is not None


def make_omitted_line(dropped: Iterable[Item], earlier: Iterable[Item]) -> str:
    """Return a line that counts the steps that were left out, those of earlier rounds included; empty when there are none."""
    counts: Counter[str] = Counter()
    for item in earlier:
        match = _OMITTED.match(item.text)
        for entry in match[1].split("; ") if match else ():
            if tool := _OMITTED_TOOL.fullmatch(entry):
                counts[tool[1]] += int(tool[2])
    for item in dropped:
        step = parse_step(item.text)
        counts["other" if step.kind == "told" else re.sub(r"[;()]", "", step.call.partition("(")[0])] += step.times

    total = counts.total()
    most_used = counts.most_common(MOST_TOOLS)
    rest = total - sum(times for _, times in most_used)
    listed = "; ".join(f"{name} {times}" for name, times in (*most_used, *([("other", rest)] if rest else ())))
    return f"{total} more step{'s' if total > 1 else ''}, not listed: {listed}" if total else ""


def _make_item(step: Step, age: float, *, is_mended: bool) -> Item:
    """Return the item of a step. The newest is worth three times as much as the oldest."""
    worth = VALUES[step.kind] * (1.0 if step.outcome else SILENT)
    value = worth * (0.5 + age) * (1 + math.log2(step.times)) / (LEAST_COST + size(step.text))

    if not step.failed:
        # The file lists name the files that were read, and names found in results are listed: a plain read says nothing else.
        is_plain = step.kind == "read" and not step.outcome
        return Item(section=Section.DONE, text=step.text, value=0.0 if is_plain else value)
    if is_mended:
        return Item(section=Section.DONE, text=_as_mended(step).text, value=value * MENDED)

    is_open = (
        step.kind not in ("look", "read")
        and not step.outcome.endswith(_LATER_OK)
        and not _CANCELLED.match(step.outcome)
    )
    section = Section.BLOCKED if is_open else Section.DONE
    return Item(section=section, text=step.text, value=value * FAILING)


def _as_mended(step: Step) -> Step:
    return step._replace(outcome=step.outcome.removesuffix(_LATER_OK) + _LATER_OK)


def _merge_repeats(done: Iterable[Step]) -> list[Step]:
    """Return the steps with repetitions counted, in the place of the last: those of one line, and edits of one file."""
    merged: dict[str, Step] = {}
    for step in done:
        line = step.call if step.kind == "edit" and not step.failed else step._replace(times=1).text
        before = merged.pop(line, None)
        merged[line] = step._replace(times=step.times + before.times) if before else step
    return list(merged.values())


def _read_call(made: CallMade) -> Step:
    """Return the step of a call without its outcome."""
    call, command = made.call, made.command
    if command is not None:
        line, _ = split_heredocs(command)
        arguments = one_line(_LEADING_CD.sub("", line[:SCAN_CHARS]), COMMAND_CHARS)
    else:
        arguments = _arguments_text(made.arguments)

    kind = _kind_of(call.name, command or arguments, is_command=command is not None)
    if kind == "action" and _edits_file(made.arguments):
        kind = "edit"

    name = re.sub(r"[\s()]+", "_", _make_safe(one_line(call.name, NAME_CHARS))) or "tool"
    return Step(call=f"{name}({_make_safe(arguments)})", outcome="", failed=made.has_failed, kind=kind)


def _read_step(made: CallMade) -> Step:
    """Return the step of a call, with its outcome in a few words."""
    step, result = _read_call(made), made.result
    text = remove_noise(both_ends(result.text, SCAN_CHARS)) if result else ""

    if result is None:
        outcome = ""
    elif words := words_of_refusal(result.text):
        outcome = SAYS + one_line(words, REFUSAL_CHARS)
    elif made.has_failed:
        outcome = _error_line(text)
    elif step.kind in ("look", "read"):
        outcome = "" if step.kind == "read" and reads_files(made) else _short_answer(text)
    else:
        outcome = _first_change(made.arguments) if step.kind == "edit" else _outcome_line(text, step.kind)

    if step.kind == "command" and not outcome and made.command:
        outcome = _first_change({"content": "\n".join(split_heredocs(made.command)[1])})
    return step._replace(outcome=_make_safe(outcome)) if outcome else step


def _kind_of(name: str, arguments: str, *, is_command: bool) -> Kind:
    if is_command:
        return "look" if _only_reads(arguments) else "command"
    base = _base_name(name)
    if _WEB_NAME.match(base):
        return "look"
    if _READ_NAME.match(base):
        return "read"
    if _EDIT_NAME.search(base):
        return "read" if re.search(r"(?:^|, )command=view\b", arguments) else "edit"
    return "action"


def _base_name(name: str) -> str:
    """Return the tool's own name, without the server that offers it."""
    return name.rpartition("__")[2].rpartition(".")[2]


def _only_reads(command: str) -> bool:
    """Return whether a command line only has programs that read and do not write."""
    for words, targets in simple_commands(command[:SCAN_CHARS]):
        program = words[0].rpartition("/")[2] if words else ""
        is_git = program == "git" and words[1:2] and words[1] in _READ_GIT
        edits = program == "sed" and any(word.startswith("-i") for word in words)
        if any(target != "/dev/null" for target in targets) or edits or not (is_git or program in _READ_PROGRAMS):
            return False
    return True


def _arguments_text(arguments: Mapping[str, object]) -> str:
    """Return arguments as `key=value, key=value`: long ones shortened, written texts left out, files by their last name.

    The file lists have the full paths.
    """
    texts: list[str] = []
    is_edit = _edits_file(arguments)
    for key, value in arguments.items():
        if isinstance(value, str) and plain_key(key) in PATH_KEYS:
            texts.append(value.rstrip("/").rpartition("/")[2])
        elif not (is_edit and plain_key(key) in EDIT_KEYS) and value not in (None, "", [], False):
            texts.append(f"{key}={_argument_text(value)}")
    return one_line(", ".join(texts), ARGUMENTS_CHARS)


def _edits_file(arguments: Mapping[str, object]) -> bool:
    keys = {plain_key(key) for key in arguments}
    return bool(keys & EDIT_KEYS and keys & PATH_KEYS)


def _argument_text(value: object) -> str:
    if as_fields(value) is None and as_items(value) is None:
        return one_line(str(value), ARGUMENT_CHARS)
    compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return one_line(compact.replace('\\"', "'").replace('"', ""), ARGUMENT_CHARS)


def _outcome_line(text: str, kind: Kind) -> str:
    """Return the outcome of a successful action or command in a few words: its commit, or the last line that says something."""
    text = text[-SCAN_CHARS:]
    committed = _COMMITTED.search(text)
    line = committed[0] if committed else next(_informative(reversed(text.splitlines())), "")
    return one_line(line, OUTCOME_CHARS if kind == "command" or line.startswith(("{", "[")) else 2 * OUTCOME_CHARS)


def _first_change(arguments: Mapping[str, object]) -> str:
    """Return the function that an edit changed first, else its first changed line; of a new text, its first function or line."""
    signed = (line for line in _signed_lines(arguments) if not line.startswith(("+++", "---")))
    lines = [line.rpartition("@@")[2] if line.startswith("@@") else line for line in signed]
    old, new = ([line[1:] for line in lines if line[:1] != sign] for sign in "+-")

    for changed, other in ((new, old), (old, new)):
        at = next((at for at, line in enumerate(changed) if line not in other and not _SAYS_NOTHING.match(line)), None)
        if at is not None:
            around = changed[at::-1] if other else changed[at:]
            return one_line(next(filter(_DEFINITION.match, around), changed[at]), CHANGE_CHARS)
    return ""


def _signed_lines(arguments: Mapping[str, object]) -> Iterator[str]:
    """Yield the lines of an edit's texts as a patch has them: "-" before the old ones, "+" before the new ones."""
    for key, value in arguments.items():
        name = plain_key(key)
        if isinstance(value, str) and (name in EDIT_KEYS or _PATCH.match(value)):
            sign = "" if _PATCH.match(value) else "-" if name.startswith("old") or name == "search" else "+"
            yield from (sign + line for line in value[:SCAN_CHARS].splitlines())
        for item in as_items(value) or ():
            yield from _signed_lines(as_fields(item) or {})


def _short_answer(text: str) -> str:
    """Return an answer of one short line, or the news that there is none; an empty text for any other."""
    text = _WRAPPER.sub(" ", text[:SCAN_CHARS]).strip()
    answer = text if any(map(str.isalnum, text)) else "nothing"
    return "" if "\n" in answer or len(answer) > OUTCOME_CHARS else one_line(answer, OUTCOME_CHARS)


def _error_line(text: str) -> str:
    """Return the line of the error: the last that mentions one, else the first."""
    lines = [*_informative(text.splitlines())]
    speaking = (line for line in reversed(lines) if _ERROR_LINE.search(line))
    return one_line(next(speaking, lines[0] if lines else _WRAPPER.sub(" ", text)), ERROR_CHARS)


def _informative(lines: Iterable[str]) -> Iterator[str]:
    stripped = (_WRAPPER.sub(" ", line).strip() for line in lines)
    return (line for line in stripped if not _SAYS_NOTHING.match(line))


def _make_safe(text: str) -> str:
    """Return a tool's text in a form that cannot be taken for the line format or a tag."""
    return neutralize(defuse(text.replace(" -> ", " => ")))
