"""The loss report: how many facts a compaction keeps in the view, and how many of the others can be read again."""

from __future__ import annotations

from compaction_hooks.messages import M
from compaction_hooks.recall.facts import read_facts, read_words_of_user, texts_of
from compaction_hooks.view.projection import Projection
from compaction_hooks.view.record import CompactionRecord, LossFigures
from compaction_hooks.view.snapshot import Snapshot


def report_loss(snapshot: Snapshot[M], record: CompactionRecord, after: Projection[M]) -> dict[str, LossFigures]:
    """Return the figures of the facts that a snapshot's view shows and the view of a new record may not, by class.

    They are the facts in the messages that the new view leaves out or shortens, all that the user said before the cut, and the
    files touched so far. A fact is kept if the new view has it anywhere, word for word. Facts that only the summary at the head of
    a list had are lost if the new view lacks them: the list has not the messages of before.
    """
    history = snapshot.history
    shown = snapshot.neutral_view(after)
    kept = {id(message) for message in shown}
    head = history.piece(history.summary_piece).message if history.summary_piece is not None else None
    gone = [message for message in snapshot.neutral_view(snapshot.projection) if id(message) not in kept]
    messages = [message for message in gone if message is not head]
    said = [piece.message for piece in history.pieces(0, after.cut) if piece.message.role == "user"]
    facts = {
        **read_words_of_user([message for message in said if message is not head]),
        **read_facts(messages),
        "file": dict.fromkeys((*record.modified_files, *record.read_files)),
    }
    earlier = read_facts([] if head is None else [head])

    view = "\n".join(texts_of(shown))
    figures: dict[str, LossFigures] = {}
    for kind, found in facts.items():
        recallable = [fact for fact in found if fact not in view]
        only_told = {*earlier.get(kind, ())}.difference(found)
        lost = [fact for fact in only_told if fact not in view]
        count = len([*found]) + len(only_told)
        if count:
            figures[kind] = LossFigures(count - len(recallable) - len(lost), len(recallable), len(lost))
    return figures
