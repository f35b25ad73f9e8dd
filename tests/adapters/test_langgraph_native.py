"""Graphs whose provider compacts on its own side."""

import inspect
from typing import Any

import pytest
from anthropic.resources.beta.messages import Messages
from compaction_adapters.langgraph import CompactionNode
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from compaction_hooks.errors import ConfigurationError
from compaction_hooks.events import CompactionEvent
from tests.adapters import native_run
from tests.adapters.langchain_core_stage import CountingSummarizer, Stage, asked, run, thread
from tests.adapters.langgraph_stage import react_agent, wrapped_graph
from tests.adapters.native_run import KEYWORDS, MODEL, REQUEST, RESULT, NativeSide
from tests.adapters.server_compaction import (
    COMPACTS,
    OPENAI_COMPACTS,
    SETTINGS,
    WINDOW,
    check_left_to_server,
    three_requests,
)
from tests.cases import sampled

BETAS = ["compact-2026-01-12"]


def with_field(stage: Stage) -> Any:
    if "context_management" not in ChatOpenAI.model_fields:
        pytest.skip("this version of langchain-openai has no such field")
    return stage.openai(None, context_management=OPENAI_COMPACTS)


def with_binding(stage: Stage) -> Any:
    return stage.anthropic(None).bind(context_management=COMPACTS, betas=BETAS)


@pytest.mark.parametrize("make", [with_field, with_binding])
async def test_a_server_that_compacts_is_left_to_do_so(stage: Stage, make: Any) -> None:
    """By the node and by the model that it wraps."""
    side, events = stage.side(), list[CompactionEvent]()
    node = CompactionNode(
        context_window=WINDOW, settings=SETTINGS, summarizer=CountingSummarizer(), on_event=events.append
    )
    graph = wrapped_graph(node, make(stage), checkpointer=InMemorySaver())
    for number in three_requests(side):
        await run(graph, {"messages": asked(0 if number else 12)}, "async" if number else "sync", thread())
    check_left_to_server(side, events, "context_management")


async def test_the_view_of_a_node_is_the_whole_list(stage: Stage) -> None:
    node = CompactionNode(context_window=WINDOW, settings=SETTINGS, model=with_field(stage))
    messages = asked(12)
    assert node.view({"messages": messages}) == messages


def read(part: int) -> str:
    """Read a part."""
    return RESULT


by_anthropic = native_run.by_anthropic("compaction" in inspect.signature(Messages.create).parameters)


class Run:
    """A graph whose node has `native=True`; each step is a run of the graph, with the result of the last tool call.

    Args:
        prompt: The place of the system prompt: in front of each call's messages, or in the state.
    """

    def __init__(self, stage: Stage, prompt: str = "around") -> None:
        self.native = NativeSide(stage)
        self.stage, self.saver = stage, InMemorySaver()
        self.node = CompactionNode(native=True, on_event=self.native.note, **KEYWORDS)
        system = SystemMessage("Be brief.")
        self.before = [system] if prompt == "around" else []
        self.next: list[BaseMessage] = [HumanMessage(REQUEST)] if self.before else [system, HumanMessage(REQUEST)]

    async def steps(self, count: int, model: str = MODEL) -> None:
        await self.steps_with(self.stage.anthropic(None, model_name=model), count)

    async def steps_with(self, model: BaseChatModel, count: int) -> None:
        graph = wrapped_graph(self.node, model.bind_tools([read]), before=self.before, checkpointer=self.saver)
        for _ in range(count):
            *_, answer = (await graph.ainvoke({"messages": self.next}, thread()))["messages"]
            self.next = [ToolMessage(RESULT, tool_call_id=call["id"]) for call in answer.tool_calls]


@by_anthropic
@pytest.mark.parametrize("prompt", sampled(["around", "in the state"], 1))
async def test_a_long_run_goes_on_behind_anthropics_block(stage: Stage, prompt: str) -> None:
    graph = Run(stage, prompt)
    await native_run.check_long_run(graph.native, graph.steps)


@pytest.mark.parametrize("prompt", sampled(["in the state", "around"], 1))
async def test_a_long_run_goes_on_behind_openais_item_until_the_key_changes(stage: Stage, prompt: str) -> None:
    with_field(stage)
    graph, model = Run(stage, prompt), stage.openai(None, model="gpt-5.6-sol", use_responses_api=True)
    await native_run.check_openai(graph.native, lambda count: graph.steps_with(model, count))


@pytest.mark.full
@by_anthropic
async def test_a_rotated_key_costs_one_refusal_and_the_text_goes_on(stage: Stage) -> None:
    graph = Run(stage)
    await native_run.check_rotated_key(graph.native, graph.steps)


@by_anthropic
async def test_an_agent_that_reads_the_view_from_the_state_sends_the_block(stage: Stage) -> None:
    native = NativeSide(stage)
    node = CompactionNode(native=True, on_event=native.note, **KEYWORDS)
    model = node.wrap(stage.anthropic(None, model_name=MODEL))
    agent = react_agent(
        model, [read], prompt="Be brief.", pre_model_hook=node, checkpointer=InMemorySaver(), interrupt_after=["tools"]
    )

    async def steps(count: int) -> None:
        for _ in range(count):
            is_new = not agent.get_state(thread()).values
            await agent.ainvoke({"messages": [HumanMessage(REQUEST)]} if is_new else None, thread())

    await native_run.check_long_run(native, steps)


def test_a_state_that_is_trimmed_takes_no_block() -> None:
    with pytest.raises(ConfigurationError, match="native=True and trim=True"):
        CompactionNode(native=True, trim=True)
