"""`trigger=` and `keep=` in LangChain's forms, and wrong arguments."""

from typing import Any

import pytest
from compaction_adapters.langchain import CompactionMiddleware
from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from compaction_hooks import CompactionController, CompactionSettings, ExtractiveSummarizer
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.triggers import RatioTrigger
from tests.cases import folded

MODEL = GenericFakeChatModel(messages=iter([AIMessage("Fine.")]))


@folded(
    "trigger, ratio, tokens",
    [
        (("fraction", 0.8), 0.8, None),
        (("fraction", 1), 1, None),
        (("tokens", 3_000), None, 3_000),
        ({"fraction": 0.8}, 0.8, None),
        ([{"tokens": 3_000}], None, 3_000),
        ([("tokens", 5_000), {"tokens": 3_000}], None, 3_000),
        ([("tokens", 5_000), ("fraction", 0.5)], 0.5, 5_000),
        (None, None, None),
    ],
)
def test_trigger_sets_the_threshold(trigger: Any, ratio: float | None, tokens: int | None) -> None:
    settings = CompactionMiddleware(trigger=trigger).controller.settings
    assert (settings.trigger_ratio, settings.trigger_tokens) == (ratio, tokens)


def test_trigger_goes_before_the_threshold_of_a_profile() -> None:
    settings = CompactionMiddleware(trigger=("tokens", 9_000), settings=CompactionSettings.cheap()).controller.settings
    assert (settings.trigger_tokens, settings.trigger_cap_tokens, settings.keep_recent_tokens) == (9_000, None, 6_000)


def test_trigger_and_keep_count_for_each_model_beside_all_other_settings() -> None:
    by_model = {"gpt-5*": CompactionSettings(breaker_failures=7)}
    made = CompactionMiddleware(trigger=("tokens", 9_000), keep=("tokens", 5_000), settings=by_model).controller
    found = [made.settings_for(model) for model in ("gpt-5-mini", "other")]
    assert [(one.trigger_tokens, one.keep_recent_tokens) for one in found] == [(9_000, 5_000), (9_000, 5_000)]
    assert [one.breaker_failures for one in found] == [7, CompactionSettings().breaker_failures]


@folded(
    "keywords, message",
    [
        ({"trigger": ("messages", 50)}, r"must be.*\(\"tokens\", n\).*number of messages"),
        ({"trigger": [("tokens", 5), ("messages", 5)]}, "session.compact"),
        ({"trigger": {"tokens": 5, "messages": 5}}, "a list for any of them.*all of several is not supported"),
        ({"trigger": {}}, "trigger={} must be"),
        ({"trigger": []}, "holds no size"),
        ({"trigger": ("tokens", True)}, "trigger=.*True.* must be"),
        ({"trigger": ("tokens", "5")}, "trigger=<tuple> must be"),
        ({"trigger": ("tokens", 0)}, "trigger_tokens=0"),
        ({"trigger": ("tokens", 5.5)}, "trigger_tokens=5.5"),
        ({"trigger": ("fraction", True)}, "trigger=.*True.* must be"),
        ({"trigger": ("fraction", 0)}, "between 0.1 and 1.0"),
        ({"trigger": ("fraction", 1.5)}, "between 0.1 and 1.0"),
        ({"trigger": ("fraction", 0.01)}, "between 0.1 and 1.0"),
        ({"trigger": ("words", 5)}, "trigger=.*must be"),
        ({"trigger": ("tokens", 5, 6)}, "trigger=.*must be"),
        ({"keep": 5_000}, r"keep=5000 must be \(\"tokens\", n\)"),
        ({"keep": ("messages", 20)}, r"keep=.*must be \(\"tokens\", n\)"),
        ({"keep": ("fraction", 0.3)}, r"keep=.*must be \(\"tokens\", n\)"),
        (
            {"trigger": ("tokens", 5), "settings": CompactionSettings(trigger=RatioTrigger(0.5))},
            r"trigger and settings\.trigger exclude",
        ),
        (
            {"trigger": ("tokens", 5), "settings": CompactionSettings(trigger_ratio=0.5)},
            r"trigger and settings\.trigger_ratio exclude",
        ),
        ({"keep": ("tokens", 5), "settings": CompactionSettings(keep_recent_tokens=6)}, "keep_recent_tokens exclude"),
        ({"model": MODEL, "summarizer": ExtractiveSummarizer()}, "model and summarizer"),
        ({"model": 5}, "chat model or its name"),
        ({"context_window": 0}, "context_window=0"),
        ({"name": ""}, "must not be empty"),
        (
            {"controller": CompactionController(), "trigger": ("fraction", 0.8)},
            "a controller or its keywords, not both",
        ),
        ({"controller": CompactionController(), "model": MODEL}, "a controller or its keywords, not both"),
        ({"controller": CompactionController(), "context_window": 5_000}, "a controller or its keywords, not both"),
    ],
)
def test_wrong_arguments_are_refused(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        CompactionMiddleware(**keywords)


def test_two_of_one_name_are_refused_by_langchain() -> None:
    assert CompactionMiddleware(name="SummarizationMiddleware").name == "SummarizationMiddleware"
    with pytest.raises(AssertionError, match="duplicate middleware"):
        create_agent(MODEL, middleware=[CompactionMiddleware(), CompactionMiddleware()])
