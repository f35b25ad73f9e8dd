"""The loss report: how many facts a compaction keeps in the view, and how many of the others can be read again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from compaction_hooks.history import History
from compaction_hooks.messages import M, Message
from compaction_hooks.recall.facts import SIGNS, WORD, read_facts, read_words_of_user, texts_of
from compaction_hooks.recall.parts import is_product
from compaction_hooks.view.projection import Projection
from compaction_hooks.view.record import CompactionRecord, LossFigures
from compaction_hooks.view.reductions import places
from compaction_hooks.view.snapshot import Snapshot

WORDS_OF_USER = ("constraint", "request")
"""The classes of facts that are the user's own words: the list has them always."""


def report_loss(snapshot: Snapshot[M], record: CompactionRecord, after: Projection[M]) -> dict[str, LossFigures]:
    """Return the figures of the facts that a compaction may take out of the view, by class.

    They are the facts in the host's messages that the last view showed whole and the new one does not. If the summary is new, they
    are also all that the user said in messages that the view does not show whole, and the files touched so far. A fact is kept if
    the new view has it word for word: the user's words in a message of the user, such as the summary's; a file there or in a tool
    call; any other fact anywhere. If the host has stored a view, facts that only its summary and its shortened results tell are
    lost if the new view lacks them.
    """
    history, messages = snapshot.history, snapshot.messages
    whole, whole_before = ({*map(id, shown)} for shown in (after.view(messages), snapshot.view))
    taken = whole_before - whole
    gone = [host for host, message in enumerate(messages) if id(message) in taken]
    pieces = [piece for host in gone for piece in history.host_pieces(host)]
    shown = snapshot.neutral_view(after)
    is_in_text: Callable[[str], bool] = "\n".join(texts_of(shown)).__contains__
    special: Mapping[str, Callable[[str], bool]] = {}
    facts = read_facts([history.piece(piece).message for piece in pieces])
    if _head(record) != _head(snapshot.record):
        words = read_words_of_user(history, history.piece_count)
        said = [found for index, found in words.items() if id(messages[history.piece(index).host]) not in whole]
        facts = {
            "constraint": dict.fromkeys(text for found in said for text in found.constraints),
            "request": dict.fromkeys(text for found in said for text in found.requests),
            **facts,
            "file": dict.fromkeys((*record.modified_files, *record.read_files)),
        }
        special = _find_tests(shown)
    own_text = _read_own_text(history, pieces)

    figures: dict[str, LossFigures] = {}
    for kind, found in facts.items():
        is_kept = special.get(kind, is_in_text)
        missing = [fact for fact in found if not is_kept(fact)]
        lost = 0
        if own_text is not None and kind not in WORDS_OF_USER:
            lost = sum(fact not in own_text for fact in missing)
        if found:
            figures[kind] = LossFigures(len(found) - len(missing), len(missing) - lost, lost)
    return figures


def _head(record: CompactionRecord | None) -> tuple[int, str]:
    """Return how far the summary of a view reaches, and its text."""
    return (record.covered_runs, record.rendered) if record else (0, "")


def _read_own_text(history: History[M], gone: Iterable[int]) -> str | None:
    """Return the text of a list without the parts that it has from an earlier view; None if these pieces have no such part."""
    runs = {run for _, run, _, _ in history.known.originals}
    head = history.summary_piece
    if head is None and not _find_products(history, runs & {history.run_of(piece) for piece in gone}):
        return None
    products = _find_products(history, runs)
    messages = (piece.message for index, piece in enumerate(history.pieces()) if index != head)
    own = (replace(each, parts=tuple([part for part in each.parts if id(part) not in products])) for each in messages)
    return "\n".join(texts_of(own))


def _find_products(history: History[M], runs: Collection[int]) -> set[int]:
    """Return the identities of the parts of these runs that the list has only in our shortened form."""
    return {id(place.part) for run, place in places(history, runs) if is_product(history, run, place)}


def _find_tests(shown: Sequence[Message]) -> Mapping[str, Callable[[str], bool]]:
    """Return tests whether a view has the user's words in a message of the user, and a file there or in a call.

    There may be thousands of both, too many to search all texts for each.
    """
    told = "\n".join(texts_of(message for message in shown if message.role == "user"))
    lines = {line.removeprefix("- ") for line in told.splitlines()}
    arguments = "\n".join(call.arguments for message in shown for call in message.calls)
    values = {*arguments.split('"'), *arguments.replace('"', " ").split()}  # a path may have spaces
    named = {word.rstrip(SIGNS) for word in WORD.findall(told)} | lines | values

    def is_told(fact: str) -> bool:
        return fact in lines or fact in told

    return {"constraint": is_told, "request": is_told, "file": named.__contains__}
