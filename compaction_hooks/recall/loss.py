"""The loss report: how many facts a compaction keeps in the view, and how many of the others can be read again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from compaction_hooks.history import History
from compaction_hooks.messages import M, Message, MessageFormat
from compaction_hooks.recall.facts import SIGNS, WORD, read_facts, read_words, read_words_of_user
from compaction_hooks.recall.parts import is_product, texts_of
from compaction_hooks.view.loss import LossFigures
from compaction_hooks.view.parts import list_parts
from compaction_hooks.view.projection import read_projection
from compaction_hooks.view.record import CompactionRecord

WORDS_OF_USER = ("constraint", "request")
"""The classes of facts that are the user's own words: the list has them always."""


def loss_of(
    messages: Sequence[M], record: CompactionRecord, *, format: MessageFormat[Any] | None = None
) -> dict[str, LossFigures]:
    """Return how many facts of a list its view under a record keeps and leaves out, by class. Nothing is changed.

    The facts are those of `find_facts` in the messages that the view does not show whole, and the files touched so far, if there is
    a summary. A fact is kept if the view has it word for word: the user's words in a message of the user, such as the summary's; a
    file there or in a tool call; any other fact anywhere. If the list begins with a view that the host stored, facts that only its
    summary and its shortened results tell are lost if this view lacks them. The figures are those of `CompactionResult.loss`, empty
    if the record is not true of the list.

    Every text is read from end to end, in the calling thread: 0.1 to 0.2 s of processor time for a million characters, 1.6 s for a
    recorded list of 10,000 messages. Nothing is kept for the next time.

    Args:
        format: The format of the messages; None: found by their parts, among those of `compaction_hooks.formats`.

    Raises:
        ConfigurationError: an argument is of the wrong kind.
        FormatError: a message cannot be read.
    """
    read = read_projection(messages, record, format=format)
    if read is None:
        return {}
    history, projection, chosen = read
    view = projection.view(history.hosts())
    shown = [message for host in view for message in chosen.read(host)]
    whole = {*map(id, view)}
    hidden = {host for host, message in enumerate(history.hosts()) if id(message) not in whole}
    facts: Mapping[str, Collection[str]] = {
        **read_words_of_user(history, hidden),
        **read_facts([piece.message for piece in history.pieces() if piece.host in hidden]),
        "file": dict.fromkeys((*record.modified_files, *record.read_files) if record.rendered else ()),
    }
    is_shown, special = _find_test(texts_of(shown)), _find_tests(shown)
    own = _read_own(history)
    is_own = _find_test(texts_of(own)) if own is not None else None

    figures: dict[str, LossFigures] = {}
    for kind, found in facts.items():
        is_kept = special.get(kind, is_shown)
        missing = [fact for fact in found if not is_kept(fact)]
        lost = 0
        if is_own is not None and kind not in WORDS_OF_USER:
            lost = sum(not is_own(fact) for fact in missing)
        if found:
            figures[kind] = LossFigures(len(found) - len(missing), len(missing) - lost, lost)
    return figures


def _read_own(history: History[M]) -> list[Message] | None:
    """Return a list without the parts that it has from an earlier view; None if it has none."""
    runs = {run for _, run, _, _ in history.known.originals}
    products = {id(part.content) for part in list_parts(history, runs) if is_product(history, part)}
    head = history.summary_piece
    if head is None and not products:
        return None
    messages = [piece.message for index, piece in enumerate(history.pieces()) if index != head]
    return [replace(each, parts=tuple([part for part in each.parts if id(part) not in products])) for each in messages]


def _find_test(texts: Iterable[str]) -> Callable[[str], bool]:
    """Return a test whether one of these texts has a fact.

    There may be thousands of facts. Most are one word, and no more than the words need be searched for these.
    """
    text = "\n".join(texts)
    words = read_words([text])
    listed = "\n".join(words)
    return lambda fact: fact in words or fact in (listed if WORD.fullmatch(fact) else text)


def _find_tests(shown: Sequence[Message]) -> Mapping[str, Callable[[str], bool]]:
    """Return tests whether a view has the user's words in a message of the user, and a file there or in a call."""
    told = "\n".join(texts_of(message for message in shown if message.role == "user"))
    lines = {line.removeprefix("- ") for line in told.splitlines()}
    arguments = "\n".join(call.arguments for message in shown for call in message.calls)
    values = {*arguments.split('"'), *arguments.replace('"', " ").split()}  # a path may have spaces
    named = {word.rstrip(SIGNS) for word in WORD.findall(told)} | lines | values
    return {**dict.fromkeys(WORDS_OF_USER, told.__contains__), "file": named.__contains__}
