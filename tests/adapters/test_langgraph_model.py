"""`CompactionNode.wrap`: a model that compacts and recovers, over real HTTP, with a node in front of it or alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

pytest.importorskip("langgraph.graph")

from compaction_adapters.langgraph import CompactionNode, ModelContextOverflowError
from langchain_core import exceptions as langchain_exceptions
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.types import Interrupt

from compaction_hooks import CompactionFinished, CompactionSettings, ContextOverflowError
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
    kinds_of,
    reads,
    records_in,
    spoken,
    texts,
    thread,
)
from tests.adapters.langgraph_stage import ModelInput, chat_graph, react_agent, said
from tests.cases import crossed
from tests.provider import Answer, Rejection

provider = langchain_core_stage.provider
stage = langchain_core_stage.stage

BELIEVED = 131_072
ways_and_clients = crossed(how=["invoke", "ainvoke", "stream", "astream"], client=["openai", "anthropic"])


async def ask(model: Runnable[Any, Any], messages: Any, how: str = "invoke", config: Any = None) -> str:
    match how:
        case "invoke":
            return str(model.invoke(messages, config).text)
        case "ainvoke":
            return str((await model.ainvoke(messages, config)).text)
        case "stream":
            return "".join(chunk.text for chunk in model.stream(messages, config))
        case _:
            return "".join([chunk.text async for chunk in model.astream(messages, config)])


def talk(turns: int = 30) -> list[BaseMessage]:
    return [SystemMessage("Be brief."), *spoken(turns), HumanMessage("And now?")]


# -- recovery


@ways_and_clients
async def test_a_rejected_request_is_compacted_and_sent_once_more(stage: Stage, client: str, how: str) -> None:
    """One rejection, one resend; the answer is the model's."""
    side = stage.side(Answer("The answer."))
    node = CompactionNode(context_window=BELIEVED)
    assert await ask(node.wrap(getattr(stage, client)()), talk(), how, thread()) == "The answer."
    assert [request.status for request in side.model_requests] == [400, 200]
    assert SECRET in texts(side.model_requests[1].messages)
    assert side.model_requests[1].system == "Be brief."
    assert kinds_of(side.requests).count(True) == 1


@pytest.mark.parametrize("how", ["invoke", "astream"])
async def test_a_second_rejection_is_the_error_of_both_families(stage: Stage, how: str) -> None:
    side = stage.side(Answer("never"))
    side.reject_next = 2
    model = CompactionNode(context_window=BELIEVED).wrap(stage.openai())
    with pytest.raises(ModelContextOverflowError) as caught:
        await ask(model, talk(), how)
    assert isinstance(caught.value, ContextOverflowError)
    assert isinstance(caught.value, langchain_exceptions.ContextOverflowError)
    assert "maximum context length" in str(caught.value.__cause__)
    assert len(side.model_requests) == 2
    assert side.remaining == 1


@pytest.mark.parametrize("how", ["invoke", "astream"])
async def test_any_other_error_is_let_through(stage: Stage, how: str) -> None:
    side = stage.side(Rejection(500, {"error": {"message": "Internal server error"}}))
    with pytest.raises(Exception, match="Internal server error"):
        await ask(CompactionNode(context_window=BELIEVED).wrap(stage.openai()), talk(8), how)
    assert len(side.requests) == 1


@pytest.mark.parametrize("how", ["stream", "astream"])
@pytest.mark.parametrize(("chunks", "requests"), [(0, 2), (2, 1)], ids=["before the first chunk", "after the second"])
async def test_a_stream_is_recovered_before_its_first_chunk_and_not_after(
    stage: Stage, how: str, chunks: int, requests: int
) -> None:
    side = stage.side(Answer("The whole answer. " * 10))
    side.stream_fail_after = chunks
    model = CompactionNode(context_window=BELIEVED).wrap(stage.openai())
    if chunks:
        with pytest.raises(Exception, match="context"):
            await ask(model, talk(8), how)
    else:
        assert await ask(model, talk(8), how) == "The whole answer. " * 10
    assert len(side.model_requests) == requests


@pytest.mark.parametrize(("chunks", "requests"), [(0, 2), (2, 1)], ids=["before the first chunk", "after the second"])
async def test_likewise_where_the_graphs_user_listens_to_the_tokens(stage: Stage, chunks: int, requests: int) -> None:
    """`invoke` streams as well then, and what the user has seen must not come again."""
    side = stage.side(Answer("The whole answer. " * 10))
    side.stream_fail_after = chunks
    node = CompactionNode(context_window=BELIEVED)
    model = node.wrap(stage.openai())

    def call(state: ModelInput) -> dict[str, Any]:
        return {"messages": [model.invoke(state["llm_input_messages"])]}

    graph = chat_graph(node, call)
    seen: list[str] = []

    def listen() -> None:
        for message, _ in graph.stream({"messages": talk(8)}, stream_mode="messages"):
            seen.append(message.text)

    if chunks:
        with pytest.raises(Exception, match="context"):
            listen()
    else:
        listen()
    assert len(side.model_requests) == requests
    assert ("".join(seen) == "The whole answer. " * 10) == (chunks == 0)
    assert "".join(seen)


@pytest.mark.parametrize("how", ["invoke", "ainvoke"])
async def test_an_answer_that_the_window_left_no_room_for_is_asked_for_again(stage: Stage, how: str) -> None:
    """The provider raises nothing, its answer is empty and ends for its length."""
    side = stage.side(Answer("The answer."), overflow="length")
    node = CompactionNode(context_window=WINDOW, settings=CompactionSettings(auto_compact=False))
    assert await ask(node.wrap(stage.openai()), talk(), how) == "The answer."
    assert len(side.model_requests) == 2


async def test_a_silent_overflow_is_compacted_before_the_next_call(stage: Stage) -> None:
    """The provider dropped the oldest and said nothing; the usage tells."""
    side = stage.side(Answer("One."), Answer("Two."), overflow="truncate")
    model = CompactionNode(context_window=WINDOW, summarizer=CountingSummarizer()).wrap(stage.openai())
    messages = [*spoken(12), HumanMessage("dense " * 3_000)]
    messages.append(model.invoke(messages, thread()))
    model.invoke([*messages, HumanMessage("And now?")], thread())
    assert side.model_requests[-1].input_tokens < WINDOW


# -- what must reach the caller


@pytest.mark.parametrize("how", ["invoke", "ainvoke"])
async def test_an_interrupt_is_never_taken_for_an_overflow(how: str) -> None:
    """GraphBubbleUp is an Exception; its text may say anything."""
    said_so = GraphInterrupt([Interrupt("This model's maximum context length is 5 tokens. Go on?", id="1")])
    calls: list[int] = []

    def raising(_: Any) -> AIMessage:
        calls.append(1)
        raise said_so

    model = CompactionNode(context_window=BELIEVED).wrap(RunnableLambda(raising))
    with pytest.raises(GraphBubbleUp) as caught:
        await ask(model, talk(), how)
    assert caught.value is said_so
    assert len(calls) == 1


# -- with a node in front


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_recovery_in_the_model_node_is_checkpointed(stage: Stage, how: str) -> None:
    side = stage.side()
    checkpoints = InMemorySaver()
    node = CompactionNode(context_window=BELIEVED)
    model = node.wrap(stage.openai())

    def call(state: ModelInput) -> dict[str, Any]:
        return {"messages": [model.invoke([SystemMessage("Be brief."), *state["llm_input_messages"]])]}

    async def acall(state: ModelInput) -> dict[str, Any]:
        return {"messages": [await model.ainvoke([SystemMessage("Be brief."), *state["llm_input_messages"]])]}

    graph = chat_graph(node, RunnableLambda(call, acall), checkpointer=checkpoints)
    value = {"messages": talk()[1:]}
    result = graph.invoke(value, thread()) if how == "sync" else await graph.ainvoke(value, thread())
    assert len(result["messages"]) == 62
    (record,) = records_in(graph)
    assert record["reason"] == "overflow"
    assert len(side.rejections) == 1
    other = CompactionNode(context_window=BELIEVED, summarizer=CountingSummarizer())
    graph = chat_graph(other, RunnableLambda(call, acall), checkpointer=checkpoints)
    graph.invoke(said("And then?"), thread())
    assert len(side.rejections) == 1
    assert kinds_of(side.requests).count(True) == 1


async def test_node_and_model_work_on_one_conversation(stage: Stage) -> None:
    """The model is given a view with a system prompt before it; the session goes on with the node's own list."""
    events: list[CompactionEvent] = []
    side = stage.side(*[Answer("Noted. " * 300)] * 20)
    node = CompactionNode(context_window=WINDOW, on_event=events.append)
    model = node.wrap(stage.openai().bind_tools([heavy_tool(6_000)]))

    def call(state: ModelInput) -> dict[str, Any]:
        return {"messages": [model.invoke([SystemMessage("Be brief."), *state["llm_input_messages"]])]}

    graph = chat_graph(node, call, checkpointer=InMemorySaver())
    for number in range(20):
        graph.invoke(said(f"Question {number}. " * 100), thread())
    finished = [event for event in events if isinstance(event, CompactionFinished)]
    assert len(finished) >= 2
    assert {event.session_id for event in events} == {"thread"}
    assert all(request.system == "Be brief." for request in side.model_requests)
    assert not side.rejections
    assert node.session("thread").state().is_estimate is False


async def test_words_that_are_added_for_one_call_only_belong_to_the_conversation(stage: Stage) -> None:
    events: list[CompactionEvent] = []
    side = stage.side(*[Answer("Yes.")] * 2)
    node = CompactionNode(context_window=WINDOW, on_event=events.append)
    model = node.wrap(stage.openai())

    def call(state: ModelInput) -> dict[str, Any]:
        asked = [SystemMessage("Be brief."), *state["llm_input_messages"], HumanMessage("In JSON.")]
        return {"messages": [model.invoke(asked)]}

    graph = chat_graph(node, call, checkpointer=InMemorySaver())
    graph.invoke({"messages": talk()[1:]}, thread())
    graph.invoke(said("And then?"), thread())
    assert {event.session_id for event in events} == {"thread"}
    assert [texts(request.messages).endswith("?\nIn JSON.") for request in side.model_requests] == [True, True]
    assert kinds_of(side.requests).count(True) == 1


async def test_a_model_that_is_asked_something_else_in_between_is_another_conversation(stage: Stage) -> None:
    events: list[CompactionEvent] = []
    stage.side(*[Answer("Yes.")] * 4)
    node = CompactionNode(context_window=WINDOW, on_event=events.append)
    model = node.wrap(stage.openai())

    def call(state: ModelInput) -> dict[str, Any]:
        model.invoke([*spoken(30, first=500), HumanMessage("Is this safe?")])
        return {"messages": [model.invoke(state["llm_input_messages"])]}

    chat_graph(node, call, checkpointer=InMemorySaver()).invoke({"messages": talk()}, thread())
    finished = [event.session_id for event in events if isinstance(event, CompactionFinished)]
    assert finished == ["thread", "thread#model"]


# -- alone


async def test_a_model_may_be_wrapped_without_a_node_in_front(stage: Stage) -> None:
    side = stage.side(reads("a.py", "b.py"), reads("c.py"), Answer("Read."), Answer("Again."))
    node = CompactionNode(context_window=WINDOW)
    agent = react_agent(node.wrap(stage.openai()), [file_tool(500)], prompt="Be brief.", checkpointer=InMemorySaver())
    agent.invoke(said("Read all."), thread())
    result = await agent.ainvoke(said("And now?"), thread())
    assert result["messages"][-1].text == "Again."
    assert not side.rejections
    assert len(side.model_requests) == 4
    assert [tool["function"]["name"] for tool in side.model_requests[0].tools] == ["read_file"]


async def test_outside_a_graph_a_thread_may_be_named(stage: Stage) -> None:
    side = stage.side(*[Answer("Yes.")] * 3)
    node = CompactionNode(context_window=WINDOW)
    chain = ChatPromptTemplate.from_messages([("system", "Be brief."), ("placeholder", "{talk}")]) | node.wrap(
        stage.openai()
    )
    for _ in range(2):
        chain.invoke({"talk": talk()[1:]}, thread("chain"))
    assert await ask(chain, {"talk": talk()[1:]}, "astream", thread("chain")) == "Yes."
    assert kinds_of(side.requests).count(True) == 1
    assert node.session("chain").state().compaction_count == 1


async def test_without_a_thread_a_summary_is_not_paid_for_twice(stage: Stage) -> None:
    side = stage.side(*[Answer("Yes.")] * 3)
    model = CompactionNode(context_window=WINDOW).wrap(stage.openai())
    for _ in range(3):
        model.invoke(talk())
    assert kinds_of(side.requests).count(True) == 1


@pytest.mark.parametrize("given", ["Hi.", [("human", "Hi.")], [{"role": "user", "content": "Hi."}]], ids=str)
async def test_every_input_of_a_model_is_taken(stage: Stage, given: Any) -> None:
    side = stage.side(Answer("Hello."))
    assert await ask(CompactionNode(context_window=WINDOW).wrap(stage.openai()), given) == "Hello."
    assert [message["content"] for message in side.requests[0].messages] == ["Hi."]


# -- the model of the very call


async def test_the_models_own_window_limit_and_tools_count(stage: Stage) -> None:
    side = stage.side(*[Answer("Yes.")] * 3)
    messages = [*spoken(9), HumanMessage("?")]
    node = CompactionNode()
    node.wrap(stage.openai(window=WINDOW)).invoke(messages)
    small = len(side.requests)
    node.wrap(stage.openai(window=None, model="unheard-of")).invoke(messages)
    assert len(side.requests) == small + 1
    assert kinds_of(side.requests[:small]) == [True, False]


async def test_arguments_of_the_very_call_count(stage: Stage) -> None:
    side = stage.side(*[Answer("Yes.")] * 2)
    model = CompactionNode(context_window=WINDOW).wrap(stage.openai())
    schema = {"type": "function", "function": {"name": "f", "description": "Never. " * 3_000, "parameters": {}}}
    model.bind(tools=[schema]).invoke([*spoken(5), HumanMessage("?")])
    assert kinds_of(side.requests) == [True, False]
    model.invoke([*spoken(4, first=50), HumanMessage("?")], max_tokens=9_000)
    assert kinds_of(side.requests[2:]) == [True, False]
    assert side.requests[-1].max_tokens == 9_000


async def test_a_summary_is_written_by_the_model_itself_unless_the_node_has_another(stage: Stage) -> None:
    side, other = stage.side(), stage.side(key="other")
    node = CompactionNode(context_window=WINDOW, model=stage.openai(key="other"))
    node.wrap(stage.openai()).invoke(talk())
    assert kinds_of(other.requests) == [True]
    assert kinds_of(side.requests) == [False]


async def test_an_answer_may_be_of_any_kind() -> None:
    counting: RunnableLambda[Any, int] = RunnableLambda(len)
    model = CompactionNode(context_window=WINDOW).wrap(counting)
    assert model.invoke(talk(2)) == 6
    assert await model.ainvoke(talk(2)) == 6


def test_tools_cannot_be_bound_to_what_takes_none() -> None:
    model = CompactionNode(context_window=WINDOW).wrap(RunnableLambda(str))
    with pytest.raises(ConfigurationError, match="RunnableLambda has no bind_tools"):
        model.bind_tools([])


# -- streams of chunks


class Chunks(FakeMessagesListChatModel):
    """Notes whether its stream was closed."""

    closed: list[str] = []  # noqa: RUF012 - a pydantic field

    def stream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[AIMessageChunk]:
        try:
            yield from (AIMessageChunk(content=text) for text in ("one ", "two ", "three "))
        finally:
            self.closed.append("sync")

    async def astream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> AsyncIterator[Any]:
        try:
            for text in ("one ", "two ", "three "):
                yield AIMessageChunk(content=text)
        finally:
            self.closed.append("async")


async def test_a_stream_that_is_left_early_closes_the_models() -> None:
    model = Chunks(responses=[])
    wrapped = CompactionNode(context_window=WINDOW).wrap(model)
    for chunk in wrapped.stream("Hi."):
        assert chunk.text == "one "
        break
    stream = wrapped.astream("Hi.")
    assert (await anext(stream)).text == "one "
    await stream.aclose()  # type: ignore[attr-defined] # an async generator
    assert model.closed == ["sync", "async"]


async def test_events_of_the_model_go_to_the_custom_stream(stage: Stage) -> None:
    stage.side()
    node = CompactionNode(context_window=BELIEVED)
    model = node.wrap(stage.openai())

    def call(state: ModelInput) -> dict[str, Any]:
        return {"messages": [model.invoke(state["llm_input_messages"])]}

    told = list(chat_graph(node, call).stream({"messages": talk()}, stream_mode="custom"))
    assert [(event["status"], event["reason"]) for event in told] == [("started", "overflow"), ("finished", "overflow")]
