"""The loss report: how many facts a compaction keeps in the view, and how many of the others can be read again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from compaction_hooks.messages import M, Message
from compaction_hooks.recall.facts import read_facts, read_words_of_user, texts_of
from compaction_hooks.view.projection import Projection
from compaction_hooks.view.record import CompactionRecord, LossFigures
from compaction_hooks.view.snapshot import Snapshot


def report_loss(snapshot: Snapshot[M], record: CompactionRecord, after: Projection[M]) -> dict[str, LossFigures]:
    """Return the figures of the facts that a snapshot's view shows and the view of a new record may not, by class.

    They are the facts in the messages that the new view leaves out or shortens, all that the user said before the cut, and the
    files touched so far. A fact is kept if the new view has it word for word: the user's words in a message of the user, such as
    the summary's; a file there or in a tool call; any other fact anywhere. Facts that only the summary at the head of a list had
    are lost if the new view lacks them: the list has not the messages of before.
    """
    history = snapshot.history
    shown = snapshot.neutral_view(after)
    kept = {id(message) for message in shown}
    head = history.piece(history.summary_piece).message if history.summary_piece is not None else None
    gone = [message for message in snapshot.neutral_view(snapshot.projection) if id(message) not in kept]
    words = read_words_of_user(history, after.cut).values()
    facts = {
        "constraint": dict.fromkeys(chain.from_iterable(said.constraints for said in words)),
        "request": dict.fromkeys(chain.from_iterable(said.requests for said in words)),
        **read_facts([message for message in gone if message is not head]),
        "file": dict.fromkeys((*record.modified_files, *record.read_files)),
    }
    earlier = read_facts([] if head is None else [head])
    is_shown = _find_tests(shown)

    figures: dict[str, LossFigures] = {}
    for kind, found in facts.items():
        is_kept = is_shown.get(kind, is_shown[""])
        recallable = [fact for fact in found if not is_kept(fact)]
        only_told = {*earlier.get(kind, ())}.difference(found)
        lost = [fact for fact in only_told if not is_kept(fact)]
        count = len(found) + len(only_told)
        if count:
            figures[kind] = LossFigures(count - len(recallable) - len(lost), len(recallable), len(lost))
    return figures


def _find_tests(shown: Sequence[Message]) -> Mapping[str, Callable[[str], bool]]:
    """Return a test whether messages have a fact, by class; "" for all other classes.

    The words and files of a long conversation are many, and so are the results in view: searching these for those would take
    longer than the compaction.
    """
    told = "\n".join(texts_of(message for message in shown if message.role == "user"))
    lines = {line.removeprefix("- ") for line in told.splitlines()}
    named = lines.union(*(call.arguments.replace('"', " ").split() for message in shown for call in message.calls))

    def is_told(fact: str) -> bool:
        return fact in lines or fact in told

    return {
        "": "\n".join(texts_of(shown)).__contains__,
        "constraint": is_told,
        "request": is_told,
        "file": named.__contains__,
    }
