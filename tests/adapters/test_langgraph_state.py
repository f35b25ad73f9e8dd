"""Where records live in a graph: checkpoints, restarts, interrupts, forks, branches, subgraphs."""

from __future__ import annotations

import operator
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Annotated, Any

import pytest

pytest.importorskip("langgraph.graph")
pytest.importorskip("langgraph.checkpoint.sqlite")

from compaction_adapters.langgraph import CompactionNode, UntrackedView
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from compaction_hooks import CompactionController
from compaction_hooks.events import CompactionEvent
from tests.adapters.langchain_core_stage import WINDOW, CountingSummarizer, records_in, spoken, thread
from tests.adapters.langgraph_stage import (
    Model,
    ModelInput,
    chat_graph,
    messages_of,
    node_of,
    question,
    said,
    sessions_of,
)

# -- checkpointers


def test_a_restarted_process_goes_on_from_the_checkpoint_without_paying_again(tmp_path: Path) -> None:
    first, second = CountingSummarizer(), CountingSummarizer()
    with SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.db")) as checkpoints:
        graph = chat_graph(node_of(first), Model(), checkpointer=checkpoints)
        for number in range(12):
            graph.invoke(question(number), thread())
        model = Model()
        chat_graph(node_of(second), model, checkpointer=checkpoints).invoke(said("And now?"), thread())
    assert len(first.asked) >= 1
    assert second.asked == []
    assert messages_of(model.sent[0])[0] == "summary"


def test_views_are_not_checkpointed_and_records_are() -> None:
    checkpoints = InMemorySaver()
    graph = chat_graph(node_of(CountingSummarizer()), Model(), checkpointer=checkpoints)
    for number in range(12):
        graph.invoke(question(number), thread())
    held = {channel for (_, _, channel, _), (kind, _) in checkpoints.blobs.items() if kind != "empty"}
    written = {write[1] for writes in checkpoints.writes.values() for write in writes.values()}
    assert "compaction_records" in held
    assert not {"llm_input_messages", "compaction_run"} & (held | written)
    assert set(graph.get_state(thread()).values) == {"messages"}


@pytest.mark.full
@pytest.mark.parametrize("trim", [False, True], ids=["view", "trim"])
def test_strict_serialisation_works(tmp_path: Path, trim: bool) -> None:
    """LANGGRAPH_STRICT_MSGPACK is read at import: a process of its own, in which every warning is an error."""
    program = textwrap.dedent(
        """
        import sys
        from langgraph.checkpoint.sqlite import SqliteSaver
        from tests.adapters.langchain_core_stage import CountingSummarizer, records_in, thread
        from tests.adapters.langgraph_stage import Model, chat_graph, messages_of, node_of, question

        for start in range(2):
            summarizer, model = CountingSummarizer(), Model()
            with SqliteSaver.from_conn_string(sys.argv[1]) as checkpoints:
                graph = chat_graph(node_of(summarizer, trim="trim" in sys.argv), model, checkpointer=checkpoints)
                for number in range(12 if start == 0 else 1):
                    graph.invoke(question(number), thread())
                assert all(type(record) is dict for record in records_in(graph))
            print(len(summarizer.asked), messages_of(model.sent[-1])[0])
        """
    )
    arguments = [str(tmp_path / "strict.db"), *(["trim"] if trim else [])]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", program, *arguments],
        env={**os.environ, "LANGGRAPH_STRICT_MSGPACK": "true"},
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "unregistered" not in done.stderr
    first, second = (line.split() for line in done.stdout.splitlines())
    assert int(first[0]) >= 1
    assert second == ["0", "summary"]


# -- interrupts


async def test_an_interrupt_in_the_model_node_does_not_pay_again() -> None:
    summarizer, sent = CountingSummarizer(), list[Any]()
    node = node_of(summarizer)

    async def model(state: ModelInput) -> dict[str, Any]:
        sent.append(await node.aview(state))
        answer = interrupt("May I?")
        return {"messages": [AIMessage(answer)]}

    graph = chat_graph(node, model, checkpointer=InMemorySaver())
    await graph.ainvoke({"messages": [*spoken(30), HumanMessage("And now?")]}, thread())
    result = await graph.ainvoke(Command(resume="Yes."), thread())
    assert result["messages"][-1].text == "Yes."
    assert [messages_of(view)[0] for view in sent] == ["summary", "summary"]
    assert messages_of(sent[0]) == messages_of(sent[1])
    assert len(summarizer.asked) == 1


def test_a_model_node_that_is_reached_around_the_compaction_node_can_ask_for_the_view_of_now() -> None:
    """What the node put into the state before is stale by then: the tool's result would never reach the model."""
    node, sent = node_of(CountingSummarizer()), list[Any]()

    def model(state: ModelInput) -> dict[str, Any]:
        sent.append((state["llm_input_messages"], node.view(state)))
        return {"messages": [AIMessage(f"Answer {len(sent)}."), HumanMessage(f"And {len(sent)}?")]}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
    builder.add_node("compact", node)
    builder.add_node("model", model, input_schema=ModelInput)
    builder.add_edge(START, "compact")
    builder.add_edge("compact", "model")
    builder.add_conditional_edges("model", lambda state: "model" if len(sent) < 2 else END)
    graph: Any = builder.compile()
    graph.invoke({"messages": [*spoken(30), HumanMessage("And now?")]})
    stale, fresh = sent[1]
    assert messages_of(fresh) == [*messages_of(stale), "Answer 1.", "And 1?"]


# -- graphs in graphs, branches


def test_a_subgraph_is_a_conversation_of_its_own() -> None:
    events: list[CompactionEvent] = []
    node = node_of(CountingSummarizer(), on_event=events.append)
    inner = Model()
    talk = [message.model_copy(update={"content": f"inside {message.text}"}) for message in spoken(30)]

    def sub(state: ModelInput) -> dict[str, Any]:
        answered = subgraph.invoke({"messages": talk})
        return {"messages": [answered["messages"][-1]]}

    subgraph = chat_graph(node, inner)
    graph = chat_graph(node, sub, checkpointer=InMemorySaver())
    result = graph.invoke({"messages": [*spoken(30), HumanMessage("And now?")]}, thread())
    assert len(result["messages"]) == 62
    outer_session, inner_session = sessions_of(events)
    assert outer_session == "thread"
    assert inner_session.startswith("thread|model:")
    assert len(records_in(graph)) == 1


def test_a_subgraph_that_is_given_the_same_messages_again_does_not_pay_again() -> None:
    summarizer = CountingSummarizer()
    node = node_of(summarizer)
    subgraph = chat_graph(node, Model())
    talk = spoken(30)

    def sub(state: MessagesState) -> dict[str, Any]:
        return {"messages": [subgraph.invoke({"messages": talk})["messages"][-1]]}

    builder = StateGraph(MessagesState)
    builder.add_node("sub", sub)
    builder.add_edge(START, "sub")
    graph: Any = builder.compile(checkpointer=InMemorySaver())
    for number in range(3):
        graph.invoke(question(number), thread())
    assert len(summarizer.asked) == 1


class TwoViews(MessagesState):
    left: Annotated[list[AnyMessage], UntrackedView]
    right: Annotated[list[AnyMessage], UntrackedView]
    seen: Annotated[list[list[str]], operator.add]


async def test_parallel_branches_of_one_state_join_their_records() -> None:
    summarizer = CountingSummarizer()

    def join(state: TwoViews) -> dict[str, Any]:
        return {"seen": [messages_of(state["left"]), messages_of(state["right"])]}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(TwoViews)
    controller: CompactionController[Any] = CompactionController(context_window=WINDOW, summarizer=summarizer)
    for key in ("left", "right"):
        builder.add_node(f"{key} branch", CompactionNode(controller, output_key=key))
        builder.add_edge(START, f"{key} branch")
    builder.add_node("join", join)
    builder.add_edge(["left branch", "right branch"], "join")
    builder.add_edge("join", END)
    graph: Any = builder.compile(checkpointer=InMemorySaver())
    result = await graph.ainvoke({"messages": [*spoken(30), HumanMessage("And now?")]}, thread())
    left, right = result["seen"]
    assert left == right
    assert left[0] == "summary"
    assert len(summarizer.asked) == 1
    assert len(records_in(graph)) == 1
