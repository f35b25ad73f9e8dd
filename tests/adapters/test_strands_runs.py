"""Strands Agents: sizes, recovery, cancellation, restored sessions, several agents, and the issues that its users have told."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from compaction_adapters.strands import CompactionConversationManager, summarizer
from pydantic import BaseModel
from strands import Agent, tool
from strands.agent.conversation_manager import SlidingWindowConversationManager
from strands.hooks import AfterModelCallEvent
from strands.multiagent import GraphBuilder, Swarm
from strands.session.file_session_manager import FileSessionManager
from strands.types.exceptions import EventLoopException
from strands.vended_plugins.context_injector import ContextInjector

from compaction_hooks import (
    CompactionFinished,
    CompactionSettings,
    CompactionSkipped,
    CompactionStarted,
    ConfigurationError,
    ContextOverflowError,
    Summary,
    SummaryRequest,
)
from compaction_hooks.events import CompactionEvent
from compaction_hooks.stores import SQLiteStore
from tests.adapters import server_compaction, signed_reasoning
from tests.adapters.server_compaction import COMPACTS, OPENAI_COMPACTS, check_left_to_server, three_requests
from tests.adapters.signed_reasoning import BINDING, HIDDEN, TURNS, Reading
from tests.adapters.stage import SECRET, CountingSummarizer
from tests.adapters.strands_stage import WINDOW, Stage, agent_with, chunks_of, read_file, spoken, steps
from tests.cases import crossed, sampled, sampled_rows
from tests.conversations import prose
from tests.provider import Answer, Call, CallSigner

SUMMARIZE = CompactionSettings(clear_tool_results=False)
"""Nothing but a summary makes room."""


def texts(messages: list[Any]) -> str:
    return str([one["content"] for one in messages])


def finished(events: list[CompactionEvent]) -> list[CompactionFinished]:
    return [event for event in events if isinstance(event, CompactionFinished)]


# -- sizes


@pytest.mark.parametrize("kind", ["openai", "anthropic", "bedrock", "google"])
async def test_the_whole_input_is_counted_once_also_its_cached_part(stage: Stage, kind: str) -> None:
    side = stage.side(*steps(3), window=100_000)
    own = CompactionConversationManager(context_window=100_000)
    agent = agent_with(getattr(stage, kind)(), own, tools=[read_file], system_prompt=prose(2_000))
    await agent.invoke_async("Read three files.")
    last = side.requests[-1]
    assert last.cached_tokens > 2_000
    assert own.session(agent.session_id).state().context_tokens == last.input_tokens


@pytest.mark.parametrize(
    ("kind", "options"),
    sampled_rows(
        [
            ("openai", {"params": {"max_completion_tokens": 3_000}}),
            ("google", {"params": {"max_output_tokens": 3_000}}),
            ("anthropic", {"max_tokens": 3_000}),
            ("bedrock", {"max_tokens": 3_000}),
        ],
        3,
    ),
)
async def test_the_models_window_and_output_limit_are_used(stage: Stage, kind: str, options: dict[str, Any]) -> None:
    side, events = stage.side(*steps(12), window=5_000), list[CompactionEvent]()
    own = CompactionConversationManager(on_event=events.append)
    model = getattr(stage, kind)(context_window_limit=8_000, **options)
    await agent_with(model, own, tools=[read_file]).invoke_async("Read twelve files.")
    assert side.rejections == []
    started = [event for event in events if isinstance(event, CompactionStarted)]
    assert {event.context_window for event in started} == {8_000}
    assert max(event.trigger_tokens or 0 for event in started) <= 5_000


# -- recovery


async def test_a_wording_that_strands_does_not_know_is_recovered_from(stage: Stage) -> None:
    side = stage.side(*steps(6), wording="vllm")
    own = CompactionConversationManager(context_window=128_000)
    agent = agent_with(stage.openai(), own, tools=[read_file], messages=spoken(14))
    assert str(await agent.invoke_async("Read six files.")).strip() == "All read."
    assert [request.status for request in side.rejections] == [400]


async def test_after_the_first_words_an_overflow_is_raised(stage: Stage) -> None:
    side = stage.side(Answer(prose(300)), Answer("Again."))
    side.stream_fail_after = 3
    agent = agent_with(stage.anthropic(), CompactionConversationManager(context_window=WINDOW), messages=spoken(3))
    shown: list[str] = []
    with pytest.raises(Exception, match="too long"):
        shown += [chunk async for chunk in chunks_of(agent, "Go on.")]
    assert len(side.requests) == 1
    assert str(await agent.invoke_async("Go on.")).strip() == prose(300).strip()


async def test_an_overflow_that_no_view_cures_comes_as_strands_own_error(stage: Stage) -> None:
    side = stage.side(*steps(3))
    agent = agent_with(stage.openai(), CompactionConversationManager(context_window=WINDOW), tools=[read_file])

    def reject(event: AfterModelCallEvent) -> None:
        side.reject_next = 2

    agent.hooks.add_callback(AfterModelCallEvent, reject)
    with pytest.raises(EventLoopException) as caught:
        await agent.invoke_async("Read three files.")
    assert isinstance(caught.value.__cause__, ContextOverflowError)
    assert [list(one["content"][0]) for one in agent.messages] == [["text"], ["toolUse"], ["toolResult"]]
    agent.hooks = type(agent.hooks)()
    side.reject_next = 0
    assert str(await agent.invoke_async("Go on.")).strip() == "All read."


@crossed(kind=["anthropic", "bedrock"], model=[HIDDEN, BINDING])
async def test_no_run_ends_in_a_refusal_of_reasoning(stage: Stage, kind: str, model: str) -> None:
    # Strands' own model for Anthropic's API loses redacted thinking.
    reading = Reading(stage.side(), has_redacted=kind == "bedrock")
    named = f"anthropic.{model}" if kind == "bedrock" else model
    own = CompactionConversationManager(context_window=signed_reasoning.WINDOW, settings=signed_reasoning.SETTINGS)

    @tool(name="read_file")
    def read(path: str) -> str:
        """Read a file."""
        return signed_reasoning.RESULT

    agent = agent_with(getattr(stage, kind)(model=named), own, tools=[read])
    for turn in TURNS:
        assert str(await agent.invoke_async(turn)).strip() == "Done."
    reading.check(model)


async def test_googles_signatures_of_another_account_are_replaced(stage: Stage) -> None:
    side = stage.side(*steps(4), *steps(4))
    side.signer = signer = CallSigner()
    own = CompactionConversationManager(context_window=WINDOW)
    agent = agent_with(stage.google(model="gemini-3-pro"), own, tools=[read_file])
    for account in ("first", "second"):
        signer.account = account
        assert str(await agent.invoke_async("Read four files.")).strip() == "All read."
    assert len(signer.refusals) == len(side.rejections) == 1
    assert signer.sent[-1] == 4


# -- cancellation


@pytest.mark.parametrize(
    ("by", "believed", "statuses"),
    [("agent.cancel", 8_192, []), ("cancel_signal", 8_192, []), ("agent.cancel", 131_072, [400])],
)
async def test_cancelling_an_agent_ends_its_summary(stage: Stage, by: str, believed: int, statuses: list[int]) -> None:
    """A summary before a call, or one that recovers from a rejection."""
    side, signal, has_begun = stage.side(Answer("Yes."), window=8_192), threading.Event(), asyncio.Event()

    async def summarize(_: SummaryRequest) -> Summary:
        has_begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    own = CompactionConversationManager(context_window=believed, summarizer=summarize, settings=SUMMARIZE)
    agent = agent_with(stage.openai(), own, messages=spoken(10))
    run = asyncio.create_task(agent.invoke_async("Go on.", cancel_signal=signal))
    await has_begun.wait()
    agent.cancel() if by == "agent.cancel" else signal.set()
    result = await asyncio.wait_for(run, 10)
    assert (result.stop_reason, [one.status for one in side.requests]) == ("cancelled", statuses)
    assert len(agent.messages) == 22
    has_begun.clear()
    agent.cancel()
    result = await agent.invoke_async("Go on.")
    assert (result.stop_reason, has_begun.is_set()) == ("cancelled", False)


# -- what is no history


async def test_text_that_a_plugin_adds_to_each_call_is_last_and_no_history(stage: Stage) -> None:
    side, ask = stage.side(*steps(12)), CountingSummarizer()
    own = CompactionConversationManager(context_window=12_000, summarizer=ask, settings=SUMMARIZE)
    injector = ContextInjector(lambda _: f"Call {len(side.requests)}.", trigger=lambda _: True)
    agent = agent_with(stage.anthropic(), own, tools=[read_file], messages=spoken(8), plugins=[injector])
    await agent.invoke_async("Read twelve files.")
    assert len(ask.asked) >= 2
    assert [one.messages[-1]["content"][-1]["text"].strip() for one in side.requests] == [
        f"Call {number}." for number in range(len(side.requests))
    ]
    assert [str(one.messages).count("Call ") for one in side.requests] == [1] * len(side.requests)
    assert "Call " not in texts(agent.messages) + str([request.prompt for request in ask.asked])


class Report(BaseModel):
    """What was read."""

    files: int


async def test_a_structured_answer_behind_a_summary(stage: Stage) -> None:
    side = stage.side(*steps(4), Answer(calls=(Call("Report", {"files": 4}),)), Answer("Done."))
    own = CompactionConversationManager(context_window=WINDOW)
    agent = agent_with(stage.openai(), own, tools=[read_file], messages=spoken(14))
    result = await agent.invoke_async("Read four files.", structured_output_model=Report)
    assert result.structured_output == Report(files=4)
    assert SECRET in str(side.model_requests[-1].messages)
    assert side.rejections == []


# -- the writer of a summary


async def test_the_auxiliary_model_writes_the_summary(stage: Stage) -> None:
    side, other = stage.side(*steps(6)), stage.side(key="other")
    own = CompactionConversationManager(context_window=WINDOW, settings=SUMMARIZE)
    agent = agent_with(stage.openai(), own, tools=[read_file], messages=spoken(10), aux_model=stage.anthropic("other"))
    await agent.invoke_async("Read six files.")
    assert [one.is_summary for one in other.requests] == [True] * len(other.requests) != []
    assert not any(one.is_summary for one in side.requests)


@pytest.mark.parametrize("kind", sampled(["anthropic", "openai", "bedrock"], 1))
def test_a_model_of_the_users_writes_the_summary_also_for_sync_calls(stage: Stage, kind: str) -> None:
    side, other, events = stage.side(), stage.side(key="other"), list[CompactionEvent]()
    given = summarizer(stage.openai("other"))
    own = CompactionConversationManager(context_window=WINDOW, summarizer=given, on_event=events.append)
    agent = agent_with(getattr(stage, kind)(), own, messages=spoken(10))
    agent("Go on.")
    own.compact_sync(agent.messages)
    assert [one.is_summary for one in other.requests] == [True] * len(finished(events))
    assert [event.usage.input_tokens for event in finished(events) if event.usage] == [
        one.input_tokens for one in other.requests
    ]
    assert SECRET not in texts(agent.messages)
    assert not any(one.is_summary for one in side.requests)


# -- compaction by others


@pytest.mark.parametrize(
    ("option", "kind", "config"),
    sampled_rows(
        [
            ("context_management", "anthropic", {"params": {"extra_body": {"context_management": COMPACTS}}}),
            ("context_management", "responses", {"params": {"context_management": OPENAI_COMPACTS}}),
            ("context_management", "bedrock", {"additional_request_fields": {"context_management": COMPACTS}}),
            ("truncation", "responses", {"params": {"truncation": "auto"}}),
        ],
        2,
    ),
)
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # Strands leaves streams of Responses open
async def test_a_server_that_compacts_is_left_to_do_so(
    stage: Stage, option: str, kind: str, config: dict[str, Any]
) -> None:
    side, events = stage.side(), list[CompactionEvent]()
    own = CompactionConversationManager(
        context_window=server_compaction.WINDOW,
        settings=server_compaction.SETTINGS,
        summarizer=CountingSummarizer(),
        on_event=events.append,
    )
    agent = agent_with(getattr(stage, kind)(**config), own, messages=spoken(12))
    for _ in three_requests(side):
        await agent.invoke_async("And now?")
    check_left_to_server(side, events, option)


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # Strands leaves streams of Responses open
async def test_a_model_that_keeps_the_history_is_left_to_do_so(stage: Stage) -> None:
    """Strands gives such a model only the new messages, and takes no conversation manager with one; but models may be exchanged."""
    side, events = stage.side(*steps(5), window=100_000), list[CompactionEvent]()
    own = CompactionConversationManager(
        context_window=100_000, settings=server_compaction.SETTINGS, on_event=events.append
    )
    agent = agent_with(stage.openai(), own, tools=[read_file], messages=spoken(4))
    agent.model = stage.responses(stateful=True)
    await agent.invoke_async("Read five files.")
    assert [event.why for event in events if isinstance(event, CompactionSkipped)] == ["left to the server (stateful)"]
    assert not any(one.is_summary for one in side.requests)
    with pytest.raises(ValueError, match="cannot be used with a stateful model"):
        agent_with(stage.responses(stateful=True), own)


def test_strands_own_context_manager_takes_the_place_of_ours(stage: Stage) -> None:
    own = CompactionConversationManager(context_window=WINDOW)
    with pytest.warns(UserWarning, match="ignoring co-provided conversation_manager"):
        agent = agent_with(stage.openai(), own, context_manager="auto")
    assert agent.conversation_manager is not own
    with pytest.raises(ConfigurationError, match="name the conversation"):
        own.compact_sync(agent.messages)


# -- restored sessions


def process(stage: Stage, folder: Path, own: Any, **options: Any) -> Agent:
    """Return the agent as a new process makes it."""
    session = FileSessionManager("thread", storage_dir=str(folder))
    return agent_with(stage.openai(), own, session_manager=session, tools=[read_file], **options)


async def test_a_restored_session_goes_on_with_its_summary_and_pins(stage: Stage, tmp_path: Path) -> None:
    """Strands' own managers lost pins on restore (strands-agents/harness-sdk#4087)."""
    side, events = stage.side(*steps(4), Answer("Yes."), Answer("No.")), list[CompactionEvent]()
    with SQLiteStore(tmp_path / "records.db") as store:

        def manager() -> CompactionConversationManager:
            return CompactionConversationManager(context_window=WINDOW, store=store, on_event=events.append)

        own = manager()
        first = process(stage, tmp_path, own, messages=spoken(14))
        await own.pin(first.messages[2])
        await first.invoke_async("Read four files.")
        summaries = len(finished(events))
        second = process(stage, tmp_path, manager())
        await second.invoke_async("Is all read?")
    assert texts(second.messages[:-2]) == texts(first.messages)
    assert len(finished(events)) == summaries >= 1
    sent = side.requests[-1]
    assert first.messages[2]["content"][0]["text"] in str(sent.messages)
    assert SECRET in str(sent.messages)
    assert len(sent.messages) < len(first.messages)


async def test_a_session_of_another_manager_is_restored_whole(stage: Stage, tmp_path: Path) -> None:
    side = stage.side(*[Answer(f"Answer {number}.") for number in range(6)])
    first = process(stage, tmp_path, SlidingWindowConversationManager(window_size=4))
    for number in range(5):
        await first.invoke_async(f"Question {number}?")
    assert len(first.messages) == 4
    second = process(stage, tmp_path, CompactionConversationManager(context_window=WINDOW))
    assert len(second.messages) == 10
    await second.invoke_async("Question 5?")
    third = process(stage, tmp_path, CompactionConversationManager(context_window=WINDOW))
    assert third.messages == second.messages
    assert len(side.requests[-1].messages) == 11


# -- several agents of one manager


def ids(events: list[CompactionEvent]) -> set[str]:
    return {event.session_id for event in finished(events)}


async def test_an_agent_as_a_tool_has_a_conversation_of_its_own(stage: Stage) -> None:
    events = list[CompactionEvent]()
    inner, outer = (
        stage.side(*steps(10), *steps(10), key="inner"),
        stage.side(
            *(Answer(prose(500), (Call("helper", {"input": f"Read part {number}."}),)) for number in range(2)),
            Answer("All done."),
        ),
    )
    own = CompactionConversationManager(context_window=8_192, on_event=events.append)
    helper = agent_with(stage.anthropic("inner"), own, name="helper", tools=[read_file], agent_id="helper")
    agent = agent_with(stage.openai(), own, tools=[helper.as_tool()], messages=spoken(10))
    assert str(await agent.invoke_async("Do it.")).strip() == "All done."
    # Each call of the tool begins anew, and so is a conversation of its own.
    assert len(ids(events)) == 3
    assert {one.partition("%/")[0] for one in ids(events)} == {agent.session_id, helper.session_id}
    for side in (inner, outer):
        assert side.rejections == []
    assert "Question" not in str([one.body for one in inner.requests])
    with pytest.raises(ConfigurationError, match="name the conversation"):
        await own.compact(agent.messages)


async def test_agents_of_one_session_are_apart(stage: Stage, tmp_path: Path) -> None:
    stage.side(*[Answer("Yes.")] * 4)
    own = CompactionConversationManager(context_window=WINDOW, settings=SUMMARIZE)
    session = FileSessionManager("thread", storage_dir=str(tmp_path))
    agents = [
        agent_with(stage.openai(), own, session_manager=session, agent_id=name, messages=spoken(12))
        for name in ("first", "second")
    ]
    await asyncio.gather(*(agent.invoke_async("Go on.") for agent in agents))
    records = [own.session(f"thread%/{agent.agent_id}").history() for agent in agents]
    assert [len(each) for each in records] == [1, 1]
    await own.undo("thread%/first")
    await own.forget("thread")  # of an agent without an id of its own
    assert [len(own.session(f"thread%/{name}").history()) for name in ("first", "second")] == [0, 1]


@pytest.mark.parametrize("kind", sampled(["swarm", "graph"], 1))
async def test_the_agents_of_a_group_are_apart(stage: Stage, kind: str) -> None:
    events, builder = list[CompactionEvent](), GraphBuilder()
    own = CompactionConversationManager(context_window=8_192, on_event=events.append)
    sides = {name: stage.side(*steps(9)[:9], key=name) for name in ("one", "two", "last")}
    agents = [agent_with(stage.openai(name), own, name=name, tools=[read_file]) for name in sides]
    if kind == "swarm":
        for name, following in (("one", "two"), ("two", "last")):
            call = Call("handoff_to_agent", {"agent_name": following, "message": "Go on."})
            sides[name].answers.append(Answer(calls=(call,)))
        result: Any = await Swarm(agents, max_handoffs=3).invoke_async("Read nine files.")
    else:
        for agent in agents:
            builder.add_node(agent, agent.name)
        builder.add_edge("one", "last")
        builder.add_edge("two", "last")
        builder.set_max_node_executions(3)
        result = await builder.build().invoke_async("Read nine files.")
    assert result.status.value == "completed"
    assert [len(side.model_requests) >= 10 for side in sides.values()] == [True] * 3
    assert ids(events) == {agent.session_id for agent in agents}
    assert [side.rejections for side in sides.values()] == [[], [], []]


# -- arguments


async def test_a_managers_only_agent_needs_no_id(stage: Stage) -> None:
    stage.side(Answer("Yes."))
    own = CompactionConversationManager(context_window=WINDOW)
    agent = agent_with(stage.openai(), own, messages=spoken(5))
    await agent.invoke_async("Go on.")
    assert (await own.compact(agent.messages)).record is not None
    assert len((await own.load()).history()) == 1


def test_bad_arguments_are_named(stage: Stage) -> None:
    @tool(name="recall")
    def recall(query: str) -> str:
        """Recall."""
        return query

    @tool(name="compact_context")
    def compact_context(query: str) -> str:
        """Sum a file up."""
        return query

    for own in (recall, compact_context):
        with pytest.raises(ConfigurationError, match="rename the agent's own"):
            agent_with(stage.openai(), CompactionConversationManager(recall=True, compact=True), tools=[own])
    with pytest.raises(TypeError, match="context_window"):
        CompactionConversationManager(contextwindow=1)  # type: ignore[call-arg]


# -- issues of users (strands-agents/harness-sdk)


@crossed(place=["only", "oldest", "newest"], is_known=[True, False])
async def test_a_huge_result_does_not_end_the_agent(stage: Stage, place: str, is_known: bool) -> None:
    """There is nothing to summarize (#981), or another result is larger than the oldest one (#4341)."""
    sizes = {"only": [30_000], "oldest": [30_000, 500, 500], "newest": [500, 500, 30_000]}[place]

    @tool
    def dump(number: int) -> str:
        """Dump a table.

        Args:
            number: Which one.
        """
        return prose(sizes[number])

    calls = [Answer(calls=(Call("dump", {"number": number}),)) for number in range(len(sizes))]
    side = stage.side(*calls, Answer("That is all."))
    own = CompactionConversationManager(context_window=WINDOW if is_known else 128_000)
    agent = agent_with(stage.openai(), own, tools=[dump])
    assert str(await agent.invoke_async("Dump all.")).strip() == "That is all."
    assert len(side.rejections) == (not is_known)
    assert prose(30_000) in texts(agent.messages)


async def test_a_large_result_inside_the_window_is_sent_whole(stage: Stage) -> None:
    """It was replaced by "Tool result was too large!" (#702)."""
    text, side = prose(9_000), stage.side(Answer(calls=(Call("dump", {}),)), Answer("Seen."))

    @tool
    def dump() -> str:
        """Dump."""
        return text

    own = CompactionConversationManager(context_window=WINDOW)
    await agent_with(stage.openai(), own, tools=[dump]).invoke_async("Dump it.")
    assert text in str(side.requests[-1].messages)


async def test_a_conversation_of_tool_calls_alone_is_compacted(stage: Stage) -> None:
    """No place for a cut was found (#2173), and the window was ignored between tool calls (#465, #578)."""
    side, events = stage.side(*steps(30)), list[CompactionEvent]()
    own = CompactionConversationManager(context_window=WINDOW, on_event=events.append)
    agent = agent_with(stage.bedrock(), own, tools=[read_file])
    assert str(await agent.invoke_async("Read thirty files.")).strip() == "All read."
    assert side.rejections == []
    assert len(finished(events)) >= 2
    assert len(agent.messages) == 62
