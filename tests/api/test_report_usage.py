"""`session.report_usage()`, `usage_from_openai()`, `usage_from_anthropic()`: the count of a provider, in any form a host has it.

`session.state()`: how full the context is; `session.history()`: the records that the present list shows, oldest first.
"""

from collections.abc import Callable
from typing import Any

import pytest

from compaction_hooks import CompactionController, CompactionFinished, CompactionSettings, Usage
from compaction_hooks.events import CompactionEvent
from compaction_hooks.tokens import usage_from_anthropic, usage_from_openai
from tests.conversations import (
    Chat,
    Scripted,
    assistant,
    controller,
    one_task,
    prose,
    step,
    steps,
    summarizing,
    system,
    talk,
    tokens_of,
    user,
)


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


MODEL = "gpt-9"


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


def test_a_report_is_believed_and_only_later_messages_are_estimated() -> None:
    hooks = controller(200_000)
    messages = talk(10)
    hooks.report_usage(Usage(input_tokens=9_000), hooks.transform_context_sync(messages))
    assert (tokens_of(hooks), hooks.state().is_estimate) == (9_000, False)
    alone = controller(200_000)
    alone.transform_context_sync([user(prose(500))])
    hooks.transform_context_sync([*messages, user(prose(500))])
    assert tokens_of(hooks) - 9_000 == pytest.approx(tokens_of(alone), rel=0.3)
    assert hooks.state().is_estimate


def test_a_report_from_before_a_compaction_is_forgotten() -> None:
    """Kept messages carry old usage; it measured a larger view."""
    events: list[CompactionEvent] = []
    hooks = controller(8_192, summarizer=Scripted(), events=events)
    messages = [system(), *talk(10)]
    hooks.report_usage(Usage(input_tokens=8_000), hooks.transform_context_sync(messages))
    messages = [*messages, *talk(1, first=10)]
    hooks.transform_context_sync(messages)
    hooks.transform_context_sync(messages)
    assert sum(isinstance(event, CompactionFinished) for event in events) == 1
    assert tokens_of(hooks) < 8_000


def test_a_report_of_another_model_is_not_believed() -> None:
    hooks: CompactionController[Chat] = CompactionController(model="gpt-4.1", context_window=200_000)
    view = hooks.transform_context_sync(talk(5), model="gpt-4.1")
    hooks.report_usage(Usage(input_tokens=99_000), view, model="claude-sonnet-4-5")
    assert hooks.state().is_estimate
    hooks.report_usage(Usage(input_tokens=3_000), view, model="gpt-4.1-2025-04-14")
    assert tokens_of(hooks) == 3_000


def test_a_hidden_prefix_is_learned_and_counts_after_a_compaction_too() -> None:
    """A system prompt and tools that the host does not pass show up in its reports."""
    hidden = 3_000
    plain, learned = controller(16_384), controller(16_384)
    messages = [user("go"), *steps(6, 300)]
    for hooks in (plain, learned):
        view = hooks.transform_context_sync(messages)
    learned.report_usage(Usage(input_tokens=tokens_of(plain) + hidden), view)
    compacted = [learned.compact_sync(messages, keep_recent_tokens=400).tokens_after]
    compacted.append(plain.compact_sync(messages, keep_recent_tokens=400).tokens_after)
    assert compacted[0] - compacted[1] == pytest.approx(hidden, rel=0.2)


def test_the_ratio_of_a_model_is_learned_from_growth() -> None:
    hooks = controller(200_000)
    messages: list[Chat] = [user("go")]
    estimate = controller(200_000)
    for n in range(12):
        messages = [*messages, *step(n, 1_500)]
        estimate.transform_context_sync(messages)
        real = int(tokens_of(estimate) * 1.4)
        view = hooks.transform_context_sync(messages)
        if n > 3:
            assert tokens_of(hooks) == pytest.approx(real, rel=0.12)
        hooks.report_usage(Usage(input_tokens=real), view)


def test_before_the_first_call_only_the_window_is_known() -> None:
    state = controller(8_000).state()
    assert (state.context_tokens, state.fraction, state.context_window) == (None, None, 8_000)


def test_the_fraction_is_the_part_of_the_window_that_the_context_takes() -> None:
    hooks = controller(8_000)
    hooks.transform_context_sync([system(), *talk(2)])
    hooks.report_usage(Usage(input_tokens=2_000, output_tokens=5))
    state = hooks.state()
    assert (state.context_tokens, state.is_estimate, state.fraction) == (2_000, False, 0.25)


def test_history_tells_each_compaction_with_its_sizes() -> None:
    hooks = summarizing()
    assert hooks.history() == []
    messages = one_task()
    hooks.transform_context_sync(messages)
    messages = [*messages, *steps(14, 300, first=22)]
    hooks.compact_sync(messages)
    told = hooks.history()
    assert [record.reason for record in told] == ["threshold", "manual"]
    assert [record.compaction_count for record in told] == [1, 2]
    assert all(record.tokens_after < record.tokens_before for record in told)
    assert told[0].id == told[1].parent
    hooks.undo()
    assert [record.id for record in hooks.history()] == [told[0].id]
