"""The facts of messages by class, as a loss counts them, and whether messages have one of them, word for word."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from compaction_hooks.digest.identifiers import MAX_CHARS, kind_of
from compaction_hooks.digest.tasks import task_items
from compaction_hooks.files.operations import is_failure, read_calls
from compaction_hooks.history.history import texts_of
from compaction_hooks.messages import Message, ToolCall, ToolResult

ERROR_CHARS: Final = 200
"""The most characters of a failure's first line."""

_WORD = re.compile(r"[^\s\"'`<>(){}\[\],;=|\\]+")
"""A word in prose, code or JSON, with the signs around it."""
_SIGNS: Final = "!?*_-&~.:"
"""Signs at the ends of a word that are no part of a name."""
_TELLING = re.compile(r"[/@\d]")
_NUMBER = re.compile(r"[:=] ?[\"']?(-?\d[\d.]{1,20}\d)(?![\w.])")
"""Two digits are in nearly every view by chance."""
_BACKGROUND = re.compile(r"\"(?:run_in_)?(?:background|detach(?:ed)?)\"\s{0,4}:\s{0,4}true")
_STARTED = re.compile(r"\b(?:id|pid)\b\W{1,3}(\w[\w-]{1,40})", re.IGNORECASE)
_CLASS_OF: Final = {"path": "path", "url": "url", "id": "id", "email": "id"}


def read_classes(messages: Sequence[Message]) -> Mapping[str, Collection[str]]:
    """Return the facts of messages by class, without the user's own words.

    The classes are paths, URLs, ids (e-mail addresses too), numbers behind a colon or an equals sign, the first lines of failures,
    open tasks, and ids of what was started in the background.
    """
    texts = [*texts_of(messages)]
    calls = [call for message in messages for call in message.calls]
    results = [result for message in messages for result in message.results]

    return {
        **_read_names(_read_words(texts)),
        "number": dict.fromkeys(number for text in texts for number in _NUMBER.findall(text)),
        "error": dict.fromkeys(_read_errors(results)),
        "task": [item.text for item in task_items(messages, read_calls(messages))],
        "process": dict.fromkeys(_read_started(calls, results)),
    }


def make_test(messages: Iterable[Message]) -> Callable[[str], bool]:
    """Return a test whether the texts of messages have a fact; a part of a longer word is enough.

    There may be thousands of facts. Most are one word, which is searched for in a list of all words, where each is once: it is
    shorter than the text.
    """
    text = "\n".join(texts_of(messages))
    words = _read_words([text])
    each_once = "\n".join(words)
    return lambda fact: fact in words or fact in (each_once if _WORD.fullmatch(fact) else text)


def make_tests(messages: Sequence[Message]) -> Mapping[str, Callable[[str], bool]]:
    """Return tests, by class, whether messages have the user's words in one of the user, and a file there or in a call."""
    text = "\n".join(texts_of(message for message in messages if message.role == "user"))
    lines = {line.removeprefix("- ") for line in text.splitlines()}
    arguments = "\n".join(call.arguments for message in messages for call in message.calls)
    values = {*arguments.split('"'), *arguments.replace('"', " ").split()}  # a path may have spaces
    named = {word.rstrip(_SIGNS) for word in _WORD.findall(text)} | lines | values
    return {
        "constraint": text.__contains__,
        "request": text.__contains__,
        "answer": text.__contains__,
        "file": named.__contains__,
    }


def _read_words(texts: Iterable[str]) -> dict[str, None]:
    """Return each word of these texts once."""
    words: dict[str, None] = {}
    for text in texts:  # one by one: the words of all texts take much memory
        words.update(dict.fromkeys(_WORD.findall(text)))
    return words


def _read_names(words: Iterable[str]) -> dict[str, dict[str, None]]:
    names: dict[str, dict[str, None]] = {"path": {}, "url": {}, "id": {}}
    for run in words:
        if len(run) <= MAX_CHARS and _TELLING.search(run):
            word = run.strip(_SIGNS)
            if kind := _CLASS_OF.get(kind_of(word)):
                names[kind][word] = None
    return names


def _read_errors(results: Iterable[ToolResult]) -> Iterator[str]:
    for result in results:
        if is_failure(result):
            lines = (line.strip() for line in result.text[:1_000].splitlines())
            yield from [line[:ERROR_CHARS] for line in lines if line][:1]


def _read_started(calls: Iterable[ToolCall], results: Iterable[ToolResult]) -> Iterator[str]:
    """Yield the ids that results of calls in the background name."""
    started = {call.id for call in calls if _BACKGROUND.search(call.arguments[-200:])}
    for result in results:
        if result.call_id in started and (match := _STARTED.search(result.text[:500])):
            yield match[1]
