"""`CompactionMiddleware` around the model call of real agents, against the loopback provider."""

import base64
from typing import Annotated, Any, TypedDict, cast

import openai
import pytest
from compaction_adapters.langchain import CompactionMiddleware, ModelContextOverflowError
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelFallbackMiddleware, ModelRetryMiddleware
from langchain.agents.middleware.types import ModelResponse
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core import exceptions as langchain_exceptions
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel, Field

from compaction_hooks import CompactionController, CompactionFinished, CompactionStarted, ContextOverflowError, Usage
from compaction_hooks.events import CompactionEvent
from tests.adapters.langchain_core_stage import (
    LONG,
    OUTAGE,
    SECRET,
    WINDOW,
    CountingSummarizer,
    Stage,
    asked,
    both_ways,
    file_tool,
    heavy_tool,
    is_summary,
    kinds_of,
    reads,
    run,
    said,
    spoken,
    texts,
    thread,
)
from tests.provider import Answer, Call


class Spy(AgentMiddleware[Any, Any, Any]):
    """Keeps the requests of the handler; answers in place of a model if it is given an answer."""

    def __init__(self, name: str = "Spy", answer: str | None = None) -> None:
        self.requests: list[Any] = []
        self.answer = answer
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        self.requests.append(request)
        return ModelResponse(result=[AIMessage(self.answer)]) if self.answer else handler(request)


def agent_of(model: Any, *middleware: Any, tools: Any = (), **options: Any) -> Any:
    return create_agent(model, tools, middleware=middleware or [CompactionMiddleware()], **options)


# -- the request of a call


async def test_another_model_writes_the_summary_by_another_prompt(stage: Stage) -> None:
    own, cheap = stage.side(), stage.side(key="cheap")
    writer = stage.openai(200_000, key="cheap")
    compaction = CompactionMiddleware(model=writer, trigger=("fraction", 0.5), summary_prompt="In French, please.")
    agent_of(stage.openai(), compaction).invoke(LONG)
    assert (kinds_of(own.requests), kinds_of(cheap.requests)) == ([False], [True])
    assert all("In French, please." in texts(request.messages) for request in cheap.requests)


class Report(BaseModel):
    """A report."""

    title: str = Field(description="Explain every case. " * 800)


PROMPT = "Be careful. " * 1_300
COUNTED: dict[str, dict[str, Any]] = {
    "system prompt": {"system_prompt": PROMPT},
    "system prompt in blocks": {"system_prompt": SystemMessage([{"type": "text", "text": PROMPT}])},
    "tools": {"tools": [heavy_tool(26_000)]},
    "a tool as a dict": {"tools": [{"type": "function", "function": {"name": "f", "description": "Do it. " * 2_300}}]},
    "answer as a tool": {"response_format": ToolStrategy(Report)},
    "answer of the provider": {"response_format": ProviderStrategy(Report)},
    "answer by a bare schema": {"response_format": Report},
}


@pytest.mark.parametrize("counted", COUNTED.values(), ids=COUNTED)
async def test_the_rest_of_the_request_counts(stage: Stage, counted: dict[str, Any]) -> None:
    """The messages alone are below the threshold."""
    events: list[CompactionEvent] = []
    compaction = CompactionMiddleware(on_event=events.append)
    form = counted.get("response_format")
    is_called = form is not None and not isinstance(form, ProviderStrategy)
    stage.side(
        Answer("Fine."), Answer("", (Call("Report", {"title": "t"}),)) if is_called else Answer('{"title": "t"}')
    )
    agent_of(stage.openai(), compaction).invoke({"messages": spoken(4)}, thread("plain"))
    assert events == []
    agent_of(stage.openai(), compaction, **counted).invoke({"messages": spoken(4)}, thread("counted"))
    assert isinstance(events[-1], CompactionFinished)


class AsksForLess(AgentMiddleware[Any, Any, Any]):
    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(request.override(model_settings={"max_tokens": 7_000}))


@pytest.mark.parametrize(
    ("options", "outside", "reserve"),
    [({}, [], WINDOW // 4), ({"max_tokens": 6_000}, [], 6_000), ({"max_tokens": 6_000}, [AsksForLess()], 7_000)],
    ids=["no limit", "limit of the model", "limit of the call"],
)
async def test_the_limit_of_an_answer_is_left_free(stage: Stage, options: Any, outside: Any, reserve: int) -> None:
    stage.side()
    events: list[CompactionEvent] = []
    agent_of(stage.openai(**options), *outside, CompactionMiddleware(on_event=events.append)).invoke(LONG)
    assert isinstance(events[0], CompactionStarted)
    assert events[0].trigger_tokens == WINDOW - reserve


async def test_a_fallback_is_compacted_for_its_own_window(stage: Stage) -> None:
    first, second = stage.side(OUTAGE, window=8 * WINDOW), stage.side(key="small")
    fallback = ModelFallbackMiddleware(stage.openai(key="small"))
    result = agent_of(stage.openai(8 * WINDOW, model="large"), fallback, CompactionMiddleware()).invoke(LONG)
    assert result["messages"][-1].text == "Done."
    assert [len(request.messages) for request in first.requests] == [61]
    assert (kinds_of(second.requests), second.rejections) == ([True, False], [])


async def test_the_window_is_that_of_the_model_that_a_run_configures(stage: Stage) -> None:
    side, agent = stage.side(*[Answer("Yes.")] * 2, window=10 * WINDOW), agent_of(stage.configurable(10 * WINDOW))
    agent.invoke({"messages": spoken(9)})
    agent.invoke({"messages": spoken(9)}, {"configurable": {"profile": {"max_input_tokens": WINDOW}}})
    assert kinds_of(side.requests) == [False, True, False]


# -- errors


@both_ways
async def test_a_second_overflow_is_an_error_of_this_package_and_of_langchain(stage: Stage, how: str) -> None:
    """For LangChain it is not retryable."""
    side = stage.side()
    side.reject_next = 2
    repeats_no_overflow = hasattr(pytest.importorskip("langchain.agents.middleware._retry"), "default_retry_on")
    outside = [ModelRetryMiddleware(max_retries=3, initial_delay=0.0)] if repeats_no_overflow else []
    agent = agent_of(stage.openai(), *outside, CompactionMiddleware())
    with pytest.raises(ModelContextOverflowError) as caught:
        await run(agent, {"messages": asked(4)}, how)
    assert isinstance(caught.value, ContextOverflowError)
    assert isinstance(caught.value, langchain_exceptions.ContextOverflowError)
    assert isinstance(caught.value.__cause__, openai.BadRequestError)
    assert (caught.value.part, caught.value.window) == ("hidden prefix", WINDOW)
    assert len(side.model_requests) == 2


async def test_an_answer_that_the_window_cut_short_is_asked_for_once_more(stage: Stage) -> None:
    """The user has not seen the short answer, since nothing was streamed."""
    cut = Answer("Once upon a", stop="length", usage=Usage(input_tokens=16_000, output_tokens=384))
    side = stage.side(cut, Answer("The whole story."))
    result = await agent_of(stage.openai()).ainvoke({"messages": spoken(4)})
    assert [message.text for message in result["messages"][8:]] == ["The whole story."]
    assert len(side.model_requests[0].messages) == 8
    assert SECRET in texts(side.model_requests[1].messages)


# -- features of agents


class City(BaseModel):
    """A city."""

    name: str


@pytest.mark.parametrize("form", [ToolStrategy, ProviderStrategy])
async def test_a_structured_answer_is_made_of_the_view(stage: Stage, form: Any) -> None:
    side = stage.side(
        Answer("", (Call("City", {"name": "Oslo"}),)) if form is ToolStrategy else Answer('{"name": "Oslo"}')
    )
    result = agent_of(stage.openai(), response_format=form(City)).invoke(LONG)
    assert result["structured_response"] == City(name="Oslo")
    (request,) = side.model_requests
    assert SECRET in texts(request.messages)


async def test_subagents_have_conversations_of_their_own(stage: Stage) -> None:
    events: list[CompactionEvent] = []
    controller = CompactionController(on_event=events.append)
    for name in "ab":
        stage.side(*[reads(f"src/{step}.py") for step in range(8)], Answer(f"Inner {name} is done."), key=name)
    delegates = tuple(Call("delegate", {"to": name}) for name in "ab")
    side = stage.side(Answer("", delegates), Answer("All done."), window=10 * WINDOW)
    subagents = {
        name: agent_of(stage.openai(key=name), CompactionMiddleware(controller), tools=[file_tool(150)])
        for name in "ab"
    }

    @tool
    async def delegate(to: str) -> str:
        """Let another agent do it."""
        return str((await subagents[to].ainvoke(said("Read.")))["messages"][-1].text)

    saver = InMemorySaver()
    agent = agent_of(stage.openai(10 * WINDOW), CompactionMiddleware(controller), tools=[delegate], checkpointer=saver)
    result = await agent.ainvoke(said("Delegate."), thread())
    results = [message.text for message in result["messages"] if message.type == "tool"]
    assert results == ["Inner a is done.", "Inner b is done."]
    ids = {event.session_id for event in events}
    assert len(ids) == 2
    assert all(id.startswith("thread|tools:") for id in ids)
    assert not side.rejections


async def test_a_model_without_a_name_or_a_profile_is_recovered_only(caplog: pytest.LogCaptureFixture) -> None:
    """Its window is unknown: one warning, and no compaction before an overflow."""
    agent = agent_of(FakeMessagesListChatModel(responses=[AIMessage("Fine.")]))
    for _ in range(2):
        assert agent.invoke(LONG)["messages"][-1].text == "Fine."
    assert [record.message.count("context window") for record in caplog.records] == [1]


def test_messages_may_be_in_a_delta_channel(stage: Stage) -> None:
    channels = pytest.importorskip("langgraph.channels.delta")
    reducer = pytest.importorskip("langgraph.pregel._messages")._messages_delta_reducer
    # Made of objects, since names of this function cannot be resolved.
    state = TypedDict("state", {"messages": Annotated[list[Any], channels.DeltaChannel(reducer)]})  # noqa: UP013
    spy, saver = Spy(answer="Fine."), InMemorySaver()
    compaction = CompactionMiddleware(summarizer=CountingSummarizer())
    agent = agent_of(stage.openai(), compaction, spy, state_schema=cast("Any", state), checkpointer=saver)
    for _ in range(2):
        agent.invoke({"messages": asked(20)}, thread())
    for request in spy.requests:
        assert is_summary(request.messages[0])
        assert request.messages[-1].text == "And now?"
    assert len(agent.get_state(thread()).values["messages"]) == 84


PDF = base64.b64encode(b"%PDF-1.7 " + b"report " * 40).decode()
"""A long report: the provider counts 20,000 tokens, nothing in the request tells."""
SOURCE = {"type": "base64", "media_type": "application/pdf", "data": PDF}


@pytest.mark.parametrize(
    "document",
    [
        {"type": "file", "base64": PDF, "mime_type": "application/pdf", "filename": "report.pdf"},
        {"type": "document", "title": "report.pdf", "source": SOURCE},
    ],
    ids=["LangChain", "Anthropic"],
)
async def test_a_document_larger_than_it_seems_is_left_out(stage: Stage, document: Any) -> None:
    side = stage.side(Answer("Fine."))
    agent = agent_of(stage.anthropic(), CompactionMiddleware(summarizer=CountingSummarizer()))
    messages = [HumanMessage([{"type": "text", "text": "Read this."}, document]), HumanMessage("And now?")]
    assert (await agent.ainvoke({"messages": messages}))["messages"][-1].text == "Fine."
    assert [request.status for request in side.model_requests] == [400, 200]
    sent = str(side.model_requests[1].messages)
    assert PDF not in sent
    assert "[Left out, the request was too large with it: application/pdf" in sent
    assert "Read this." in sent
