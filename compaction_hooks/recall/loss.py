"""The loss of a compaction: the facts of messages, found by rule, and how many of them its view keeps."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, cast

from compaction_hooks.dress.project import find_view
from compaction_hooks.files.operations import find_touched_files, is_failure, read_calls
from compaction_hooks.formats import OpenAIChatFormat, format_of
from compaction_hooks.history import History, HistoryReader
from compaction_hooks.history.history import OwnTexts
from compaction_hooks.messages import M, Message, MessageFormat, ToolCall, ToolResult, as_format
from compaction_hooks.recall.parts import is_own_text, texts_of
from compaction_hooks.summary.extractive.causes import cause_items
from compaction_hooks.summary.extractive.identifiers import kind_of
from compaction_hooks.summary.extractive.replies import parse_reply, read_reply
from compaction_hooks.summary.extractive.statements import constraint_items, request_texts
from compaction_hooks.summary.extractive.tasks import task_items
from compaction_hooks.view.parts import list_parts
from compaction_hooks.view.record import CompactionRecord
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
_BACKGROUND = re.compile(r"\"(?:run_in_)?(?:background|detach(?:ed)?)\"\s{0,4}:\s{0,4}true")
_STARTED = re.compile(r"\b(?:id|pid)\b\W{1,3}(\w[\w-]{1,40})", re.IGNORECASE)
_CLASS_OF: Final = {"path": "path", "url": "url", "id": "id", "email": "id"}


class LossFigures(NamedTuple):
    """How many facts of one class a view has kept, and left out.

    Attributes:
        kept: Facts that the view still shows, word for word.
        recallable: Facts that it does not show, and the list has: recall reads them again.
        lost: Facts that the list has only from an earlier view, and recall cannot read again.
    """

    kept: int
    recallable: int
    lost: int


def find_facts(messages: Sequence[M], *, format: MessageFormat[M] | None = None) -> dict[str, list[str]]:
    """Return the facts of messages by class, as the figures of a loss count them. The messages are not changed.

    Every text is read from end to end: about 0.1 s of processor time for a million characters.

    Args:
        format: The format of the messages; None: found by their parts, among those of `compaction_hooks.formats`.

    Raises:
        FormatError: a message cannot be read.
    """
    chosen = as_format(cast("MessageFormat[M]", format or format_of(messages) or OpenAIChatFormat()))  # it reads these
    history = HistoryReader(chosen, lambda _: 0, SUMMARY_MARKER).read(messages, OwnTexts())
    read = [piece.message for piece in history.pieces()]
    touched = find_touched_files(read_calls(read))

    facts: Mapping[str, Iterable[str]] = {
        **read_words_of_user(history, history.pieces_of_user(history.piece_count)),
        **read_facts(read),
        "file": (*touched.modified, *touched.read),
    }
    return {kind: [*dict.fromkeys(values)] for kind, values in facts.items()}


def read_facts(messages: Sequence[Message]) -> Mapping[str, Collection[str]]:
    """Return the facts of messages by class.

    The classes are paths, URLs, ids (e-mail addresses too), numbers behind a colon or an equals sign, the first lines of failures,
    open tasks, ids of what was started in the background, and what the assistant found out and did not take back.
    """
    texts = [*texts_of(messages)]
    calls = [call for message in messages for call in message.calls]
    results = [result for message in messages for result in message.results]

    return {
        **_read_names(read_words(texts)),
        "number": dict.fromkeys(number for text in texts for number in _NUMBER.findall(text)),
        "error": dict.fromkeys(_read_errors(results)),
        "task": [item.text for item in task_items(messages, read_calls(messages))],
        "process": dict.fromkeys(_read_started(calls, results)),
        "cause": [item.text for item in cause_items(messages)],
    }


def read_words_of_user(history: History[M], users: Sequence[int]) -> Mapping[str, Collection[str]]:
    """Return the user's constraints, requests, and short replies with their questions, in these pieces of the user."""
    texts = [request_texts([history.piece(at).message]) for at in users]
    replies = (read_reply(lambda place: history.piece(place).message, at) for at in users)
    return {
        "answer": dict.fromkeys(found[1].text for found in replies if found),
        "constraint": dict.fromkeys(item.text for requests in texts for item in constraint_items(requests, ())),
        "request": dict.fromkeys(text for requests in texts for text in requests),
    }


def read_words(texts: Iterable[str]) -> dict[str, None]:
    """Return each word of these texts once."""
    words: dict[str, None] = {}
    for text in texts:  # one by one: the words of all texts take much memory
        words.update(dict.fromkeys(WORD.findall(text)))
    return words


def _read_names(words: Iterable[str]) -> dict[str, dict[str, None]]:
    names: dict[str, dict[str, None]] = {"path": {}, "url": {}, "id": {}}
    for run in words:
        if len(run) <= MOST_WORD_CHARS and _TELLING.search(run):
            word = run.strip(SIGNS)
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


# -- the figures

WORDS_OF_USER = ("answer", "constraint", "request")
"""The classes of facts that are the user's own words."""


def loss_of(
    messages: Sequence[M], record: CompactionRecord, *, format: MessageFormat[Any] | None = None
) -> dict[str, LossFigures]:
    """Return how many facts of a list its view under a record keeps and leaves out, by class. Nothing is changed.

    The list is that of the compaction, or has grown since; the figures are empty if the record is not true of it. Its facts are
    those of `find_facts` in the messages that the view does not show whole, and the files touched so far, if there is a summary.
    A fact is kept if the view has it word for word: the user's words in a message of the user, such as the summary's; a file
    there or in a tool call; any other fact anywhere. If the list begins with a view that the host stored, facts that only its
    summary and its shortened parts tell are lost if this view lacks them.

    Every text is read from end to end, in the calling thread: 0.1 to 0.2 s of processor time for a million characters, 1.6 s for a
    recorded list of 10,000 messages. Nothing is kept for the next time.

    Args:
        format: The format of the messages; None: found by their parts, among those of `compaction_hooks.formats`.

    Raises:
        ConfigurationError: an argument is of the wrong kind.
        FormatError: a message cannot be read.
    """
    read = find_view(messages, record, format=format)
    if read is None:
        return {}
    history, view, _ = read
    sent = view.messages(history)

    # By object, not by place: a host may hold one message twice.
    whole = {id(history.host(host)) for host in view.own} | {*map(id, history.hosts(view.tail_start))}
    hidden = {host for host, message in enumerate(history.hosts()) if id(message) not in whole}

    users = [at for at in history.pieces_of_user(history.piece_count) if history.piece(at).host in hidden]

    facts: Mapping[str, Collection[str]] = {
        **read_words_of_user(history, users),
        **read_facts([piece.message for piece in history.pieces() if piece.host in hidden]),
        "file": dict.fromkeys((*record.modified_files, *record.read_files) if record.rendered else ()),
    }

    is_shown, special = _find_test(texts_of(sent)), _find_tests(sent)
    is_own = _find_own(history, hidden, users)

    figures: dict[str, LossFigures] = {}
    for kind, values in facts.items():
        is_kept = special.get(kind, is_shown)
        missing = [fact for fact in values if not is_kept(fact)]
        lost = sum(not is_own(kind, fact) for fact in missing)
        if values:
            figures[kind] = LossFigures(len(values) - len(missing), len(missing) - lost, lost)
    return figures


def _find_own(history: History[M], hidden: Container[int], users: Sequence[int]) -> Callable[[str, str], bool]:
    """Return a test whether a list has a fact of a class in more than the parts that it has from an earlier view.

    Args:
        hidden: The host messages that the view does not show whole.
        users: The pieces of the user in these.
    """
    products, head = _find_products(history, hidden), history.summary_piece
    if head is None and not products:
        return lambda *_: True

    messages = [piece.message for index, piece in enumerate(history.pieces()) if index != head]
    own = [replace(each, parts=tuple([part for part in each.parts if id(part) not in products])) for each in messages]
    whole = [at for at in users if products.isdisjoint(map(id, history.piece(at).message.parts))]

    is_there, words = _find_test(texts_of(own)), read_words_of_user(history, whole)
    return lambda kind, fact: fact in words[kind] if kind in words else is_there(fact)


def _find_products(history: History[M], hidden: Container[int]) -> set[int]:
    """Return the identities of the parts that a list has only in our shortened form.

    Without texts of a run that recall reads, with all that was said in a row, since one of them is whole.
    """
    products = set[int]()
    for run in {run for _, run, *_ in history.own_texts.originals}:
        parts = [*list_parts(history, [run])]
        own = {id(part.content) for part in parts if is_own_text(history, part)}
        texts = {id(part.content) for part in parts if part.kind == "text" and history.piece(part.piece).host in hidden}
        products |= own if texts <= own else own - texts
    return products


def _find_test(texts: Iterable[str]) -> Callable[[str], bool]:
    """Return a test whether one of these texts has a fact.

    There may be thousands of facts. Most are one word, and no more than the words need be searched for these.
    """
    text = "\n".join(texts)
    words = read_words([text])
    listed = "\n".join(words)
    return lambda fact: fact in words or fact in (listed if WORD.fullmatch(fact) else text)


def _find_tests(messages: Sequence[Message]) -> Mapping[str, Callable[[str], bool]]:
    """Return tests whether a view has the user's words in a message of the user, and a file there or in a call."""
    text = "\n".join(texts_of(message for message in messages if message.role == "user"))
    lines = {line.removeprefix("- ") for line in text.splitlines()}
    arguments = "\n".join(call.arguments for message in messages for call in message.calls)
    values = {*arguments.split('"'), *arguments.replace('"', " ").split()}  # a path may have spaces
    named = {word.rstrip(SIGNS) for word in WORD.findall(text)} | lines | values
    return {
        **dict.fromkeys(WORDS_OF_USER, text.__contains__),
        "answer": lambda fact: parse_reply(fact).is_kept(lines),
        "file": named.__contains__,
    }
