"""The kit reports loss figures that differ from what the texts say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import pytest

from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.testing import BrokenPromise, CheckedSession
from compaction_hooks.view.record import LossFigures
from tests.conversations import Chat, Scripted, controller, steps, user

Figures: TypeAlias = Mapping[str, LossFigures]

REPORT = "compaction_hooks.engine.compaction.report_loss"
MESSAGES = [
    user("Port the parser. Never touch the public API."),
    *steps(6),
    user("The ticket is TX-48213."),
    *steps(20),
]


def each(change: Callable[[LossFigures], LossFigures]) -> Callable[[Figures], Figures]:
    return lambda figures: {kind: change(found) for kind, found in figures.items()}


LIES: Mapping[str, Callable[[Figures], Figures]] = {
    "kept and recallable swapped": each(lambda found: LossFigures(found.recallable, found.kept, found.lost)),
    "recallable and lost swapped": each(lambda found: LossFigures(found.kept, found.lost, found.recallable)),
    "a class forgotten": lambda figures: dict([*figures.items()][1:]),
    "a class too many": lambda figures: {**figures, "process": LossFigures(1, 0, 0)},
    "counted twice": each(lambda found: LossFigures(2 * found.kept, 2 * found.recallable, 2 * found.lost)),
    "one too many kept": each(lambda found: found._replace(kept=found.kept + 1)),
    "one said to be kept": each(lambda found: LossFigures(found.kept + 1, found.recallable - 1, found.lost)),
}


@pytest.mark.parametrize("lie", LIES)
def test_figures_that_differ_from_the_texts_are_reported(lie: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from compaction_hooks.recall.loss import report_loss

    def report(*given: Any) -> Figures:
        return LIES[lie](report_loss(*given))

    monkeypatch.setattr(REPORT, report)
    session = controller(200_000, summarizer=Scripted("- facts")).session("thread")
    checked: CheckedSession[Chat] = CheckedSession(session, OpenAIChatFormat())
    with pytest.raises(BrokenPromise) as caught:
        checked.compact(MESSAGES, keep_recent_tokens=600)
    assert caught.value.promise == "loss"


def test_true_figures_are_not() -> None:
    session = controller(200_000, summarizer=Scripted("- facts")).session("thread")
    checked: CheckedSession[Chat] = CheckedSession(session, OpenAIChatFormat())
    checked.compact(MESSAGES, keep_recent_tokens=600)
    assert session.record is not None
    assert {"constraint", "request", "file"} <= session.record.loss.keys()
    assert any(found.recallable for found in session.record.loss.values())
