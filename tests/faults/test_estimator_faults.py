"""An estimator that lies, raises or gives nonsense: its error shows in an overflow, is recovered from, and learned from."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from compaction_hooks import CompactionController, CompactionFinished
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.messages import Message
from compaction_hooks.tokens import CharacterEstimator
from tests.cases import crossed
from tests.conversations import assistant, prose, steps, talk, user
from tests.faults.harness import (
    PATHS,
    SIDES,
    WINDOW,
    Chat,
    Path,
    Side,
    check_view,
    fallback_settings,
    leaving_threads,
    list_for,
    raises,
    rig,
    tokens,
    works,
)

TRUE = CharacterEstimator()


@dataclass
class Lying:
    factor: float
    name: str = "liar"

    def estimate_tokens(self, text: str) -> int:
        return math.ceil(self.factor * TRUE.estimate_tokens(text))

    def estimate_message_tokens(self, message: Message) -> int:
        return math.ceil(self.factor * TRUE.estimate_message_tokens(message))


@dataclass
class Model:
    """A provider that rejects views truly larger than its window, in OpenAI's words, and returns usage if it `reports`."""

    reports: bool
    says_limit: bool = True
    rejected: int = 0
    largest: int = 0

    def __call__(self, view: Sequence[Chat]) -> dict[str, Any]:
        size = tokens(view)
        if size > WINDOW:
            self.rejected += 1
            if not self.says_limit:
                raise ValueError("Input is too long for requested model.")
            raise ValueError(
                f"This model's maximum context length is {WINDOW} tokens. However, your messages resulted in {size} tokens."
            )
        self.largest = max(self.largest, size)
        usage = {"usage": {"prompt_tokens": size, "completion_tokens": 10}} if self.reports else {}
        return {
            "object": "chat.completion",
            "choices": [{"message": assistant("done"), "finish_reason": "stop"}],
            **usage,
        }


@crossed(factor=[0.3, 0.5, 0.8, 1.5, 3.0], reports=[True, False], says_limit=[True, False], side=SIDES)
def test_a_run_goes_on_with_an_estimator_that_lies(factor: float, reports: bool, says_limit: bool, side: Side) -> None:
    driven = rig(side, summarizer=works, settings=fallback_settings(), estimator=Lying(factor))
    model = Model(reports, says_limit)
    messages: list[Chat] = [user("go")]
    rejections: list[int] = []
    for n in range(60):
        driven.handed_in.clear()
        driven.call(messages, model)
        rejections.append(model.rejected)
        messages = [*messages, *(steps(1, 250, first=n) if n % 3 else talk(1, 150, first=n)[::-1])]
    assert any(isinstance(event, CompactionFinished) for event in driven.events)
    assert model.largest <= WINDOW
    if factor >= 1:
        assert model.rejected == 0, "an estimate that is too high never overflows"
    else:
        assert rejections[-1] <= 4, "overflows teach"
        assert rejections[-1] - rejections[30] <= 1, "and what they taught is remembered"


class Odd:
    name = "odd"

    def __init__(self, answer: Callable[[], Any]) -> None:
        self.answer = answer

    def estimate_tokens(self, text: str) -> Any:
        return self.answer()

    def estimate_message_tokens(self, message: Message) -> Any:
        return self.answer()


USELESS = {
    "raises": (raises(KeyError("<|endoftext|>")), "raised KeyError"),
    "negative": (lambda: -5, "gave -5"),
    "nothing for any message": (lambda: 0, "gave 0"),
    "not a number": (lambda: math.nan, "gave nan"),
    "infinite": (lambda: math.inf, "gave inf"),
    "a text": (lambda: "12", "gave str"),
    "nothing": (lambda: None, "gave NoneType"),
    "a list of tokens": (lambda: [1, 2, 3], "gave list"),
    "too large to be a float": (lambda: 10**400, "raised OverflowError"),
    "beyond all bounds": (lambda: 10**30, "gave 1"),
}
"""By id: answers that are replaced by the default estimate."""


@cache
def records_by_default(side: Side, path: Path) -> list[dict[str, Any]]:
    """Return what is stored with the default estimator."""
    plain = rig(side, summarizer=works, settings=fallback_settings())
    plain.go(path)
    return plain.session.export_records()


@crossed(name=USELESS, side=SIDES)
def test_an_estimator_that_is_of_no_use_is_replaced(name: str, side: Side, caplog: pytest.LogCaptureFixture) -> None:
    answer, named = USELESS[name]
    for path in PATHS:
        driven = rig(side, summarizer=works, settings=fallback_settings(), estimator=Odd(answer))
        messages = list_for(path)
        caplog.clear()
        with leaving_threads():
            driven.go(path, messages)
        assert caplog.text.count("the token estimator") == 1
        assert named in caplog.text
        assert driven.session.export_records() == records_by_default(side, path)


@pytest.mark.parametrize("side", SIDES)
def test_an_estimate_beyond_all_bounds_is_loud(side: Side) -> None:
    driven = rig(side, summarizer=works, settings=fallback_settings(), estimator=Odd(lambda: 10**15))
    messages = [user("go"), *steps(4, 300)]
    view = driven.run(
        lambda: driven.session.transform_context(messages), lambda: driven.session.transform_context_sync(messages)
    )
    assert view is messages
    assert "cannot be made to fit" in driven.failures[-1]
    driven.check_idle()


@pytest.mark.parametrize("estimator", [len, "tiktoken", object()], ids=["a function", "a name", "an object"])
def test_an_object_that_is_no_estimator_is_refused_at_once(estimator: Any) -> None:
    with pytest.raises(ConfigurationError, match="must have estimate_tokens"):
        CompactionController(context_window=WINDOW, estimator=estimator)


def test_numbers_of_any_kind_are_taken() -> None:
    """`len(text) / 4` is how people write an estimator."""

    class Quarter:
        name = "quarter"

        def estimate_tokens(self, text: str) -> Any:
            return len(text) / 4

        def estimate_message_tokens(self, message: Message) -> Any:
            return len(message.text) / 4

    driven = rig("sync", estimator=Quarter())
    view = driven.session.transform_context_sync([user(prose(1_000))])
    assert driven.hooks.state().context_tokens == math.ceil(len(str(view[0]["content"])) / 4)
    check_view(view, view, driven.events)
