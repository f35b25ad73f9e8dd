"""`transform_context` and `transform_context_sync`: when a list is compacted, and the guarantees about every view."""

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any, Literal, Never

from compaction_hooks import CallOptions, CompactionFinished, CompactionSettings
from compaction_hooks.events import CompactionEvent, CompactionFailed
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.messages import Message
from compaction_hooks.tokens import CharacterEstimator, estimate_messages_tokens
from tests.cases import folded
from tests.conversations import (
    PLAIN,
    Chat,
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
    trigger = CompactionSettings().budget(8_192).trigger
    at = of_tokens(trigger)
    assert size(at) == trigger
    assert controller(8_192).transform_context_sync(at) is at
    above = [*at, assistant("."), user(".")]
    assert controller(8_192).transform_context_sync(above) is not above


# -- what


class HeavyFrame(CharacterEstimator):
    """Finds a summary so much larger in its message than alone: of a long text samples are read, and those of the two differ."""

    def __init__(self, times: int = 2) -> None:
        object.__setattr__(self, "times", times)

    times: int

    def estimate_message_tokens(self, message: Message, /) -> int:
        tokens = super().estimate_message_tokens(message)
        return self.times * tokens if "<summary>" in message.text else tokens


def test_a_summary_that_turns_out_larger_than_its_allowance_does_not_take_the_view_above_the_target() -> None:
    summary = f"## Goal\n- {prose(580)}"
    messages = [system(), user("go"), *steps(30, 450)]
    hooks = controller(8_192, summarizer=Scripted(summary), estimator=HeavyFrame())
    view = hooks.transform_context_sync(messages)
    record = hooks.history()[-1]
    assert summary.strip() in record.summary
    assert record.tokens_after <= CompactionSettings().budget(8_192).target
    assert record.reductions
    assert len(view) > 8


def test_kept_messages_are_not_shortened_in_vain() -> None:
    """If shortening would not reach the target either, and the view fits as it is, it stays whole."""
    hooks = controller(8_192, summarizer=Scripted(f"## Goal\n- {prose(580)}"), estimator=HeavyFrame(4))
    hooks.transform_context_sync([system(), user("go"), *steps(60, 130)])
    record, budget = hooks.history()[-1], CompactionSettings().budget(8_192)
    assert record.summary
    assert budget.target < record.tokens_after < budget.trigger
    assert record.reductions == ()


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


def test_a_context_that_stays_above_the_threshold_is_not_compacted_again_and_again() -> None:
    """No second compaction before the context has grown by a fifth, as long as it fits the window."""
    asked = Scripted("- short")
    messages = [system(prose(5_500)), user("go"), *steps(6, 60)]
    hooks = controller(8_192, summarizer=asked, settings=PLAIN)
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


# -- the last resort: texts


def test_an_older_message_next_to_the_request_is_shortened_when_nothing_else_fits() -> None:
    """No boundary lies between the two; the request is the host's own object."""
    events: list[CompactionEvent] = []
    messages = [system(), user(prose(10_000)), user("Now this: " + prose(1_000))]
    view = controller(8_192, events=events).transform_context_sync(messages)
    assert size(view) <= CompactionSettings().budget(8_192).trigger
    assert [view[0] is messages[0], view[2] is messages[2]] == [True, True]
    assert "characters left out" in str(view[1]["content"])
    assert not any(isinstance(event, CompactionFailed) for event in events)


def test_a_long_answer_in_the_last_step_is_shortened_and_the_summary_stays() -> None:
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


class Uncopied(dict[str, str]):
    """A schema that cannot be copied, such as one with a lock in it."""

    def __deepcopy__(self, memo: object) -> Never:
        raise TypeError("cannot pickle")


PROMPT, SCHEMA = (
    {"type": "text", "text": "Be careful."},
    {"name": "read", "parameters": {"path": {"description": "A path."}}},
)
LONG = prose(13_500)


@folded(
    "name, value, change",
    {
        "a block of the system prompt": ("system", [PROMPT], lambda value: value[0].update(text=LONG)),
        "a block added": ("system", [PROMPT], lambda value: value.append({"type": "text", "text": LONG})),
        "a tool added": ("tools", [SCHEMA], lambda value: value.append({"name": "write", "description": LONG})),
        "a description deep in a schema": (
            "tools",
            [SCHEMA],
            lambda value: value[0]["parameters"]["path"].update(description=LONG),
        ),
        "what cannot be copied": ("tools", Uncopied(name="read"), lambda value: value.update(description=LONG)),
    },
)
def test_what_the_host_changes_in_place_next_to_its_list_is_measured_again(
    name: Literal["system", "tools"], value: Any, change: Callable[[Any], object]
) -> None:
    session, messages = controller(16_000).session("one"), [user("go"), *talk(11)]
    given = Uncopied(value) if isinstance(value, Uncopied) else deepcopy(value)
    options = CallOptions(system=given) if name == "system" else CallOptions(tools=given)
    assert session.transform_context_sync(messages, **options) is messages
    before = session.state().context_tokens or 0
    change(given)
    view = session.transform_context_sync(messages, **options)
    assert before + 13_500 > 16_000 >= (session.state().context_tokens or 0) > 13_500
    assert size(view) < size(messages)
