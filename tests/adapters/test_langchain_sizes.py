"""`trigger=` and `keep=` as LangChain writes them, and wrong use, refused at construction."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langchain")

from compaction_adapters.langchain import CompactionMiddleware
from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from compaction_hooks import CompactionController, CompactionSettings, ExtractiveSummarizer
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.triggers import RatioTrigger


def settings(**keywords: Any) -> CompactionSettings:
    return CompactionMiddleware(**keywords).controller.settings


@pytest.mark.parametrize(
    ("trigger", "ratio", "tokens"),
    [
        pytest.param(("fraction", 0.8), 0.8, None, id="fraction"),
        pytest.param(("fraction", 1), 1, None, id="whole window"),
        pytest.param(("tokens", 3_000), None, 3_000, id="tokens"),
        pytest.param({"fraction": 0.8}, 0.8, None, id="clause"),
        pytest.param([("tokens", 3_000)], None, 3_000, id="list of one"),
        pytest.param([{"tokens": 3_000}], None, 3_000, id="list of one clause"),
        pytest.param([("tokens", 5_000), {"tokens": 3_000}], None, 3_000, id="any of two"),
        pytest.param([("tokens", 5_000), ("fraction", 0.5)], 0.5, 5_000, id="any of two kinds"),
        pytest.param(None, None, None, id="none"),
    ],
)
def test_a_trigger_sets_the_threshold(trigger: Any, ratio: float | None, tokens: int | None) -> None:
    made = settings(trigger=trigger)
    assert (made.trigger_ratio, made.trigger_tokens) == (ratio, tokens)


def test_keep_sets_what_is_kept_beside_all_other_settings() -> None:
    made = settings(keep=("tokens", 5_000), trigger=("tokens", 9_000), settings=CompactionSettings(breaker_failures=7))
    assert (made.keep_recent_tokens, made.trigger_tokens, made.breaker_failures) == (5_000, 9_000, 7)


def test_trigger_and_keep_count_for_each_model() -> None:
    by_model = {"gpt-5*": CompactionSettings(breaker_failures=7)}
    made = CompactionMiddleware(trigger=("tokens", 9_000), keep=("tokens", 5_000), settings=by_model).controller
    found = [made.settings_for(model) for model in ("gpt-5-mini", "other")]
    assert [(one.trigger_tokens, one.keep_recent_tokens) for one in found] == [(9_000, 5_000), (9_000, 5_000)]
    assert [one.breaker_failures for one in found] == [7, CompactionSettings().breaker_failures]


@pytest.mark.parametrize(
    ("keywords", "says"),
    [
        pytest.param({"trigger": ("messages", 50)}, r"number of messages.*\(\"tokens\", n\)", id="messages"),
        pytest.param(
            {"trigger": ("tokens", 5), "settings": CompactionSettings(trigger=RatioTrigger(0.5))},
            "the trigger in settings exclude",
            id="two triggers",
        ),
        pytest.param({"keep": ("messages", 20)}, r"keep=.*use \(\"tokens\", n\)", id="keep messages"),
        pytest.param({"keep": ("fraction", 0.3)}, r"keep=.*use \(\"tokens\", n\)", id="keep a fraction"),
        pytest.param(
            {"trigger": {"tokens": 5, "messages": 5}}, "all of several is not supported.*a list", id="all of two"
        ),
        pytest.param({"trigger": {}}, "must name one size", id="empty clause"),
        pytest.param({"trigger": [("tokens", 5), ("messages", 5)]}, "session.compact", id="messages among others"),
        pytest.param({"trigger": []}, "holds no size", id="empty list"),
        pytest.param({"trigger": ("tokens", True)}, "whole number above 0", id="bool"),
        pytest.param({"trigger": ("tokens", "5")}, "whole number above 0", id="text"),
        pytest.param({"trigger": ("tokens", 0)}, "whole number above 0", id="zero"),
        pytest.param({"trigger": ("tokens", -5)}, "whole number above 0", id="negative"),
        pytest.param({"trigger": ("tokens", 5.5)}, "whole number above 0", id="part of a token"),
        pytest.param({"trigger": ("fraction", True)}, "above 0 and at most 1", id="bool fraction"),
        pytest.param({"trigger": ("fraction", 0)}, "above 0 and at most 1", id="zero fraction"),
        pytest.param({"trigger": ("fraction", 1.5)}, "above 0 and at most 1", id="more than the window"),
        pytest.param({"trigger": ("fraction", 0.01)}, "between 0.1 and 1.0", id="below the controller's bound"),
        pytest.param({"trigger": ("words", 5)}, "must be a pair like", id="unknown kind"),
        pytest.param({"trigger": ("tokens", 5, 6)}, "must be a pair like", id="three"),
        pytest.param({"trigger": 5_000}, "must be a pair like", id="bare number"),
        pytest.param({"keep": 5_000}, "must be a pair like", id="bare number kept"),
        pytest.param(
            {"trigger": ("tokens", 5), "settings": CompactionSettings(trigger_ratio=0.5)},
            "the trigger in settings exclude",
            id="trigger twice",
        ),
        pytest.param(
            {"keep": ("tokens", 5), "settings": CompactionSettings(keep_recent_tokens=6)},
            "settings.keep_recent_tokens exclude",
            id="keep twice",
        ),
        pytest.param(
            {"model": GenericFakeChatModel(messages=iter(())), "summarizer": ExtractiveSummarizer()},
            "model and summarizer",
            id="two summarisers",
        ),
        pytest.param({"model": 5}, "chat model or its name", id="no model"),
        pytest.param({"context_window": 0}, "context_window=0", id="no window"),
        pytest.param({"name": ""}, "must not be empty", id="no name"),
    ],
)
def test_wrong_use_is_refused_at_construction(keywords: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        CompactionMiddleware(**keywords)


@pytest.mark.parametrize(
    "keywords",
    [
        pytest.param({"trigger": ("fraction", 0.8)}, id="trigger"),
        pytest.param({"keep": ("tokens", 5_000)}, id="keep"),
        pytest.param({"model": GenericFakeChatModel(messages=iter(()))}, id="model"),
        pytest.param({"context_window": 5_000}, id="keyword"),
    ],
)
def test_a_controller_and_its_keywords_exclude_one_another(keywords: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="a controller or its keywords, not both"):
        CompactionMiddleware(CompactionController(), **keywords)


def test_what_is_no_controller_is_refused() -> None:
    """LangChain's own middleware takes the model there."""
    with pytest.raises(ConfigurationError, match="must be a CompactionController, not str"):
        CompactionMiddleware("openai:gpt-5")  # type: ignore[arg-type]


def test_a_fraction_needs_no_window_since_the_model_is_seen() -> None:
    assert settings(trigger=("fraction", 0.5)).trigger_ratio == 0.5


def test_names_do_not_clash() -> None:
    """Each name once: two of a kind would compact twice, and LangChain says so."""
    model = GenericFakeChatModel(messages=iter([AIMessage("Fine.")]))
    assert CompactionMiddleware().name == "CompactionMiddleware"
    assert CompactionMiddleware(name="SummarizationMiddleware").name == "SummarizationMiddleware"
    with pytest.raises(AssertionError, match="duplicate middleware"):
        create_agent(model, middleware=[CompactionMiddleware(), CompactionMiddleware()])
