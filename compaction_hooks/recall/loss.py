"""The loss of a compaction: the facts of messages, found by rule, and how many of them its view keeps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from compaction_hooks.digest import Facts, facts
from compaction_hooks.dress.project import find_view
from compaction_hooks.files.operations import find_touched_files, read_calls
from compaction_hooks.formats import OpenAIChatFormat, format_of
from compaction_hooks.history import History, HistoryReader
from compaction_hooks.history.history import OwnTexts
from compaction_hooks.messages import M, MessageFormat, as_format
from compaction_hooks.recall.parts import is_own_text
from compaction_hooks.tokens.estimator import is_left_out
from compaction_hooks.view.parts import list_parts
from compaction_hooks.view.record import CompactionRecord
from compaction_hooks.view.texts import SUMMARY_MARKER


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
    touched = find_touched_files(read_calls(piece.message for piece in history.pieces()))
    users = history.pieces_of_user(history.piece_count)
    listed = {**_list_facts(history, range(history.host_count), users), "file": (*touched.modified, *touched.read)}
    return {kind: [*dict.fromkeys(values)] for kind, values in listed.items()}


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

    # By object, not by place: a host may hold one message twice.
    whole = {id(history.host(host)) for host in view.own} | {*map(id, history.hosts(view.tail_start))}
    hidden = {host for host, message in enumerate(history.hosts()) if id(message) not in whole}

    users = [at for at in history.pieces_of_user(history.piece_count) if history.piece(at).host in hidden]
    listed = {
        **_list_facts(history, hidden, users),
        "file": dict.fromkeys((*record.modified_files, *record.read_files) if record.rendered else ()),
    }

    # A line in place of an image is no one's words, and would divide the user's.
    shown = facts(
        replace(each, parts=tuple([part for part in each.parts if not is_left_out(part)]))
        for each in view.messages(history)
    )
    is_shown, special = shown.make_test(), shown.make_tests()
    is_own = _find_own(history, hidden, users)

    figures: dict[str, LossFigures] = {}
    for kind, values in listed.items():
        is_kept = special.get(kind, is_shown)
        missing = [fact for fact in values if not is_kept(fact)]
        lost = sum(not is_own(kind, fact) for fact in missing)
        if values:
            figures[kind] = LossFigures(len(values) - len(missing), len(missing) - lost, lost)
    return figures


def _list_facts(history: History[M], hosts: Container[int], users: Sequence[int]) -> Mapping[str, Collection[str]]:
    """Return the facts of these host messages by class.

    Args:
        users: The pieces of the user in these.
    """
    told = facts(piece.message for piece in history.pieces() if piece.host in hosts)
    return told.list_by_class(lambda at: history.piece(at).message, users)


def _find_own(history: History[M], hidden: Container[int], users: Sequence[int]) -> Callable[[str, str], bool]:
    """Return a test whether a list has a fact of a class in more than the parts that it has from an earlier view.

    Args:
        hidden: The host messages that the view does not show whole.
        users: The pieces of the user in these.
    """
    products, head = _find_products(history, hidden), history.summary_piece
    if head is None and not products:
        return _has_all

    messages = [piece.message for index, piece in enumerate(history.pieces()) if index != head]
    own = [replace(each, parts=tuple([part for part in each.parts if id(part) not in products])) for each in messages]
    whole = [at for at in users if products.isdisjoint(map(id, history.piece(at).message.parts))]

    is_there, told = facts(own).make_test(), _list_facts(history, (), whole)
    return lambda kind, fact: fact in told[kind] if kind in Facts.WORDS_OF_USER else is_there(fact)


def _has_all(_kind: str, _fact: str) -> bool:
    return True


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
