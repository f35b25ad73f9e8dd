"""Open tasks, from to-do tools of any name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from compaction_hooks.files.operations import CallMade, as_fields, as_items
from compaction_hooks.summary.extractive.outline import Item, Section
from compaction_hooks.summary.extractive.text import quote
from compaction_hooks.text.patterns import lazy_pattern

TASK_CHARS = 160
"""The most characters of one task's text."""
BEGUN, OPEN = 6.0, 4.0
"""Values of a task in progress, and of one that waits."""

_TEXT_KEYS = ("content", "step", "subject", "title", "task", "text", "description", "name")
_ID_KEYS = ("taskId", "task_id", "id")
_DONE_STATES = frozenset({"completed", "complete", "done", "cancelled", "canceled", "deleted", "finished"})
_STATES = _DONE_STATES | {"pending", "in_progress", "open", "todo", "not_started", "blocked", "waiting", "active"}
_TASK_NAME = lazy_pattern(r"task|todo|plan", re.IGNORECASE)
_CREATED = lazy_pattern(r"#(\w{1,12})\b")


def task_items(calls: Iterable[CallMade], earlier: Iterable[Item] = (), later: Iterable[CallMade] = ()) -> list[Item]:
    """Return the tasks that are still open, oldest first; `later` calls close some and open none.

    A call with a whole list (objects with a text and the state of a task) replaces the earlier tasks. A tool for single
    tasks, known by its name, adds one by its subject and closes it by its id, which is written before the text as "#3".
    """
    tasks = {item.text: OPEN for item in earlier}
    for made in calls:
        _read_call(made, tasks)
    by_then = dict(tasks)
    for made in later:
        _read_call(made, by_then)
    return [
        Item(section=Section.IN_PROGRESS, text=text, value=value) for text, value in tasks.items() if text in by_then
    ]


def _read_call(made: CallMade, tasks: dict[str, float]) -> None:
    """Apply one call to the open tasks; a failed one changes nothing."""
    call, result, arguments, _, has_failed = made
    if has_failed:
        return
    for value in arguments.values():
        rows = [fields for item in as_items(value) or () if (fields := as_fields(item)) is not None]
        if rows and all(_state(row) in _STATES and _text(row) for row in rows):
            tasks.clear()
            tasks.update(
                (_text(row), BEGUN if _state(row) == "in_progress" else OPEN)
                for row in rows
                if _state(row) not in _DONE_STATES
            )
            return

    if not _TASK_NAME.search(call.name):
        return
    number = next((str(arguments[key]) for key in _ID_KEYS if key in arguments), "")
    if number and _state(arguments) in _DONE_STATES:
        for text in [text for text in tasks if text.startswith(f"#{number} ")]:
            del tasks[text]
    elif isinstance(arguments.get("subject"), str) and not number:
        created = _CREATED.search(result.text[:TASK_CHARS] if result is not None else "")
        tasks[f"#{created[1]} {_text(arguments)}" if created else _text(arguments)] = OPEN


def _text(row: Mapping[str, object]) -> str:
    found = next((value for key in _TEXT_KEYS if isinstance(value := row.get(key), str) and value.strip()), "")
    return quote(found, TASK_CHARS)


def _state(row: Mapping[str, object]) -> str:
    return str(row.get("status")).replace("-", "_").replace(" ", "_").lower()
