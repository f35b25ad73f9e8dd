"""Window, trigger, summarizer and model of one run: by its configuration, its context, or the model it picks."""

from dataclasses import dataclass
from typing import Any

import pytest
from compaction_adapters.langgraph import CompactionNode
from langchain_core.messages import AIMessage
from langchain_core.runnables import ConfigurableField, RunnableConfig, RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.runtime import Runtime

from compaction_hooks.errors import ConfigurationError
from tests.adapters.langchain_core_stage import (
    WINDOW,
    CountingSummarizer,
    Stage,
    asked,
    kinds_of,
    records_in,
    run,
    said,
    streamed,
    thread,
)
from tests.adapters.langgraph_stage import calls, react_agent
from tests.adapters.signed_reasoning import BINDING, HIDDEN, RESULT, SETTINGS, STEPS, TURNS, Reading
from tests.adapters.signed_reasoning import WINDOW as READING_WINDOW
from tests.cases import folded, sampled, sampled_rows
from tests.provider import Answer

TALK = {"messages": asked(9)}
"""About 14,000 tokens."""
LARGE = 10 * WINDOW
YES: RunnableLambda[Any, AIMessage] = RunnableLambda(lambda _: AIMessage("Yes."))


@dataclass
class Context:
    compaction: dict[str, Any] | None = None
    model: str = "large"


def in_config(options: Any) -> RunnableConfig:
    return {"configurable": {"thread_id": "thread", "compaction": options}}


def graph_of(compact: CompactionNode, call_model: Any = None) -> Any:
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState, context_schema=Context)
    builder.add_node("compact", compact).add_node("model", call_model or calls(compact.wrap(YES)))
    return builder.add_edge(START, "compact").add_edge("compact", "model").compile(checkpointer=InMemorySaver())


@folded(
    "options, is_compacted",
    [
        ({}, False),
        ({"context_window": WINDOW}, True),
        ({"context_window": LARGE}, False),
        ({"context_window": LARGE, "trigger_tokens": 5_000}, True),
        ({"context_window": LARGE, "trigger_ratio": 0.3}, False),
        ({"context_window": 2 * WINDOW, "trigger_ratio": 0.2}, True),
    ],
)
def test_a_run_brings_its_window_and_its_trigger(options: Any, is_compacted: bool) -> None:
    for config, context in ((in_config(options), Context()), (thread(), Context(compaction=options))):
        graph = graph_of(CompactionNode())
        graph.invoke(TALK, config, context=context)
        assert bool(records_in(graph)) is is_compacted


async def test_a_run_brings_its_summarizer() -> None:
    summarizer = CountingSummarizer()
    await graph_of(CompactionNode(context_window=WINDOW)).ainvoke(TALK, in_config({"summarizer": summarizer}))
    assert len(summarizer.asked) == 1


@folded(
    "options, error, message",
    [
        (3, ConfigurationError, "compaction=3 of a run must be a dict of options"),
        ({"windoww": 3}, TypeError, "did you mean context_window"),
        ({"trigger_ratio": 80}, ConfigurationError, "trigger_ratio=80"),
        ({"context_window": 9_000}, ConfigurationError, "context_window is given to CompactionNode, for all runs"),
    ],
)
def test_wrong_options_of_a_run_are_refused(options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        graph_of(CompactionNode(context_window=WINDOW)).invoke(TALK, in_config(options))


async def test_the_node_follows_the_model_that_a_run_picks(stage: Stage) -> None:
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
        updates = await streamed(graph, TALK, "sync", "updates", thread(), context=Context(model=name))
        nodes = [next(iter(update)) for update in updates if "compaction_records" in str(update)]
        assert len(records_in(graph)) == compactions
        assert nodes == (["compact"] if name == "small" else [])
    assert not side.rejections


@pytest.mark.parametrize("kind", ["configurable_fields", "init_chat_model, wrapped", "init_chat_model, of the node"])
async def test_a_configurable_model_is_followed(stage: Stage, kind: str) -> None:
    if kind == "configurable_fields":
        model: Any = stage.openai(LARGE).configurable_fields(profile=ConfigurableField(id="profile"))
    else:
        pytest.importorskip("langchain")
        model = stage.configurable(LARGE)
    side = stage.side(*[Answer("Yes.")] * 3, window=LARGE)
    compact = CompactionNode(model=model) if kind.endswith("of the node") else CompactionNode()
    graph = graph_of(compact, calls(compact.wrap(model if kind == "configurable_fields" else model.bind_tools([]))))
    for window in (None, LARGE, WINDOW):
        profile = {"profile": {"max_input_tokens": window}} if window else {}
        graph.invoke(TALK, {"configurable": {"thread_id": str(window), **profile}})
    assert kinds_of(side.requests) == [False, False, True, False]


@tool
def read_file(path: str) -> str:
    """Read a file."""
    return f"{path}\n{RESULT}"


def prebuilt(compact: CompactionNode, model: Any, saver: Any) -> Any:
    return react_agent(compact.wrap(model), [read_file], pre_model_hook=compact, checkpointer=saver)


def plain(compact: CompactionNode, model: Any, saver: Any) -> Any:
    builder = StateGraph(MessagesState).add_node("compact", compact).add_node("tools", ToolNode([read_file]))
    builder.add_node("model", calls(compact.wrap(model).bind_tools([read_file])))
    builder.add_edge(START, "compact").add_edge("compact", "model").add_conditional_edges("model", tools_condition)
    return builder.add_edge("tools", "compact").compile(checkpointer=saver)


@pytest.mark.parametrize("output", sampled(["v0", "v1"], 1))
@pytest.mark.parametrize("make", sampled([plain, prebuilt], 1))
@pytest.mark.parametrize(
    ("model", "how"),
    sampled_rows([(HIDDEN, "async"), (HIDDEN, "sync"), (BINDING, "sync"), (BINDING, "async")], 1),
)
async def test_no_run_of_a_graph_ends_in_a_refusal(stage: Stage, model: str, how: str, make: Any, output: str) -> None:
    """The second turn is that of another process, which has only the checkpoint."""
    reading, saver = Reading(stage.side()), InMemorySaver()
    for turn in TURNS:
        compact = CompactionNode(context_window=READING_WINDOW, settings=SETTINGS)
        graph = make(compact, stage.anthropic(model_name=model, output_version=output), saver)
        state = await run(graph, said(turn), how, {**thread(), "recursion_limit": 10 * STEPS})
        assert state["messages"][-1].text == "Done."
    reading.check(model)
    assert compact.session("thread").state().compaction_count >= 2
    assert sum("signature" in str(message.content) for message in state["messages"]) == len(reading.answers)
