"""Streams of an agent: the answer, status events, and nothing of a summary."""

import contextlib
import json
from typing import Any

import openai
import pytest
from compaction_adapters.langchain import CompactionMiddleware
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.pregel import Pregel

from compaction_hooks import SummaryRequest, Usage
from tests.adapters.langchain_core_stage import (
    LONG,
    NEXT,
    SECRET,
    WINDOW,
    Stage,
    both_ways,
    kinds_of,
    spoken,
    streamed,
    thread,
)
from tests.provider import Answer

INTERNAL = "langchain.agents.middleware.internal_call_transformer"
ANSWER = "The answer has several words, so that it comes in more than one chunk of the stream."
SHORT = {"messages": spoken(4)}

beta = pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
has_v3 = pytest.mark.skipif(not hasattr(Pregel, "stream_events"), reason="this version has no v3")


def agent_of(stage: Stage, *inside: Any, summarizer: Any = None, checkpointer: Any = None, **options: Any) -> Any:
    middleware = [CompactionMiddleware(summarizer=summarizer), *inside]
    return create_agent(stage.openai(**options), middleware=middleware, checkpointer=checkpointer)


async def shown(agent: Any, value: Any, how: str = "sync") -> str:
    return "".join(chunk.text for chunk, _ in await streamed(agent, value, how, "messages", thread()))


async def messages_of_v3(agent: Any, value: Any, how: str = "async") -> list[str]:
    if how == "sync":
        return ["".join(message.text) for message in agent.stream_events(value, thread(), version="v3").messages]
    run = await agent.astream_events(value, thread(), version="v3")
    return ["".join([delta async for delta in message.text]) async for message in run.messages]


# -- nothing of a summary


@beta
@has_v3
@pytest.mark.parametrize("has_summarizer", [False, True])
async def test_no_summary_is_among_the_events_of_version_3(stage: Stage, has_summarizer: bool) -> None:
    """Nor that of a user's own summarizer that marks its call as internal, as LangChain's own middleware does."""
    metadata = pytest.importorskip(INTERNAL).internal_call_metadata()
    stage.side(Answer(ANSWER))
    other, model = (
        stage.side(Answer(f"## Goal\n- {SECRET}, and all that came before it."), key="own"),
        stage.openai(key="own"),
    )

    async def summarize(request: SummaryRequest) -> str:
        return str((await model.ainvoke("Summarize the ledger.", {"metadata": metadata})).text)

    agent = agent_of(stage, summarizer=summarize if has_summarizer else None)
    assert await messages_of_v3(agent, LONG) == [ANSWER]
    assert other.remaining == (0 if has_summarizer else 1)


# -- status


@both_ways
async def test_status_events_are_plain_dicts_on_the_custom_stream_of_their_run(stage: Stage, how: str) -> None:
    stage.side()
    agent = agent_of(stage)
    started, finished = await streamed(agent, LONG, how, "custom", thread())
    assert (started["type"], started["status"], started["reason"]) == ("compaction", "started", "threshold")
    assert (finished["status"], finished["session_id"]) == ("finished", "thread")
    assert started["context_window"] == WINDOW
    assert started["tokens_before"] > finished["tokens_after"]
    assert SECRET not in json.dumps([started, finished])
    assert await streamed(agent, SHORT, how, "custom", thread()) == []


# -- overflow in a stream


async def test_a_stream_that_breaks_before_its_first_chunk_is_recovered(stage: Stage) -> None:
    """The response has begun with status 200, and its first event is the error."""
    side = stage.side(Answer(ANSWER))
    side.stream_fail_after = 0
    assert await shown(agent_of(stage), SHORT) == ANSWER
    assert len(side.model_requests) == 2


@beta
@both_ways
@pytest.mark.parametrize("read", [shown, pytest.param(messages_of_v3, marks=has_v3)])
async def test_a_stream_that_breaks_after_its_first_chunk_is_not_sent_again(stage: Stage, how: str, read: Any) -> None:
    side = stage.side(Answer(ANSWER))
    side.stream_fail_after = 2
    agent = agent_of(stage, checkpointer=InMemorySaver())
    with pytest.raises(openai.APIError, match="maximum context length"):
        await read(agent, SHORT, how)
    assert len(side.requests) == 1
    assert len(agent.get_state(thread()).values["messages"]) == 8


async def test_a_streamed_answer_that_is_cut_short_is_not_asked_for_again(stage: Stage) -> None:
    """The user has seen it. The next call compacts first."""
    side = stage.side(Answer(ANSWER, stop="length", usage=Usage(input_tokens=16_000, output_tokens=384)))
    agent = agent_of(stage, checkpointer=InMemorySaver(), stream_usage=True)
    assert await shown(agent, SHORT) == ANSWER
    assert len(side.requests) == 1
    await shown(agent, NEXT)
    assert kinds_of(side.requests) == [False, True, False]


class Hidden(AgentMiddleware[Any, Any, Any]):
    """Calls a model of its own out of the user's sight, and goes on when that breaks."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        with contextlib.suppress(openai.APIError):
            self.model.invoke("Which tools?", {"tags": ["nostream"]})
        return handler(request)


async def test_tokens_of_a_hidden_call_do_not_prevent_recovery(stage: Stage) -> None:
    side = stage.side(Answer(ANSWER))
    side.reject_next = 1
    stage.side(Answer(ANSWER), key="hidden").stream_fail_after = 2
    assert await shown(agent_of(stage, Hidden(stage.openai(key="hidden"))), SHORT) == ANSWER
    assert [request.status for request in side.model_requests] == [400, 200]
