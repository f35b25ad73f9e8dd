"""Runs of tinyagent by hand, with streams, signed reasoning and the recall tool."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from compaction_adapters.tinyagent import compaction_hook
from tinyagent import extract_text
from tinyagent.agent_types import (
    AgentMessage,
    AgentTool,
    AgentToolResult,
    AssistantMessage,
    TextContent,
    ThinkingContent,
)

from compaction_hooks import CompactionEvent, ContextOverflowError
from compaction_hooks.stores import MemoryStore
from compaction_hooks.testing import Script, Turn
from tests.adapters import compact_scene
from tests.adapters.by_hand_rows import ID, Process, awaited, check_rows
from tests.adapters.compact_scene import check_compact, read_leaf
from tests.adapters.recall_scene import NOTICE, REQUEST, check_recall, read_page
from tests.adapters.signed_reasoning import BINDING, HIDDEN, RESULT, SETTINGS, STEPS, TURNS, Reading
from tests.adapters.signed_reasoning import WINDOW as READING_WINDOW
from tests.adapters.tinyagent_http import stream_http
from tests.adapters.tinyagent_stage import (
    BELIEVED,
    SCRIPT,
    WINDOW,
    Stage,
    anthropic_model,
    made_agent,
    needs_binding,
    openai_model,
    turns,
)
from tests.cases import folded
from tests.provider import Answer, LoopbackProvider

MESSAGES = turns(8, 300)


@pytest.mark.parametrize("how", [pytest.param("sync", marks=pytest.mark.full), "async"])
async def test_rows_of_a_hook(provider: LoopbackProvider, tmp_path: Path, how: str) -> None:
    key = f"by hand {how}"
    side = provider.conversation(key, window=WINDOW, answers=[Answer("Yes.")])

    def new_process(**keywords: Any) -> Process:
        hook = compaction_hook(session_id=ID, context_window=WINDOW, **keywords)
        agent = made_agent(hook, openai_model(provider.openai_url), key, SCRIPT, tools=[])
        agent.replace_messages(MESSAGES)
        return Process(hook, awaited(lambda: hook.prompt(agent, "Go on.")), lambda: agent.state.messages, ())

    await check_rows(how, tmp_path, side, new_process, MESSAGES[0])


async def read(_id: str, arguments: Mapping[str, Any], *_: object) -> AgentToolResult:
    return AgentToolResult(content=[TextContent(text=read_page(arguments["page"]))])


READ_PAGE = AgentTool(
    name="read_page",
    description="Reads a page.",
    parameters={"type": "object", "properties": {"page": {"type": "integer"}}},
    execute=read,
)


async def read_one_leaf(_id: str, arguments: Mapping[str, Any], *_: object) -> AgentToolResult:
    return AgentToolResult(content=[TextContent(text=read_leaf(arguments["leaf"]))])


READ_LEAF = AgentTool(
    name="read_leaf",
    description="Reads a leaf.",
    parameters={"type": "object", "properties": {"leaf": {"type": "integer"}}},
    execute=read_one_leaf,
)


@pytest.mark.parametrize("recall", [True, False])
async def test_an_agent_that_needs_a_covered_fact_recalls_it(
    provider: LoopbackProvider, request: pytest.FixtureRequest, recall: bool
) -> None:
    side = provider.conversation(request.node.nodeid, window=WINDOW)
    hook = compaction_hook(context_window=WINDOW, recall=recall, notice=NOTICE)
    agent = made_agent(hook, openai_model(provider.openai_url), request.node.nodeid, Script(turns=()), tools=())
    agent.set_tools([READ_PAGE])

    async def ask() -> str:
        return extract_text(await hook.prompt(agent, REQUEST))

    await check_recall(side, ask, recall)
    assert hook.session.state().compaction_count > 0


async def test_a_model_asks_for_a_compaction(provider: LoopbackProvider, request: pytest.FixtureRequest) -> None:
    name, events = request.node.nodeid, list[CompactionEvent]()
    hook = compaction_hook(context_window=WINDOW, compact=True, on_event=events.append)
    agent = made_agent(hook, openai_model(provider.openai_url), name, Script(turns=()), tools=())
    agent.set_tools([READ_LEAF])

    async def ask() -> str:
        return extract_text(await hook.prompt(agent, compact_scene.REQUEST))

    await check_compact(provider.conversation(name, window=WINDOW), ask, events)


@needs_binding
@pytest.mark.parametrize("model", [BINDING, HIDDEN])
async def test_no_run_ends_in_a_refusal(provider: LoopbackProvider, model: str) -> None:
    """The second run is that of another process, which has the messages and a store."""
    reading = Reading(
        provider.conversation(model, window=200_000), has_redacted=False
    )  # a stream of the binding has none
    store, messages = MemoryStore(), list[AgentMessage]()
    for turn in TURNS:
        hook = compaction_hook(context_window=READING_WINDOW, settings=SETTINGS, store=store, session_id="reading")
        agent = made_agent(
            hook,
            anthropic_model(provider.anthropic_url, id=model),
            model,
            Script(turns=(Turn(turn, tuple(reading.answers[: STEPS + 1]), (RESULT,) * STEPS),)),
        )
        agent.replace_messages(messages)
        assert extract_text(await hook.prompt(agent, turn)) == "Done."
        messages = agent.state.messages
    reading.check(model)
    answers = [message for message in messages if isinstance(message, AssistantMessage)]
    assert len(answers) == len(reading.answers)
    assert all(isinstance(answer.content[0], ThinkingContent) for answer in answers)


FIRST, SECOND = SCRIPT.turns
LONG = Answer("A fairly long answer that comes in several chunks, one after the other.")


async def test_a_stream_shows_nothing_of_an_attempt_that_overflowed(stage: Stage) -> None:
    """Subscribers of the agent see the same; the failed attempt's answer is in no list of messages."""
    await stage.hook.prompt(stage.agent, FIRST.user)
    before = len(stage.agent.state.messages)
    stage.side.reject_next = 1
    stage.told.clear()
    events = [event async for event in stage.hook.stream(stage.agent, SECOND.user)]
    types = [event.type for event in events]
    assert (types[0], types[-1]) == ("agent_start", "agent_end")
    assert (types.count("agent_start"), types.count("agent_end")) == (1, 1)
    assert types.count("turn_start") == types.count("turn_end") == len(SECOND.answers)
    assert getattr(events[-1], "messages", None) == stage.agent.state.messages[before:]
    assert stage.told == types
    stage.demand_whole_history(said=2)


async def test_a_stream_without_an_overflow_is_tinyagents_own(stage: Stage) -> None:
    events = [event async for event in stage.hook.stream(stage.agent, FIRST.user)]
    assert [event.type for event in events] == stage.told


async def test_a_second_overflow_ends_the_stream_with_the_error(stage: Stage) -> None:
    stage.side.reject_next = 2
    with pytest.raises(ContextOverflowError):
        _ = [event async for event in stage.hook.stream(stage.agent, FIRST.user)]


@folded(
    "rejected, chunks, requests",
    {"before the first chunk": (0, 0, 2), "after it": (0, 2, 1), "after the resend's first chunk": (1, 2, 2)},
)
async def test_an_overflow_is_recovered_up_to_the_first_chunk(
    rejected: int, chunks: int, requests: int, provider: LoopbackProvider
) -> None:
    """After the first chunk a part of the answer has been shown: the error is the answer."""
    side = provider.conversation("chunks", window=WINDOW, answers=[LONG])
    side.stream_fail_after, side.reject_next = chunks, rejected
    hook = compaction_hook(context_window=BELIEVED)
    agent = made_agent(hook, openai_model(provider.openai_url), "chunks", SCRIPT, stream_fn=stream_http)
    agent.replace_messages(turns(6, 900))
    ended = await hook.prompt(agent, "Well?")
    assert isinstance(ended, AssistantMessage)
    assert ended.stop_reason == ("stop" if chunks == 0 else "error")
    assert agent.state.messages[-1] is ended
    assert len(side.model_requests) == requests
