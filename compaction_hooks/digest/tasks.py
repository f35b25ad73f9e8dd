"""Open tasks, from to-do tools of any name and from check boxes that the assistant writes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from compaction_hooks.digest.outline import Item, Section
from compaction_hooks.digest.text import quote
from compaction_hooks.files.operations import CallMade, as_fields, as_items
from compaction_hooks.messages import Message

TASK_CHARS = 160
"""The most characters of one task's text."""

_TEXT_KEYS = ("content", "step", "subject", "title", "task", "text", "description", "name")
_ID_KEYS = ("taskId", "task_id", "id")
_STATE_KEYS = ("status", "state", "done", "completed")
# fmt: off
_DONE_STATES = frozenset({
    "completed", "complete", "done", "cancelled", "canceled", "deleted", "finished", "closed", "resolved", "skipped", "true",
})
_STATES = _DONE_STATES | {
    "pending", "inprogress", "open", "todo", "notstarted", "blocked", "waiting", "active", "doing", "failed", "false",
}
# fmt: on
"""As `_state` spells them."""
_TASK_NAME = re.compile(r"task|todo|plan", re.IGNORECASE)
_BOX = re.compile(r"^[ \t]*[-*+] \[([ xX])\] +(.{3,300})$", re.MULTILINE)
_CREATED = re.compile(r"#(\w{1,12})\b")


def task_items(
    messages: Iterable[Message],
    calls: Iterable[CallMade],
    earlier: Iterable[Item] = (),
    later: Iterable[Message] = (),
    later_calls: Iterable[CallMade] = (),
) -> list[Item]:
    """Return the tasks that are still open, oldest first; `later` messages close some and open none.

    A call with a whole list (objects with a text and the state of a task) replaces the earlier tasks. A tool for single
    tasks, known by its name, adds one by its subject and closes it by its id, which is written before the text as "#3".
    """
    tasks = dict.fromkeys(item.text for item in earlier)
    _update(tasks, messages, calls)
    by_then = dict(tasks)
    _update(by_then, later, later_calls)
    return [Item(Section.IN_PROGRESS, text, place=at) for at, text in enumerate(tasks) if text in by_then]


def _update(tasks: dict[str, None], messages: Iterable[Message], calls: Iterable[CallMade]) -> None:
    """Add the tasks that these messages open, and remove those that they close."""
    known = {id(made.call): made for made in calls}
    for message in messages:
        if message.role == "assistant":
            _read_boxes(message.text, tasks)
        for call in message.calls:
            _read_call(known[id(call)], tasks)


def _read_call(made: CallMade, tasks: dict[str, None]) -> None:
    """Apply one call to the open tasks; a failed one changes nothing."""
    call, result, arguments, _, has_failed = made
    if has_failed:
        return
    for value in arguments.values():
        rows = [fields for item in as_items(value) or () if (fields := as_fields(item)) is not None]
        if rows and all(_state(row) in _STATES and _text(row) for row in rows):
            tasks.clear()
            tasks.update(dict.fromkeys(_text(row) for row in rows if not _is_done(row)))
            return

    if not _TASK_NAME.search(call.name):
        return
    number = next((str(arguments[key]) for key in _ID_KEYS if key in arguments), "")
    if number and _is_done(arguments):
        for text in [text for text in tasks if text.startswith(f"#{number} ")]:
            del tasks[text]
    elif isinstance(arguments.get("subject"), str) and not number:
        created = _CREATED.search(result.text[:TASK_CHARS] if result is not None else "")
        tasks[f"#{created[1]} {_text(arguments)}" if created else _text(arguments)] = None


def _read_boxes(text: str, tasks: dict[str, None]) -> None:
    for mark, task in _BOX.findall(text) if "] " in text else ():
        line = quote(task, TASK_CHARS)
        if mark == " ":
            tasks.setdefault(line)
        else:
            tasks.pop(line, None)


def _text(row: Mapping[str, object]) -> str:
    text = next((value for key in _TEXT_KEYS if isinstance(value := row.get(key), str) and value.strip()), "")
    return quote(text, TASK_CHARS)


def _is_done(row: Mapping[str, object]) -> bool:
    return _state(row) in _DONE_STATES


def _state(row: Mapping[str, object]) -> str:
    """Return the state of a task in small letters alone: tools write "in-progress", "InProgress" and "IN_PROGRESS"."""
    state = next((row[key] for key in _STATE_KEYS if key in row), "")
    return "".join(filter(str.isalpha, str(state))).lower()
