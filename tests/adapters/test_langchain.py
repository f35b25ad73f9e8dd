"""`CompactionMiddleware` around the model call of real agents, against the loopback provider."""

from __future__ import annotations

import json
from typing import Annotated, Any, TypedDict, cast

import pytest

pytest.importorskip("langchain_openai")

import openai
from compaction_adapters.langchain import CompactionMiddleware, LangChainFormat, ModelContextOverflowError
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
)
from langchain.agents.middleware.types import ModelResponse
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core import exceptions as langchain_exceptions
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel, Field

from compaction_hooks import (
    CompactionController,
    CompactionFinished,
    CompactionSettings,
    CompactionStarted,
    ContextOverflowError,
    Usage,
)
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
    listing,
    reads,
    spoken,
    texts,
    thread,
    tool_steps,
)
from tests.cases import crossed
from tests.provider import Answer, Call, Rejection

provider = langchain_core_stage.provider
stage = langchain_core_stage.stage


async def run(agent: Any, messages: Any, how: str = "sync", config: Any = None) -> dict[str, Any]:
    result = (
        agent.invoke({"messages": messages}, config)
        if how == "sync"
        else await agent.ainvoke({"messages": messages}, config)
    )
    assert isinstance(result, dict)
    return result


both_ways = pytest.mark.parametrize("how", ["sync", "async"])
both_clients = pytest.mark.parametrize("client", ["openai", "anthropic"])
ways_and_clients = crossed(how=["sync", "async"], client=["openai", "anthropic"])


class Spy(AgentMiddleware[Any, Any, Any]):
    """Sees the requests as they come by."""

    def __init__(self, name: str = "Spy") -> None:
        self.requests: list[Any] = []
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        self.requests.append(request)
        return handler(request)

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        self.requests.append(request)
        return await handler(request)


# -- what a call sees


@both_ways
async def test_a_short_conversation_is_sent_as_it_is(stage: Stage, how: str) -> None:
    side, outside, inside = stage.side(Answer("Hello.")), Spy("outside"), Spy("inside")
    events: list[CompactionEvent] = []
    middleware = [outside, CompactionMiddleware(on_event=events.append), inside]
    agent = create_agent(stage.openai(), system_prompt="Be brief.", middleware=middleware)
    result = await run(agent, "Hi.", how)
    assert list(result) == ["messages"]
    assert inside.requests[0] is outside.requests[0]
    assert [len(request.messages) for request in side.requests] == [2]
    assert events == []


@ways_and_clients
async def test_the_state_keeps_every_message_while_the_model_gets_a_view_of_the_same_objects(
    stage: Stage, how: str, client: str
) -> None:
    side, spy = stage.side(), Spy()
    agent = create_agent(getattr(stage, client)(), middleware=[CompactionMiddleware(), spy])
    talk = spoken(30)
    result = await run(agent, [*talk, HumanMessage("And now?")], how)
    (view,) = [request.messages for request in spy.requests]
    assert [message.text for message in result["messages"]] == [*(m.text for m in talk), "And now?", "Done."]
    kept = [message for message in view if message.additional_kwargs.get("lc_source") != "summarization"]
    assert len(view) == len(kept) + 1
    assert all(any(message is own for own in spy.requests[0].state["messages"]) for message in kept)
    assert view[-1].text == "And now?"
    assert [request.status for request in side.model_requests] == [200]


async def test_another_model_writes_the_summary_when_it_is_given(stage: Stage) -> None:
    own, cheap = stage.side(), stage.side(key="cheap")
    agent = create_agent(
        stage.openai(),
        middleware=[CompactionMiddleware(model=stage.openai(200_000, key="cheap"), trigger=("fraction", 0.5))],
    )
    await run(agent, [*spoken(30), HumanMessage("And now?")])
    assert kinds_of(own.requests) == [False]
    assert kinds_of(cheap.requests) == [True]


class Report(BaseModel):
    """A report."""

    title: str = Field(description="Explain every case. " * 800)


@pytest.mark.parametrize(
    "beside",
    [
        pytest.param({"system_prompt": "Be careful. " * 1_300}, id="system prompt"),
        pytest.param({"system_prompt": SystemMessage([{"type": "text", "text": "Be careful. " * 1_300}])}, id="blocks"),
        pytest.param({"tools": [heavy_tool(26_000)]}, id="tools"),
        pytest.param(
            {"tools": [{"type": "function", "function": {"name": "f", "description": "Do it. " * 2_300}}]}, id="dict"
        ),
        pytest.param({"response_format": ToolStrategy(Report)}, id="answer as a tool"),
        pytest.param({"response_format": ProviderStrategy(Report)}, id="answer of the provider"),
        pytest.param({"response_format": Report}, id="answer as a bare schema"),
    ],
)
async def test_what_goes_beside_the_messages_counts(stage: Stage, beside: dict[str, Any]) -> None:
    """The messages alone are below the threshold."""
    events: list[CompactionEvent] = []
    middleware = CompactionMiddleware(on_event=events.append)
    is_called = "response_format" in beside and not isinstance(beside["response_format"], ProviderStrategy)
    answer = Answer("", (Call("Report", {"title": "t"}),)) if is_called else Answer('{"title": "t"}')
    stage.side(Answer("Fine."), answer)
    await run(create_agent(stage.openai(), middleware=[middleware]), spoken(4), config=thread("plain"))
    assert events == []
    await run(create_agent(stage.openai(), middleware=[middleware], **beside), spoken(4), config=thread("beside"))
    assert isinstance(events[-1], CompactionFinished)


class AsksForLess(AgentMiddleware[Any, Any, Any]):
    """Outside: settings of the very call."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(request.override(model_settings={"max_tokens": 7_000}))


@pytest.mark.parametrize(
    ("options", "outside", "reserve"),
    [
        pytest.param({}, [], WINDOW // 4, id="not limited"),
        pytest.param({"max_tokens": 6_000}, [], 6_000, id="by the model"),
        pytest.param({"max_tokens": 6_000}, [AsksForLess()], 7_000, id="by the call"),
    ],
)
async def test_what_is_asked_for_at_most_is_left_free(stage: Stage, options: Any, outside: Any, reserve: int) -> None:
    stage.side()
    events: list[CompactionEvent] = []
    middleware = [*outside, CompactionMiddleware(on_event=events.append)]
    await run(create_agent(stage.openai(**options), middleware=middleware), [*spoken(30), HumanMessage("And now?")])
    started = events[0]
    assert isinstance(started, CompactionStarted)
    assert started.trigger_tokens == WINDOW - reserve


async def test_the_window_is_that_of_the_model_in_use_after_a_fallback_too(stage: Stage) -> None:
    """The fallback's window is smaller: its request is compacted for it, and the first model's is not."""
    first, second = stage.side(_unavailable(), window=8 * WINDOW), stage.side(key="small")
    agent = create_agent(
        stage.openai(8 * WINDOW, model="large"),
        middleware=[ModelFallbackMiddleware(stage.openai(WINDOW, key="small")), CompactionMiddleware()],
    )
    result = await run(agent, [*spoken(30), HumanMessage("And now?")])
    assert result["messages"][-1].text == "Done."
    assert [len(request.messages) for request in first.requests] == [61]
    assert kinds_of(second.requests) == [True, False]
    assert not second.rejections


def _unavailable() -> Rejection:
    return Rejection(503, {"error": {"message": "The server is overloaded.", "type": "server_error"}})


async def test_the_window_is_that_of_the_model_that_a_run_configures(stage: Stage) -> None:
    side = stage.side(*[Answer("Yes.")] * 2, window=10 * WINDOW)
    agent = create_agent(stage.configurable(10 * WINDOW), middleware=[CompactionMiddleware()])
    await run(agent, spoken(9))
    await run(agent, spoken(9), config={"configurable": {"profile": {"max_input_tokens": WINDOW}}})
    assert kinds_of(side.requests) == [False, True, False]


async def test_a_limit_that_one_model_told_is_not_another_models(stage: Stage) -> None:
    """By name. The first turns out to take a tenth of what its profile says."""
    stage.side()
    other = stage.side(window=10 * WINDOW, key="other")
    middleware = CompactionMiddleware()
    one, two = (stage.openai(10 * WINDOW, model=name, key=key) for name, key in (("one", ""), ("two", "other")))
    await run(create_agent(one, middleware=[middleware]), [*spoken(30), HumanMessage("And now?")])
    await run(create_agent(two, middleware=[middleware]), [*spoken(30, first=100), HumanMessage("And now?")])
    assert [len(request.messages) for request in other.requests] == [61]


async def test_a_prompt_of_ones_own_says_how_the_summary_is_written(stage: Stage) -> None:
    side = stage.side(Answer("Fine."))
    agent: Any = create_agent(stage.openai(), middleware=[CompactionMiddleware(summary_prompt="In French, please.")])
    agent.invoke({"messages": [*spoken(30), HumanMessage("And now?")]})
    summaries = [request for request in side.requests if request.is_summary]
    assert summaries
    assert all("In French, please." in texts(request.messages) for request in summaries)


# -- overflow


@ways_and_clients
async def test_an_overflow_is_compacted_and_sent_once_more_in_place(stage: Stage, how: str, client: str) -> None:
    side = stage.side()
    agent = create_agent(getattr(stage, client)(10 * WINDOW), middleware=[CompactionMiddleware()])
    result = await run(agent, [*spoken(30), HumanMessage("And now?")], how)
    assert [request.status for request in side.model_requests] == [400, 200]
    assert [message.text for message in result["messages"][-2:]] == ["And now?", "Done."]
    assert len(result["messages"]) == 62


async def test_a_wording_that_langchain_does_not_map_is_recovered_too(stage: Stage) -> None:
    """`langchain_anthropic` maps "prompt is too long" only."""
    side = stage.side(wording="anthropic_sum")
    agent = create_agent(stage.anthropic(10 * WINDOW), middleware=[CompactionMiddleware()])
    await run(agent, [*spoken(30), HumanMessage("And now?")])
    assert [request.status for request in side.model_requests] == [400, 200]


@both_ways
async def test_a_second_overflow_is_one_error_of_both_families(stage: Stage, how: str) -> None:
    side = stage.side()
    side.reject_next = 2
    agent = create_agent(stage.openai(), middleware=[CompactionMiddleware()])
    with pytest.raises(ModelContextOverflowError) as caught:
        await run(agent, [*spoken(4), HumanMessage("And now?")], how)
    assert isinstance(caught.value, ContextOverflowError)
    assert isinstance(caught.value, langchain_exceptions.ContextOverflowError)
    assert isinstance(caught.value.__cause__, openai.BadRequestError)
    assert (caught.value.part, caught.value.window) == ("hidden prefix", WINDOW)
    assert len(side.model_requests) == 2


async def test_a_second_overflow_is_not_tried_again_by_middleware_outside(stage: Stage) -> None:
    if not hasattr(pytest.importorskip("langchain.agents.middleware._retry"), "default_retry_on"):
        pytest.skip("this version of ModelRetryMiddleware repeats every error")
    side = stage.side()
    side.reject_next = 2
    middleware = [ModelRetryMiddleware(max_retries=3, initial_delay=0.0), CompactionMiddleware()]
    with pytest.raises(ModelContextOverflowError):
        await run(create_agent(stage.openai(), middleware=middleware), [*spoken(4), HumanMessage("And now?")])
    assert len(side.model_requests) == 2


async def test_switched_off_the_providers_error_surfaces_untouched(stage: Stage) -> None:
    side = stage.side()
    side.reject_next = 1
    middleware = CompactionMiddleware(settings=CompactionSettings(compact_on_overflow=False))
    agent = create_agent(stage.openai(), middleware=[middleware])
    with pytest.raises(openai.BadRequestError) as caught:
        await run(agent, "Hi.")
    assert not isinstance(caught.value, ContextOverflowError)
    assert len(side.requests) == 1


@both_ways
async def test_an_answer_that_the_window_cut_short_is_asked_for_once_more(stage: Stage, how: str) -> None:
    """Nobody has seen the short answer, since nothing was streamed."""
    cut = Answer("Once upon a", stop="length", usage=Usage(input_tokens=16_000, output_tokens=384))
    side = stage.side(cut, Answer("The whole story."))
    agent = create_agent(stage.openai(), middleware=[CompactionMiddleware()])
    result = await run(agent, spoken(4), how)
    assert [message.text for message in result["messages"][8:]] == ["The whole story."]
    assert len(side.model_requests[0].messages) == 8
    assert SECRET in texts(side.model_requests[1].messages)


@both_ways
async def test_an_answer_that_tells_of_a_silent_overflow_is_asked_for_once_more(stage: Stage, how: str) -> None:
    """Anthropic accepts the request and stops with "model_context_window_exceeded"; the window was thought larger."""
    side = stage.side(Answer("The answer."), window=10_000, overflow="stop_reason")
    agent = create_agent(stage.anthropic(10 * WINDOW), middleware=[CompactionMiddleware()])
    result = await run(agent, [*spoken(8), HumanMessage("And now?")], how)
    assert result["messages"][-1].text == "The answer."
    assert "[Conversation summary]" in texts(side.model_requests[1].messages)
    assert side.model_requests[1].input_tokens < 10_000 < side.model_requests[0].input_tokens


async def test_any_other_error_surfaces_and_nothing_is_sent_again(stage: Stage) -> None:
    side = stage.side(_unavailable())
    agent = create_agent(stage.openai(), middleware=[CompactionMiddleware()])
    with pytest.raises(openai.InternalServerError):
        await run(agent, "Hi.")
    assert len(side.requests) == 1


# -- the agent's own ways


async def test_parallel_calls_keep_their_results_in_every_view(stage: Stage) -> None:
    answers = [reads(*(f"src/{step}_{part}.py" for part in range(4))) for step in range(6)]
    side = stage.side(*answers, Answer("Read."))
    agent = create_agent(stage.openai(), [file_tool(100)], middleware=[CompactionMiddleware()])
    result = await run(agent, "Go through all files.")
    assert result["messages"][-1].text == "Read."
    assert (side.remaining, side.rejections) == (0, [])
    assert len(result["messages"]) == 2 + 6 * 5


@pytest.mark.parametrize("form", [ToolStrategy, ProviderStrategy])
async def test_a_structured_answer_comes_through(stage: Stage, form: Any) -> None:
    class City(BaseModel):
        """A city."""

        name: str

    answer = Answer("", (Call("City", {"name": "Oslo"}),)) if form is ToolStrategy else Answer('{"name": "Oslo"}')
    side = stage.side(answer)
    agent = create_agent(stage.openai(), middleware=[CompactionMiddleware()], response_format=form(City))
    result = await run(agent, [*spoken(30), HumanMessage("Which city?")])
    assert result["structured_response"] == City(name="Oslo")
    (request,) = side.model_requests
    assert SECRET in texts(request.messages)


@both_ways
async def test_subagents_have_conversations_of_their_own(stage: Stage, how: str) -> None:
    """Two at once, and the one they work for: one middleware serves all three."""
    events: list[CompactionEvent] = []
    controller = CompactionController(on_event=events.append)
    inner_answers = [reads(f"src/{step}.py") for step in range(8)]
    for name in "ab":
        stage.side(*inner_answers, Answer(f"Inner {name} is done."), key=name)
    side = stage.side(Answer("", tuple(_delegates(name) for name in "ab")), Answer("All done."), window=10 * WINDOW)
    subagents: dict[str, Any] = {
        name: create_agent(stage.openai(key=name), [file_tool(150)], middleware=[CompactionMiddleware(controller)])
        for name in "ab"
    }

    @tool
    def delegate(to: str) -> str:
        """Let another agent do it."""
        return str(subagents[to].invoke({"messages": "Read."})["messages"][-1].text)

    @tool
    async def adelegate(to: str) -> str:
        """Let another agent do it."""
        return str((await subagents[to].ainvoke({"messages": "Read."}))["messages"][-1].text)

    adelegate.name = "delegate"
    agent = create_agent(
        stage.openai(10 * WINDOW),
        [delegate if how == "sync" else adelegate],
        middleware=[CompactionMiddleware(controller)],
        checkpointer=InMemorySaver(),
    )
    result = await run(agent, "Delegate.", how, thread())
    results = [message.text for message in result["messages"] if message.type == "tool"]
    assert results == ["Inner a is done.", "Inner b is done."]
    ids = {event.session_id for event in events}
    assert len(ids) == 2
    assert all(id.startswith("thread|tools:") for id in ids)
    assert not side.rejections


def _delegates(name: str) -> Call:
    return Call("delegate", {"to": name})


class ByteSizedModel(FakeMessagesListChatModel):
    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self


async def test_a_model_without_a_name_or_a_profile_is_recovered_only(caplog: pytest.LogCaptureFixture) -> None:
    """The window is unknown: said once, and nothing is compacted before an overflow."""
    model = ByteSizedModel(responses=[AIMessage("Fine.")])
    middleware = CompactionMiddleware()
    agent = create_agent(model, [file_tool()], middleware=[middleware])
    history: list[BaseMessage] = [*tool_steps(20), AIMessage("So far."), HumanMessage(listing("pasted"))]
    for _ in range(2):
        result = await run(agent, history)
        assert result["messages"][-1].text == "Fine."
    assert [record.message.count("context window") for record in caplog.records] == [1]


class Answering(AgentMiddleware[Any, Any, Any]):
    """Keeps the views, and answers in place of a model."""

    def __init__(self) -> None:
        self.views: list[list[BaseMessage]] = []

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        self.views.append(request.messages)
        return ModelResponse(result=[AIMessage("Fine.")])


def test_a_compacted_view_is_not_replaced_by_the_history_that_the_provider_keeps(stage: Stage) -> None:
    """With `use_previous_response_id` the provider goes on from its own history, and no summary would be sent."""
    model, answering = stage.openai(use_previous_response_id=True), Answering()
    talk = spoken(30)
    for number, message in enumerate(talk):
        if isinstance(message, AIMessage):
            message.response_metadata["id"] = f"resp_{number}"
    agent: Any = create_agent(model, middleware=[CompactionMiddleware(summarizer=CountingSummarizer()), answering])
    agent.invoke({"messages": [*talk[:4], HumanMessage("And now?")]})
    agent.invoke({"messages": [*talk, HumanMessage("And now?")]})
    whole, compacted = (model._get_request_payload(view) for view in answering.views)
    assert whole["previous_response_id"] == "resp_3"
    assert "previous_response_id" not in compacted
    assert SECRET in json.dumps(compacted["input"])
    assert talk[-1].response_metadata["id"] == "resp_59"


def test_a_call_reads_only_new_messages(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.side(*[reads(f"{step}.py") for step in range(5)], window=100 * WINDOW)
    read, per_call = LangChainFormat.read, [0]

    def counted(self: Any, message: Any) -> Any:
        per_call[-1] += 1
        return read(self, message)

    class Counting(AgentMiddleware[Any, Any, Any]):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            per_call.append(0)
            return handler(request)

    monkeypatch.setattr(LangChainFormat, "read", counted)
    middleware = [CompactionMiddleware(context_window=100 * WINDOW), Counting()]
    agent: Any = create_agent(stage.openai(), [file_tool(2)], middleware=middleware, checkpointer=InMemorySaver())
    agent.invoke({"messages": [*spoken(100, chars=40), HumanMessage("Read.")]}, thread())
    first, *later = per_call[:-1]
    assert first >= 201
    assert max(later) <= 6


def test_messages_may_be_in_a_delta_channel(stage: Stage) -> None:
    channels = pytest.importorskip("langgraph.channels.delta")
    reducer = pytest.importorskip("langgraph.pregel._messages")._messages_delta_reducer
    # Made of objects, since names of this function cannot be resolved.
    state = TypedDict("state", {"messages": Annotated[list[Any], channels.DeltaChannel(reducer)]})  # noqa: UP013
    answering = Answering()
    middleware = [CompactionMiddleware(summarizer=CountingSummarizer()), answering]
    agent: Any = create_agent(
        stage.openai(), middleware=middleware, state_schema=cast("Any", state), checkpointer=InMemorySaver()
    )
    for _ in range(2):
        agent.invoke({"messages": [*spoken(20), HumanMessage("And now?")]}, thread())
    for view in answering.views:
        assert [SECRET in message.text for message in view].index(True) == 0
        assert view[-1].text == "And now?"
    assert len(agent.get_state(thread()).values["messages"]) == 84
