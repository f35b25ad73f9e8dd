"""Small helpers that fail: carried texts, a signal, a reader of answers, messages that refuse to be compared."""

import logging
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any, cast

import pytest

from compaction_hooks import Carried
from compaction_hooks.stores import MemoryStore
from tests.cases import crossed
from tests.conversations import assistant, talk, texts
from tests.faults.harness import SIDES, Chat, Rig, Side, above_threshold, fallback_settings, raises, rig, works


class Incomparable(dict[str, Any]):
    """A message that cannot be compared, as arrays cannot."""

    def __eq__(self, other: object) -> bool:
        raise TypeError("the truth value of a message is ambiguous")


class Signal:
    def is_set(self) -> bool:
        raise RuntimeError("no answer")


PATHS = [Carried("plan", cast("str", PurePosixPath("a.py")))]
gone = raises(OSError("gone"))


def call(driven: Rig, answer: Callable[..., Any]) -> str:
    """Return the text that `call` sends to the model, with this reader of answers."""
    views: list[list[Chat]] = []

    def send(view: list[Chat]) -> Chat:
        views.append(view)
        return assistant("done")

    driven.session.call_sync(above_threshold(), send, answer=answer)
    return texts(views[-1])


Use = Callable[[Side], object]
FAULTS: dict[str, tuple[Use, Use, str]] = {
    "carried texts fail": (
        lambda side: texts(driver(side, carry=gone).transform(above_threshold())),
        lambda side: texts(driver(side).transform(above_threshold())),
        "default: `carry` of the host failed: OSError: gone",
    ),
    "carried texts of another type": (
        lambda side: texts(driver(side, carry=lambda _: ["a.py"]).transform(above_threshold())),
        lambda side: texts(driver(side).transform(above_threshold())),
        "default: `carry` of the host failed: TypeError: carry answered str in its list",
    ),
    "carried texts that are no text": (
        lambda side: texts(driver(side, carry=lambda _: PATHS).transform(above_threshold())),
        lambda side: texts(driver(side).transform(above_threshold())),
        "default: `carry` of the host failed: TypeError: Carried.text is PurePosixPath, not text",
    ),
    "signal": (
        lambda side: texts(driver(side).transform(above_threshold(), Signal())),
        lambda side: texts(driver(side).transform(above_threshold())),
        "a signal failed (RuntimeError: no answer)",
    ),
    "reader of answers": (
        lambda side: call(driver(side), gone),
        lambda side: call(driver(side), lambda _: None),
        "session default: an answer could not be read (OSError)",
    ),
    "reader gives no message": (
        lambda side: call(driver(side), lambda _: "read"),
        lambda side: call(driver(side), lambda _: None),
        "session default: an answer was read, but not into a Message (str)",
    ),
}


def driver(side: Side, **keywords: Any) -> Rig:
    return rig(side, summarizer=works, settings=fallback_settings(), store=MemoryStore(), **keywords)


@crossed(name=FAULTS, side=SIDES)
def test_a_small_helper_that_fails_costs_one_warning(name: str, side: Side, caplog: pytest.LogCaptureFixture) -> None:
    failing, sound, warning = FAULTS[name]
    expected = sound(side)
    with caplog.at_level(logging.WARNING, logger="compaction_hooks"):
        assert failing(side) == expected
    assert [record.getMessage()[: len(warning)] for record in caplog.records] == [warning]


@pytest.mark.parametrize("side", SIDES)
def test_messages_that_cannot_be_compared_are_compacted_as_others(side: Side) -> None:
    """New objects in each call, as hosts have them that rebuild their list."""
    odd, plain = driver(side), driver(side)
    messages: list[Chat] = above_threshold()
    for n in range(20, 24):
        messages = [*messages, *talk(1, 300, first=n)]
        expected = texts(plain.transform([{**message} for message in messages]))
        assert texts(odd.transform([Incomparable(message) for message in messages])) == expected
    assert odd.hooks.state().compaction_count == plain.hooks.state().compaction_count > 0
