"""`CompactionController(settings={"gpt-5*": ..., "*": ...})`, `controller.settings_for()`: whole settings for each model."""

from typing import Any

import pytest

from compaction_hooks import (
    CompactionController,
    CompactionEvent,
    CompactionFinished,
    CompactionSettings,
    CompactionStarted,
)
from compaction_hooks.triggers import Due, SnapshotFigures, TokensTrigger
from tests.conversations import Scripted, talk, user

FIRST, SECOND, OTHERS = (CompactionSettings(trigger_tokens=tokens) for tokens in (10_000, 20_000, 30_000))


def trigger_tokens(controller: CompactionController[Any], model: str | None) -> int | None:
    controller.transform_context_sync([user("Hello.")], model=model, context_window=100_000)
    return controller.state().trigger_tokens


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("gpt-5-mini", 10_000),
        ("gpt-5", 20_000),
        ("openai/GPT-5", 20_000),
        ("azure:gpt-5-2025-08-07", 20_000),
        ("claude-x", 30_000),
        (None, 30_000),
    ],
)
def test_the_first_pattern_that_fits_the_model_of_the_call_counts(model: str | None, expected: int) -> None:
    controller = CompactionController(settings={"gpt-5-mini*": FIRST, "gpt-5*": SECOND, "*": OTHERS})
    assert trigger_tokens(controller, model) == expected


def test_a_call_without_a_model_has_the_settings_of_the_controllers() -> None:
    controller = CompactionController(model="gpt-5", settings={"gpt-5*": FIRST, "*": OTHERS})
    assert trigger_tokens(controller, None) == 10_000
    assert trigger_tokens(controller, "claude-x") == 30_000
    assert controller.settings is controller.settings_for(None) is FIRST
    assert controller.settings_for("claude-x") is OTHERS


@pytest.mark.parametrize("settings", [{}, {"gpt-5*": FIRST}])
def test_a_model_that_no_pattern_fits_has_the_default_settings(settings: dict[str, CompactionSettings]) -> None:
    assert trigger_tokens(CompactionController(settings=settings), "claude-x") == 83_616


def test_a_conversation_that_changes_its_model_follows_the_settings() -> None:
    messages = talk(20, 1_000)
    events: list[CompactionEvent] = []
    write = Scripted("## Goal\n- go on")
    settings = {
        "small*": CompactionSettings(
            trigger=TokensTrigger(10_000), summary_prompt="Two words.", max_summary_tokens=321
        ),
        "large*": CompactionSettings(auto_compact=False, merge_user_messages=True),
    }
    controller = CompactionController(
        context_window=60_000, settings=settings, summarizer=write, on_event=events.append
    )
    view = controller.transform_context_sync([user("One."), *messages], model="large-1")
    assert view[0]["content"] == f"One.\n\n{messages[0]['content']}"
    assert events == []
    view = controller.transform_context_sync([user("One."), *messages], model="small-1")
    started, finished = events
    assert isinstance(started, CompactionStarted)
    assert isinstance(finished, CompactionFinished)
    assert started.why == "above 10,000 tokens"
    assert "Two words." in write.requests[0].system + write.requests[0].prompt
    assert write.requests[0].max_tokens <= 321


def test_a_window_to_assume_is_that_of_the_model() -> None:
    settings = {"mine-*": CompactionSettings(default_context_window=50_000), "*": CompactionSettings()}
    controller = CompactionController(settings=settings)
    for model, window in (("mine-1", 50_000), ("yours-1", None)):
        controller.transform_context_sync([user("Hello.")], model=model)
        assert controller.state().context_window == window


class Broken:
    def due(self, snapshot: SnapshotFigures) -> Due | None:
        raise LookupError(snapshot.model)


def test_a_trigger_that_fails_for_one_model_does_not_fail_the_call(caplog: pytest.LogCaptureFixture) -> None:
    settings = {"a": CompactionSettings(trigger=Broken()), "*": CompactionSettings()}
    controller = CompactionController(context_window=100_000, settings=settings)
    messages = talk(3)
    for model in ("a", "b"):
        assert controller.transform_context_sync(messages, model=model) is messages
    assert [record.getMessage() for record in caplog.records] == [
        "trigger Broken failed (LookupError: a): ReserveTrigger() decides"
    ]
