"""Window, trigger, summarizer and model of one run: by its configuration, its context, or the model it picks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("langgraph.graph")

from compaction_adapters.langgraph import CompactionNode
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import ConfigurableField, RunnableConfig, RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime

from compaction_hooks.errors import ConfigurationError
from tests.adapters import langchain_core_stage
from tests.adapters.langchain_core_stage import WINDOW, CountingSummarizer, Stage, kinds_of, records_in, spoken
from tests.provider import Answer

provider = langchain_core_stage.provider
stage = langchain_core_stage.stage

TALK = {"messages": [*spoken(9), HumanMessage("And now?")]}
"""About 14,000 tokens."""
LARGE = 10 * WINDOW


@dataclass
class Context:
    compaction: dict[str, Any] | None = None
    model: str = "large"


def in_config(options: Any, name: str = "thread") -> RunnableConfig:
    return {"configurable": {"thread_id": name, "compaction": options}}


def graph_of(compact: CompactionNode, call_model: Any) -> Any:
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState, context_schema=Context)
    builder.add_node("compact", compact).add_node("model", call_model)
    return builder.add_edge(START, "compact").add_edge("compact", "model").compile(checkpointer=InMemorySaver())


def answering(compact: CompactionNode) -> Any:
    yes: RunnableLambda[Any, AIMessage] = RunnableLambda(lambda _: AIMessage("Yes."))
    asked = compact.wrap(yes)
    return lambda state: {"messages": [asked.invoke(state["messages"])]}


@pytest.mark.parametrize(
    ("options", "is_compacted"),
    [
        ({}, False),
        ({"context_window": WINDOW}, True),
        ({"context_window": LARGE}, False),
        ({"context_window": LARGE, "trigger_tokens": 5_000}, True),
        ({"context_window": LARGE, "trigger_ratio": 0.3}, False),
        ({"context_window": 2 * WINDOW, "trigger_ratio": 0.2}, True),
    ],
)
@pytest.mark.parametrize("where", ["configuration", "context"])
def test_a_run_says_its_window_and_its_trigger(options: Any, is_compacted: bool, where: str) -> None:
    compact = CompactionNode()
    graph = graph_of(compact, answering(compact))
    if where == "configuration":
        graph.invoke(TALK, in_config(options), context=Context())
    else:
        graph.invoke(TALK, {"configurable": {"thread_id": "thread"}}, context=Context(compaction=options))
    assert bool(records_in(graph)) is is_compacted


async def test_a_run_brings_its_summariser_along() -> None:
    summarizer = CountingSummarizer()
    compact = CompactionNode(context_window=WINDOW)
    graph = graph_of(compact, answering(compact))
    await graph.ainvoke(TALK, in_config({"summarizer": summarizer}))
    assert len(summarizer.asked) == 1


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        (3, ConfigurationError, "compaction=3 of a run must be a dict of options"),
        ({"windoww": 3}, TypeError, "did you mean context_window"),
        ({"trigger_ratio": 80}, ConfigurationError, "trigger_ratio=80"),
        ({"context_window": 9_000}, ConfigurationError, "context_window is given to CompactionNode, for all runs"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: Any, error: type[Exception], says: str) -> None:
    compact = CompactionNode(context_window=WINDOW)
    with pytest.raises(error, match=says):
        graph_of(compact, answering(compact)).invoke(TALK, in_config(options))


def test_the_node_follows_the_model_that_a_run_picks(stage: Stage) -> None:
    """The large one has room for all of it; the small one is compacted for before it is called, so that the record is kept."""
    side = stage.side(*[Answer("Yes.")] * 3, window=LARGE)
    models = {"large": stage.openai(LARGE), "small": stage.openai(WINDOW)}

    def pick(state: Any, runtime: Runtime[Context]) -> Any:
        return models[runtime.context.model]

    compact = CompactionNode(model=pick)

    def call_model(state: MessagesState, runtime: Runtime[Context]) -> dict[str, Any]:
        return {"messages": [compact.wrap(pick(state, runtime)).invoke(state["messages"])]}

    graph = graph_of(compact, call_model)
    for name, compactions in (("large", 0), ("small", 1), ("large", 1)):
        nodes = [
            next(iter(update))
            for update in graph.stream(TALK, in_config(None), context=Context(model=name), stream_mode="updates")
            if "compaction_records" in str(update)
        ]
        assert len(records_in(graph)) == compactions
        assert nodes == (["compact"] if name == "small" else [])
    assert not side.rejections


@pytest.mark.parametrize("window", [WINDOW, LARGE])
def test_a_configurable_model_is_followed(stage: Stage, window: int) -> None:
    side = stage.side(*[Answer("Yes.")] * 2, window=LARGE)
    model = stage.openai(LARGE).configurable_fields(profile=ConfigurableField(id="profile"))
    compact = CompactionNode()
    asked = compact.wrap(model)
    graph = graph_of(compact, lambda state: {"messages": [asked.invoke(state["messages"])]})
    graph.invoke(TALK, {"configurable": {"thread_id": "other"}})
    graph.invoke(TALK, {"configurable": {"thread_id": "thread", "profile": {"max_input_tokens": window}}})
    assert bool(records_in(graph)) is (window == WINDOW)
    assert any(request.is_summary for request in side.requests) is (window == WINDOW)


@pytest.mark.parametrize("takes", ["what wrap returns", "the node"])
def test_a_model_of_init_chat_model_is_followed(stage: Stage, takes: str) -> None:
    """A field of its configuration tells each run's model, and so its window."""
    pytest.importorskip("langchain")
    side = stage.side(*[Answer("Yes.")] * 2, window=LARGE)
    model = stage.configurable(LARGE)
    compact = CompactionNode(model=model) if takes == "the node" else CompactionNode()
    asked = compact.wrap(model.bind_tools([]))
    graph = graph_of(compact, lambda state: {"messages": [asked.invoke(state["messages"])]})
    graph.invoke(TALK, {"configurable": {"thread_id": "large"}})
    graph.invoke(TALK, {"configurable": {"thread_id": "small", "profile": {"max_input_tokens": WINDOW}}})
    assert kinds_of(side.requests) == [False, True, False]
