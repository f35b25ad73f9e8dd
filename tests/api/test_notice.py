"""`notice=` of controller and session, and the event `ContextPressure`: one word to the model before its context is cut."""

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from itertools import count, pairwise
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction_hooks import (
    CompactionController,
    CompactionFinished,
    CompactionSettings,
    ContextPressure,
    project,
)
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.events import CompactionEvent
from compaction_hooks.formats import BedrockConverseFormat, OpenAIChatFormat
from compaction_hooks.messages import Message, Text, ToolCall, ToolResult
from compaction_hooks.recall import loss_of
from compaction_hooks.tokens import CharacterEstimator
from compaction_hooks.validity import provider_of, worsened
from tests.cases import folded, sampled
from tests.conversations import (
    Chat,
    Controller,
    Numbered,
    assistant,
    call,
    controller,
    prose,
    step,
    steps,
    summarizing,
    system,
    talk,
    tokens_of,
    tool,
    user,
)
from tests.dialects import BEDROCK, DIALECTS, GEMINI, Dialect
from tests.native_runs import KINDS as NATIVE
from tests.native_runs import NativeRun
from tests.sealed_runs import BINDING, HIDDEN, PLAIN, Run
from tests.strategies import examples

WORD = "Write down now what you need."
WHOLE = CompactionSettings(clear_tool_results=False)
NOTE = Message(role="user", parts=(Text(WORD),))
NEAR = [system(), user("Port the parser."), *steps(12)]
"""Above 80 % of the threshold of a window of 8,192 tokens, and below it."""


def written(view: Sequence[Any]) -> int:
    """Return how often a view has the notice."""
    return json.dumps(view).count(WORD)


def fill(hooks: Controller, messages: list[Chat]) -> list[Chat]:
    """Return the view with the notice of a list that is nearly full."""
    messages += NEAR[len(messages) :]
    view = hooks.transform_context_sync(messages)
    assert view == [*messages, user(WORD)]
    return view


# -- at which place, and for how long


def neutral_step(number: int) -> list[Message]:
    """Return a step with two tool calls; every fifth one with the user's next words."""
    ids = [f"call_{number}_{letter}" for letter in "ab"]
    said: list[Message] = [
        Message(role="assistant", parts=tuple(ToolCall(id, "read", json.dumps({"part": id})) for id in ids)),
        *(Message(role="tool", parts=(ToolResult(id, f"{id}: {prose(150)}", name="read"),)) for id in ids),
    ]
    if number % 5 == 4:
        said.append(Message(role="assistant", parts=(Text(f"Part {number} is done."),)))
        said.append(Message(role="user", parts=(Text(f"Go on after {number}."),)))
    return said


@pytest.mark.parametrize("dialect", sampled(DIALECTS, 2), ids=lambda dialect: dialect.format.name)
def test_the_model_is_told_once_for_each_filling_and_no_byte_before_or_behind_it_changes(dialect: Dialect) -> None:
    events: list[CompactionEvent] = []
    hooks: Controller = controller(
        summarizer=Numbered(), events=events, format=dialect.format, settings=None, notice=WORD
    )
    format, provider = dialect.format, provider_of(dialect.format)
    messages = dialect.write([Message(role="user", parts=(Text("Read all parts."),))])
    sent: list[tuple[str | None, list[Any]]] = []
    for number in range(40):
        view = hooks.transform_context_sync(messages)
        record = hooks.session("default").record
        sent.append((record.id if record else None, view))
        store = hooks.session("default").to_store(view)
        assert store == project(messages, record, format=dialect.apart)
        assert record is not None or store is messages

        listed, read, stored = (
            [piece for one in each for piece in format.read(one)] for each in (messages, view, store)
        )
        assert not worsened(listed, read, provider)
        told = [NOTE] * written(view)
        assert tokens_of(hooks) == sum(map(CharacterEstimator().estimate_message_tokens, [*stored, *told]))
        messages = [*messages, *dialect.write(neutral_step(number))]

    kinds = [type(event).__name__ for event in events if isinstance(event, CompactionFinished | ContextPressure)]
    assert kinds[:4] == ["ContextPressure", "CompactionFinished"] * 2
    assert any(written(view) for _, view in sent)
    by_record = {name: [view for under, view in sent if under == name] for name, _ in sent}
    assert len(by_record) > 2
    for views in [*by_record.values()][:-1]:
        counts = [written(view) for view in views]
        assert sorted(counts) == counts
        assert counts[-1] == 1 or dialect is BEDROCK  # there it waits for the user
        assert not counts[-1] or WORD in json.dumps(views[counts.index(1)][-1])
        for before, after in pairwise(views):
            assert json.dumps(after).startswith(json.dumps(before)[:-1])


def test_a_turn_that_it_divides_is_compacted_all_the_same() -> None:
    """Gemini asks for signatures from the user's last words on: the view without the notice has more calls that lack one."""
    events: list[CompactionEvent] = []
    hooks: Controller = controller(events=events, format=GEMINI.format, settings=WHOLE, notice=WORD)
    said = [Message(role="user", parts=(Text("Read all parts."),))]
    for number in range(40):
        hooks.transform_context_sync(GEMINI.write(said))
        said += neutral_step(number)[:3]
    kinds = [type(event).__name__ for event in events]
    assert kinds[:6] == ["ContextPressure", "CompactionStarted", "CompactionFinished"] * 2


def test_it_is_gone_with_the_compaction_and_its_place_does_not_come_back_with_an_undo() -> None:
    hooks, messages = summarizing(notice=WORD), list[Chat]()
    fill(hooks, messages)
    session = hooks.session("default")
    result = hooks.compact_sync(messages, keep_recent_tokens=500)
    assert written(result.messages) == written(hooks.transform_context_sync(messages)) == 0
    hooks.undo()
    assert hooks.transform_context_sync([*messages, *step(90, 10)])[len(messages)] != user(WORD)
    assert written([session.export_records(), [event.to_dict() for event in session.history()]]) == 0


APPENDED = [*step(40, 20), user("More."), user("And more.")]
CHANGES: dict[str, tuple[Callable[[list[Chat]], list[Chat]], bool]] = {
    "copies": (deepcopy, True),
    "more": (lambda messages: [*messages, *APPENDED], True),
    "the user's words right behind it": (lambda messages: [*messages, user("Faster.")], True),
    "an edit behind it": (lambda messages: [*messages, *APPENDED[:-1], user("Other words.")], True),
    "a rewind to before it": (lambda messages: messages[:-2], False),
    "an edit before it": (lambda messages: [messages[0], user("Port the lexer."), *messages[2:]], False),
    "an edit of the message before it": (lambda messages: [*messages[:-1], tool("call_11", "# nothing")], False),
    "the view, kept in place of the list": (lambda messages: [*messages, user(WORD)], False),
    "other first messages": (lambda messages: [messages[0], user("Hi."), assistant("Hi."), *messages[1:]], False),
}


@folded("change, stays", CHANGES)
def test_it_stays_while_the_list_has_what_is_before_it(change: Callable[[list[Chat]], list[Chat]], stays: bool) -> None:
    events: list[CompactionEvent] = []
    hooks, messages = controller(notice=WORD, events=events), list[Chat]()
    view = fill(hooks, messages)
    whole = [*view, *APPENDED]
    assert hooks.transform_context_sync([*messages, *APPENDED]) == whole
    changed = change(messages)
    after = hooks.transform_context_sync(changed)
    assert after == ([*view, *changed[len(messages) :]] if stays else changed)
    assert after is changed or stays
    assert hooks.transform_context_sync([*messages, *APPENDED]) == whole  # the way back has it at its place
    assert len(events) == 1


def test_a_host_that_stores_what_was_sent_has_it_once() -> None:
    hooks, messages = controller(notice=WORD), list[Chat]()
    stored = fill(hooks, messages)
    for number in (40, 41):
        stored = [*stored, *step(number, 20)]
        assert hooks.transform_context_sync(stored) is stored


def test_a_list_that_went_back_is_filled_again() -> None:
    events: list[CompactionEvent] = []
    hooks, messages = controller(notice=WORD, events=events), list[Chat]()
    fill(hooks, messages)
    del messages[4:]
    assert hooks.transform_context_sync(messages) is messages
    messages += steps(11, first=60)
    assert hooks.transform_context_sync(messages)[-1] == user(WORD)
    assert len(events) == 2


OTHERS: dict[str, tuple[Callable[[Controller, list[Chat]], object], int]] = {
    "a plan": (lambda hooks, few: hooks.preview_sync(few, plan_only=True), 1),
    "a preview": (lambda hooks, few: hooks.preview_sync(few), 1),
    "a load": (lambda hooks, few: hooks.load_sync(few), 1),
    "a call": (lambda hooks, few: hooks.transform_context_sync(few), 2),
}


@folded("act, told", OTHERS)
def test_a_list_without_the_record_ends_neither_it_nor_by_a_look_the_filling(
    act: Callable[[Controller, list[Chat]], object], told: int
) -> None:
    events: list[CompactionEvent] = []
    for notice in (WORD, False):
        hooks, messages = summarizing(events=events, notice=notice), [*NEAR, *steps(10, first=20)]
        hooks.compact_sync(messages)
        for number in count(40):
            messages += step(number)
            events.clear()
            view = hooks.transform_context_sync(messages)
            if events:
                break
        assert hooks.session("default").record is not None

        act(hooks, messages[:3])
        later = hooks.transform_context_sync([*messages, *step(90, 10)])
        assert later[: len(view)] == view
        assert written(later) == bool(notice)
        assert len([event for event in events if isinstance(event, ContextPressure)]) == (1 if notice else told)


# -- what it waits for

CALLS, BEHIND = [assistant(None, call("p", path="a"), call("q", path="b"))], [assistant("Done."), user("Go on.")]
WAITING: dict[str, tuple[list[Chat], list[Chat], dict[str, Any]]] = {
    "a call": (CALLS, [tool("p", "1"), tool("q", "2")], {}),
    "a second result": ([*CALLS, tool("p", "1")], [tool("q", "2")], {}),
    "the answer that goes on": ([assistant("I will")], [user("Go on.")], {}),
    "the system": ([system("A reminder.")], [user("Go on.")], {}),
    "Mistral": (step(70, 10), BEHIND, {"model": "mistralai/Devstral-Small-2"}),
    "joined rows": (step(70, 10), BEHIND, {"settings": CompactionSettings(merge_user_messages=True)}),
}


@folded("more, then, keywords", WAITING)
def test_it_waits_for_a_list_that_it_may_follow(more: list[Chat], then: list[Chat], keywords: dict[str, Any]) -> None:
    events: list[CompactionEvent] = []
    hooks = controller(notice=WORD, events=events, **keywords)
    messages = [*NEAR, *more]
    assert hooks.transform_context_sync(messages) is messages
    messages = [*messages, *then]
    joined = [*messages[:-1], user(f"Go on.\n\n{WORD}")]
    assert hooks.transform_context_sync(messages) == (joined if "settings" in keywords else [*messages, user(WORD)])
    (event,) = events
    assert isinstance(event, ContextPressure)
    assert not event.is_model_told


def test_a_view_that_would_be_due_with_it_goes_out_without_it() -> None:
    """The same list again would be compacted else."""
    events: list[CompactionEvent] = []
    hooks = controller(notice=prose(1_500), events=events)
    for _ in range(2):
        assert hooks.transform_context_sync(NEAR) is NEAR
    assert tokens_of(hooks) < 6_144 < tokens_of(hooks) + 1_500
    (event,) = events
    assert isinstance(event, ContextPressure)
    assert not event.is_model_told


def test_for_bedrock_it_joins_the_words_of_the_user_and_no_results() -> None:
    events: list[CompactionEvent] = []
    hooks: Controller = controller(format=BedrockConverseFormat(), notice=WORD, events=events)
    messages = BEDROCK.write([Message(role="user", parts=(Text("Read."),))])
    for number in count():
        messages = [*messages, *BEDROCK.write(neutral_step(number)[:3])]
        assert hooks.transform_context_sync(messages) is messages
        if events:
            break
    messages += BEDROCK.write(neutral_step(4)[3:])
    view = hooks.transform_context_sync(messages)
    assert view == [*messages[:-1], {"role": "user", "content": [{"text": "Go on after 4."}, {"text": WORD}]}]
    assert view[-2]["content"] == [{"text": "Part 4 is done."}]


# -- what nobody else sees of it


def test_no_summary_record_or_figure_knows_it() -> None:
    summarizer = Numbered()
    hooks, messages = summarizing(summarizer, notice=WORD), list[Chat]()
    fill(hooks, messages)
    messages += [assistant("Noted: the parser keeps a table."), user("Go on."), *steps(8, first=30)]
    view = hooks.transform_context_sync(messages)
    session = hooks.session("default")
    assert summarizer.requests
    assert session.record is not None
    assert written([request.prompt for request in summarizer.requests]) == 0
    assert written([session.export_records(), view, session.to_store(view)]) == 0
    without = summarizing(Numbered())
    without.transform_context_sync(messages)
    record = without.session("default").record
    assert record is not None
    assert loss_of(messages, session.record) == loss_of(messages, record)
    assert [*hooks.covered(messages)] == [*without.covered(messages)]


MADE_BY: dict[str, Callable[[Controller], object]] = {
    "preview": lambda hooks: hooks.preview_sync(NEAR),
    "load": lambda hooks: hooks.load_sync(NEAR),
    "state": lambda hooks: hooks.state(),
    "compact": lambda hooks: hooks.compact_sync(NEAR, keep_recent_tokens=100_000),
    "automatic compactions are off": lambda hooks: hooks.transform_context_sync(NEAR),
    "the server compacts": lambda hooks: hooks.transform_context_sync(NEAR, request={"previous_response_id": "resp_1"}),
    "no window": lambda hooks: hooks.transform_context_sync(NEAR),
}
POLICIES = {"automatic compactions are off": CompactionSettings(auto_compact=False)}


@folded("name", [*MADE_BY])
def test_nothing_but_a_call_that_may_compact_tells(name: str) -> None:
    events: list[CompactionEvent] = []
    window = None if name == "no window" else 8_192
    hooks = controller(window, notice=WORD, events=events, settings=POLICIES.get(name))
    MADE_BY[name](hooks)
    assert not [event for event in events if isinstance(event, ContextPressure)]
    assert written([hooks.session("default").to_store([]), hooks.session("default").export_records()]) == 0


# -- the event, and the arguments


def test_the_host_is_told_at_the_same_moment_whether_or_not_the_model_is() -> None:
    for notice in (False, True, WORD):
        events: list[CompactionEvent] = []
        hooks = controller(notice=notice, events=events)
        view = hooks.transform_context_sync(NEAR)
        hooks.transform_context_sync([*NEAR, *step(50, 10)])
        (event,) = events
        assert isinstance(event, ContextPressure)
        assert (event.session_id, event.trigger_tokens, event.context_window) == ("default", 6_144, 8_192)
        assert 0.8 * 6_144 < event.tokens < 6_144
        assert event.is_model_told == bool(notice) == (len(view) > len(NEAR))
        assert str(event) == f"default: {event.tokens:,} of 6,144 tokens before a compaction" + (
            ", the model is told" if notice else ""
        )
        assert (view is NEAR) == (not notice)


@folded(
    "controllers, sessions, told",
    {
        "the controller's": (WORD, None, WORD),
        "the session's": ("Other words.", WORD, WORD),
        "off for one": (WORD, False, None),
        "on for one": (False, WORD, WORD),
    },
)
def test_that_of_the_session_wins_and_stays(controllers: Any, sessions: Any, told: str | None) -> None:
    hooks = controller(notice=controllers)
    hooks.session("a", notice=sessions)
    session = hooks.session("a")
    hooks.forget_sync("a")
    for held in (session, hooks.session("b", notice=sessions)):
        view = held.transform_context_sync(NEAR)
        assert view == [*NEAR, *([] if told is None else [user(told)])]


@folded("notice", [5, "", "  ", [WORD], b"now"])
def test_another_kind_of_notice_is_refused_by_name(notice: Any) -> None:
    for make in (lambda: CompactionController(notice=notice), lambda: controller().session("a", notice=notice)):
        with pytest.raises(
            ConfigurationError, match=r"^notice=.* must be True, False, or the text that tells the model"
        ):
            make()


async def test_async_calls_tell_too_and_a_handler_may_make_calls() -> None:
    heard: list[CompactionEvent] = []

    async def handler(event: CompactionEvent) -> None:
        heard.append(event)
        await hooks.transform_context(NEAR)

    hooks = CompactionController(context_window=8_192, notice=WORD, on_event=handler)
    views = await asyncio.gather(*(hooks.transform_context(NEAR) for _ in range(3)))
    assert len(heard) == 1
    assert all(view == [*NEAR, user(WORD)] for view in views)


# -- any conversation


class Agent:
    """A host that may do anything with its list; every view is checked."""

    def __init__(self) -> None:
        self.hooks = summarizing(notice=WORD)
        self.messages: list[Chat] = [system(), user("Go.")]
        self.numbers: Iterator[int] = count()

    def act(self, kind: str, place: int) -> None:
        number = next(self.numbers)
        match kind:
            case "step":
                self.messages += step(number, 250)
            case "open":
                self.messages += step(number, 250)[:1]
            case "answer":
                self.messages += talk(1, 150, first=number)
            case "said":
                self.messages += [user(f"{number}: {prose(100)}")]
            case "rewind":
                del self.messages[max(2, len(self.messages) - place) :]
            case "edit":
                self.messages[place % len(self.messages)] = user(f"Edit {number}.")
            case "undo":
                self.hooks.undo()
            case _:
                self.hooks.compact_sync(self.messages, keep_recent_tokens=1_500)


KINDS = st.sampled_from(["step"] * 6 + ["open", "answer", "said", "rewind", "edit", "undo", "compact"])


@examples(40)
@given(st.lists(st.tuples(KINDS, st.integers(0, 30)), min_size=20, max_size=60))
def test_without_the_notice_a_view_is_that_of_the_record_and_it_stays_at_its_place(acts: list[tuple[str, int]]) -> None:
    agent = Agent()
    session, last = agent.hooks.session("default"), (list[Chat](), list[Chat]())
    for kind, place in acts:
        agent.act(kind, place)
        view = agent.hooks.transform_context_sync(agent.messages)
        plain = project(agent.messages, session.record)
        assert [one for one in view if one != user(WORD)] == session.to_store(view) == plain
        assert written(view) <= 1

        read, of_plain = ([piece for one in each for piece in OpenAIChatFormat().read(one)] for each in (view, plain))
        assert not worsened(of_plain, read, "openai_chat")
        before, sent = last
        if plain[: len(before)] == before:
            assert view[: len(sent)] == sent
        last = plain, view


# -- sealed reasoning


class Told(Run):
    """An agent on a model that binds its reasoning, which is told before each compaction."""

    keywords = MappingProxyType({"notice": True})
    told = 0

    def _reason(self, view: list[Any], model: str, options: Any) -> list[Any]:
        self.told += "[Notice from the program" in json.dumps(view)
        return super()._reason(view, model, options)


@pytest.mark.parametrize("seed", sampled(range(8), 2))
def test_reasoning_behind_it_is_valid_while_it_stays_and_nowhere_else(seed: int) -> None:
    run = Told(seed)
    run.steps(30)
    assert len(run.signer.refusals) <= run.blind_calls
    assert run.told


@pytest.mark.parametrize("share", sampled([0.3, 1.0], 1))
def test_workers_that_do_not_know_it_leave_out_what_is_behind_it(share: float) -> None:
    told = kept = 0
    for seed in range(2):
        run = Told(seed)
        workers = [run.session]
        run.start(run.random.choice(run.window), "run 0")
        workers.append(run.session)
        for _ in range(40):
            if run.random.random() < share:
                run.session = workers[run.session is workers[0]]
            run.step()
        assert run.signer.refusals == [], seed
        told += run.told
        kept += run.figures[2]
    assert told
    assert kept > 100


@folded("model, refusals", {BINDING: (BINDING, 0), HIDDEN: (HIDDEN, 1)})
def test_a_process_that_begins_behind_it_sends_a_view_that_is_accepted(model: str, refusals: int) -> None:
    run = Told(3)
    while not run.told:
        run.step(model)
    run.step(model)
    run.step(PLAIN)
    run.restart()
    run.step(model)
    assert len(run.signer.refusals) <= refusals
    assert run.told


@pytest.mark.parametrize("seeds", [[2], pytest.param([0, 1, 3], marks=pytest.mark.full)])
@folded("kind", {kind.__name__: kind for kind in NATIVE})
def test_the_providers_own_compactions_go_on_as_without_it(kind: type[NativeRun], seeds: Sequence[int]) -> None:
    told = 0
    for seed in seeds:
        run = kind(seed)
        run.keywords, run.window = {"notice": WORD}, 7_000
        run.restart()
        for _ in range(24):
            run.steps(1)
            told += written(run.session.transform_context_sync(run.messages, model=run.model))
        assert run.faults == [], seed
    assert told or kind is NATIVE[0]  # whose provider compacts before the context is nearly full
