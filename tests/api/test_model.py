"""`model=`, `settings={...}`, `controller.settings_for()`: the window and the settings of a model by its name."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compaction_hooks import (
    CompactionController,
    CompactionEvent,
    CompactionFinished,
    CompactionSettings,
    CompactionStarted,
)
from compaction_hooks.tokens import windows
from compaction_hooks.triggers import TokensTrigger
from tests.cases import folded
from tests.conversations import Scripted, talk, user

WINDOWS = {
    "gpt-5": 272_000,
    "gpt-5-mini-2025-08-07": 272_000,
    "gpt-5.4": 922_000,
    "openai/gpt-4o": 128_000,
    "openai:gpt-6-astra": 922_000,
    "openai-responses:o3": 200_000,
    "anthropic:claude-sonnet-4-5-20250929": 200_000,
    "anthropic:claude-opus-5-5": 1_000_000,
    "claude-opus-4-20250514": 200_000,
    "openrouter/anthropic/claude-opus-4.6": 1_000_000,
    "openrouter:anthropic/claude-3.5-sonnet:beta": 200_000,
    "bedrock/us.anthropic.claude-haiku-4-5-20251001-v1:0": 200_000,
    "google-gla:gemini-2.5-pro": 1_000_000,
    "deepseek/deepseek-chat:free": 64_000,
    "mistral:mistral-large-latest": 262_144,
    "moonshotai/kimi-k2.6": 262_144,
    "xai/grok-4-fast-reasoning": 2_000_000,
}


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine without genai-prices and litellm."""
    monkeypatch.setattr(windows, "_genai_prices", lambda: None)
    monkeypatch.setattr(windows, "_litellm_tokens", dict)
    windows.find_window.cache_clear()
    yield
    windows.find_window.cache_clear()


@pytest.mark.usefixtures("alone")
@folded("model", [*WINDOWS])
def test_current_models_are_known_out_of_the_box(model: str) -> None:
    hooks = CompactionController(model=model)
    hooks.transform_context_sync(talk(1))
    assert hooks.state().context_window == WINDOWS[model]


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("model", ["gpt-5.9", "gpt-50", "claudette-3", "llama3:8b", "my-model"])
def test_a_name_that_only_looks_alike_is_unknown(model: str, caplog: pytest.LogCaptureFixture) -> None:
    hooks = CompactionController(model=model)
    with caplog.at_level(logging.WARNING, "compaction_hooks"):
        hooks.transform_context_sync(talk(1))
    assert hooks.state().context_window is None
    assert "or install genai-prices" in caplog.text


def test_the_advice_to_install_genai_prices_is_not_given_if_it_is_installed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Snapshot:
        def find_provider_model(self, *_: object) -> tuple[object, object]:
            raise LookupError

    monkeypatch.setattr(windows, "_genai_prices", Snapshot)
    with caplog.at_level(logging.WARNING, "compaction_hooks"):
        CompactionController(model="my-model").transform_context_sync(talk(1))
    assert "is unknown" in caplog.text
    assert "genai-prices" not in caplog.text


@pytest.mark.usefixtures("alone")
def test_an_installed_table_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "_litellm_tokens", lambda: {"gpt-4o": 64_000})
    hooks = CompactionController(model="gpt-4o")
    hooks.transform_context_sync(talk(1))
    assert hooks.state().context_window == 64_000


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("own", "called", "window"),
    [
        ("gpt-4o", None, 50_000),
        ("gpt-4o", "gpt-4o", 50_000),
        ("gpt-4o", "claude-opus-4-20250514", 200_000),
        ("gpt-4o", "my-model", 50_000),
        (None, "claude-opus-4-20250514", 50_000),
        (None, None, 50_000),
    ],
)
def test_a_given_window_is_that_of_the_own_model_and_of_unknown_ones(
    own: str | None, called: str | None, window: int
) -> None:
    session = CompactionController[Any](context_window=50_000, model=own).session("one")
    if called is not None:
        session.transform_context_sync(talk(1), model=called)
    assert session.state().context_window == window


def test_the_table_is_the_one_its_script_writes(tmp_path: Path) -> None:
    """The script still runs; its data may be newer than the table, so only well-known names are compared."""
    pytest.importorskip("genai_prices")
    target = tmp_path / "known_windows.py"
    script = (
        f"from pathlib import Path; from tests import windows_table as t; t.TARGET = Path({str(target)!r}); t.main()"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=Path(__file__).parents[2])
    written: dict[str, dict[int, str]] = {}
    exec(target.read_text("utf-8"), written)
    assert "gpt-4o" in written["KNOWN_WINDOWS"][128_000].split()
    assert "claude-opus-5" in written["KNOWN_WINDOWS"][1_000_000].split()


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
