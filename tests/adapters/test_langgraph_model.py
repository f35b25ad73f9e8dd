"""`CompactionNode.wrap`: a model that compacts and recovers, over real HTTP, with a node in front of it or alone."""

from typing import Any

import pytest
from compaction_adapters.langgraph import CompactionNode, ModelContextOverflowError
from langchain_core import exceptions as langchain_exceptions
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable, RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.graph import MessagesState
from langgraph.types import Interrupt

from compaction_hooks import ContextOverflowError
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.events import CompactionEvent
from tests.adapters.langchain_core_stage import (
    SECRET,
    WINDOW,
    Stage,
    asked,
    file_tool,
    heavy_tool,
    kinds_of,
    reads,
    records_in,
    said,
    streamed,
    texts,
    thread,
)
from tests.adapters.langgraph_stage import chat_graph, node_of, question, react_agent, sessions_of, wrapped_graph
from tests.cases import crossed
from tests.provider import Answer

BELIEVED = 131_072
BRIEF = SystemMessage("Be brief.")
ANSWER = "The whole answer. " * 10
breaks = pytest.mark.parametrize(("chunks", "requests"), [(0, 2), (2, 1)], ids=["before a chunk", "after the second"])


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
    return [BRIEF, *asked(turns)]


# -- recovery


@crossed(how=["invoke", "ainvoke", "stream", "astream"], client=["openai", "anthropic"])
async def test_a_rejected_request_is_compacted_and_sent_once_more(stage: Stage, client: str, how: str) -> None:
    side = stage.side(Answer("The answer."))
    node = CompactionNode(context_window=BELIEVED)
    assert await ask(node.wrap(getattr(stage, client)()), talk(), how, thread()) == "The answer."
    assert [request.status for request in side.model_requests] == [400, 200]
    assert SECRET in texts(side.model_requests[1].messages)
    assert side.model_requests[1].system == "Be brief."
    assert kinds_of(side.requests).count(True) == 1


def test_a_system_prompt_that_a_model_node_puts_into_the_list_of_its_view_is_sent(stage: Stage) -> None:
    side, node = stage.side(), node_of()
    model = node.wrap(stage.openai())

    def answer(state: MessagesState) -> dict[str, Any]:
        view = node.view(state)
        view.insert(0, BRIEF)
        return {"messages": [model.invoke(view)]}

    chat_graph(node, RunnableLambda(answer), model_input=MessagesState).invoke({"messages": asked()})
    assert [request.system for request in side.model_requests] == ["Be brief."]
    assert len(side.model_requests[0].messages) < len(asked())


@pytest.mark.parametrize("how", ["invoke", "astream"])
async def test_a_second_rejection_is_an_error_of_this_package_and_of_langchain(stage: Stage, how: str) -> None:
    side = stage.side()
    side.reject_next = 2
    with pytest.raises(ModelContextOverflowError) as caught:
        await ask(CompactionNode(context_window=BELIEVED).wrap(stage.openai()), talk(), how)
    assert isinstance(caught.value, ContextOverflowError)
    assert isinstance(caught.value, langchain_exceptions.ContextOverflowError)
    assert "maximum context length" in str(caught.value.__cause__)
    assert len(side.model_requests) == 2


@pytest.mark.parametrize("how", ["stream", "astream"])
@breaks
async def test_a_stream_is_recovered_before_its_first_chunk_only(
    stage: Stage, how: str, chunks: int, requests: int
) -> None:
    side = stage.side(Answer(ANSWER))
    side.stream_fail_after = chunks
    model = CompactionNode(context_window=BELIEVED).wrap(stage.openai())
    if chunks:
        with pytest.raises(Exception, match="context"):
            await ask(model, talk(8), how)
    else:
        assert await ask(model, talk(8), how) == ANSWER
    assert len(side.model_requests) == requests


@breaks
async def test_so_is_a_call_whose_tokens_the_user_of_the_graph_sees(stage: Stage, chunks: int, requests: int) -> None:
    """`invoke` streams as well then, and shown tokens must not come again."""
    side = stage.side(Answer(ANSWER))
    side.stream_fail_after = chunks
    graph, seen = wrapped_graph(CompactionNode(context_window=BELIEVED), stage.openai()), list[str]()

    def listen() -> None:
        for message, _ in graph.stream({"messages": talk(8)}, stream_mode="messages"):
            seen.append(message.text)

    if chunks:
        with pytest.raises(Exception, match="context"):
            listen()
        assert 0 < len("".join(seen)) < len(ANSWER)
    else:
        listen()
        assert "".join(seen) == ANSWER
    assert len(side.model_requests) == requests


@pytest.mark.parametrize("how", ["invoke", "ainvoke"])
async def test_an_interrupt_is_never_taken_for_an_overflow(how: str) -> None:
    """GraphBubbleUp is an Exception; its text may say anything."""
    interrupt = GraphInterrupt([Interrupt("This model's maximum context length is 5 tokens. Go on?", id="1")])
    called: list[int] = []

    def raising(_: Any) -> AIMessage:
        called.append(1)
        raise interrupt

    with pytest.raises(GraphBubbleUp) as caught:
        await ask(CompactionNode(context_window=BELIEVED).wrap(RunnableLambda(raising)), talk(), how)
    assert (caught.value, called) == (interrupt, [1])


# -- with a node in front


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_recovery_in_the_model_node_is_checkpointed(stage: Stage, how: str) -> None:
    side, saver = stage.side(), InMemorySaver()
    graph = wrapped_graph(CompactionNode(context_window=BELIEVED), stage.openai(), before=[BRIEF], checkpointer=saver)
    shown = await streamed(graph, {"messages": asked()}, how, "custom", thread())
    assert [(event["status"], event["reason"]) for event in shown] == [
        ("started", "overflow"),
        ("finished", "overflow"),
    ]
    (record,) = records_in(graph)
    assert record["reason"] == "overflow"
    other = wrapped_graph(CompactionNode(context_window=BELIEVED), stage.openai(), before=[BRIEF], checkpointer=saver)
    assert len(other.invoke(said("And then?"), thread())["messages"]) == 64
    assert len(side.rejections) == 1
    assert kinds_of(side.requests).count(True) == 1


async def test_messages_around_the_view_belong_to_the_conversation_of_the_node(stage: Stage) -> None:
    events: list[CompactionEvent] = []
    side = stage.side(*[Answer("Noted. " * 300)] * 12)
    node = CompactionNode(context_window=WINDOW, on_event=events.append)
    model = stage.openai().bind_tools([heavy_tool(6_000)])
    around: Any = {"before": [BRIEF], "after": [HumanMessage("In JSON.")]}
    graph = wrapped_graph(node, model, **around, checkpointer=InMemorySaver())
    for number in range(12):
        graph.invoke(question(number), thread())
    assert len(sessions_of(events)) >= 2
    assert {event.session_id for event in events} == {"thread"}
    assert {request.system for request in side.model_requests} == {"Be brief."}
    assert all(texts(request.messages).endswith("\nIn JSON.") for request in side.model_requests)
    assert not side.rejections
    assert node.session("thread").state().is_estimate is False


async def test_another_question_to_the_model_is_another_conversation(stage: Stage) -> None:
    events: list[CompactionEvent] = []
    stage.side(*[Answer("Yes.")] * 4)
    node = CompactionNode(context_window=WINDOW, on_event=events.append)
    model = node.wrap(stage.openai())

    def call(state: MessagesState) -> dict[str, Any]:
        model.invoke(asked(30, first=500))
        return {"messages": [model.invoke(state["messages"])]}

    graph = chat_graph(node, call, model_input=MessagesState, checkpointer=InMemorySaver())
    graph.invoke({"messages": talk()}, thread())
    assert sessions_of(events) == ["thread", "thread#model"]


# -- alone


async def test_a_model_may_be_wrapped_without_a_node_in_front(stage: Stage) -> None:
    side = stage.side(reads("a.py", "b.py"), reads("c.py"), Answer("Read."), Answer("Again."))
    model = CompactionNode(context_window=WINDOW).wrap(stage.openai())
    agent = react_agent(model, [file_tool(500)], prompt="Be brief.", checkpointer=InMemorySaver())
    agent.invoke(said("Read all."), thread())
    result = await agent.ainvoke(said("And now?"), thread())
    assert result["messages"][-1].text == "Again."
    assert (len(side.model_requests), side.rejections) == (4, [])
    assert [tool["function"]["name"] for tool in side.model_requests[0].tools] == ["read_file"]


@pytest.mark.parametrize("config", [None, thread("chain")], ids=["no thread", "thread"])
async def test_outside_a_graph_a_summary_is_paid_for_once(stage: Stage, config: Any) -> None:
    side = stage.side(*[Answer("Yes.")] * 3)
    node = CompactionNode(context_window=WINDOW)
    prompt = ChatPromptTemplate.from_messages([("system", "Be brief."), ("placeholder", "{talk}")])
    chain = prompt | node.wrap(stage.openai())
    for how in ("invoke", "invoke", "astream"):
        assert await ask(chain, {"talk": asked()}, how, config) == "Yes."
    assert kinds_of(side.requests).count(True) == 1
    assert node.session("chain").state().compaction_count == (1 if config else 0)


@pytest.mark.parametrize("given", ["Hi.", [("human", "Hi.")], [{"role": "user", "content": "Hi."}]], ids=str)
async def test_every_input_of_a_model_is_taken(stage: Stage, given: Any) -> None:
    side = stage.side(Answer("Hello."))
    assert await ask(CompactionNode(context_window=WINDOW).wrap(stage.openai()), given) == "Hello."
    assert [message["content"] for message in side.requests[0].messages] == ["Hi."]


# -- the options of a call


async def test_the_window_of_the_model_counts(stage: Stage) -> None:
    side = stage.side(*[Answer("Yes.")] * 3)
    node = CompactionNode()
    node.wrap(stage.openai()).invoke(asked(9))
    small = len(side.requests)
    node.wrap(stage.openai(window=None, model="unheard-of")).invoke(asked(9))
    assert len(side.requests) == small + 1
    assert kinds_of(side.requests[:small]) == [True, False]


async def test_arguments_of_the_call_count(stage: Stage) -> None:
    side = stage.side(*[Answer("Yes.")] * 2)
    model = CompactionNode(context_window=WINDOW).wrap(stage.openai())
    schema = {"type": "function", "function": {"name": "f", "description": "Never. " * 3_000, "parameters": {}}}
    model.bind(tools=[schema]).invoke(asked(5))
    assert kinds_of(side.requests) == [True, False]
    model.invoke(asked(4, first=50), max_tokens=9_000)
    assert kinds_of(side.requests[2:]) == [True, False]
    assert side.requests[-1].max_tokens == 9_000


def test_a_wrapped_model_tells_its_name_and_its_profile(stage: Stage) -> None:
    """Middleware and prebuilt agents read the window there."""
    model, node = stage.openai(), node_of()
    for inner in (model, model.bind_tools([])):
        wrapped: Any = node.wrap(inner)
        assert (wrapped.model_name, wrapped.profile) == (model.model_name, {"max_input_tokens": WINDOW})


def test_tools_cannot_be_bound_to_a_function() -> None:
    with pytest.raises(ConfigurationError, match="RunnableLambda has no bind_tools"):
        node_of().wrap(RunnableLambda(str)).bind_tools([])
