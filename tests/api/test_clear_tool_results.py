"""`clear_tool_results` and `tool_rules` of `CompactionSettings`: old results are cleared before anything is summarized."""

from typing import Any

import pytest

from compaction_hooks import CompactionSettings, SummaryRequest
from compaction_hooks.strategies import ClearToolResults
from tests.conversations import PLAIN, Scripted, assistant, call, controller, prose, steps, texts, tool, user


def test_old_results_are_cleared_before_a_summarizer_is_asked() -> None:
    asked = Scripted()
    messages = [user("go"), *steps(24, 500)]
    hooks = controller(16_384, summarizer=asked)
    view = hooks.transform_context_sync(messages)
    assert asked.requests == []
    assert hooks.history()[-1].unseen_message_count == 0
    assert "Old tool result cleared" in texts(view)
    assert len(view) == len(messages)


def test_clearing_can_be_switched_off() -> None:
    asked = Scripted()
    controller(16_384, summarizer=asked, settings=PLAIN).transform_context_sync([user("go"), *steps(24, 500)])
    assert len(asked.requests) == 1


def test_results_that_are_hardly_larger_than_the_marker_are_not_cleared() -> None:
    short, thin, larger = prose(30)[:80], "=" * 100, prose(30)[:100]
    answers = {"a": short, "b": thin, "c": larger}
    results = [message for id, text in answers.items() for message in (assistant(None, call(id)), tool(id, text))]
    view = controller(16_384).transform_context_sync([user("go"), *results, *steps(24, 500)])
    assert [message["content"] for message in view[2:7:2]] == [short, thin, "[Old tool result cleared: 100 characters]"]


@pytest.mark.parametrize(
    ("rules", "cleared"),
    [
        ({}, [0, 1, 2, 3, 4]),
        ({"read": "never"}, [1, 3]),
        ({"read": "first"}, [0, 1, 2, 3, 4, 6]),
        ({"read": 3}, [0, 1, 3]),
    ],
)
def test_a_tool_has_its_own_rule(rules: dict[str, Any], cleared: list[int]) -> None:
    messages = [user("go")]
    for number in range(8):
        messages += steps(1, 1_000, first=number, name="grep" if number % 2 else "read")
    clear = ClearToolResults(protect_tokens=2_500, minimum_gain_tokens=0)
    settings = CompactionSettings(strategies=[clear], tool_rules=rules)
    view = controller(10_000, settings=settings).transform_context_sync(messages)
    results = [message for message in view if message["role"] == "tool"]
    assert [place for place, message in enumerate(results) if str(message["content"]).startswith("[Old")] == cleared


class Full(Scripted):
    """A summarizer that uses most of the room that it has."""

    def __call__(self, request: SummaryRequest) -> str:
        self.requests.append(request)
        return f"## Goal\n- {prose(int(request.max_tokens * 0.8))}"


@pytest.mark.parametrize("window", [16_384, 32_768, 65_536])
def test_steps_that_are_nearly_as_large_as_the_target_do_not_each_pay_for_a_summary(window: int) -> None:
    """26 calls; four parallel results of together 37 % of the window each time."""
    asked = Full()
    hooks, messages = controller(window, summarizer=asked), [user("Read all parts.")]
    for number in range(26):
        hooks.transform_context_sync(messages)
        names = [f"c{number}_{part}" for part in range(4)]
        messages.append(assistant(None, *(call(name, path=f"src/{name}.py") for name in names)))
        messages += [tool(name, prose(int(window * 0.37 / 4))) for name in names]
    assert len(asked.requests) <= 6
    target = CompactionSettings().budget(window).target
    assert all(record.tokens_after <= target for record in hooks.history())
