"""`session.report_usage()`, `usage_from_openai()`, `usage_from_anthropic()`: the count of a provider, in any form a host has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from compaction_hooks import CompactionSettings, Usage
from compaction_hooks.tokens import usage_from_anthropic, usage_from_openai
from tests.conversations import Scripted, assistant, controller, talk, user


def count_after(usage: Any) -> int | None:
    """Return the size of the context that a report of the last view leads to."""
    hooks = controller(100_000)
    hooks.transform_context_sync(talk(4))
    hooks.report_usage(usage)
    state = hooks.state()
    return None if state.is_estimate else state.context_tokens


OPENAI = {
    "prompt_tokens": 1_900,
    "completion_tokens": 50,
    "total_tokens": 1_950,
    "prompt_tokens_details": {"cached_tokens": 900},
}
ANTHROPIC = {"input_tokens": 1_000, "cache_read_input_tokens": 900, "output_tokens": 50}


@pytest.mark.parametrize("usage", [Usage(input_tokens=1_900, output_tokens=50), OPENAI, ANTHROPIC])
def test_takes_a_usage_or_the_providers_own_dict(usage: Any) -> None:
    assert count_after(usage) == 1_900


def test_takes_the_objects_of_the_providers_clients() -> None:
    openai = pytest.importorskip("openai").types.CompletionUsage(**OPENAI)
    anthropic = pytest.importorskip("anthropic").types.Usage(**ANTHROPIC)
    assert count_after(openai) == count_after(anthropic) == 1_900
    cached = Usage(input_tokens=1_900, output_tokens=50, cache_read_tokens=900)
    assert usage_from_openai(openai) == usage_from_anthropic(anthropic) == cached


@pytest.mark.parametrize("usage", [None, {}, {"completion_tokens": 5}])
def test_nothing_counted_is_no_report(usage: Any) -> None:
    assert count_after(usage) is None
    assert usage_from_openai(usage) is None
    assert usage_from_anthropic(None) is None


@pytest.mark.parametrize("function", [count_after, usage_from_openai, usage_from_anthropic])
@pytest.mark.parametrize("usage", [1_900, "1900", [OPENAI], object()])
def test_anything_else_is_an_error_that_names_the_function(function: Callable[[Any], object], usage: Any) -> None:
    name = "report_usage" if function is count_after else function.__name__
    with pytest.raises(TypeError, match=rf"{name}\(\) takes .*not {type(usage).__name__}: pass `response.usage`"):
        function(usage)


@pytest.mark.parametrize(("beyond", "is_compacted"), [(0, False), (1, True)])
@pytest.mark.parametrize("how", ["reported", "in the answer"])
def test_only_usage_above_the_window_tells_that_the_provider_dropped_something(
    how: str, beyond: int, is_compacted: bool
) -> None:
    """The next view is compacted then, though the settings leave the size alone."""
    hooks = controller(8_192, summarizer=Scripted("- facts"), settings=CompactionSettings(auto_compact=False))
    messages = talk(8)
    hooks.transform_context_sync(messages)
    counted = {"prompt_tokens": 8_192 + beyond, "completion_tokens": 0}
    answer = assistant("Well.")
    if how == "reported":
        hooks.report_usage(counted)
    else:
        answer = {**answer, "usage": counted}
    messages = [*messages, answer, user("And?")]
    assert (hooks.transform_context_sync(messages) is not messages) is is_compacted
