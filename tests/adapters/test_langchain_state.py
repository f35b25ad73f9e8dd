"""Records of an agent's compactions in its checkpoints and its store; no summary is paid for twice."""

import gc
import json
from pathlib import Path
from typing import Any

import pytest
from compaction_adapters.langchain import CompactionMiddleware
from compaction_adapters.langchain.middleware import CHANNEL
from compaction_adapters.langchain_core import conversations
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelRetryMiddleware
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from compaction_hooks import CompactionRecord, CompactionSettings
from compaction_hooks.events import CompactionEvent
from compaction_hooks.stores import SQLiteStore
from tests.adapters import graph_changes
from tests.adapters.changes_stage import SUMMARIZE, SYSTEM, WINDOW
from tests.adapters.graph_changes import LOOK
from tests.adapters.langchain_core_stage import (
    LONG,
    NEXT,
    OUTAGE,
    SECRET,
    CountingSummarizer,
    Stage,
    asked,
    file_tool,
    kinds_of,
    reads,
    records_in,
    run,
    said,
    spoken,
    texts,
    thread,
)


def agent_of(stage: Stage, *middleware: Any, **options: Any) -> Any:
    return create_agent(stage.openai(), middleware=middleware or [CompactionMiddleware()], **options)


def within(agent: Any) -> Any:
    outer: Any = StateGraph(MessagesState)
    return outer.add_node("agent", agent).add_edge(START, "agent").compile(checkpointer=InMemorySaver())


# -- the channel


async def test_the_record_is_plain_json_in_a_channel_that_is_not_shown(stage: Stage) -> None:
    stage.side()
    agent = agent_of(stage, checkpointer=InMemorySaver())
    assert list(agent.invoke(LONG, thread())) == ["messages"]
    (record,) = records_in(agent, channel=CHANNEL)
    assert json.loads(json.dumps(record)) == record
    assert SECRET in CompactionRecord.from_dict(record).summary
    assert all(CHANNEL not in values for values in agent.stream(NEXT, thread(), stream_mode="values"))
    assert CHANNEL not in agent.get_state(thread()).values
    assert CHANNEL not in agent.get_input_jsonschema()["properties"]
    assert CHANNEL not in agent.get_output_jsonschema()["properties"]


# -- calls that fail or stop


async def test_a_summary_is_kept_when_the_model_call_fails(stage: Stage) -> None:
    """LangChain drops the update of a call that raises; the session keeps the summary."""
    side, agent = stage.side(OUTAGE, OUTAGE), agent_of(stage, checkpointer=InMemorySaver())
    for value in (LONG, None):
        with pytest.raises(Exception, match="overloaded"):
            await agent.ainvoke(value, thread())
    assert (await agent.ainvoke(None, thread()))["messages"][-1].text == "Done."
    assert kinds_of(side.requests).count(True) == 1
    assert len(records_in(agent, channel=CHANNEL)) == 1


@pytest.mark.parametrize(("how", "config"), [("sync", thread()), ("async", None)], ids=["thread", "no thread"])
async def test_a_summary_is_kept_when_middleware_outside_tries_again(stage: Stage, how: str, config: Any) -> None:
    side = stage.side(OUTAGE, OUTAGE)
    retry = ModelRetryMiddleware(max_retries=3, initial_delay=0.0, backoff_factor=0.0)
    result = await run(agent_of(stage, retry, CompactionMiddleware()), LONG, how, config)
    assert result["messages"][-1].text == "Done."
    assert kinds_of(side.requests) == [True, False, False, False]


class AsksFirst(AgentMiddleware[Any, Any, Any]):
    """Interrupts every model call until a human has agreed."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        assert interrupt("The prompt is too long: 200000 tokens > 100000 maximum. Go on?") == "yes"
        return handler(request)


async def test_a_summary_is_kept_when_middleware_inside_interrupts(stage: Stage) -> None:
    """The interrupt passes through, whatever its text, and the middleware runs again when the run is resumed."""
    side = stage.side()
    compaction = CompactionMiddleware(settings=CompactionSettings(overflow_patterns=("prompt is too long",)))
    agent = agent_of(stage, compaction, AsksFirst(), checkpointer=InMemorySaver())
    assert agent.invoke(LONG, thread())["__interrupt__"]
    assert kinds_of(side.requests) == [True]
    assert agent.invoke(Command(resume="yes"), thread())["messages"][-1].text == "Done."
    assert kinds_of(side.requests) == [True, False]
    assert len(records_in(agent, channel=CHANNEL)) == 1


# -- without a checkpointer, or in another conversation


async def test_records_may_be_in_a_store(stage: Stage, tmp_path: Path) -> None:
    side = stage.side()
    for _ in range(2):
        compaction = CompactionMiddleware(store=SQLiteStore(tmp_path / "records.db"))
        agent_of(stage, compaction).invoke(LONG, thread())
    assert kinds_of(side.requests) == [True, False, False]


async def test_all_calls_of_a_run_without_a_thread_are_one_conversation(stage: Stage) -> None:
    side = stage.side(*[reads(f"src/{step}.py") for step in range(12)])
    events: list[CompactionEvent] = []
    agent_of(stage, CompactionMiddleware(on_event=events.append), tools=[file_tool(150)]).invoke(said("Read all."))
    assert side.remaining == 0
    assert len(events) > 2
    assert len({event.session_id for event in events}) == 1


async def test_a_host_that_keeps_the_messages_itself_pays_once_for_the_same_beginning(stage: Stage) -> None:
    """Runs without a thread: the next one brings the whole conversation along, serialized by the host."""
    side, agent = stage.side(), agent_of(stage)
    stored = [message.model_copy() for message in agent.invoke(LONG)["messages"]]
    agent.invoke({"messages": [*stored, *NEXT["messages"]]})
    agent.invoke({"messages": asked(first=100)})
    assert kinds_of(side.requests) == [True, False, False, True, False]
    assert texts(side.requests[2].messages).count(SECRET) == 1


async def test_an_agent_that_is_a_node_of_another_graph_pays_once_for_the_same_beginning(stage: Stage) -> None:
    """Its own state ends with every run of the node; its messages are those of the outer graph."""
    side, graph = stage.side(), within(agent_of(stage))
    graph.invoke(LONG, thread())
    graph.invoke(NEXT, thread())
    assert kinds_of(side.requests) == [True, False, False]


async def test_only_the_records_used_last_are_kept_for_other_conversations(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversations, "MAX_SHORT", 2)
    summarizer = CountingSummarizer()
    stage.side()
    agent = agent_of(stage, CompactionMiddleware(summarizer=summarizer))
    for first in (0, 100, 0, 200, 0, 100):
        agent.invoke({"messages": spoken(30, first=first)})
    assert len(summarizer.asked) == 4  # 0, 100 and 200 once each; 100 was dropped when 200 came


@pytest.mark.parametrize(
    ("is_inner", "has_thread", "is_kept"),
    [
        pytest.param(False, False, False, id="without a thread"),
        pytest.param(True, True, False, id="subgraphs"),
        pytest.param(False, True, True, id="threads stay"),
    ],
)
async def test_sessions_that_end_with_a_run_are_closed_except_those_used_last(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, is_inner: bool, has_thread: bool, is_kept: bool
) -> None:
    monkeypatch.setattr(conversations, "MAX_SHORT", 1)
    stage.side()
    events: list[CompactionEvent] = []
    compaction = CompactionMiddleware(on_event=events.append, summarizer=CountingSummarizer())
    agent = agent_of(stage, compaction)
    for first in (0, 100, 200):
        config = thread(f"thread {first}") if has_thread else None
        (within(agent) if is_inner else agent).invoke({"messages": spoken(30, first=first)}, config)
    gc.collect()
    ids = list(dict.fromkeys(event.session_id for event in events))
    assert [compaction.session(id).state().context_tokens is not None for id in ids] == [is_kept, is_kept, True]


def an_agent(stage: Stage, checkpointer: Any, **options: Any) -> Any:
    compaction: Any = CompactionMiddleware(settings=SUMMARIZE, **options)
    model = stage.openai(WINDOW)
    return create_agent(model, [LOOK], system_prompt=SYSTEM, middleware=[compaction], checkpointer=checkpointer)


async def test_time_travel(stage: Stage) -> None:
    graph_changes.check_travel_in_time(an_agent, stage)


@pytest.mark.full
async def test_a_crash_in_the_model_call(stage: Stage, tmp_path: Path) -> None:
    """LangChain drops the update of a call that raises: across processes a store keeps the record."""
    store = SQLiteStore(tmp_path / "records.db")
    graph_changes.check_crash_in_the_model_call(an_agent, stage, tmp_path / "threads.db", store=store)
