"""The steps just before the recent messages: they stay in room that the target leaves, a long one with its results shortened."""

from collections.abc import Sequence

import pytest

from compaction_hooks import CompactionRecord, CompactionSettings
from compaction_hooks.tokens import CharacterEstimator
from tests.conversations import PLAIN, Chat, Scripted, controller, steps, system, user

WINDOW = 32_000
LARGE = steps(1, 12_000, first=50)
"""A step that would not fit the target next to the recent ones."""
SHORT = CompactionSettings(clear_tool_results=False, keep_recent_tokens=2_000)


def conversation(border: Sequence[Chat], recent: Sequence[Chat]) -> list[Chat]:
    return [system(), user("Port the parser."), *steps(26, 500), *border, *recent]


def compact(messages: list[Chat], *, by_hand: bool = False, **settings: object) -> tuple[list[Chat], CompactionRecord]:
    """Compact, with 2,000 recent tokens; return the view and its record."""
    chosen = CompactionSettings(clear_tool_results=False, keep_recent_tokens=2_000, **settings)  # type: ignore[arg-type]
    session = controller(WINDOW, summarizer=Scripted("- nothing"), settings=chosen).session("border")
    by_itself = session.transform_context_sync
    view = session.compact_sync(messages, keep_recent_tokens=2_000).messages if by_hand else by_itself(messages)
    record = session.record
    assert record is not None
    assert record.tokens_after <= chosen.budget(WINDOW).target
    return list(view), record


def text_of(view: Sequence[Chat]) -> str:
    return "\n".join(str(message["content"]) for message in view)


def test_a_long_step_before_the_recent_ones_stays_with_its_result_shortened() -> None:
    messages = conversation(LARGE, steps(3, 600, first=60))
    view, record = compact(messages)
    assert "src/module_50.py" in text_of(view)
    assert "characters left out" in text_of(view)
    assert [message for message in view if message in messages[-6:]] == messages[-6:]  # word for word
    assert record.reductions


def test_steps_that_fit_stay_whole_up_to_the_size_of_a_summary() -> None:
    messages = conversation((), steps(20, 500, first=60))
    few, most = (compact(messages, max_summary_tokens=size)[1].covered_runs for size in (400, 3_000))
    assert most < few
    view, _ = compact(messages, max_summary_tokens=3_000)
    assert text_of(view).count("characters left out") <= 1  # the last of them


@pytest.mark.parametrize(("by_hand", "settings"), [(True, {}), (False, {"tool_rules": {"read_file": "never"}})])
def test_a_long_step_is_left_to_the_summary_by_hand_and_if_its_tools_rule_keeps_results(
    by_hand: bool, settings: dict[str, object]
) -> None:
    messages = conversation(LARGE, steps(3, 600, first=60))
    view, record = compact(messages, by_hand=by_hand, **settings)
    assert "characters left out" not in text_of(view)
    assert not record.reductions


def test_a_compaction_without_room_keeps_the_recent_messages_alone() -> None:
    messages = [*conversation((), steps(6, 3_500, first=60))]
    session = controller(8_192, summarizer=Scripted("- nothing"), settings=PLAIN).session("narrow")
    view = session.transform_context_sync(messages)
    assert len(view) < len(messages)


def test_a_result_that_every_view_shortens_stays_as_short() -> None:
    messages = conversation(LARGE, steps(3, 600, first=60))
    view, record = compact(messages, max_result_tokens=400, trigger_tokens=12_000)
    short = [str(message["content"]) for message in view if "characters left out" in str(message["content"])]
    assert len(short) == len(record.reductions) > 0
    assert all(CharacterEstimator().estimate_tokens(text) <= 400 for text in short)


def test_the_marker_in_a_shortened_step_names_the_part_for_the_recall_tool() -> None:
    messages = conversation(LARGE, steps(3, 600, first=60))
    session = controller(WINDOW, summarizer=Scripted("- nothing"), settings=SHORT).session("border")
    session.recall_tool(lambda: messages)
    text = text_of(session.transform_context_sync(messages))
    handle = text.partition("characters left out")[2].partition('recall("')[2].partition('"')[0]
    part = session.covered(messages).find(handle)
    assert part is not None
    assert part.text == LARGE[1]["content"]
