"""The threshold: `reserve_tokens`, `trigger_tokens`, `trigger_ratio`, also of one call; `auto_compact`.

How much is kept word for word: `keep_recent_tokens`, `keep_recent_ratio`, `keep_turns`.
"""

from typing import Any

import pytest

from compaction_hooks import CompactionController, CompactionSettings, ConfigurationError
from compaction_hooks.tokens import CharacterEstimator
from tests.conversations import Chat, assistant, controller, prose, steps, talk, user
from tests.too_long import Provider, TooLongError


@pytest.mark.parametrize(
    ("window", "numbers"),
    [
        (
            16_384,
            {
                "keep": 5_734,
                "emergency_keep": 3_276,
                "summary": 1_638,
                "protect_results": 3_276,
                "minimum_clear": 1_638,
            },
        ),
        (130_000, {"keep": 20_000, "emergency_keep": 20_000, "target": int(113_616 * 0.6)}),
        (1_000_000, {"summary": 4_096, "protect_results": 40_000, "minimum_clear": 20_000}),
    ],
)
def test_what_is_kept_written_and_cleared_scales_with_the_window(window: int, numbers: dict[str, int]) -> None:
    budget = CompactionSettings().budget(window)
    assert {name: getattr(budget, name) for name in numbers} == numbers


def test_output_takes_from_a_window_it_shares_and_not_from_an_input_window() -> None:
    settings = CompactionSettings(max_output_tokens=32_000, trigger_cap_tokens=None)
    assert settings.budget(200_000).trigger == 168_000
    assert settings.budget(200_000, is_input_only=True).trigger == 183_616


MESSAGES = [user("go"), *steps(30, 300)]


def test_a_low_trigger_in_a_large_window_leaves_room_next_to_the_summary() -> None:
    """At most 60 % of the trigger after a compaction, whatever the window would allow a summary."""
    hooks = controller(100_000, settings=CompactionSettings(trigger_tokens=3_000))
    hooks.transform_context_sync(MESSAGES)
    assert (hooks.state().context_tokens or 0) <= 1_800


@pytest.mark.parametrize("options", [{}, {"trigger_ratio": 0.5}], ids=["setting", "option of a call"])
def test_a_ratio_needs_the_window_of_the_first_call(options: dict[str, Any]) -> None:
    settings = CompactionSettings() if options else CompactionSettings(trigger_ratio=0.8)
    hooks = CompactionController(settings=settings)
    for model in (None, "an-unknown-model"):
        with pytest.raises(
            ConfigurationError, match=r"trigger_ratio=0\.[58] is a part .* set context_window=\.\.\. \(tokens\)"
        ):
            hooks.transform_context_sync(MESSAGES, model=model, **options)
    view = hooks.transform_context_sync(MESSAGES, context_window=8_000, **options)
    assert len(view) < len(MESSAGES)
    # A model without a window, to which a run falls back, must not end the run.
    assert hooks.transform_context_sync(MESSAGES, model="an-unknown-model", **options)


def test_a_ratio_that_is_not_used_needs_no_window() -> None:
    settings = CompactionSettings(trigger_ratio=0.8, auto_compact=False)
    assert CompactionController(settings=settings).transform_context_sync(MESSAGES) is MESSAGES
    hooks, by_server = CompactionController(settings=CompactionSettings(trigger_ratio=0.8)), {"truncation": "auto"}
    assert hooks.transform_context_sync(MESSAGES, request=by_server) is MESSAGES


@pytest.mark.parametrize(
    ("options", "trigger"),
    [
        ({}, 30_000),
        ({"trigger_tokens": 6_000}, 6_000),
        ({"trigger_ratio": 0.2}, 20_000),
        ({"trigger_ratio": 0.2, "trigger_tokens": 6_000}, 6_000),
        ({"trigger_ratio": 0.5}, 50_000),
        ({"trigger_tokens": None, "trigger_ratio": None}, 30_000),
    ],
)
def test_a_call_may_be_compacted_earlier_or_later_than_the_settings_say(options: Any, trigger: int) -> None:
    controller = CompactionController(context_window=100_000, settings=CompactionSettings(trigger_tokens=30_000))
    messages: list[Any] = [{"role": "user", "content": prose(120)} for _ in range(8)]
    controller.transform_context_sync(messages, **options)
    assert controller.state().trigger_tokens == trigger


def test_the_next_call_goes_by_the_settings_again() -> None:
    controller = CompactionController(context_window=100_000)
    messages: list[Any] = [{"role": role, "content": prose(120)} for _ in range(30) for role in ("user", "assistant")]
    assert controller.transform_context_sync(messages) is messages
    assert len(controller.transform_context_sync(messages, trigger_tokens=4_000)) < len(messages)
    controller.undo()
    assert controller.transform_context_sync(messages) is messages


def test_without_automatic_compaction_the_list_is_left_alone() -> None:
    messages = [user("go"), *steps(30, 400)]
    hooks = controller(8_192, settings=CompactionSettings(auto_compact=False))
    assert hooks.transform_context_sync(messages) is messages


def test_without_automatic_compaction_an_overflow_is_recovered_from() -> None:
    provider = Provider(20_000, TooLongError(9_000, 8_000))
    hooks = controller(None, settings=CompactionSettings(auto_compact=False))
    assert hooks.call_sync([user("go"), *steps(30, 300)], provider) == "answer"


WINDOW = 200_000


def list_kept(messages: list[Chat], **settings: Any) -> list[Chat]:
    policy = CompactionSettings(clear_tool_results=False, keep_user_tokens=0, **settings)
    hooks = CompactionController(context_window=WINDOW, settings=policy)
    view = hooks.transform_context_sync(messages)
    originals = {id(message) for message in messages}
    assert len(view) < len(messages)
    return [message for message in view if id(message) in originals]


def tokens(messages: list[Chat]) -> int:
    return sum(CharacterEstimator().estimate_tokens(str(message["content"])) for message in messages)


LONG = talk(95, 2_000)
"""Some 190,000 tokens in short turns."""


@pytest.mark.parametrize(
    "settings", [{"keep_recent_tokens": 140_000}, {"keep_recent_ratio": 0.7}], ids=lambda keywords: next(iter(keywords))
)
def test_as_much_is_kept_as_was_asked_for(settings: dict[str, Any]) -> None:
    assert 133_000 <= tokens(list_kept(LONG, **settings)) <= 145_000


def test_no_more_is_kept_than_the_threshold_allows() -> None:
    view = list_kept(LONG, keep_recent_tokens=180_000)
    assert 150_000 < tokens(view) < 183_616 * 0.9


def test_by_default_twenty_thousand_tokens_are_kept() -> None:
    assert 19_000 <= tokens(list_kept(LONG)) <= 24_000


def test_the_last_turns_are_kept_whole_however_long_they_are() -> None:
    turns = [[user(f"Turn {n}: {prose(50)}"), *steps(8, 2_000, first=8 * n), assistant("Done.")] for n in range(13)]
    messages = [message for turn in turns for message in turn]
    last_three = [message for turn in turns[-3:] for message in turn]
    assert list_kept(messages, keep_turns=3)[-len(last_three) :] == last_three
    assert list_kept(messages)[-len(last_three) :] != last_three


def test_a_turn_that_began_right_after_a_tools_result_is_kept_with_its_first_message() -> None:
    turns = [[user(f"Turn {n}: {prose(50)}"), *steps(8, 2_000, first=8 * n)] for n in range(13)]
    view = list_kept([message for turn in turns for message in turn], keep_turns=3)
    assert view[-51:] == [message for turn in turns[-3:] for message in turn]


def test_turns_that_the_window_does_not_hold_are_not_kept() -> None:
    view = list_kept(
        [user("First."), *steps(40, 3_000), user("Second."), *steps(50, 3_500, first=40), user("Third.")], keep_turns=3
    )
    assert tokens(view) < 183_616 * 0.9
