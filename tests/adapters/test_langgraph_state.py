"""Records in a graph: interrupts, subgraphs, branches, trimmed conversations, runs without a thread."""

import operator
import re
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Annotated, Any

import pytest
from compaction_adapters.langgraph import CompactionNode, CompactionState, UntrackedView
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from compaction_hooks import CompactionSettings
from compaction_hooks.events import CompactionEvent
from tests.adapters.langchain_core_stage import (
    LONG,
    SECRET,
    WINDOW,
    CountingSummarizer,
    is_summary,
    records_in,
    said,
    spoken,
    thread,
)
from tests.adapters.langgraph_stage import (
    Model,
    ModelInput,
    chat_graph,
    messages_of,
    node_of,
    question,
    react_agent,
    sessions_of,
)
from tests.cases import sampled

# -- model nodes that ask for the view


async def test_an_interrupt_in_the_model_node_does_not_pay_again() -> None:
    summarizer, sent = CountingSummarizer(), list[Any]()
    node = node_of(summarizer)

    async def model(state: ModelInput) -> dict[str, Any]:
        sent.append(messages_of(await node.aview(state)))
        return {"messages": [AIMessage(interrupt("May I?"))]}

    graph = chat_graph(node, model, checkpointer=InMemorySaver())
    await graph.ainvoke(LONG, thread())
    result = await graph.ainvoke(Command(resume="Yes."), thread())
    assert result["messages"][-1].text == "Yes."
    assert sent[0] == sent[1]
    assert sent[0][0] == "summary"
    assert len(summarizer.asked) == 1


def test_a_model_node_that_is_reached_around_the_compaction_node_can_ask_for_a_new_view() -> None:
    """The view in the state is stale by then: the tool's result would never reach the model."""
    node, sent = node_of(), list[Any]()

    def model(state: ModelInput) -> dict[str, Any]:
        sent.append((state["llm_input_messages"], node.view(state)))
        return {"messages": [AIMessage(f"Answer {len(sent)}."), HumanMessage(f"And {len(sent)}?")]}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
    builder.add_node("compact", node).add_node("model", model, input_schema=ModelInput)
    builder.add_edge(START, "compact").add_edge("compact", "model")
    builder.add_conditional_edges("model", lambda state: "model" if len(sent) < 2 else END)
    builder.compile().invoke(LONG)
    stale, fresh = sent[1]
    assert messages_of(fresh) == [*messages_of(stale), "Answer 1.", "And 1?"]


# -- graphs in graphs, branches


def test_a_subgraph_is_a_conversation_of_its_own() -> None:
    events: list[CompactionEvent] = []
    node = node_of(on_event=events.append)
    talk = [message.model_copy(update={"content": f"inside {message.text}"}) for message in spoken(30)]
    subgraph = chat_graph(node, Model())

    def sub(state: ModelInput) -> dict[str, Any]:
        return {"messages": [subgraph.invoke({"messages": talk})["messages"][-1]]}

    graph = chat_graph(node, sub, checkpointer=InMemorySaver())
    assert len(graph.invoke(LONG, thread())["messages"]) == 62
    outer_session, inner_session = sessions_of(events)
    assert outer_session == "thread"
    assert inner_session.startswith("thread|model:")
    assert len(records_in(graph)) == 1


class TwoViews(MessagesState):
    left: Annotated[list[AnyMessage], UntrackedView]
    right: Annotated[list[AnyMessage], UntrackedView]
    seen: Annotated[list[list[str]], operator.add]


async def test_parallel_branches_of_one_state_join_their_records() -> None:
    summarizer = CountingSummarizer()

    def join(state: TwoViews) -> dict[str, Any]:
        return {"seen": [messages_of(state["left"]), messages_of(state["right"])]}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(TwoViews)
    controller = node_of(summarizer).controller
    for key in ("left", "right"):
        builder.add_node(f"{key} branch", CompactionNode(controller, output_key=key)).add_edge(START, f"{key} branch")
    builder.add_node("join", join).add_edge(["left branch", "right branch"], "join")
    graph: Any = builder.compile(checkpointer=InMemorySaver())
    left, right = (await graph.ainvoke(LONG, thread()))["seen"]
    assert left == right
    assert left[0] == "summary"
    assert len(summarizer.asked) == len(records_in(graph)) == 1


# -- runs without a thread


def test_the_same_run_without_a_thread_is_not_paid_for_twice() -> None:
    """Hosts that keep the messages themselves hand the whole list over each time."""
    events: list[CompactionEvent] = []
    summarizer = CountingSummarizer()
    node = node_of(summarizer, on_event=events.append)
    graph = chat_graph(node, Model())
    graph.invoke(LONG)
    graph.invoke(LONG)
    assert len(summarizer.asked) == len(sessions_of(events)) == 1


def test_runs_at_once_that_begin_alike_are_not_mixed() -> None:
    """They have one session: a record counts only where the messages that it covers are."""
    node = CompactionNode(context_window=WINDOW)

    def talk(number: int) -> str:
        messages: list[BaseMessage] = [HumanMessage("The same beginning.")]
        for step in range(30):
            messages += [
                AIMessage(f"ticket-{number} is open. " * 120),
                HumanMessage(f"Go on with ticket-{number}, {step}."),
            ]
            view = node.invoke({"messages": [*messages]})["llm_input_messages"]
            assert view[-1] is messages[-1]
        assert len(view) < len(messages)
        return f"{messages_of(view)}{view[0].text}"

    with ThreadPoolExecutor(4) as pool:
        for number, sent in enumerate(pool.map(talk, range(4))):
            assert {*re.findall(r"ticket-\d", sent)} == {f"ticket-{number}"}


def test_a_run_without_a_thread_is_one_conversation() -> None:
    events: list[CompactionEvent] = []
    node = node_of(on_event=events.append)

    def model(state: ModelInput) -> dict[str, Any]:
        return {"messages": [AIMessage("Case closed. " * 600), HumanMessage("Go on.")]}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
    builder.add_node("compact", node).add_node("model", model)
    builder.add_edge(START, "compact").add_edge("compact", "model")
    builder.add_conditional_edges("model", lambda state: "compact" if len(state["messages"]) < 30 else END)
    builder.compile().invoke(said("Go."), {"recursion_limit": 100})
    assert len(sessions_of(events)) >= 2
    assert len(set(sessions_of(events))) == 1


# -- trimming


def append(base: list[BaseMessage], writes: list[Any]) -> list[BaseMessage]:
    return [*base, *(message for write in writes for message in (write if isinstance(write, list) else [write]))]


def delta_state() -> Any:
    channels = pytest.importorskip("langgraph.channels.delta")
    made: Any = TypedDict
    return made("DeltaState", {"messages": Annotated[list[AnyMessage], channels.DeltaChannel(append)]})


@pytest.mark.parametrize("kind", sampled(["add_messages", "delta"], 1))
def test_trimming_keeps_checkpoints_small_across_a_restart(kind: str) -> None:
    state = MessagesState if kind == "add_messages" else delta_state()
    saver, first, second = InMemorySaver(), CountingSummarizer(), CountingSummarizer()
    for summarizer in (first, second):
        model = Model()
        graph = chat_graph(node_of(summarizer, trim=True), model, state, CompactionState, checkpointer=saver)
        for number in range(20):
            result = graph.invoke(question(number), thread())
            assert len(result["messages"]) < 20
            assert messages_of(result["messages"])[:-1] == messages_of(model.sent[-1])
    assert SECRET in str(second.asked[0].previous_summary)
    assert sum(map(is_summary, result["messages"])) == 1
    ids = [message.id for message in result["messages"]]
    assert len(set(ids)) == len(ids)


def test_a_trimmed_state_has_the_summary_in_a_message_of_its_own() -> None:
    summarizer, model, settings = CountingSummarizer(), Model(), CompactionSettings(merge_user_messages=True)
    node = node_of(summarizer, trim=True, settings=settings)
    graph = chat_graph(node, model, MessagesState, CompactionState, checkpointer=InMemorySaver())
    results = [graph.invoke(question(number), thread()) for number in range(20)]
    first, *later = summarizer.asked
    assert first.previous_summary is None
    assert later
    assert all(SECRET in str(request.previous_summary) for request in later)
    assert sum(map(is_summary, results[-1]["messages"])) == 1
    assert not any(one == other == "human" for one, other in pairwise(message.type for message in model.sent[-1]))


class Plain(TypedDict):
    messages: list[AnyMessage]


@pytest.mark.parametrize("kind", ["create_react_agent", "a key without a reducer"])
def test_other_states_are_trimmed_too(kind: str) -> None:
    node, model = node_of(trim=True), FakeMessagesListChatModel(responses=[AIMessage("Yes.")])
    if kind == "create_react_agent":
        graph = react_agent(model, [], pre_model_hook=node, checkpointer=InMemorySaver())
    else:
        graph = chat_graph(node, lambda state: {}, Plain, CompactionState, checkpointer=InMemorySaver())
    seen = messages_of(graph.invoke(LONG, thread())["messages"])
    assert seen[0] == "summary"
    assert "And now?" in seen[-2:]
    assert len(seen) < 30
