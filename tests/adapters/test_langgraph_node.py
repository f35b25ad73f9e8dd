"""`CompactionNode` in real graphs: what it returns, what streams show of it, and what it refuses."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest

pytest.importorskip("langgraph.graph")

from compaction_adapters.langgraph import CompactionNode, CompactionState, UntrackedView
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph, add_messages
from langgraph.prebuilt.chat_agent_executor import AgentState
from pydantic import BaseModel
from typing_extensions import TypedDict

from compaction_hooks import CompactionController, CompactionFinished, CompactionSettings
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.events import CompactionEvent
from tests.adapters import langchain_core_stage
from tests.adapters.langchain_core_stage import (
    SECRET,
    WINDOW,
    CountingSummarizer,
    Stage,
    file_tool,
    heavy_tool,
    reads,
    spoken,
    thread,
)
from tests.adapters.langgraph_stage import Model, ModelInput, chat_graph, is_summary, messages_of, react_agent, said
from tests.provider import Answer

provider = langchain_core_stage.provider
stage = langchain_core_stage.stage

both_ways = pytest.mark.parametrize("how", ["sync", "async"])


async def run(graph: Any, value: Any, config: Any = None, how: str = "sync", **options: Any) -> Any:
    return graph.invoke(value, config, **options) if how == "sync" else await graph.ainvoke(value, config, **options)


# -- what it returns


@both_ways
async def test_a_short_conversation_is_handed_on_as_it_is(how: str) -> None:
    messages = spoken(2)
    node = CompactionNode(context_window=WINDOW)
    update = await run(node, {"messages": messages}, how=how)
    assert update["llm_input_messages"] is messages
    assert set(update) == {"llm_input_messages", "compaction_run"}
    assert node({"messages": messages})["llm_input_messages"] is messages


@both_ways
async def test_a_long_one_becomes_a_view_of_the_same_objects(how: str) -> None:
    messages = [SystemMessage("Be brief."), *spoken(30), HumanMessage("And now?")]
    summarizer = CountingSummarizer()
    update = await run(CompactionNode(context_window=WINDOW, summarizer=summarizer), {"messages": messages}, how=how)
    view = update["llm_input_messages"]
    assert view[0] is messages[0]
    assert is_summary(view[1])
    assert SECRET in view[1].text
    assert all(any(message is own for own in messages) for message in (view[0], *view[2:]))
    assert view[-1] is messages[-1]
    assert len(messages) == 62
    assert len(summarizer.asked) == 1
    (record,) = update["compaction_records"]
    assert json.loads(json.dumps(record)) == record


@both_ways
async def test_create_react_agent_reads_the_view_on_every_call_of_the_model(stage: Stage, how: str) -> None:
    """The channel is read before `messages` and keeps its value: left out once, the model would get a stale list."""
    side = stage.side(reads("a.py", "b.py"), reads("c.py"), Answer("Read."), Answer("Again."))
    model = stage.openai()
    settings = CompactionSettings(clear_tool_results=False)
    node = CompactionNode(context_window=WINDOW, model=model, settings=settings)
    agent = react_agent(model, [file_tool(500)], pre_model_hook=node, checkpointer=InMemorySaver())
    await run(agent, said("Read all."), thread(), how)
    result = await run(agent, said("And now?"), thread(), how)
    assert result["messages"][-1].text == "Again."
    assert not side.rejections
    assert len(side.model_requests) == 4
    last = json.dumps(side.model_requests[-1].messages)
    assert "And now?" in last
    assert max(request.input_tokens for request in side.requests) < WINDOW
    assert any(request.is_summary for request in side.requests)
    assert len(json.dumps(result["messages"][2].content)) > 1_000


@both_ways
async def test_create_react_agent_may_be_given_a_state_that_keeps_the_view_out_of_checkpoints(
    stage: Stage, how: str
) -> None:
    class State(AgentState, CompactionState):
        pass

    stage.side(*[Answer("Yes. " * 800)] * 12)
    model = stage.openai()
    held = {}
    for schema in (None, State):
        saver = InMemorySaver()
        node = CompactionNode(context_window=WINDOW, model=model)
        agent = react_agent(model, [], pre_model_hook=node, state_schema=schema, checkpointer=saver)
        for turn in range(6):
            await run(agent, said(f"Question {turn}. " * 300), thread(), how)
        held[schema] = _checkpointed(saver)
    assert "llm_input_messages" in held[None]
    assert "llm_input_messages" not in held[State]
    assert "compaction_records" in held[State]


def _checkpointed(saver: InMemorySaver) -> set[str]:
    """The channels of which a checkpoint holds a value."""
    return {channel for (_, _, channel, _), (kind, _) in saver.blobs.items() if kind != "empty"}


# -- keys and schemas


class ChatState(TypedDict):
    chat: Annotated[list[AnyMessage], add_messages]


class ChatInput(ChatState):
    prompt: Annotated[list[AnyMessage], UntrackedView]


def test_the_keys_may_be_others() -> None:
    sent: list[Any] = []

    def model(state: ChatInput) -> dict[str, Any]:
        sent.append(state["prompt"])
        return {"chat": [AIMessage("Yes.")]}

    node = CompactionNode(
        context_window=WINDOW, summarizer=CountingSummarizer(), messages_key="chat", output_key="prompt"
    )
    builder = StateGraph(ChatState)
    builder.add_node("compact", node)
    builder.add_node("model", model)
    builder.add_edge(START, "compact")
    builder.add_edge("compact", "model")
    saver = InMemorySaver()
    graph: Any = builder.compile(checkpointer=saver)
    result = graph.invoke({"chat": [*spoken(30), HumanMessage("And now?")]}, thread())
    assert set(result) == {"chat"}
    assert messages_of(sent[0])[0] == "summary"
    assert _checkpointed(saver) >= {"chat", "compaction_records"}
    assert "prompt" not in _checkpointed(saver)


def test_the_node_may_have_no_name_of_its_own() -> None:
    builder = StateGraph(MessagesState)
    builder.add_node(CompactionNode(context_window=WINDOW))
    assert set(builder.nodes) == {"CompactionNode"}
    assert set(builder.channels) == {"messages", "compaction_records", "compaction_run"}


def test_a_pydantic_state_works() -> None:
    class State(BaseModel):
        messages: Annotated[list[AnyMessage], add_messages]

    model = Model()
    graph = chat_graph(CompactionNode(context_window=WINDOW, summarizer=CountingSummarizer()), model, State)
    graph.invoke({"messages": [*spoken(30), HumanMessage("And now?")]})
    assert messages_of(model.sent[0])[0] == "summary"


def test_a_node_around_it_needs_its_schema_and_says_so() -> None:
    """LangGraph drops what a node returns for channels that no schema declares; a dropped record is paid for again and again."""
    summarizer = CountingSummarizer()
    node = CompactionNode(context_window=WINDOW, summarizer=summarizer)

    def around(state: MessagesState) -> dict[str, Any]:
        return node.invoke(state)

    model = Model()
    with pytest.raises(ConfigurationError, match=r"no channel .*'compaction_records'.*input_schema=node\.schema"):
        chat_graph(around, model).invoke({"messages": spoken(30)})
    assert summarizer.asked == []
    builder = StateGraph(MessagesState)
    builder.add_node("compact", around, input_schema=node.schema)
    builder.add_node("model", model.__call__)
    builder.add_edge(START, "compact")
    builder.add_edge("compact", "model")
    graph: Any = builder.compile()
    graph.invoke({"messages": [*spoken(30), HumanMessage("And now?")]})
    assert messages_of(model.sent[0])[0] == "summary"


class AddedUp(MessagesState):
    llm_input_messages: Annotated[list[AnyMessage], add_messages]


def test_a_reducer_that_would_add_views_up_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'llm_input_messages' has a reducer"):
        chat_graph(CompactionNode(context_window=WINDOW), Model(), AddedUp, AddedUp).invoke(said("Hi."))


# -- streams


@both_ways
async def test_status_goes_to_the_custom_stream_without_message_text(stage: Stage, how: str) -> None:
    stage.side()
    graph = chat_graph(CompactionNode(context_window=WINDOW, model=stage.openai()), Model())
    value = {"messages": [*spoken(30), HumanMessage("And now?")]}
    if how == "sync":
        told = list(graph.stream(value, stream_mode="custom"))
    else:
        told = [event async for event in graph.astream(value, stream_mode="custom")]
    assert [event["status"] for event in told] == ["started", "finished"]
    assert {event["type"] for event in told} == {"compaction"}
    assert told[1]["tokens_after"] < told[1]["tokens_before"]
    assert told[1]["usage"]["input_tokens"] > 0
    assert SECRET not in json.dumps(told)
    assert "Question" not in json.dumps(told)


@pytest.mark.parametrize(("how", "trim"), [("sync", False), ("async", True)])
async def test_nothing_of_a_summary_is_on_the_stream_of_messages(stage: Stage, how: str, trim: bool) -> None:
    """Neither the tokens of the summarizer nor the summary as a message that a node returns (deer-flow's leak)."""
    stage.side(Answer("The answer."))
    model = stage.openai()

    def call(state: ModelInput) -> dict[str, Any]:
        return {"messages": [model.invoke(state["llm_input_messages"])]}

    graph = chat_graph(CompactionNode(context_window=WINDOW, model=model, trim=trim), call)
    value = {"messages": [*spoken(30), HumanMessage("And now?")]}
    if how == "sync":
        told = list(graph.stream(value, stream_mode="messages"))
    else:
        told = [event async for event in graph.astream(value, stream_mode="messages")]
    assert "".join(message.text for message, _ in told) == "The answer."


# -- models, windows, controllers


async def test_a_chat_model_tells_its_window_and_writes_the_summaries(stage: Stage) -> None:
    side = stage.side()
    update = CompactionNode(model=stage.openai(WINDOW)).invoke({"messages": [*spoken(30), HumanMessage("And now?")]})
    assert SECRET in update["llm_input_messages"][0].text
    assert all(request.is_summary for request in side.requests)


async def test_what_is_bound_to_a_model_counts(stage: Stage) -> None:
    messages = [*spoken(5), HumanMessage("?")]
    for tools, is_compacted in (([], False), ([heavy_tool(12_000)], True)):
        stage.side()
        node = CompactionNode(model=stage.openai().bind_tools(tools))
        assert is_summary(node.invoke({"messages": messages})["llm_input_messages"][0]) is is_compacted


async def test_a_model_whose_answers_have_no_limit_may_say_so_by_minus_one(stage: Stage) -> None:
    stage.side()
    node = CompactionNode(model=stage.openai(WINDOW).bind(max_tokens=-1))
    messages = [HumanMessage("Hi.")]
    assert node.invoke({"messages": messages})["llm_input_messages"] is messages


def test_a_name_tells_the_window_to_a_controller() -> None:
    pytest.importorskip("genai_prices")
    node = CompactionNode(CompactionController(model="gpt-4"))
    assert node.controller.state().context_window == 8_192
    assert is_summary(node.invoke({"messages": [*spoken(30), HumanMessage("?")]})["llm_input_messages"][0])


def test_a_summarizer_of_ones_own_wins_over_the_model() -> None:
    from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel

    summarizer = CountingSummarizer()
    node = CompactionNode(
        context_window=WINDOW, summarizer=summarizer, model=FakeMessagesListChatModel(responses=[AIMessage("x")])
    )
    node.invoke({"messages": [*spoken(30), HumanMessage("?")]})
    assert len(summarizer.asked) == 1


def test_a_controller_is_shared_whatever_its_own_format() -> None:
    events: list[CompactionEvent] = []
    controller: CompactionController[Any] = CompactionController(context_window=WINDOW, on_event=events.append)
    node = CompactionNode(controller)
    assert node.controller is controller
    chat_graph(node, Model(), checkpointer=InMemorySaver()).invoke({"messages": [*spoken(30)]}, thread("T"))
    finished = [event for event in events if isinstance(event, CompactionFinished)]
    assert [event.session_id for event in finished] == ["T"]
    assert controller.session("T").export_records()
    assert node.session("T") is controller.session("T")
    assert node.session("T").state().compaction_count == 1


def test_system_prompt_and_tools_count() -> None:
    messages = [*spoken(20), HumanMessage("?")]
    bare = CompactionNode(context_window=WINDOW).invoke({"messages": messages})
    heavy = CompactionNode(
        context_window=WINDOW,
        system=SystemMessage("Mind the rules of the house. " * 1_500),
        tools=[file_tool(), {"type": "function", "function": {"name": "f", "description": "x", "parameters": {}}}],
    ).invoke({"messages": messages})
    assert len(heavy["llm_input_messages"]) < len(bare["llm_input_messages"])


async def test_usage_that_answers_carry_is_counted_with() -> None:
    """What the provider counted for the last answer is taken for the truth up to there."""
    counted: Any = {"input_tokens": 12_500, "output_tokens": 10, "total_tokens": 12_510}
    talk = [*spoken(5), HumanMessage("?")]
    told = [*talk[:-2], talk[-2].model_copy(update={"usage_metadata": counted}), talk[-1]]
    node = CompactionNode(context_window=WINDOW)
    assert node.invoke({"messages": talk})["llm_input_messages"] is talk
    assert node.invoke({"messages": told})["llm_input_messages"] is not told


def test_a_prompt_of_ones_own_says_how_the_summary_is_written() -> None:
    summarizer = CountingSummarizer()
    node = CompactionNode(context_window=WINDOW, summarizer=summarizer, summary_prompt="In French, please.")
    node.invoke({"messages": [*spoken(30), HumanMessage("?")]})
    assert "In French, please." in summarizer.asked[0].prompt


# -- wrong use


@pytest.mark.parametrize(
    ("arguments", "keywords", "said_so"),
    [
        pytest.param((), {"output_key": "messages"}, "messages_key and output_key are both 'messages'", id="one key"),
        pytest.param((), {"messages_key": ""}, "messages_key='' must name a key", id="no key"),
        pytest.param((), {"output_key": "compaction_records"}, "none that the node itself uses", id="the node's key"),
        pytest.param((), {"model": 3}, "model=3 must be a chat model", id="no model"),
        pytest.param((), {"model": "gpt-5"}, r"write model=init_chat_model\('gpt-5'\)", id="a name for a model"),
        pytest.param(("gpt-5",), {}, "must be a CompactionController, not str", id="no controller"),
        pytest.param(
            (CompactionController(),), {"context_window": 9_000}, "give a controller or its keywords", id="both"
        ),
        pytest.param(
            (),
            {"settings": CompactionSettings(trigger_ratio=0.5)},
            "is a part of a context window that is not known",
            id="a part of nothing",
        ),
        pytest.param((), {"context_window": 0}, "context_window=0", id="no window"),
    ],
)
def test_wrong_use_is_refused_at_construction(arguments: Any, keywords: Any, said_so: str) -> None:
    with pytest.raises(ConfigurationError, match=said_so):
        CompactionNode(*arguments, **keywords)


@pytest.mark.parametrize("state", [{}, {"chat": []}, {"messages": "hi"}], ids=str)
def test_a_state_without_messages_is_refused(state: Any) -> None:
    with pytest.raises(ConfigurationError, match="no list of messages under 'messages'"):
        CompactionNode(context_window=WINDOW).invoke(state)
