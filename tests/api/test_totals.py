"""`state().totals`: what the calls of this process sent, what they would have sent without compaction, and what that cost."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compaction_hooks import SessionTotals, Summary, Usage
from compaction_hooks.stores import MemoryStore
from compaction_hooks.tokens.windows import find_prices
from tests.cases import folded
from tests.conversations import (
    PLAIN,
    Chat,
    Controller,
    Scripted,
    above_threshold,
    assistant,
    controller,
    summarizing,
    system,
    talk,
    tokens_of,
    user,
)
from tests.too_long import Answers, TooLongError, answer_with

COST = Usage(input_tokens=900, output_tokens=40)
NOTHING = Usage(input_tokens=0)


def told() -> Scripted:
    return Scripted(Summary("## Goal\n- go on", usage=COST))


def totals(hooks: Controller) -> SessionTotals:
    return hooks.state().totals


def count(number: int) -> dict[str, Any]:
    """Return the usage of a call as OpenAI tells it: half of the input comes from the cache."""
    tokens = 1_000 + 500 * number
    return {
        "prompt_tokens": tokens,
        "completion_tokens": 60,
        "prompt_tokens_details": {"cached_tokens": tokens // 2},
    }


# -- usage


def by_call(hooks: Controller, messages: list[Chat], usage: dict[str, Any]) -> Chat:
    hooks.call_sync(messages, lambda view: {"usage": usage, "model": "gpt-5"})
    return assistant("Yes.")


def by_stream(hooks: Controller, messages: list[Chat], usage: dict[str, Any]) -> Chat:
    """The first chunk tells the input, and the last one everything."""

    def send(view: list[Chat]) -> Iterator[dict[str, Any]]:
        return iter([{"usage": {"prompt_tokens": usage["prompt_tokens"]}}, {"text": "Yes."}, {"usage": usage}])

    assert len([*hooks.call_sync(messages, send)]) == 3
    return assistant("Yes.")


def by_stream_of_anthropic(hooks: Controller, messages: list[Chat], usage: dict[str, Any]) -> Chat:
    """The first chunk tells the input, and the last one the output alone."""
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    begun = {
        "input_tokens": usage["prompt_tokens"] - cached,
        "cache_read_input_tokens": cached,
        "output_tokens": 1,
    }
    ended = {"output_tokens": usage["completion_tokens"]}
    chunks: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"model": "gpt-5", "usage": begun}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": ended},
        {"type": "message_stop"},
    ]
    assert len([*hooks.call_sync(messages, lambda view: iter(chunks))]) == 3
    return assistant("Yes.")


def by_report(hooks: Controller, messages: list[Chat], usage: dict[str, Any]) -> Chat:
    view = hooks.transform_context_sync(messages)
    hooks.report_usage({"prompt_tokens": 7}, view=[*view])
    hooks.report_usage(usage, view=view)
    return assistant("Yes.")


def by_list(hooks: Controller, messages: list[Chat], usage: dict[str, Any]) -> Chat:
    hooks.transform_context_sync(messages)
    return {**assistant("Yes."), "usage": usage}


TELL = {
    "call": by_call,
    "a stream": by_stream,
    "a stream of Anthropic": by_stream_of_anthropic,
    "report_usage": by_report,
    "the answers in the list": by_list,
}


@folded("tell", TELL)
def test_the_providers_usage_takes_the_place_of_the_size_of_the_view(
    tell: Callable[[Controller, list[Chat], dict[str, Any]], Chat],
) -> None:
    hooks, messages = controller(200_000, model="gpt-5"), [system()]
    for number in range(4):
        messages.append(user(f"Question {number}."))
        messages.append(tell(hooks, messages, count(number)))
        assert totals(hooks).calls == number + 1
        assert totals(hooks).is_estimate == (tell is by_list)
    messages.append(user("And now?"))
    hooks.transform_context_sync(messages)

    newest, last = totals(hooks), tokens_of(hooks)
    assert (newest.calls, newest.is_estimate) == (5, True)
    assert newest.tokens_sent == newest.tokens_without_compaction == 1_000 + 1_500 + 2_000 + 2_500 + last
    prices = find_prices("gpt-5")
    if prices is not None:
        paid = (3_500 + last) * prices.input + 3_500 * prices.cached_input + 240 * prices.output
        assert newest.dollars == pytest.approx(paid / 1e6)


# -- tokens


def test_what_the_whole_list_would_have_had_is_counted_too() -> None:
    """Clearing, a summary and its update against the same calls without compaction."""
    compacting, whole = controller(8_192, summarizer=told()), controller(1_000_000)
    messages, sent, full = [system()], 0, 0
    for number in range(40):
        messages += talk(1, first=number)
        for hooks in (compacting, whole):
            hooks.transform_context_sync(messages)
        sent += tokens_of(compacting)
        full += tokens_of(whole)
    assert compacting.state().compaction_count > 1
    assert totals(whole).tokens_sent == totals(whole).tokens_without_compaction == full
    assert (totals(compacting).tokens_sent, totals(compacting).tokens_without_compaction) == (sent, full)
    assert full > 2 * sent
    assert totals(compacting).summary_usage == compacting.state().summary_usage != NOTHING


def test_a_stored_list_lacks_what_its_summary_covers() -> None:
    hooks = controller(8_192, summarizer=told())
    stored = hooks.compact_sync(above_threshold()).messages
    hooks.transform_context_sync(stored)
    assert (totals(hooks).calls, totals(hooks).tokens_sent) == (1, tokens_of(hooks))
    assert totals(hooks).tokens_sent == totals(hooks).tokens_without_compaction


# -- calls

TOO_LONG = TooLongError(8_000, 7_000)


def recovered(hooks: Controller) -> None:
    hooks.transform_context_sync(talk(10))
    hooks.recover_sync(TOO_LONG, talk(10))


def failed(hooks: Controller) -> None:
    with pytest.raises(KeyError):
        hooks.call_sync(talk(10), Answers(KeyError("down")))


def handed_out_and_called(hooks: Controller) -> None:
    """As adapters do that make the view in one place and send it in another; the second list is a copy."""
    hooks.transform_context_sync(talk(10))
    hooks.call_sync(talk(10), Answers("yes"))


def looked_at(hooks: Controller) -> None:
    """As a status line does after an undo: the next list has no answer to that view."""
    hooks.call_sync(talk(10), Answers("yes"))
    hooks.transform_context_sync([*talk(10), assistant("yes")])
    hooks.call_sync([*talk(10), assistant("yes"), user("Go on.")], Answers("no"))


def asked_twice(hooks: Controller) -> None:
    hooks.call_sync(talk(10), Answers("yes"))
    hooks.call_sync(talk(10), Answers("no"))


def previewed(hooks: Controller) -> None:
    hooks.load_sync(talk(10))
    hooks.compact_sync(talk(10), preview=hooks.preview_sync(talk(10)))
    hooks.undo()


@folded(
    "calls, act",
    {
        "a view": (1, lambda hooks: hooks.transform_context_sync(talk(10))),
        "a view that was too long, and a smaller one": (1, recovered),
        "a call": (1, lambda hooks: hooks.call_sync(talk(10), Answers("yes"))),
        "a call that was too long, and a smaller one": (
            1,
            lambda hooks: hooks.call_sync(talk(10), Answers(TOO_LONG, "yes")),
        ),
        "an answer that the window cut, and a whole one": (
            2,
            lambda hooks: hooks.call_sync(
                talk(10), Answers(answer_with("model_context_window_exceeded", 7_000, 9), answer_with("stop", 3_000, 9))
            ),
        ),
        "a view, and a call of the same list": (1, handed_out_and_called),
        "two calls of the same list": (2, asked_twice),
        "a view between two calls": (2, looked_at),
        "a call that fails": (0, failed),
        "load, preview, compact, undo": (0, previewed),
    },
)
def test_a_call_is_a_view_for_a_request_that_is_not_known_to_have_failed(
    calls: int, act: Callable[[Controller], object]
) -> None:
    hooks = controller(8_192, summarizer=told(), settings=PLAIN)
    act(hooks)
    assert totals(hooks).calls == calls
    assert (totals(hooks).tokens_sent > 0) == (calls > 0)


def test_they_are_of_this_process_since_the_session_was_opened() -> None:
    store = MemoryStore()
    first = summarizing(told(), store=store)
    first.transform_context_sync(above_threshold())
    second = controller(8_192, store=store)
    second.transform_context_sync(above_threshold())
    assert (first.state().summary_usage, totals(first).summary_usage) == (COST, COST)
    assert (second.state().summary_usage, totals(second).summary_usage) == (COST, NOTHING)
    assert totals(second).calls == 1
    assert totals(second).tokens_sent < totals(second).tokens_without_compaction

    first.forget_sync("default")
    assert totals(first) == totals(controller(8_192))
    assert totals(first).calls == totals(first).tokens_sent == totals(first).tokens_without_compaction == 0


# -- dollars


def test_summaries_are_paid_for_and_a_model_without_prices_costs_nothing_known() -> None:
    prices = find_prices("gpt-5")
    if prices is None:
        pytest.skip("no prices are known without genai-prices")
    hooks = summarizing(told(), model="gpt-5")
    assert totals(hooks).dollars == 0
    hooks.compact_sync(above_threshold())
    paid = (900 * prices.input + 40 * prices.output) / 1e6
    assert totals(hooks).dollars == pytest.approx(paid)

    hooks.transform_context_sync(above_threshold(), model="claude-sonnet-5")
    other = find_prices("claude-sonnet-5")
    assert other is not None
    sent = tokens_of(hooks) * other.input
    assert totals(hooks).dollars == pytest.approx((sent + 900 * other.input + 40 * other.output) / 1e6)
    hooks.transform_context_sync(above_threshold(), model="my-own-model")
    assert totals(hooks).dollars is None
