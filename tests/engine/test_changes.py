"""History that changes under us: rewinds, forks, edits, copies, changes in place, resumption elsewhere."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from compaction_hooks import (
    Carried,
    CarryRequest,
    CompactionController,
    CompactionFinished,
    CompactionSkipped,
    CompactionStarted,
    ContextOverflowError,
    SummaryRequest,
)
from compaction_hooks.events import CompactionEvent
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.recall import loss_of
from compaction_hooks.testing import check_view
from tests.cases import folded
from tests.conversations import (
    PLAIN,
    Chat,
    Controller,
    Numbered,
    Scripted,
    assistant,
    call,
    controller,
    elsewhere,
    one_task,
    prose,
    steps,
    summarizing,
    system,
    talk,
    texts,
    tool,
    user,
)

# -- which record is used


def test_a_rewind_falls_back_to_the_newest_record_that_is_still_true() -> None:
    hooks = summarizing()
    messages = one_task()
    hooks.transform_context_sync(messages)
    longer = [*messages, *steps(14, 300, first=22)]
    assert "summary number 2" in texts(hooks.transform_context_sync(longer))
    assert "summary number 1" in texts(hooks.transform_context_sync(messages))
    assert "summary number 2" in texts(hooks.transform_context_sync(longer))
    assert [record.compaction_count for record in hooks.history()] == [1, 2]


def test_forks_keep_their_own_records() -> None:
    hooks = summarizing()
    trunk = one_task()
    hooks.transform_context_sync(trunk)
    left = [*trunk, user("Left: now the lexer."), *steps(14, 300, first=100)]
    right = [*trunk, user("Right: now the tests."), *steps(14, 300, first=200)]
    seen = {"left": "", "right": ""}
    for _ in range(2):
        for name, fork in (("left", left), ("right", right)):
            view = texts(hooks.transform_context_sync(fork))
            assert seen[name] in ("", view)
            seen[name] = view
    assert "summary number 2" in seen["left"]
    assert "summary number 3" in seen["right"]
    assert "Right" not in seen["left"]
    assert "Left" not in seen["right"]


def test_the_active_record_does_not_depend_on_the_order_of_import() -> None:
    """Workers on one store load the same records in different orders, and must send the same view."""
    hooks = summarizing()
    messages = one_task()
    hooks.transform_context_sync(messages)
    messages = [*messages, *steps(14, 300, first=22)]
    hooks.transform_context_sync(messages)
    records = hooks.session("default").export_records()
    views: list[str] = []
    for order in (records, records[::-1]):
        other = summarizing()
        other.session("default").import_records(order)
        views.append(texts(other.transform_context_sync(messages)))
    assert views[0] == views[1]


# -- edits


Edit = Callable[[list[Chat]], list[Chat]]


def through_json(messages: list[Chat]) -> list[Chat]:
    return json.loads(json.dumps(messages))  # type: ignore[no-any-return]  # the value that the test put in


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(lambda m: [*m[:4], *m[6:]], id="a step deleted"),
        pytest.param(lambda m: [*m[:2], user("One thing first."), assistant("Yes?"), *m[2:]], id="messages inserted"),
        pytest.param(lambda m: [m[0], user("Port the lexer."), *m[2:]], id="a request edited"),
        pytest.param(lambda m: [*m[:3], {**m[3], "content": "nothing in it"}, *m[4:]], id="a result edited"),
        pytest.param(lambda m: [*m[:3], {**m[3], "is_error": True}, *m[4:]], id="a result marked as an error"),
        pytest.param(lambda m: m[3:], id="the beginning pruned"),
    ],
)
def test_an_edit_before_the_cut_takes_the_summary_out_of_force(edit: Edit) -> None:
    hooks = summarizing()
    messages = one_task()
    hooks.transform_context_sync(messages)
    view = hooks.transform_context_sync(edit(messages))
    assert "summary number 1" not in texts(view)
    assert "summary number 2" in texts(view)


def test_an_edit_after_the_cut_keeps_the_summary_and_shows_the_edit() -> None:
    asked = Numbered()
    hooks = summarizing(asked)
    messages = one_task()
    hooks.transform_context_sync(messages)
    edited = [*messages[:-1], {**messages[-1], "content": "the file is empty"}]
    view = hooks.transform_context_sync(edited)
    assert "summary number 1" in texts(view)
    assert view[-1] is edited[-1]
    assert len(asked.requests) == 1


# -- changes in place


def mutable() -> tuple[list[Chat], list[dict[str, Any]]]:
    """Return a list, and the same messages as the host that may write to them sees them."""
    dicts = [dict(message) for message in one_task()]
    return [*dicts], dicts


@pytest.mark.parametrize("listed", [list, copy.deepcopy], ids=["the same messages", "copies"])
def test_a_change_in_place_since_the_last_answer_is_noticed_on_the_next_call(listed: Edit) -> None:
    hooks = summarizing()
    newest: dict[str, Any] = {"role": "user", "content": "short"}
    messages = [*one_task()[:9], newest]
    hooks.transform_context_sync(messages)
    before = hooks.state().context_tokens
    newest["content"] = "long " * 2_000
    hooks.transform_context_sync(listed(messages))
    after = hooks.state().context_tokens
    assert before is not None
    assert after is not None
    assert after > before + 1_000


@pytest.mark.parametrize(
    "applied_anew",
    [
        pytest.param(copy.deepcopy, id="copied after the change"),
        pytest.param(through_json, id="stored after the change"),
        pytest.param(lambda messages: [*messages, *steps(14, 300, first=50)], id="grown until the next compaction"),
    ],
)
def test_an_old_message_changed_in_place_is_noticed_before_its_summary_is_used_again(applied_anew: Edit) -> None:
    """The fast path trusts objects; a record that is applied anew, and a compaction, do not."""
    hooks = summarizing()
    messages, writable = mutable()
    assert "summary number 1" in texts(hooks.transform_context_sync(messages))
    writable[3]["content"] = "something else entirely"
    view = hooks.transform_context_sync(applied_anew(messages))
    assert "summary number 1" not in texts(view)
    assert "summary number 2" in texts(view)


@pytest.mark.parametrize("place", [pytest.param(1, id="pinned"), pytest.param(5, id="covered")])
def test_a_covered_message_changed_in_place_takes_the_summary_out_of_force_before_the_next_one(place: int) -> None:
    summaries = Scripted("- the first", "- the second")
    hooks = summarizing(summaries)
    contents = [dict(message) for message in one_task()]
    messages: list[Chat] = [*contents]
    assert "- the first" in texts(hooks.transform_context_sync(messages))
    contents[place]["content"] = "Port the lexer."
    view = hooks.compact_sync([*messages, *steps(4, 300, first=50)]).messages
    assert [request.previous_summary for request in summaries.requests] == [None, None]
    assert "- the second" in texts(view)
    assert ("Port the lexer." in texts(view)) is (place == 1)


def test_a_request_in_view_that_was_changed_in_place_is_read_again_by_each_compaction() -> None:
    """Covered messages are read again in turn; those that a view shows, each time: the new record is true of the list."""
    hooks = summarizing()
    messages, writable = mutable()
    for first in (50, 70, 90):
        hooks.compact_sync(messages, keep_recent_tokens=500)
        messages = [*messages, *steps(14, 300, first=first)]
    assert messages[1] in hooks.transform_context_sync(messages)

    writable[1]["content"] = "Port the lexer."
    messages = [*messages, user("Go on.")]
    result = hooks.compact_sync(messages, keep_recent_tokens=0)
    assert result.record is not None
    assert "file" in loss_of(messages, result.record)
    assert texts(elsewhere(hooks, messages)) == texts(hooks.transform_context_sync(messages))


@pytest.mark.parametrize(
    "more", [pytest.param([], id="the same list"), pytest.param([user("Go on.")], id="a longer list")]
)
def test_a_result_changed_while_a_compaction_is_announced_is_not_cleared_as_it_was(more: list[Chat]) -> None:
    """A handler of the event may take time, in which the host changes its messages; no summarizer is called."""
    messages, writable = mutable()

    def editing(event: CompactionEvent) -> None:
        if isinstance(event, CompactionStarted):
            writable[3]["content"] = "something else entirely"
            messages.extend(more)

    hooks = CompactionController(context_window=8_192, summarizer=Numbered(), on_event=editing)
    view = hooks.transform_context_sync(messages)
    (record,) = hooks.history()
    assert (record.covered_runs, record.reductions != ()) == (0, True)
    assert "something else entirely" in texts(view)
    fresh = controller(1_000_000)
    fresh.session("default").import_records(hooks.session("default").export_records())
    assert fresh.transform_context_sync(messages) == view


@pytest.mark.parametrize("reason", ["threshold", "manual", "overflow"])
def test_a_history_changed_while_it_is_summarized_does_not_get_that_summary(reason: str) -> None:
    """The summary covers messages that are gone: a second one is made, and the first is not lost for the old history."""
    events: list[CompactionEvent] = []
    messages, writable = mutable()
    old = copy.deepcopy(messages)
    asked = Numbered()

    def editing(request: SummaryRequest) -> str:
        writable[3]["content"] = "edited meanwhile"
        return asked(request)

    hooks = summarizing(editing, events=events)
    if reason == "threshold":
        view = hooks.transform_context_sync(messages)
    elif reason == "manual":
        view = hooks.compact_sync(messages).messages
    else:
        view = hooks.recover_sync(OverflowError("prompt is too long: 9000 tokens > 8192 maximum"), messages)
    assert "summary number 2" in texts(view)
    skipped = [event for event in events if isinstance(event, CompactionSkipped)]
    assert [event.why for event in skipped] == ["the history was changed meanwhile"]
    assert "summary number 1" in texts(hooks.transform_context_sync(old))
    assert len(asked.requests) == 2


def test_a_history_changed_while_its_summary_fails_is_compacted_as_it_is_now() -> None:
    events: list[CompactionEvent] = []
    messages, writable = mutable()

    def editing(request: SummaryRequest) -> str:
        writable[3]["content"] = "edited meanwhile"
        raise ConnectionError("down")

    hooks = summarizing(editing, events=events)
    view = hooks.recover_sync(OverflowError("prompt is too long: 9000 tokens > 8192 maximum"), messages)
    whys = [event.why for event in events if isinstance(event, CompactionSkipped)]
    assert whys == ["the history was changed meanwhile"]
    assert view == elsewhere(hooks, messages)
    assert len(view) < len(messages)


def test_the_host_is_asked_once_for_a_compaction_that_is_made_again() -> None:
    """The host changes its list during both summaries: the third attempt, without a model, is accepted."""
    asked: list[str] = []
    messages, writable = mutable()

    def carry(_: CarryRequest) -> list[Carried]:
        asked.append(f"{len(asked)}.md")
        return [Carried(name, "a plan") for name in asked]

    def editing(request: SummaryRequest) -> str:
        writable[3]["content"] += " edited"
        return "a summary"

    record = summarizing(editing, carry=carry).compact_sync(messages).record
    assert record is not None
    assert record.rendered.count("<carried") == 1
    assert asked == ["0.md"]


def test_a_list_changed_by_the_function_that_is_asked_is_summarized_as_it_is_then() -> None:
    """Nothing was paid for yet: there is one summary, without an event of a skipped one, and no result is cleared as it was."""
    events: list[CompactionEvent] = []
    asked = Numbered()
    messages, writable = mutable()
    messages += talk(16)

    def carry(_: CarryRequest) -> list[Carried]:
        writable[3]["content"] = "edited meanwhile"
        messages.append(user("Go on."))
        return [Carried("plan", "1. read")]

    hooks = controller(summarizer=asked, events=events, carry=carry)
    view = hooks.transform_context_sync(messages)
    (record,) = hooks.history()
    assert [type(event) for event in events] == [CompactionStarted, CompactionFinished]
    assert "edited meanwhile" in asked.requests[0].transcript
    assert (len(asked.requests), "1. read" in record.rendered, view[-1]) == (1, True, messages[-1])
    assert texts(elsewhere(hooks, messages)) == texts(view)


def test_a_history_changed_while_its_second_summary_is_written_does_not_get_that_one() -> None:
    messages, writable = mutable()
    asked = Numbered()

    def editing(request: SummaryRequest) -> str:
        if len(asked.requests) == 1:
            writable[-1]["content"] = "edited meanwhile"
        return asked(request)

    hooks = summarizing(editing)
    hooks.transform_context_sync(messages)
    view = hooks.compact_sync([*messages, *steps(14, 300, first=50)], keep_recent_tokens=500).messages
    assert writable[-1] not in view
    assert "summary number 2" not in texts(view)
    assert "summary number 3" in texts(view)


def test_a_message_of_the_user_during_a_compaction_is_in_the_view() -> None:
    messages = one_task()
    late = user("One more thing: keep the tests green.")

    def slow(request: SummaryRequest) -> str:
        messages.append(late)
        return "a summary"

    view = summarizing(slow).transform_context_sync(messages)
    assert view[-1] is late


METHODS: dict[str, Callable[[Controller, list[Chat]], list[Chat]]] = {
    "transform_context": lambda hooks, messages: hooks.transform_context_sync(messages),
    "call": lambda hooks, messages: hooks.call_sync(messages, lambda view: view),
    "compact": lambda hooks, messages: hooks.compact_sync(messages).messages,
    "preview": lambda hooks, messages: hooks.preview_sync(messages).messages,
    "recover": lambda hooks, messages: hooks.recover_sync(OverflowError("prompt is too long"), messages),
}


def rewinding(messages: list[Chat], moment: str, kept: int, *more: Chat) -> tuple[Controller, Numbered]:
    """Return a controller at whose event, summary or question the host goes back in this list, once, and its summarizer."""
    asked = Numbered()
    left = [moment]

    def rewind(now: str) -> None:
        if now in left:
            left.remove(now)
            messages[kept:] = more

    def summarize(request: SummaryRequest) -> str:
        rewind("summary")
        return asked(request)

    def carry(_: CarryRequest) -> None:
        rewind("question")

    events: list[Any] = [lambda event: rewind(type(event).__name__)]
    hooks = CompactionController(
        context_window=8_192, summarizer=summarize, on_event=events, settings=PLAIN, carry=carry
    )
    return hooks, asked


@folded("moment", ["CompactionStarted", "question", "summary", "CompactionFinished"])
@pytest.mark.parametrize("method", METHODS)
def test_a_list_that_gets_shorter_while_it_is_compacted_keeps_its_summary(method: str, moment: str) -> None:
    messages, late = [*one_task(), user("Now the printer.")], user("No: the lexer.")
    gone = messages[-2:]
    hooks, asked = rewinding(messages, moment, -2, late)
    view = METHODS[method](hooks, messages)
    assert (messages[-1] is late) == (view[-1] is late) == (method != "preview" or moment in ("question", "summary"))
    assert not [message for message in gone if message in view and message not in messages]
    assert "summary number 1" in texts(view)
    assert len(asked.requests) == 1


@pytest.mark.parametrize("moment", ["summary", "CompactionFinished"])
@pytest.mark.parametrize("method", METHODS)
def test_a_list_rewound_to_covered_messages_while_it_is_compacted_is_sent_itself(method: str, moment: str) -> None:
    messages = one_task()
    hooks, asked = rewinding(messages, moment, 6)
    view = METHODS[method](hooks, messages)
    assert (view is messages) == (len(messages) == 6)
    assert len(asked.requests) == 1


# -- conversations that cannot fit


def test_a_list_that_cannot_be_made_to_fit_is_summarized_once() -> None:
    asked = Numbered()
    hooks = summarizing(asked)
    messages = [system(prose(9_000)), *talk(4)]
    for n in range(5):
        messages = [*messages, *talk(1, tokens=5, first=10 + n)]
        hooks.transform_context_sync(messages)
    assert len(asked.requests) == 1
    edited = [system(), *messages[1:], *talk(12, first=20)]
    assert "summary number 2" in texts(hooks.transform_context_sync(edited))


def test_a_hidden_prefix_is_named_when_it_is_the_largest_part() -> None:
    """A tiny list that the provider rejects for its size: something else is large, and the error says so."""

    def send(view: list[Chat]) -> str:
        raise OverflowError("prompt is too long: 9000 tokens > 8192 maximum")

    with pytest.raises(ContextOverflowError, match="the prefix outside the list") as raised:
        summarizing().call_sync([user("go"), assistant("yes"), user("on")], send)
    assert raised.value.part == "hidden prefix"
    assert raised.value.tokens == 9_000


def test_a_late_result_puts_a_record_out_of_force_although_its_id_was_used_again_meanwhile() -> None:
    """Some APIs' ids are all alike: a result answers the newest call that is open, not the newest one."""
    hooks = controller(200_000, summarizer=Scripted("- facts"))
    messages = [
        user("Read them all."),
        assistant(None, call("", path="slow.py")),
        *steps(3),
        assistant(None, call("", path="fast.py")),
        tool("", "the contents of fast.py"),
        *steps(8, first=3),
    ]
    result = hooks.compact_sync(messages, keep_recent_tokens=3_300)
    assert result.record is not None
    late = [*messages, tool("", "the contents of slow.py")]
    view = hooks.transform_context_sync(late)
    check_view(late, view, format=OpenAIChatFormat(), summaries=[result.record.rendered])


def test_a_rewind_to_before_the_first_compaction_gives_the_hosts_own_list() -> None:
    hooks = summarizing()
    messages = one_task()
    hooks.transform_context_sync(messages)
    short = messages[:6]
    assert hooks.transform_context_sync(short) is short
    assert hooks.history() == []


def test_a_rewound_list_that_grows_again_has_its_summary_as_soon_as_the_record_is_true_of_it() -> None:
    messages = [user("go"), *steps(6, 100), assistant("ok"), user("next"), *steps(8, 100)]
    hooks = controller(100_000, summarizer=Scripted())
    result = hooks.compact_sync(messages, keep_recent_tokens=300)
    assert result.record is not None
    views = [
        hooks.transform_context_sync(messages[:end])
        for end in range(result.record.compacted_message_count - 6, len(messages) + 1)
    ]
    assert views[0] == messages[: len(views[0])]
    assert views[-1] == result.messages


def test_a_rewind_to_an_older_record_reads_its_messages_again() -> None:
    hooks = summarizing()
    messages, writable = mutable()
    hooks.transform_context_sync(messages)
    longer = [*messages, *steps(14, 300, first=22)]
    hooks.transform_context_sync(longer)
    writable[3]["content"] = "something else entirely"
    assert "summary number 1" not in texts(hooks.transform_context_sync(messages))


def test_resumed_from_json_on_another_machine_the_view_is_the_same_to_the_byte() -> None:
    first = summarizing()
    messages = one_task()
    view = texts(first.transform_context_sync(messages))
    saved = json.dumps({"messages": messages, "records": first.session("default").export_records()})
    resumed = json.loads(saved)
    asked = Numbered()
    second = summarizing(asked)
    second.session("default").import_records(resumed["records"])
    assert texts(second.transform_context_sync(resumed["messages"])) == view
    assert len(asked.requests) == 0
