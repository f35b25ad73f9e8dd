"""The controller at work: when it compacts, and its guarantees about every view."""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Mapping

import pytest

from compaction_hooks import (
    CompactionController,
    CompactionFinished,
    CompactionSettings,
    CompactionSkipped,
    ContextOverflowError,
    Usage,
)
from compaction_hooks.errors import FormatError
from compaction_hooks.events import CompactionEvent, CompactionFailed
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.messages import Message
from compaction_hooks.tokens import CharacterEstimator, estimate_messages_tokens
from tests.conversations import (
    Scripted,
    assistant,
    call,
    controller,
    prose,
    step,
    steps,
    system,
    talk,
    texts,
    tool,
    user,
)

Chat = Mapping[str, object]


def size(messages: list[Chat]) -> int:
    """Return the estimate that the controller uses too."""
    format = OpenAIChatFormat()
    return estimate_messages_tokens([p for m in messages for p in format.read(m)], CharacterEstimator())


def of_tokens(tokens: int) -> list[Chat]:
    """Return a conversation of exactly so many estimated tokens."""
    messages: list[Chat] = talk(tokens // 600)
    filler, goal = "", tokens
    messages.append(user(filler))
    for chunk in ("\u4e2d" * 64, "\u4e2d", "t"):
        while size([*messages[:-1], user(filler + chunk)]) <= goal:
            filler += chunk
    return [*messages[:-1], user(filler)]


# -- when


def test_the_threshold_is_strict() -> None:
    """At the trigger nothing happens; one token above it does."""
    trigger = CompactionSettings().budget(8_192).trigger
    at = of_tokens(trigger)
    assert size(at) == trigger
    assert controller(8_192).transform_context_sync(at) is at
    above = [*at, assistant("."), user(".")]
    assert controller(8_192).transform_context_sync(above) is not above


async def test_the_hook_has_the_form_frameworks_call() -> None:
    """Async, positional (messages, signal), returns a list."""
    messages = talk(2)
    assert await controller(8_192).transform_context(messages, None) is messages


def test_usage_and_a_large_tool_result_are_caught_before_the_next_call() -> None:
    """180,000 reported, then 100 KB of tool output: found above the window before the call, not after."""
    events: list[CompactionEvent] = []
    hooks = controller(200_000, events=events)
    messages = [system(), user("go"), *steps(30)]
    view = hooks.transform_context_sync(messages)
    hooks.report_usage(Usage(input_tokens=180_000), view)
    messages = [*messages, assistant(None, call("big")), tool("big", "x = 1\n" * 17_000)]
    hooks.transform_context_sync(messages)
    assert any(isinstance(event, CompactionFinished) for event in events)


def test_it_compacts_inside_a_turn_without_new_user_input() -> None:
    """The check happens before every model call, so multi-step tool loops are covered."""
    hooks = controller(8_192)
    messages = [system(), user("go")]
    sizes = []
    for n in range(40):
        messages = [*messages, *step(n, 400)]
        sizes.append(size(hooks.transform_context_sync(messages)))
    assert max(sizes) <= CompactionSettings().budget(8_192).trigger
    assert hooks.state().compaction_count >= 3


def test_one_controller_compacts_once_for_one_list() -> None:
    """Asked again with the same list it gives the same view and compacts no further."""
    events: list[CompactionEvent] = []
    hooks = controller(8_192, events=events)
    messages = [system(), user("go"), *steps(20, 400)]
    first, second = hooks.transform_context_sync(messages), hooks.transform_context_sync(messages)
    assert first == second
    assert sum(isinstance(event, CompactionFinished) for event in events) == 1


def test_a_message_that_cannot_be_read_names_its_field() -> None:
    with pytest.raises(FormatError, match="role"):
        controller().transform_context_sync([{"content": "no role"}])


# -- what


def test_a_view_holds_at_most_the_target_after_a_compaction() -> None:
    """60 % of the trigger, so that the next compaction is far away."""
    messages = [system(), user("go"), *steps(40, 150)]
    hooks = controller(8_192)
    view = hooks.transform_context_sync(messages)
    assert size(view) <= CompactionSettings().budget(8_192).target


class HeavyFrame(CharacterEstimator):
    """Finds a summary so much larger in its message than alone: of a long text samples are read, and those of the two differ."""

    def __init__(self, times: int = 2) -> None:
        object.__setattr__(self, "times", times)

    times: int

    def estimate_message_tokens(self, message: Message, /) -> int:
        tokens = super().estimate_message_tokens(message)
        return self.times * tokens if "<summary>" in message.text else tokens


def test_a_summary_that_turns_out_larger_than_its_allowance_does_not_take_the_view_above_the_target() -> None:
    """The kept messages are shortened by as much."""
    summary = f"## Goal\n- {prose(580)}"
    messages = [system(), user("go"), *steps(30, 450)]
    hooks = controller(8_192, summarizer=Scripted(summary), estimator=HeavyFrame())
    view = hooks.transform_context_sync(messages)
    record = hooks.history()[-1]
    assert summary.strip() in record.summary
    assert record.tokens_after <= CompactionSettings().budget(8_192).target
    assert record.reductions
    assert len(view) > 8


def test_what_is_kept_is_not_shortened_in_vain() -> None:
    """If shortening would not reach the target either, and the view fits as it is, it stays whole."""
    hooks = controller(8_192, summarizer=Scripted(f"## Goal\n- {prose(580)}"), estimator=HeavyFrame(4))
    hooks.transform_context_sync([system(), user("go"), *steps(60, 130)])
    record, budget = hooks.history()[-1], CompactionSettings().budget(8_192)
    assert record.summary
    assert budget.target < record.tokens_after < budget.trigger
    assert record.reductions == ()


def test_the_current_request_is_pinned_when_it_lies_before_the_cut() -> None:
    """The user's words survive verbatim, as the same object, in front of the kept messages."""
    request = user("Port the parser, and never touch the public API of tokens.py.")
    messages = [system(), user("hello"), assistant("hi"), request, *steps(40, 200)]
    view = controller(8_192).transform_context_sync(messages)
    assert view[2] is request


def test_the_hosts_list_is_never_changed() -> None:
    messages = [system(), user("go"), *steps(40, 300)]
    before = copy.deepcopy(messages)
    controller(8_192).transform_context_sync(messages)
    assert messages == before


def test_the_prefix_is_byte_identical_between_compactions() -> None:
    """Prompt caches hold until the next compaction."""
    hooks = controller(8_192)
    messages = [system(), user("go"), *steps(20, 400)]
    last = json.dumps(hooks.transform_context_sync(messages))
    count = hooks.state().compaction_count
    for n in range(20, 24):
        messages = [*messages, *step(n, 100)]
        view = json.dumps(hooks.transform_context_sync(messages))
        assert view.startswith(last[:-1])
        last = view
    assert hooks.state().compaction_count == count


def test_a_result_larger_than_the_window_is_shortened() -> None:
    """One huge result in the last step; the model has not seen it yet, so its head and tail stay."""
    huge = "first line\n" + prose(30_000) + "\nlast line"
    messages = [user("go"), assistant(None, call("1")), tool("1", huge)]
    view = controller(8_192).transform_context_sync(messages)
    assert size(view) <= CompactionSettings().budget(8_192).trigger
    shown = str(view[-1]["content"])
    assert shown.startswith("first line")
    assert shown.endswith("last line")
    assert "characters left out" in shown


def test_huge_arguments_are_shortened_and_stay_json() -> None:
    """Arguments count and can be shortened like results."""
    messages = [user("go"), assistant(None, call("1", "write", path="a", content=prose(30_000))), tool("1", "written")]
    view = controller(8_192).transform_context_sync(messages)
    assert size(view) <= CompactionSettings().budget(8_192).trigger
    calls = view[1]["tool_calls"]
    assert isinstance(calls, list)
    assert json.loads(calls[0]["function"]["arguments"])["path"] == "a"


def test_what_cannot_be_made_to_fit_comes_back_as_it_was_and_loudly(caplog: pytest.LogCaptureFixture) -> None:
    """System prompt and request alone exceed the window."""
    events: list[CompactionEvent] = []
    messages = [system(prose(9_000)), user("go"), assistant("a"), user("b")]
    with caplog.at_level(logging.ERROR, "compaction_hooks"):
        assert controller(8_192, events=events).transform_context_sync(messages) is messages
    failed = [event for event in events if isinstance(event, CompactionFailed)]
    assert failed[0].is_over_window
    assert "system prompt" in failed[0].error
    assert caplog.records


def test_a_context_that_stays_above_the_threshold_is_not_compacted_again_and_again() -> None:
    """No second compaction before the context has grown by a fifth, as long as it fits the window."""
    asked = Scripted("- short")
    messages = [system(prose(5_500)), user("go"), *steps(6, 60)]
    hooks = controller(8_192, summarizer=asked, settings=CompactionSettings(clear_tool_results=False))
    for n in range(6, 14):
        messages = [*messages, *step(n, 5)]
        hooks.transform_context_sync(messages)
    assert len(asked.requests) <= 2


def test_a_summary_that_gains_too_little_is_thrown_away() -> None:
    """Its view must be smaller by a tenth; the next strategy may do better."""
    events: list[CompactionEvent] = []
    messages = [system(prose(5_000)), user("go"), assistant(prose(900)), user(prose(300))]
    asked = Scripted("- a long-winded summary\n" + prose(300))
    view = controller(8_192, summarizer=asked, events=events).transform_context_sync(messages)
    assert len(asked.requests) == 1
    assert "long-winded" not in texts(view)
    finished = next(event for event in events if isinstance(event, CompactionFinished))
    assert finished.tokens_after <= 0.9 * finished.tokens_before


def test_a_list_that_no_rung_makes_smaller_comes_back_as_it_was() -> None:
    events: list[CompactionEvent] = []
    messages = [system(prose(5_800)), user("go"), assistant("short"), user("x"), assistant("y"), user(prose(500))]
    assert controller(8_192, events=events).transform_context_sync(messages) is messages
    assert isinstance(events[-1], CompactionSkipped)


# -- by hand


def test_a_stored_list_without_its_record_is_still_recognised() -> None:
    """By the text's prefix, when the record is gone; the summary is updated, not summarized again."""
    asked = Scripted("the old facts", "the new facts")
    stored = controller(8_192, summarizer=asked).compact_sync([system(), *talk(12)]).messages
    result = controller(8_192, summarizer=asked).compact_sync([*stored, *talk(12, first=12)])
    assert asked.requests[1].previous_summary == "the old facts"
    assert "the old facts" not in asked.requests[1].transcript
    assert "the old facts" not in texts(result.messages)


def test_kept_messages_of_one_compaction_are_not_lost_by_the_next() -> None:
    """The second starts at the end of the first; no message is lost between them."""
    asked = Scripted("one", "two")
    hooks = controller(8_192, summarizer=asked, settings=CompactionSettings(clear_tool_results=False))
    messages = talk(12)
    hooks.compact_sync(messages, keep_recent_tokens=1_500)
    messages = [*messages, *talk(12, first=12)]
    view = hooks.compact_sync(messages, keep_recent_tokens=1_500).messages
    asked_for = [message.text for request in asked.requests for message in request.messages]
    shown = [str(message["content"]) for message in view]
    assert all(str(message["content"]) in [*asked_for, *shown] for message in messages)
    assert len(asked_for) == len(set(asked_for))


# -- the last resort: texts


def test_an_older_message_beside_the_request_is_shortened_when_nothing_else_fits() -> None:
    """No boundary lies between the two; the request is the host's own object."""
    events: list[CompactionEvent] = []
    messages = [system(), user(prose(10_000)), user("Now this: " + prose(1_000))]
    view = controller(8_192, events=events).transform_context_sync(messages)
    assert size(view) <= CompactionSettings().budget(8_192).trigger
    assert [view[0] is messages[0], view[2] is messages[2]] == [True, True]
    assert "characters left out" in str(view[1]["content"])
    assert not any(isinstance(event, CompactionFailed) for event in events)


def test_a_long_answer_in_the_last_step_is_shortened_and_the_summary_stays() -> None:
    """The last step is kept with shortened texts; the summary is not discarded for it."""
    long = assistant("I will explain. " + prose(9_000), call("a"))
    messages = [system(), *talk(4), user("go"), *steps(3), long, tool("a", "ok")]
    hooks = controller(8_192, summarizer=Scripted("the facts so far"))
    view = hooks.transform_context_sync(messages)
    assert size(view) <= CompactionSettings().budget(8_192).trigger
    assert "the facts so far" in texts(view)
    assert str(view[-2]["content"]).startswith("I will explain.")
    assert "characters left out" in str(view[-2]["content"])
    assert view[-2]["tool_calls"] is long["tool_calls"]
    assert any(message is messages[9] or message["content"] == "go" for message in view)
    again = hooks.transform_context_sync([*messages, assistant("next"), user("on")])
    assert json.dumps(again[: len(view)]) == json.dumps(view)


def test_words_are_the_last_thing_to_be_shortened() -> None:
    """Results go down to a line each before a word of the assistant or the user is touched."""
    calls = [call(f"c{n}") for n in range(60)]
    words = prose(500)
    messages = [system(), user("go"), assistant(words, *calls), *[tool(f"c{n}", prose(110)) for n in range(60)]]
    assert size(messages) > 8_192
    view = controller(8_192).transform_context_sync(messages)
    assert size(view) <= 8_192
    assert view[2]["content"] == words


def test_a_pinned_message_is_not_shortened() -> None:
    """A pinned message stays word for word, even if the view then cannot fit."""
    messages = [system(), user(prose(10_000)), user("Now this.")]
    session = controller(8_192).session("pinned")
    session.pin(messages[1])
    assert session.transform_context_sync(messages) is messages


def test_texts_are_shortened_after_an_overflow_too() -> None:
    """The provider says it does not fit; the words of older messages give way, the request does not."""
    messages = [system(), user(prose(10_000)), user("Now this.")]
    sent: list[list[Chat]] = []

    def provider(view: list[Chat]) -> str:
        sent.append(view)
        if len(sent) == 1:
            raise ContextOverflowError("too long", tokens=10_000, window=8_000)
        return "answer"

    assert controller(None).call_sync(messages, provider) == "answer"
    assert "characters left out" in str(sent[1][1]["content"])
    assert sent[1][2] is messages[2]


def test_a_list_without_answers_is_not_read_whole_each_time() -> None:
    reads = 0

    class Counting(OpenAIChatFormat):
        def read(self, message: Chat, /) -> tuple[Message, ...]:
            nonlocal reads
            reads += 1
            return super().read(message)

    hooks = CompactionController(context_window=1_000_000, format=Counting())
    messages = [user(str(n)) for n in range(2_000)]
    hooks.transform_context_sync(messages)
    reads = 0
    hooks.transform_context_sync([*messages, user("one more")])
    assert reads < 100
