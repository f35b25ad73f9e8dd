"""Calls in which no compaction is due, and reasons for one."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from compaction_hooks import CompactionController, CompactionFinished, CompactionSettings, CompactionSkipped, Usage
from compaction_hooks.events import CompactionEvent
from compaction_hooks.formats import AnthropicFormat
from compaction_hooks.stores import MemoryStore
from tests.conversations import (
    PLAIN,
    Chat,
    Controller,
    Scripted,
    assistant,
    controller,
    elsewhere,
    prose,
    step,
    steps,
    system,
    texts,
    tokens_of,
    tool,
    user,
)

MODEL = "gpt-9"


def conversation(count: int = 10, tokens: int = 100) -> list[Chat]:
    return [system(), user("Port the parser."), *steps(count, tokens)]


def plain(**more: Any) -> Controller:
    """Return a controller with a large window, so that no compaction is due."""
    return controller(200_000, summarizer=Scripted(), settings=PLAIN, model=MODEL, **more)


def after_compaction(messages: list[Chat], keep: int = 500, **more: Any) -> Controller:
    """Return a controller after `compact()` of this list, with a window large enough for the whole list."""
    hooks = plain(**more)
    hooks.transform_context_sync(messages)
    hooks.compact_sync(messages, keep_recent_tokens=keep)
    return hooks


# -- nothing is due


def view_as_list() -> tuple[Controller, list[Chat]]:
    """Return a controller, and the view of its `compact()` as the host's new list."""
    hooks = plain()
    return hooks, hooks.compact_sync(conversation(), keep_recent_tokens=300).messages


def beyond(settings: CompactionSettings) -> tuple[Controller, list[Chat]]:
    """Return a list above the threshold of a controller that does not compact at the threshold."""
    return controller(8_192, summarizer=Scripted(), settings=settings), conversation(26, 300)


def with_usage() -> tuple[Controller, list[Chat]]:
    counted: Chat = {**assistant("done"), "usage": {"prompt_tokens": 2_000, "completion_tokens": 10}}
    return plain(), [*conversation(), counted]


@pytest.mark.parametrize(
    "begun",
    [
        pytest.param(lambda: (plain(), conversation()), id="nothing was ever compacted"),
        pytest.param(lambda: (after_compaction(conversation()), conversation()), id="compacted"),
        pytest.param(view_as_list, id="a list that begins with a summary"),
        pytest.param(lambda: (plain(store=MemoryStore()), conversation()), id="a store that was asked"),
        pytest.param(lambda: beyond(CompactionSettings(auto_compact=False)), id="no automatic compaction"),
        pytest.param(lambda: (controller(None), conversation()), id="an unknown window"),
        pytest.param(with_usage, id="an answer that carries usage"),
        pytest.param(lambda: (plain(), [user("go")]), id="one message"),
    ],
)
def test_while_nothing_is_due_a_list_goes_on_as_it_was(begun: Callable[[], tuple[Controller, list[Chat]]]) -> None:
    hooks, messages = begun()
    view = hooks.transform_context_sync(messages)
    window, size = hooks.state().context_window, tokens_of(hooks)

    def handle_answer() -> None:
        assert hooks.transform_context_sync(messages) == view
        again = [*messages]
        shown = hooks.transform_context_sync(again)
        assert shown == view
        assert (shown is again) == (view is messages)
        assert tokens_of(hooks) == size
        grown = [*messages, user("one thing more"), *([tool("nobody", "?")] if len(messages) > 1 else [])]
        assert hooks.transform_context_sync(grown) == [*view, *grown[len(messages) :]]
        assert tokens_of(hooks) > size
        assert hooks.transform_context_sync([*grown]) == [*view, *grown[len(messages) :]]

    handle_answer()
    assert hooks.state().context_window == window


# -- counted


def report_less(hooks: Controller, messages: list[Chat]) -> int:
    """Report usage for the view of a list, less than estimated, and return it."""
    hooks.transform_context_sync(messages)
    report = tokens_of(hooks) - 300
    hooks.report_usage(Usage(input_tokens=report))
    return report


@pytest.mark.parametrize("options", [{}, {"max_output_tokens": 900}])
@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_view_that_was_counted_can_be_grown_from(is_compacted: bool, options: Mapping[str, Any]) -> None:
    messages = conversation()
    hooks = after_compaction(messages) if is_compacted else plain()
    hooks.transform_context_sync(messages)
    grown = [*messages, user("one thing more")]
    report = report_less(hooks, grown)
    assert tokens_of(hooks) == report
    more = [*grown, user("and another")]
    hooks.transform_context_sync(more, **options)
    assert report < tokens_of(hooks) < report + 20


# -- reasons for a compaction


def small(**more: Any) -> tuple[Controller, list[Chat]]:
    """Return a list of some three quarters of the threshold."""
    hooks = controller(8_192, summarizer=Scripted("- so far"), settings=PLAIN, model=MODEL, **more)
    messages = conversation(12, 300)
    for _ in range(3):
        assert hooks.transform_context_sync(messages) is messages
    return hooks, messages


@pytest.mark.parametrize("is_again", [False, True])
def test_usage_of_the_present_list_makes_it_due(is_again: bool) -> None:
    """Also if it was counted before: a model with another tokenizer may have answered under the same name."""
    hooks, messages = small()
    if is_again:
        hooks.report_usage(Usage(input_tokens=4_000))
        assert hooks.transform_context_sync(messages) is messages
    hooks.report_usage(Usage(input_tokens=8_000))
    assert "- so far" in texts(hooks.transform_context_sync(messages))


def test_the_window_learned_in_another_conversation_counts() -> None:
    hooks, messages = small()
    other = hooks.session("other")
    other.transform_context_sync(messages)
    error = RuntimeError("This model's maximum context length is 4096 tokens.")
    assert "- so far" in texts(other.recover_sync(error, messages))
    assert "- so far" in texts(hooks.transform_context_sync(messages))


def test_the_ratio_learned_in_another_conversation_counts() -> None:
    hooks, messages = small()
    other = conversation(1, 100)
    session = hooks.session("other")
    for count in (1, 5):
        grown = [*other, *steps(count, 300, first=1)]
        view = session.transform_context_sync(grown)
        found = session.state().context_tokens
        assert found is not None
        session.report_usage(Usage(input_tokens=2 * found), view)
    session.state()  # learns from the reports
    assert "- so far" in texts(hooks.transform_context_sync(messages))


def test_a_request_that_is_current_again_after_a_rewind_is_shown_until_there_is_another() -> None:
    """The record was made while another request was the current one."""
    messages = [*conversation(), user("Now the lexer."), *steps(1, 100, first=20)]
    hooks = after_compaction(messages, keep=400)
    assert messages[1] not in hooks.transform_context_sync(messages)
    back = messages[:-3]
    for _ in range(2):
        view = hooks.transform_context_sync(back)
        assert messages[1] in view
        assert view == elsewhere(hooks, back) != back
    grown = [*back, assistant("hm"), user("Now the printer.")]
    view = hooks.transform_context_sync(grown)
    assert messages[1] not in view
    assert view == elsewhere(hooks, grown)


def test_a_list_rewound_to_where_a_record_ends_has_its_summary_again_when_it_goes_on() -> None:
    """At that very length the record would cover the whole list, so it does not apply."""
    messages = conversation()
    hooks = after_compaction(messages)
    shown = set(map(id, hooks.transform_context_sync(messages)))
    end = next(index for index in range(2, len(messages)) if id(messages[index]) in shown)
    for kept in range(end - 3, end + 3):
        back = messages[:kept]
        for _ in range(2):
            assert hooks.transform_context_sync(back) == elsewhere(hooks, back)
        for more in range(kept, kept + 4):
            assert hooks.transform_context_sync(messages[:more]) == elsewhere(hooks, messages[:more])


def test_reasoning_alone_at_the_end_does_not_hide_that_a_record_applies() -> None:
    """It belongs to the block that follows it: the same messages were one block fewer in the call before."""
    format = AnthropicFormat()
    thinking: Chat = {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}]}
    done: Chat = {"role": "assistant", "content": [{"type": "text", "text": "done"}]}
    said: list[Chat] = [user(prose(500)), done, user(prose(500)), done, user("go"), thinking, done]
    hooks = CompactionController(context_window=100_000, format=format, summarizer=Scripted())
    view = hooks.compact_sync(said, keep_recent_tokens=0).messages
    assert view != said
    for end in range(4, len(said)):
        hooks.transform_context_sync(said[:end])
    assert hooks.transform_context_sync(said) == view


@pytest.mark.parametrize(("result_tokens", "is_compacted"), [(1_000, False), (2_000, True)])
def test_a_due_compaction_waits_only_while_the_list_surely_fits(result_tokens: int, is_compacted: bool) -> None:
    """A model that counted half of the estimate so far may count the next text in full."""
    events: list[CompactionEvent] = []
    hooks = controller(model=MODEL, summarizer=Scripted(), events=events)
    short = [user("go")]
    for number in range(8):
        session = hooks.session(f"short {number}")
        for messages, counted in ((short, 50), ([*short, assistant("ok"), user(prose(4_000))], 2_050)):
            session.transform_context_sync(messages)
            session.report_usage(Usage(input_tokens=counted))
        session.state()  # learns from the reports

    session, request = hooks.session("long"), [system(), user(prose(8_500))]
    session.transform_context_sync(request)
    session.report_usage(Usage(input_tokens=6_500))  # above the threshold, and nothing of it can go
    session.transform_context_sync([*request, *step(1, result_tokens)])
    assert isinstance(events[-1], CompactionFinished if is_compacted else CompactionSkipped)
