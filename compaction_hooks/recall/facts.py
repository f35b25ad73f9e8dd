"""Facts of messages by class, found by rule: what a compaction should keep."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, cast

from compaction_hooks.files.operations import find_touched_files, is_failure, read_calls
from compaction_hooks.formats import OpenAIChatFormat, format_of
from compaction_hooks.history import History, HistoryReader
from compaction_hooks.history.history import Known
from compaction_hooks.messages import M, Message, MessageFormat, Part, Text, ToolCall, ToolResult, as_format
from compaction_hooks.recall.parts import texts_of
from compaction_hooks.summary.extractive.identifiers import kind_of
from compaction_hooks.summary.extractive.statements import constraint_items, request_texts
from compaction_hooks.summary.extractive.tasks import task_items
from compaction_hooks.view.texts import SUMMARY_MARKER

MOST_WORD_CHARS: Final = 200
"""A longer word is data rather than a name."""
ERROR_CHARS: Final = 200
"""The most characters of a failure's first line."""

WORD = re.compile(r"[^\s\"'`<>(){}\[\],;=|\\]+")
"""A word in prose, code or JSON, with the signs around it."""
SIGNS: Final = "!?*_-&~.:"
"""Signs at the ends of a word that are no part of a name."""
_TELLING = re.compile(r"[/@\d]")
_NUMBER = re.compile(r"[:=] ?[\"']?(-?\d[\d.]{1,20}\d)(?![\w.])")
"""Two digits are in nearly every view by chance."""
_TO_DO = re.compile(r"task|todo|plan", re.IGNORECASE)
_BACKGROUND = re.compile(r"\"(?:run_in_)?(?:background|detach(?:ed)?)\"\s{0,4}:\s{0,4}true")
_STARTED = re.compile(r"\b(?:id|pid)\b\W{1,3}(\w[\w-]{1,40})", re.IGNORECASE)
_CLASS_OF: Final = {"path": "path", "url": "url", "id": "id", "email": "id"}


def find_facts(messages: Sequence[M], *, format: MessageFormat[M] | None = None) -> dict[str, list[str]]:
    """Return the facts of messages by class, as the figures of a loss count them. The messages are not changed.

    Every text is read from end to end: about 0.1 s of processor time for a million characters.

    Args:
        format: The format of the messages; None: found by their parts, among those of `compaction_hooks.formats`.

    Raises:
        FormatError: a message cannot be read.
    """
    chosen = as_format(cast("MessageFormat[M]", format or format_of(messages) or OpenAIChatFormat()))  # it reads these
    history = HistoryReader(chosen, lambda _: 0, SUMMARY_MARKER).read(messages, Known())
    read = [piece.message for piece in history.pieces()]
    touched = find_touched_files(read_calls(read))
    facts: Mapping[str, Iterable[str]] = {
        **read_words_of_user(history, range(history.host_count)),
        **read_facts(read),
        "file": (*touched.modified, *touched.read),
    }
    return {kind: [*dict.fromkeys(found)] for kind, found in facts.items()}


def read_facts(messages: Sequence[Message]) -> Mapping[str, Collection[str]]:
    """Return the facts of messages by class.

    The classes are paths, URLs, ids (e-mail addresses too), numbers behind a colon or an equals sign, the first lines of failures,
    open tasks, and ids of what was started in the background.
    """
    texts = [*texts_of(messages)]
    calls = [call for message in messages for call in message.calls]
    results = [result for message in messages for result in message.results]
    return {
        **_read_names(read_words(texts)),
        "number": dict.fromkeys(number for text in texts for number in _NUMBER.findall(text)),
        "error": dict.fromkeys(_read_errors(results)),
        "task": _read_tasks(messages, calls),
        "process": dict.fromkeys(_read_started(calls, results)),
    }


def read_words_of_user(history: History[M], hosts: Container[int]) -> Mapping[str, Collection[str]]:
    """Return the user's constraints and requests in these host messages."""
    pieces = map(history.piece, history.pieces_of_user(history.piece_count))
    said = [request_texts([piece.message]) for piece in pieces if piece.host in hosts]
    return {
        "constraint": dict.fromkeys(item.text for requests in said for item in constraint_items(requests, ())),
        "request": dict.fromkeys(text for requests in said for text in requests),
    }


def read_words(texts: Iterable[str]) -> dict[str, None]:
    """Return each word of these texts once."""
    words: dict[str, None] = {}
    for text in texts:  # one by one: the words of all texts take much memory
        words.update(dict.fromkeys(WORD.findall(text)))
    return words


def _read_names(words: Iterable[str]) -> dict[str, dict[str, None]]:
    found: dict[str, dict[str, None]] = {"path": {}, "url": {}, "id": {}}
    for run in words:
        if len(run) <= MOST_WORD_CHARS and _TELLING.search(run):
            word = run.strip(SIGNS)
            if kind := _CLASS_OF.get(kind_of(word)):
                found[kind][word] = None
    return found


def _read_errors(results: Iterable[ToolResult]) -> Iterator[str]:
    for result in results:
        if is_failure(result):
            lines = (line.strip() for line in result.text[:1_000].splitlines())
            yield from [line[:ERROR_CHARS] for line in lines if line][:1]


def _read_tasks(messages: Iterable[Message], calls: Iterable[ToolCall]) -> list[str]:
    """Return the open tasks, as to-do tools and check boxes tell them; other calls need not be read."""
    ids = {call.id for call in calls if _TO_DO.search(call.name) or '"status"' in call.arguments}
    told: list[Message] = []
    for message in messages:
        parts = tuple([part for part in message.parts if _tells_tasks(part, ids)])
        if parts:
            told.append(replace(message, parts=parts))
    return [item.text for item in task_items(told, read_calls(told))]


def _tells_tasks(part: Part, ids: Container[str]) -> bool:
    match part:
        case ToolCall(id=call_id) | ToolResult(call_id=call_id):
            return call_id in ids
        case Text(text=text):
            return "- [" in text
        case _:
            return False


def _read_started(calls: Iterable[ToolCall], results: Iterable[ToolResult]) -> Iterator[str]:
    """Yield the ids that results of calls in the background name."""
    started = {call.id for call in calls if _BACKGROUND.search(call.arguments[-200:])}
    for result in results:
        if result.call_id in started and (found := _STARTED.search(result.text[:500])):
            yield found[1]
