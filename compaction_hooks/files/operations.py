"""Tool calls: their arguments, failures and refusals, and the files that they touched, by the shape of their arguments."""

from __future__ import annotations

import json
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, cast

from compaction_hooks.files import FileOperations
from compaction_hooks.files.shell import Touch, find_patched_files, is_compound, shell_touches
from compaction_hooks.messages import Message, ToolCall, ToolResult
from compaction_hooks.text.json_text import json_object, parse_json

MAX_PATH_CHARS = 1024
"""A longer argument is no path."""
MOST_ARGUMENT_CHARS = 100_000
"""Longer arguments of a call are not read as JSON: each of these characters takes the interpreter up to 40 ns without a break."""
_KEY_AND_TEXT = re.compile(r'(?<!\\)"([A-Za-z_][\w-]{0,60})"\s{0,8}:\s{0,8}"((?:[^"\\]|\\.){0,1024})', re.DOTALL)
"""A key with the beginning of its text. Inside a text of JSON no quotation mark is without a backslash."""

# fmt: off
PATH_KEYS = frozenset({
    "path", "filepath", "filename", "file", "targetfile", "notebookpath", "absolutepath", "abspath", "relpath",
    "relativeworkspacepath",
})
LIST_KEYS = frozenset({"paths", "files", "filepaths", "filenames", "targetfiles"})
EDIT_KEYS = frozenset({
    "oldstring", "newstring", "oldstr", "newstr", "oldtext", "newtext", "oldcontent", "newcontent", "content", "contents",
    "filetext", "patch", "diff", "insert", "insertline", "inserttext", "newsource", "edits", "codeedit", "replacement",
    "replacements", "replace", "search",
})
SEARCH_KEYS = frozenset({"pattern", "query", "regex", "glob", "include"})
# fmt: on
COMMAND_KEYS = ("command", "cmd", "script")
"""Argument names are compared in lower case without underscores and hyphens: `file_path`, `filePath` and `filepath` are one."""

WRITING_NAME = re.compile(r"write|edit|creat|insert|replac|append|patch|updat|save|modif", re.IGNORECASE)
NOT_A_READ = re.compile(r"ls|list|glob|find|grep|search|tree|delete|remove|rename|move|mkdir|dir", re.IGNORECASE)
EDITOR_COMMANDS = {"view": False, "create": True, "str_replace": True, "insert": True, "undo_edit": True}
"""The `command` argument of Anthropic's text editor tool, and whether it writes."""

_FAILED_START = re.compile(
    r"[a-z_.]{0,60}(?:error|exception)s?(?:\[\w{1,20}\])?:"
    r"|errors? (?:in|while|executing|running|calling|reading|writing|occurred)\b"
    r"|an error occurred|exception\b|traceback \("
    r"|exit(?:ed)? (?:with )?(?:code|status):? -?[1-9]|<returncode>\s*-?[1-9]|<(?:error|exception|tool_use_error)>"
    r"|fatal:|command failed|failed to\b|could not\b|unable to\b|permission denied|no such file|enoent\b|eacces\b"
    r"|the user doesn't want|\[no result recorded",
    re.IGNORECASE,
)
"""First words of failures. Claude Code and interrupted sessions put the last two in a result's place."""
_FAILED_JSON = re.compile(
    r"""[{\[]\s*["'](?:error|errors)["']\s*:(?!\s*(?:null|None|false|False|""|\[\]|\{\}))"""
    r"""|[{\[][^{}]{0,200}["'](?:success|ok)["']\s*:\s*(?:false|False)"""
    r"""|[{\[][^{}]{0,200}["']status["']\s*:\s*["'](?:error|failed|failure)["']""",
    re.IGNORECASE,
)
_FAILED_END = re.compile(r"exit(?:ed)? (?:with )?(?:code|status):? -?[1-9]\d*\W*$", re.IGNORECASE)
_PATCHING = re.compile(r"^patching file (\S+)", re.MULTILINE)
_NO_FILE = re.compile(r"\n|://|/\Z")
_DIRECTORY_VIEW = "files and directories"
"""In the first line of the answer of Anthropic's text editor tool to a `view` of a folder, which reads no file."""

# The words that results of refused calls give as the user's, each behind a sentence of its agent. Any tool can write them: they
# are the result's. Refusals of Codex ("exec command rejected by user"), and of Gemini CLI except of plans, have none.

_BY_CLAUDE_CODE = (
    r" The tool use was rejected \(eg\. if it was a file edit, the new_string was NOT written to the file\)\. "
)
_SENTENCES = re.compile(
    # Claude Code, also in a subagent
    rf"The user doesn't want to proceed with this tool use\.{_BY_CLAUDE_CODE}"
    r"(?:To tell you how to proceed, the user said:|The user provided the following reason for the rejection:)\s"
    rf"|Permission for this tool use was denied\.{_BY_CLAUDE_CODE}The user said:\n"
    # Roo Code, Cline
    r"|The user denied this operation and provided the following feedback:\n<feedback>\n"
    # OpenCode
    r"|The user rejected permission to use this specific tool call with the following feedback: "
    # Gemini CLI, of a plan
    r"|Plan rejected\. User feedback: "
    # LangChain's HumanInTheLoopMiddleware
    r"|User rejected the tool call for `[^`\n]{1,200}` with reason: "
)
_ENDS = ("\n\nNote: The user's next message may contain a correction", "\n\nThe plan is stored at: ", "\n</feedback>")
"""Beginnings of an agent's own words behind the user's: Claude Code's, Gemini CLI's, Roo Code's and Cline's."""
_AS_JSON = (
    '{"status":"denied","message":"The user denied this operation and provided the following feedback","feedback":'
)
"""The same in later versions of Roo Code."""


class CallMade(NamedTuple):
    """A tool call with its result, read once for all modules that use it.

    Attributes:
        result: The answer; None for a call without one.
        arguments: See `call_arguments`.
        command: See `command_line`.
        has_failed: Whether the answer says that the call failed.
    """

    call: ToolCall
    result: ToolResult | None
    arguments: Mapping[str, object]
    command: str | None
    has_failed: bool


def read_calls(messages: Iterable[Message]) -> list[CallMade]:
    """Return each tool call of these messages with its result, in the order of the calls."""
    made: list[CallMade] = []
    for call, result in _pair_calls(messages):
        arguments = call_arguments(call)
        has_failed = result is not None and is_failure(result)
        made.append(CallMade(call, result, arguments, command_line(arguments), has_failed))
    return made


def find_touched_files(calls: Iterable[CallMade]) -> FileOperations:
    """Return the files that tool calls read and modified.

    A call counts by the shape of its arguments first (a path next to `new_string` is an edit, under any tool name) and
    by its name second. A failed call touches nothing, except a command line of several commands: the failing
    one need not be the one that wrote.
    """
    modified: dict[str, bool] = {}
    for touch in (touch for made in calls for touch in _find_touches(made)):
        modified[touch.path] = modified.pop(touch.path, False) or touch.modified
    return FileOperations(
        read=tuple([path for path, written in modified.items() if not written]),
        modified=tuple([path for path, written in modified.items() if written]),
    )


def reads_files(made: CallMade) -> bool:
    """Return whether a call reads files that the file lists name."""
    return any(not touch.modified for touch in _find_touches(made))


def is_failure(result: ToolResult) -> bool:
    """Return whether a tool's answer says that the call failed: its mark, a refusal, or an error in its first or last words."""
    start, end = result.text[:400].lstrip(), result.text[-60:].rstrip()  # a result may be megabytes
    sign = _FAILED_START.match(start) or _FAILED_JSON.match(start) or _FAILED_END.search(end)
    return result.is_error or sign is not None or words_of_refusal(result.text) != ""


def words_of_refusal(result: str) -> str:
    """Return the words behind an agent's exact sentence at the very start of a result; empty for every other result.

    >>> refused = "The user denied this operation and provided the following feedback:\\n<feedback>\\nNot main!\\n</feedback>"
    >>> words_of_refusal(refused), words_of_refusal(f"It said: {refused}")
    ('Not main!', '')
    """
    if result.startswith(_AS_JSON):
        return str(json_object(result).get("feedback", "")).strip()
    match = _SENTENCES.match(result)
    if not match:
        return ""
    ends = [end for mark in _ENDS if (end := result.rfind(mark, match.end())) >= 0]
    return result[match.end() : min(ends, default=len(result))].strip()


def _pair_calls(messages: Iterable[Message]) -> list[tuple[ToolCall, ToolResult | None]]:
    """Return each tool call with its result, in the order of the calls; None for a call that was never answered."""
    pairs: list[tuple[ToolCall, ToolResult | None]] = []
    open_calls: dict[str, int] = {}

    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCall):
                open_calls[part.id] = len(pairs)
                pairs.append((part, None))
            elif isinstance(part, ToolResult) and part.call_id in open_calls:
                index = open_calls.pop(part.call_id)
                pairs[index] = (pairs[index][0], part)
    return pairs


def call_arguments(call: ToolCall) -> Mapping[str, object]:
    """Return a call's arguments as a mapping; arguments that are no JSON object come back as `{"input": text}`.

    Of arguments above `MOST_ARGUMENT_CHARS` only the texts in their head and tail are returned, each cut.
    """
    if len(call.arguments) > MOST_ARGUMENT_CHARS:
        return _texts_at_both_ends(call.arguments)
    try:
        value: object = parse_json(call.arguments) if call.arguments.strip() else {}
    except ValueError:
        value = None
    return {"input": call.arguments} if (fields := as_fields(value)) is None else fields


def _texts_at_both_ends(arguments: str) -> Mapping[str, object]:
    half = MOST_ARGUMENT_CHARS // 2
    ends = arguments[:half], arguments[-half:]
    matches = [match for end in ends for match in _KEY_AND_TEXT.finditer(end)] if arguments[:1] == "{" else []

    texts: dict[str, object] = {}
    for match in matches:
        with suppress(ValueError):  # the tail may begin in the middle of a text
            texts.setdefault(match[1], json.loads(f'"{match[2]}"', strict=False))
    return texts or {"input": " ".join(ends)}


def plain_key(key: str) -> str:
    """Return an argument's name as `PATH_KEYS` and its like have it."""
    return key.replace("_", "").replace("-", "").lower()


def as_fields(value: object) -> Mapping[str, object] | None:
    """Return a JSON object as a mapping, or None for anything else."""
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else None  # keys of JSON objects are text


def as_items(value: object) -> Sequence[object] | None:
    """Return a JSON list as a sequence, or None for anything else."""
    return cast("Sequence[object]", value) if isinstance(value, list | tuple) else None  # the elements may be anything


def command_line(arguments: Mapping[str, object]) -> str | None:
    """Return the shell command a call runs, or None when its arguments hold none.

    >>> command_line({"command": ["bash", "-lc", "ls -l"]})
    'ls -l'
    """
    for key in COMMAND_KEYS:
        value = arguments.get(key)
        if (items := as_items(value)) is not None:
            words = [str(word) for word in items]
            return words[-1] if len(words) > 2 and words[1].startswith("-") else " ".join(words)
        if isinstance(value, str) and value not in EDITOR_COMMANDS:
            return value
    return None


def _find_touches(made: CallMade) -> list[Touch]:
    """Return the files a call touched, after a look at its result."""
    command = made.command
    if made.has_failed and (command is None or not is_compound(command)):
        return []

    text = made.result.text if made.result is not None else ""
    if command is not None:
        patched = [Touch(path, True) for path in _PATCHING.findall(text)] if "patch" in command else []
        return shell_touches(command) + patched

    if _DIRECTORY_VIEW in text[:300]:
        return []
    return [
        Touch(posixpath.normpath(touch.path), touch.modified)
        for touch in _find_named_files(made.call.name, made.arguments)
    ]


def _find_named_files(tool: str, arguments: Mapping[str, object]) -> list[Touch]:
    """Return the files the arguments name, by shape and then by the tool's name."""
    plain = _plain_keys(arguments)
    texts = [value for value in plain.values() if isinstance(value, str)]
    patches = [text for text in texts if "*** Begin Patch" in text or text.startswith(("--- ", "diff --git"))]
    if patched := [path for patch in patches for path in find_patched_files(patch)]:
        return [Touch(path, True) for path in patched]

    paths = [path for path in _paths(plain) if 0 < len(path) <= MAX_PATH_CHARS and not _NO_FILE.search(path)]
    if not paths:
        return []

    modified = _is_edit(tool, plain)
    if not modified and (not SEARCH_KEYS.isdisjoint(plain) or NOT_A_READ.search(tool)):
        return []
    return [Touch(path, modified) for path in paths]


def _is_edit(tool: str, plain: Mapping[str, object]) -> bool:
    command = plain.get("command")
    if isinstance(command, str) and command in EDITOR_COMMANDS:
        return EDITOR_COMMANDS[command]
    return not EDIT_KEYS.isdisjoint(plain) or WRITING_NAME.search(tool) is not None


def _paths(plain: Mapping[str, object]) -> Iterator[str]:
    """Yield the paths under path keys, and those in lists of paths or of objects that have one."""
    for key, value in plain.items():
        if key in PATH_KEYS and isinstance(value, str):
            yield value.strip()
        elif key in LIST_KEYS:
            for item in as_items(value) or ():
                row = {"path": item} if (fields := as_fields(item)) is None else _plain_keys(fields)
                yield from (path.strip() for name, path in row.items() if name in PATH_KEYS and isinstance(path, str))


def _plain_keys(fields: Mapping[str, object]) -> dict[str, object]:
    return {plain_key(key): value for key, value in fields.items()}


MAX_LISTED = 50
"""The most files, commands and hidden results each that a digest names, the newest: it is kept with the record."""
MAX_TEXT_CHARS = 200
"""The most that is kept of one command or replacement text, in characters."""


def digest(
    messages: Iterable[Message], calls: Sequence[CallMade], modified: Sequence[str], hidden: Sequence[tuple[str, str]]
) -> dict[str, object]:
    """Return the actions in these messages as plain JSON; its lists hold the newest `MAX_LISTED`, oldest first.

    Args:
        calls: The calls that the messages made.
        modified: Paths of the files that the calls modified.
        hidden: Of each result that the view shows smaller, the tool and the text in its place.

    Returns:
        The number of `messages` by role; of each of the `tools`, by first use, the calls and the errors; `files_written`;
        `commands` and whether each succeeded, None if it was never answered; `hidden` results.
    """
    uses = Counter(made.call.name for made in calls)
    errors = Counter(made.call.name for made in calls if made.has_failed)
    commands = [
        {"command": _shorten(made.command), "succeeded": None if made.result is None else not made.has_failed}
        for made in calls
        if made.command is not None
    ]

    return {
        "messages": dict(Counter(message.role for message in messages)),
        "tools": [{"tool": tool, "calls": count, "errors": errors[tool]} for tool, count in uses.items()],
        "files_written": [*modified[-MAX_LISTED:]],
        "commands": commands[-MAX_LISTED:],
        "hidden": [{"tool": tool, "replacement": _shorten(text)} for tool, text in hidden[-MAX_LISTED:]],
    }


def _shorten(text: str) -> str:
    text = " ".join(text[: 2 * MAX_TEXT_CHARS].split())
    return text if len(text) <= MAX_TEXT_CHARS else text[: MAX_TEXT_CHARS - 3] + "..."
