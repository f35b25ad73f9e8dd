"""Open tasks: from to-do tools, whatever they are called, and from check boxes in prose."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from compaction_hooks.extractive.outline import Item, Section
from compaction_hooks.extractive.text import one_line
from compaction_hooks.files.operations import as_fields, as_items, call_arguments, is_failure, paired_calls
from compaction_hooks.messages import Message

TASK_CHARS = 160
"""Of one task's text."""

_TEXT_KEYS = ("content", "step", "subject", "title", "task", "text", "description", "name")
_DONE_STATES = frozenset({"completed", "complete", "done", "cancelled", "canceled", "deleted", "finished"})
_BOX = re.compile(r"^[ \t]*[-*+] \[([ xX])\] +(.{3,300})$", re.MULTILINE)
_CREATED = re.compile(r"#(\w{1,12})\b")
_NUMBERED = re.compile(r"#(\w{1,12}) ")


def task_items(messages: Sequence[Message], earlier: Sequence[Item]) -> list[Item]:
    """Return the tasks that are still open, oldest first.

    A tool call that hands over a whole list replaces what was known; one that creates or updates a single task (recognised
    by its arguments, a text and a state or an id) adds or closes it. Check boxes in the assistant's prose add tasks too.
    """
    tasks = {item.text: item.value for item in earlier}
    results = {call.id: result for call, result in paired_calls(messages) if result is not None}
    for message in messages:
        if message.role == "assistant":
            _read_boxes(message.text, tasks)
        for call in message.calls:
            result = results.get(call.id)
            if result is None or not is_failure(result):
                _read_call(call_arguments(call), result.text if result is not None else "", tasks)
    return [Item(section=Section.IN_PROGRESS, text=text, value=value) for text, value in tasks.items()]


def _read_call(arguments: Mapping[str, object], answer: str, tasks: dict[str, float]) -> None:
    """Apply one call to the open tasks."""
    for value in arguments.values():
        rows = [fields for item in as_items(value) or () if (fields := as_fields(item)) is not None]
        if rows and all("status" in row and _text(row) for row in rows):
            tasks.clear()
            tasks.update({_text(row): _value(row) for row in rows if not _is_done(row)})
            return
    number = next((str(arguments[key]) for key in ("taskId", "task_id", "id") if key in arguments), "")
    if number and "status" in arguments:
        if _is_done(arguments):
            for text in [text for text in tasks if _NUMBERED.match(text) and text.startswith(f"#{number} ")]:
                del tasks[text]
    elif "subject" in arguments and "status" not in arguments:
        created = _CREATED.search(answer)
        tasks[f"#{created[1]} {_text(arguments)}" if created else _text(arguments)] = 4.0


def _read_boxes(text: str, tasks: dict[str, float]) -> None:
    if "[ ]" not in text and "[x]" not in text and "[X]" not in text:
        return
    for mark, task in _BOX.findall(text):
        task = one_line(task, TASK_CHARS)
        if mark == " ":
            tasks.setdefault(task, 2.0)
        else:
            tasks.pop(task, None)


def _text(row: Mapping[str, object]) -> str:
    found = next((value for key in _TEXT_KEYS if isinstance(value := row.get(key), str) and value.strip()), "")
    return one_line(found, TASK_CHARS)


def _value(row: Mapping[str, object]) -> float:
    return 6.0 if str(row.get("status")).replace("-", "_").lower() == "in_progress" else 4.0


def _is_done(row: Mapping[str, object]) -> bool:
    return str(row.get("status")).lower() in _DONE_STATES
