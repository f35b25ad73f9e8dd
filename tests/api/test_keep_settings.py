"""`keep_recent_tokens`, `keep_recent_ratio` and `keep_turns` of `CompactionSettings`: how much is kept word for word."""

from typing import Any

import pytest

from compaction_hooks import CompactionController, CompactionSettings
from compaction_hooks.tokens import CharacterEstimator
from tests.conversations import Chat, assistant, prose, steps, talk, user

WINDOW = 200_000


def list_kept(messages: list[Chat], **settings: Any) -> list[Chat]:
    policy = CompactionSettings(clear_tool_results=False, **settings)
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
    assert list_kept(messages, keep_turns=3) == last_three
    assert list_kept(messages) != last_three


def test_a_turn_that_began_right_after_a_tools_result_is_kept_with_its_first_message() -> None:
    turns = [[user(f"Turn {n}: {prose(50)}"), *steps(8, 2_000, first=8 * n)] for n in range(13)]
    view = list_kept([message for turn in turns for message in turn], keep_turns=3)
    assert view[-51:] == [message for turn in turns[-3:] for message in turn]


def test_turns_that_the_window_does_not_hold_are_not_kept() -> None:
    view = list_kept(
        [user("First."), *steps(40, 3_000), user("Second."), *steps(50, 3_500, first=40), user("Third.")], keep_turns=3
    )
    assert tokens(view) < 183_616 * 0.9
