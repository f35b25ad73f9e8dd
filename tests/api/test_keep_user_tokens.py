"""`keep_user_tokens`: older messages of the user stay word for word, in the tokens that the target leaves empty."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from compaction_hooks import CompactionController, CompactionRecord, CompactionSettings, project
from compaction_hooks.events import CompactionEvent, CompactionFinished
from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat
from compaction_hooks.messages import Message
from compaction_hooks.stores import MemoryStore
from compaction_hooks.testing import check_view
from compaction_hooks.tokens import CharacterEstimator
from tests.cases import folded
from tests.conversations import Chat, Scripted, assistant, controller, prose, steps, system, texts, user
from tests.dialects import DIALECTS, Dialect
from tests.sealed_runs import Run

ESTIMATE = CharacterEstimator().estimate_tokens
WINDOW = 64_000


def said(number: int, tokens: int) -> str:
    """Return a request of so many tokens."""
    text = f"Request {number}: move part {number} to shelf {number}. {prose(tokens)}"
    while ESTIMATE(text) > tokens:
        text = text.rpartition(" ")[0]
    return text


def turn(number: int, tokens: int, count: int = 12) -> list[Chat]:
    """Return a request, so many tool steps, and an answer."""
    done = steps(count, 450, first=count * number)
    return [user(said(number, tokens)), *done, assistant(f"Part {number} is on its shelf.")]


def work(turns: int, tokens: int) -> list[Chat]:
    return [system(), *(message for n in range(turns) for message in turn(n, tokens))]


def calls(messages: Sequence[Chat]) -> Iterator[list[Chat]]:
    """Yield the list of each model call."""
    return (list(messages[:at]) for at, message in enumerate(messages) if message["role"] == "assistant")


def users(messages: Sequence[Any]) -> list[Any]:
    return [message for message in messages if message["role"] == "user"]


def numbers(view: Sequence[Any]) -> list[int]:
    """Return the numbers of the requests that a view has as messages of their own, whole or shortened."""
    words = [str(message["content"]) for message in users(view)]
    return [int(text[8:].partition(":")[0]) for text in words if text.startswith("Request ")]


def compacted(
    messages: list[Any], window: int = WINDOW, **settings: Any
) -> tuple[list[Any], CompactionRecord, CompactionController[Any]]:
    """Return the view of a list that is too long, and its record."""
    hooks = controller(window, settings=CompactionSettings(clear_tool_results=False, **settings))
    view: list[Any] = hooks.transform_context_sync(messages)
    record = hooks.session("default").record
    assert record is not None
    check_view(messages, view, format=OpenAIChatFormat(), summaries=[record.rendered])
    return view, record, hooks


LONG = work(8, 300)
"""A list above the threshold of the window, eight turns of 6,000 tokens."""


# -- which messages stay


@folded(
    "tokens, least",
    {"short": (90, 15), "of a paragraph": (210, 15), "of two paragraphs": (312, 15), "of a page": (615, 12)},
)
def test_of_twenty_turns_those_that_fit_are_whole(tokens: int, least: int) -> None:
    events: list[CompactionEvent] = []
    session = controller(WINDOW, events=events).session("thread")
    messages = work(20, tokens)
    view = [session.transform_context_sync(listed) for listed in calls(messages)][-1]

    made = [event.record for event in events if isinstance(event, CompactionFinished) and event.record.rendered]
    target = CompactionSettings().budget(WINDOW).target
    assert made
    assert all(record.tokens_after <= target for record in made)
    whole = [message for message in users(messages) if any(message is shown for shown in view)]
    assert len(whole) >= least
    if len(whole) < 20:  # no other one had room next to the largest summary
        assert made[-1].tokens_after + tokens + CompactionSettings().max_summary_tokens > target


def test_they_are_the_hosts_own_objects_behind_the_summary_the_first_and_the_newest_in_their_order() -> None:
    view, record, _ = compacted(LONG, keep_user_tokens=1_000)
    first, *newest = numbers(view)
    kept = [message for message in users(LONG) if any(message is shown for shown in view)]
    assert users(view)[1:] == kept
    assert first == 0
    assert newest == [*range(newest[0], 8)]
    assert newest[0] > 1
    assert [pin.is_optional for pin in record.pins] == [True] * 3
    assert "Next come older messages of the user (3)" in record.rendered
    assert json.loads(record.to_json())["pins"][0]["is_optional"] is True


def test_the_summary_does_not_repeat_them_and_tells_the_others() -> None:
    chat = [
        message
        for number in range(40)
        for message in (user(f"{said(number, 300)}\n\nNever touch shelf {number}."), assistant(prose(300)))
    ]
    for messages in (LONG, chat):
        view, record, _ = compacted(messages, 16_384, keep_recent_tokens=1_500, keep_user_tokens=1_400)
        shown = numbers(view)
        told = [number for number in range(40) if f"part {number} to" in record.summary]
        limits = [number for number in range(40) if f"Never touch shelf {number}." in record.summary]
        assert 2 < len(shown) < 12
        assert not {*told, *limits} & {*shown}
        assert told or messages is LONG
    assert len(limits) > 3


def test_one_that_stayed_and_goes_is_summarized_then() -> None:
    store = MemoryStore()
    messages, gone = work(8, 300), set[int]()
    kept: set[int] = set()
    session = controller(16_384, store=store).session("thread")
    for number in range(8, 24):
        messages += turn(number, 300)
        view = session.transform_context_sync(messages)
        assert session.record is not None
        gone |= kept - {*numbers(view)}
        kept = {*numbers(view)}
        told = {n for n in gone if f"Request {n}: " in session.record.summary}
        assert told >= {*sorted(gone)[-2:]}
    assert len(gone) > 5


def test_a_long_one_that_goes_is_in_the_summary_once() -> None:
    """A summary has it cut already, from when it stayed shortened."""
    session = controller(16_384).session("thread")
    most = 0
    for listed in calls(
        [system(), *turn(50, 100), *turn(99, 2_500), *(each for n in range(10) for each in turn(n, 250))]
    ):
        session.transform_context_sync(listed)
        summary = session.record.summary if session.record else ""
        most = max(most, summary.count("Request 99: move"))
    assert most == 1


def test_a_long_one_is_shortened_in_its_middle_and_can_be_read_again() -> None:
    half = work(4, 300)
    messages = [*half, *turn(99, 6_000), *LONG[len(half) :]]
    hooks = controller(WINDOW, settings=CompactionSettings(clear_tool_results=False, keep_user_tokens=2_000))
    session = hooks.session("default")
    session.recall_tool(lambda: messages)
    view = session.transform_context_sync(messages)
    (short,) = [text for text in (str(message["content"]) for message in view) if text.startswith("Request 99: move")][
        :1
    ]
    assert 200 < ESTIMATE(short) < 520
    assert short.startswith("Request 99: move part 99")
    assert short.endswith(said(99, 6_000)[-40:])
    handle = short.partition('recall("')[2].partition('"')[0]
    part = session.covered(messages).find(handle)
    assert part is not None
    assert (part.text, part.is_shortened) == (said(99, 6_000), True)
    assert all(part.text != said(0, 300) for part in session.covered(messages))
    assert project(messages, session.record) == view


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: str(dialect.format.name))
def test_in_each_form_the_view_is_accepted_and_images_stay_by_name(dialect: Dialect) -> None:
    image = OpenAIChatFormat().read(
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.org/plan.png"}}]}
    )[0]
    read = [piece for message in LONG[1:] for piece in OpenAIChatFormat().read(message)]
    seen = Message(role="user", parts=(*read[0].parts, *image.parts))
    messages = dialect.write([seen, *read[1:]])
    hooks = CompactionController[Any](context_window=WINDOW, format=dialect.format)
    result = hooks.compact_sync(messages, keep_recent_tokens=5_000)
    assert result.record is not None
    check_view(messages, result.messages, format=dialect.apart, summaries=[result.record.rendered])
    assert "Request 0" not in result.record.summary
    first, *others = [str(message) for message in result.messages if "Request " in str(message)]
    assert "[Left out" in first
    assert "https://example.org/plan.png" in first
    assert len(others) == 7
    own = [message for message in messages if "Request " in str(message)][1:]
    assert all(any(message is shown for shown in result.messages) for message in own)


def test_of_a_message_with_results_too_only_the_users_part_stays() -> None:
    messages: list[Any] = [{"role": "user", "content": said(0, 100)}]
    for n in range(1, 30):
        used = {"type": "tool_use", "id": f"t{n}", "name": "read", "input": {"n": n}}
        result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": prose(300)}
        words = {"type": "text", "text": said(n, 60)}
        messages += [{"role": "assistant", "content": [used]}, {"role": "user", "content": [result, words]}]
    hooks = CompactionController[Any](context_window=12_000, format=AnthropicFormat())
    done = hooks.compact_sync(messages, keep_recent_tokens=1_000)
    assert done.record is not None
    check_view(messages, done.messages, format=AnthropicFormat(), summaries=[done.record.rendered])
    assert said(0, 100) == done.messages[1]["content"]
    kept = [{"role": "user", "content": [{"type": "text", "text": said(n, 60)}]} for n in range(20, 26)]
    assert all(message in done.messages for message in kept)


@folded(
    "words",
    {
        "another system's summary": "This session is being continued from a previous conversation.\nAll was moved.",
        "a call to go on": "Please continue.",
        "a harness": "[Request interrupted by user]",
        "an answer to a harness": "<system-reminder>\nToday is Monday.\n</system-reminder>",
    },
)
def test_words_that_are_not_the_users_requests_do_not_stay(words: str) -> None:
    messages = [system(), *turn(0, 300), user(words), *LONG[1:]]
    view, _, _ = compacted(messages)
    assert user(words) not in view
    assert 0 in numbers(view)


def test_a_short_reply_is_in_the_summary_with_its_question() -> None:
    asked = [assistant("W1 to W3 are moved. Shall I move W4, too?"), user("No, leave W4 out."), assistant("All right.")]
    view, record, _ = compacted([system(), *turn(0, 300), *asked, *LONG[1:]])
    assert user("No, leave W4 out.") not in view
    assert "Shall I move W4, too? -> No, leave W4 out." in record.summary


# -- how many


def test_the_setting_bounds_them_and_zero_turns_them_off() -> None:
    for most in (0, 100, 700):
        view, record, _ = compacted(LONG, keep_user_tokens=most)
        older = [str(message["content"]) for message in users(view)[1 : 1 + len(record.pins)]]
        assert sum(map(ESTIMATE, older)) <= most
        assert (record.pins == ()) is (most <= 100)
    assert len(numbers(compacted(LONG)[0])) > len(numbers(view))


def test_after_an_overflow_they_are_a_fifth() -> None:
    whole = compacted(LONG, keep_recent_tokens=4_000)[0]
    hooks = controller(WINDOW, settings=CompactionSettings(auto_compact=False))
    error = RuntimeError(f"prompt is too long: {WINDOW + 1_000} tokens > {WINDOW} maximum")
    hooks.transform_context_sync(LONG)
    view = hooks.recover_sync(error, LONG)
    assert 0 < len(numbers(view)) < len(numbers(whole)) == 8
    assert hooks.session("default").record is not None


def test_nothing_is_gained_by_a_compaction_of_nothing_but_words() -> None:
    """By hand, far below the threshold: the target is larger than the context."""
    messages = [message for n in range(30) for message in (user(said(n, 300)), assistant("Yes."))]
    result = controller(200_000).compact_sync(messages, keep_recent_tokens=600)
    assert result.record is not None
    assert result.tokens_after < 0.6 * result.tokens_before


# -- the same view elsewhere, and later


@pytest.mark.parametrize("other", [None, 0, 400])
def test_a_record_gives_the_same_view_in_a_worker_with_another_setting_and_in_a_fork(other: int | None) -> None:
    view, record, hooks = compacted(LONG, keep_user_tokens=1_500)
    settings = CompactionSettings(keep_user_tokens=other)
    worker, fork = (controller(WINDOW, settings=settings).session(name) for name in ("default", "fork"))
    for session in (worker, fork):
        session.import_records(hooks.session("default").export_records())
        copied = json.loads(json.dumps([*LONG, assistant("Done.")]))
        assert session.transform_context_sync(copied)[:-1] == view
    assert project(LONG, CompactionRecord.from_json(record.to_json())) == view

    grown = [*LONG, *(message for n in range(8, 14) for message in turn(n, 300))]
    later = worker.compact_sync(grown, keep_recent_tokens=5_000)
    assert later.record is not None
    assert later.record.compaction_count == 2
    assert sum(pin.is_optional for pin in later.record.pins) == {None: 13, 0: 0, 400: 3}[other]
    assert worker.undo() is not None
    assert worker.transform_context_sync([*LONG, assistant("Done.")])[:-1] == view
    assert worker.undo() is not None
    assert worker.transform_context_sync(LONG) is LONG


def test_a_stored_view_goes_on_with_them() -> None:
    said_twice = [*LONG[:105], LONG[105], *LONG[105:]]
    assert said_twice[105:107] == [user(said(4, 300))] * 2
    view, record, hooks = compacted(said_twice, keep_user_tokens=1_500)
    assert len(record.pins) == sum(any(message is shown for shown in view) for message in users(said_twice)) - 4
    session = hooks.session("default")
    stored = [dict(message) for message in session.to_store(view)]
    shown = numbers(stored)
    for worker in (session, controller(WINDOW, settings=CompactionSettings(keep_user_tokens=1_500)).session("w")):
        worker.import_records(session.export_records())
        assert worker.transform_context_sync(stored) == view
        grown = [*stored, *(message for n in range(8, 14) for message in turn(n, 300))]
        later = worker.transform_context_sync(grown)
        assert worker.record is not None
        assert worker.record.compaction_count == 2
        check_view(grown, later, format=OpenAIChatFormat(), summaries=[worker.record.rendered])
        assert numbers(later)[0] == 0
        assert len(numbers(later)) >= len(shown) - 1
        assert project(grown, worker.record) == later


def test_in_a_stored_view_they_are_not_of_the_current_request() -> None:
    """No answer is between them and the request, which would stay whole with all of its messages."""
    messages = [*work(7, 300), user("Now the last."), *steps(60, 450)]
    view, _, hooks = compacted(messages)
    stored = [*view, *steps(60, 450, first=60)]
    assert len(numbers(stored)) == 7
    for tokens, left in ((0, 0), (1_300, 4)):
        settings = CompactionSettings(clear_tool_results=False, keep_user_tokens=tokens)
        session = controller(WINDOW, settings=settings).session("default")
        session.import_records(hooks.session("default").export_records())
        later = session.transform_context_sync(stored)
        assert session.record is not None
        assert session.record.compaction_count == 2
        assert len(numbers(later)) == left
        assert later[left + 2] == user("Now the last.")


def test_views_begin_alike_between_two_compactions() -> None:
    session = controller(WINDOW).session("thread")
    last: list[Any] = []
    changes = 0
    for listed in calls(work(20, 300)):
        count = session.state().compaction_count
        view = session.transform_context_sync(listed)
        if session.state().compaction_count == count:
            assert view[: len(last)] == last
        changes, last = changes + (session.state().compaction_count > count), view
    assert changes > 2


def test_a_message_keeps_the_hosts_cache_mark() -> None:
    mark = {"type": "ephemeral"}
    first = {"role": "user", "content": [{"type": "text", "text": said(0, 300), "cache_control": mark}]}
    messages: list[Any] = [LONG[0], first, *LONG[2:]]
    view, _, _ = compacted(messages)
    assert first in view
    assert json.dumps(view).count("cache_control") == 1


class Telling(Run):
    """An agent whose user says something else each time."""

    def step(self, model: str | None = None) -> None:
        super().step(model)
        if self.messages[-1]["content"] == "Go on.":
            self.messages[-1] = {"role": "user", "content": said(self.calls, 60)}


@pytest.mark.parametrize("seed", range(4))
def test_a_provider_that_binds_reasoning_refuses_none_next_to_them(seed: int) -> None:
    run = Telling(seed)
    run.steps(60)
    assert len(run.signer.refusals) <= run.blind_calls
    assert any(pin.is_optional for event in run.events for pin in event.record.pins)


def test_a_model_is_asked_about_all_messages_and_its_summary_stands_in_front() -> None:
    asked = Scripted("## Goal\n- move all parts")
    hooks = controller(WINDOW, summarizer=asked, settings=CompactionSettings(clear_tool_results=False))
    view = hooks.transform_context_sync(LONG)
    (request,) = asked.requests
    assert said(0, 300) in request.transcript
    assert "move all parts" in texts(view[1:2])
    assert said(0, 300) in [message.text for message in request.kept_messages]
