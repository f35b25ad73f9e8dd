"""The kit reports loss figures that differ from what the texts say."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import pytest

from compaction_hooks import CompactionSettings
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.recall import LossFigures, loss_of
from compaction_hooks.testing import BrokenPromise
from tests.checked_session import CheckedSession
from tests.conversations import Chat, Scripted, controller, steps, user

Figures: TypeAlias = Mapping[str, LossFigures]

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
    def count(*given: Any, **options: Any) -> Figures:
        return LIES[lie](loss_of(*given, **options))

    monkeypatch.setattr("tests.checked_session.loss_of", count)
    settings = CompactionSettings(keep_user_tokens=0)
    session = controller(200_000, summarizer=Scripted("- facts"), settings=settings).session("thread")
    checked: CheckedSession[Chat] = CheckedSession(session, OpenAIChatFormat())
    with pytest.raises(BrokenPromise) as caught:
        checked.compact(MESSAGES, keep_recent_tokens=600)
    assert caught.value.promise == "loss"
