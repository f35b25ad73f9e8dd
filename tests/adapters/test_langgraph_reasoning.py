"""Graphs with a model that binds its thinking to the messages before it, behind Anthropic's own integration."""

from typing import Any

from compaction_adapters.langgraph import CompactionNode
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from tests.adapters.langchain_core_stage import Stage, run, said, thread
from tests.adapters.langgraph_stage import calls, react_agent
from tests.adapters.signed_reasoning import BINDING, HIDDEN, RESULT, SETTINGS, STEPS, TURNS, WINDOW, Reading
from tests.cases import crossed


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


@crossed(model=[BINDING, HIDDEN], how=["sync", "async"], make=[plain, prebuilt], output=["v0", "v1"])
async def test_no_run_of_a_graph_ends_in_a_refusal(stage: Stage, model: str, how: str, make: Any, output: str) -> None:
    """The second turn is that of another process, which has only the checkpoint."""
    reading, saver = Reading(stage.side()), InMemorySaver()
    for turn in TURNS:
        compact = CompactionNode(context_window=WINDOW, settings=SETTINGS)
        graph = make(compact, stage.anthropic(model_name=model, output_version=output), saver)
        state = await run(graph, said(turn), how, {**thread(), "recursion_limit": 10 * STEPS})
        assert state["messages"][-1].text == "Done."
    reading.check(model)
    assert compact.session("thread").state().compaction_count >= 2
    assert sum("signature" in str(message.content) for message in state["messages"]) == len(reading.answers)
