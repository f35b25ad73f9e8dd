"""What an agent's checkpoints keep of its compactions, and that nothing is paid for twice."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain_openai")

from compaction_adapters.langchain import CompactionMiddleware
from compaction_adapters.langchain.records import CHANNEL
from compaction_adapters.langchain_core import conversations
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelRetryMiddleware
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from compaction_hooks import CompactionFinished, CompactionRecord, CompactionSettings
from compaction_hooks.events import CompactionEvent
from compaction_hooks.stores import SQLiteStore
from tests.adapters import langchain_core_stage
from tests.adapters.langchain_core_stage import (
    SECRET,
    CountingSummarizer,
    Stage,
    file_tool,
    kinds_of,
    reads,
    records_in,
    spoken,
    texts,
    thread,
)
from tests.provider import Rejection

provider = langchain_core_stage.provider
stage = langchain_core_stage.stage

UNAVAILABLE = Rejection(503, {"error": {"message": "The server is overloaded.", "type": "server_error"}})
LONG = {"messages": [*spoken(30), HumanMessage("And now?")]}
NEXT = {"messages": [HumanMessage("Go on.")]}


def agent_of(stage: Stage, *middleware: Any, checkpointer: Any = None) -> Any:
    return create_agent(stage.openai(), middleware=middleware, checkpointer=checkpointer)


def records_of(agent: Any, config: Any = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = records_in(agent, config, CHANNEL)
    return found


async def call(agent: Any, messages: Any, how: str, config: Any = None) -> Any:
    return agent.invoke(messages, config) if how == "sync" else await agent.ainvoke(messages, config)


both_ways = pytest.mark.parametrize("how", ["sync", "async"])


# -- the channel


async def test_the_record_is_plain_json_in_the_state_and_not_in_what_the_agent_returns(stage: Stage) -> None:
    stage.side()
    agent = agent_of(stage, CompactionMiddleware(), checkpointer=InMemorySaver())
    result = agent.invoke(LONG, thread())
    assert list(result) == ["messages"]
    (record,) = records_of(agent)
    assert json.loads(json.dumps(record)) == record
    assert SECRET in CompactionRecord.from_dict(record).summary
    assert all(CHANNEL not in values for values in agent.stream(NEXT, thread(), stream_mode="values"))
    assert CHANNEL not in agent.get_state(thread()).values
    assert CHANNEL not in agent.get_input_jsonschema()["properties"]
    assert CHANNEL not in agent.get_output_jsonschema()["properties"]


@both_ways
async def test_another_process_goes_on_from_a_file(stage: Stage, how: str, tmp_path: Path) -> None:
    sqlite = pytest.importorskip("langgraph.checkpoint.sqlite")
    aio = pytest.importorskip("langgraph.checkpoint.sqlite.aio")
    side, path = stage.side(), str(tmp_path / "threads.db")
    for messages in (LONG, NEXT):
        if how == "sync":
            with sqlite.SqliteSaver.from_conn_string(path) as saver:
                agent_of(stage, CompactionMiddleware(), checkpointer=saver).invoke(messages, thread())
        else:
            async with aio.AsyncSqliteSaver.from_conn_string(path) as saver:
                await agent_of(stage, CompactionMiddleware(), checkpointer=saver).ainvoke(messages, thread())
    assert kinds_of(side.requests) == [True, False, False]
    assert SECRET in texts(side.requests[-1].messages)


# -- paid once


@both_ways
async def test_a_summary_is_kept_when_the_model_call_fails(stage: Stage, how: str) -> None:
    """What a middleware returns is lost when the call raises; the session keeps it."""
    side = stage.side(UNAVAILABLE, UNAVAILABLE, UNAVAILABLE)
    agent = agent_of(stage, CompactionMiddleware(), checkpointer=InMemorySaver())
    with pytest.raises(Exception, match="overloaded"):
        await call(agent, LONG, how, thread())
    for _ in range(2):
        with pytest.raises(Exception, match="overloaded"):
            await call(agent, None, how, thread())
    result = await call(agent, None, how, thread())
    assert result["messages"][-1].text == "Done."
    assert kinds_of(side.requests).count(True) == 1
    assert len(records_of(agent)) == 1


@pytest.mark.parametrize(("how", "config"), [("sync", thread()), ("async", None)], ids=["thread", "no thread"])
async def test_a_summary_is_kept_when_middleware_outside_tries_again(stage: Stage, how: str, config: Any) -> None:
    side = stage.side(UNAVAILABLE, UNAVAILABLE)
    agent = agent_of(
        stage, ModelRetryMiddleware(max_retries=3, initial_delay=0.0, backoff_factor=0.0), CompactionMiddleware()
    )
    result = await call(agent, LONG, how, config)
    assert result["messages"][-1].text == "Done."
    assert kinds_of(side.requests) == [True, False, False, False]


class AsksFirst(AgentMiddleware[Any, Any, Any]):
    """Interrupts every model call until a human has agreed."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        assert interrupt("The prompt is too long: 200000 tokens > 100000 maximum. Go on?") == "yes"
        return handler(request)

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        assert interrupt("The prompt is too long: 200000 tokens > 100000 maximum. Go on?") == "yes"
        return await handler(request)


@both_ways
async def test_a_summary_is_kept_when_middleware_inside_interrupts(stage: Stage, how: str) -> None:
    """The interrupt passes through, whatever it says, and the wrap runs again when the run is resumed."""
    side = stage.side()
    settings = CompactionSettings(overflow_patterns=("prompt is too long",))
    agent = agent_of(stage, CompactionMiddleware(settings=settings), AsksFirst(), checkpointer=InMemorySaver())
    stopped = await call(agent, LONG, how, thread())
    assert stopped["__interrupt__"]
    assert kinds_of(side.requests) == [True]
    result = await call(agent, Command(resume="yes"), how, thread())
    assert result["messages"][-1].text == "Done."
    assert kinds_of(side.requests) == [True, False]
    assert len(records_of(agent)) == 1


# -- the user's own hand


async def test_a_record_of_a_later_version_is_left_where_it_is(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    stage.side()
    agent = agent_of(stage, CompactionMiddleware(), checkpointer=InMemorySaver())
    agent.invoke({"messages": spoken(1)}, thread())
    agent.update_state(thread(), {CHANNEL: [{"id": "future", "version": 99}]})
    agent.invoke(LONG, thread())
    future, made = records_of(agent)
    assert future == {"id": "future", "version": 99}
    assert SECRET in CompactionRecord.from_dict(made).summary
    assert "a record was skipped" in caplog.text


# -- without a checkpointer


async def test_records_travel_by_a_store_of_ones_own(stage: Stage, tmp_path: Path) -> None:
    side = stage.side()
    for _ in range(2):
        store = SQLiteStore(tmp_path / "records.db")
        agent_of(stage, CompactionMiddleware(store=store)).invoke(LONG, thread())
    assert kinds_of(side.requests) == [True, False, False]


async def test_all_calls_of_a_run_without_a_thread_are_one_conversation(stage: Stage) -> None:
    side = stage.side(*[reads(f"src/{step}.py") for step in range(12)])
    events: list[CompactionEvent] = []
    middleware = CompactionMiddleware(on_event=events.append)
    agent: Any = create_agent(stage.openai(), [file_tool(150)], middleware=[middleware])
    agent.invoke({"messages": "Read all."})
    assert side.remaining == 0
    assert len(events) > 2
    assert len({event.session_id for event in events}) == 1


async def test_a_run_without_a_thread_is_given_no_record_of_another_conversation(stage: Stage) -> None:
    """Both begin with the same words, and go on differently."""
    stage.side()
    held: list[int] = []

    def count(event: CompactionEvent) -> None:
        if isinstance(event, CompactionFinished):
            held.append(len(middleware.session(event.session_id).export_records()))

    middleware = CompactionMiddleware(on_event=count, summarizer=CountingSummarizer())
    agent = agent_of(stage, middleware)
    for first in (0, 100):
        agent.invoke({"messages": [HumanMessage("Hello."), *spoken(30, first=first)]})
    assert held == [1, 1]


async def test_a_host_that_keeps_the_messages_itself_pays_once_for_the_same_beginning(stage: Stage) -> None:
    """Runs without a thread: the next one brings the whole conversation along, serialized by the host."""
    side = stage.side()
    agent = agent_of(stage, CompactionMiddleware())
    first = agent.invoke(LONG)["messages"]
    stored = [message.model_copy() for message in first]
    agent.invoke({"messages": [*stored, HumanMessage("Go on.")]})
    agent.invoke({"messages": [*spoken(30, first=100), HumanMessage("Something else.")]})
    assert kinds_of(side.requests) == [True, False, False, True, False]
    assert texts(side.requests[2].messages).count(SECRET) == 1


async def test_a_thread_that_begins_with_the_messages_of_another_pays_nothing_for_them(stage: Stage) -> None:
    """A conversation that the application branched by copying it."""
    side = stage.side()
    agent = agent_of(stage, CompactionMiddleware(), checkpointer=InMemorySaver())
    agent.invoke(LONG, thread())
    agent.invoke({"messages": [*agent.get_state(thread()).values["messages"], HumanMessage("Go on.")]}, thread("copy"))
    assert kinds_of(side.requests) == [True, False, False]
    assert records_of(agent, thread("copy")) == records_of(agent)


async def test_only_the_records_used_last_are_carried_over(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "MAX_CARRIED", 2)
    summarizer = CountingSummarizer()
    stage.side()
    agent = agent_of(stage, CompactionMiddleware(summarizer=summarizer))
    for first in (0, 100, 0, 200, 0, 100):
        agent.invoke({"messages": spoken(30, first=first)})
    assert len(summarizer.asked) == 4  # 0, 100 and 200 once each; 100 was forgotten when 200 came


async def test_an_agent_that_is_a_node_of_another_graph_pays_once_for_the_same_beginning(stage: Stage) -> None:
    """Its own state ends with every run of the node; its messages are the outer graph's."""
    side = stage.side()
    graph = within(agent_of(stage, CompactionMiddleware()))
    graph.invoke(LONG, thread())
    graph.invoke(NEXT, thread())
    assert kinds_of(side.requests) == [True, False, False]


def within(agent: Any) -> Any:
    """The agent as the only node of an outer graph."""
    outer: Any = StateGraph(MessagesState)
    outer.add_node("agent", agent)
    outer.add_edge(START, "agent")
    return outer.compile(checkpointer=InMemorySaver())


@pytest.mark.parametrize(
    ("is_inner", "has_thread", "is_held"),
    [
        pytest.param(False, False, False, id="without a thread"),
        pytest.param(True, True, False, id="subgraphs"),
        pytest.param(False, True, True, id="threads stay"),
    ],
)
async def test_sessions_of_runs_that_ended_are_let_go(
    stage: Stage, is_inner: bool, has_thread: bool, is_held: bool
) -> None:
    stage.side()
    events: list[CompactionEvent] = []
    middleware = CompactionMiddleware(on_event=events.append, summarizer=CountingSummarizer())
    agent = agent_of(stage, middleware)
    for first in (0, 100, 200):
        config = thread(f"thread {first}") if has_thread else None
        (within(agent) if is_inner else agent).invoke({"messages": spoken(30, first=first)}, config)
    gc.collect()
    ids = list(dict.fromkeys(event.session_id for event in events))
    assert [middleware.session(id).state().context_tokens is not None for id in ids] == [is_held] * 3
