"""`with_compaction` over HTTP: who is asked for the summary, what is learned of an answer, what becomes of a stream."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

pytest.importorskip("litellm")

from compaction_adapters.litellm import summarizer, with_compaction

from compaction_hooks import CompactionController, CompactionSettings, SummaryRequest
from tests.adapters import litellm_stage
from tests.adapters.litellm_stage import (
    SECRET,
    TOO_LONG,
    WINDOW,
    WITH_TOOLS,
    Events,
    Stage,
    litellm,
    said,
    task,
)
from tests.conversations import Scripted, steps, user
from tests.provider import Answer

pytestmark = litellm_stage.QUIET
provider, stage = litellm_stage.provider, litellm_stage.stage


@pytest.mark.parametrize("api", ["openai", "anthropic"])
async def test_the_called_model_is_asked_for_the_summary(stage: Stage, api: str) -> None:
    """It is asked where the call goes, and for nothing the user wants of his answer."""
    side = stage.side(Answer("Ready."))
    made = with_compaction(litellm.acompletion, context_window=WINDOW)
    offered = {
        "type": "function",
        "function": {"name": "read_file", "description": "", "parameters": {"type": "object"}},
    }
    arguments = getattr(stage, api)(
        tools=[offered],
        temperature=0.5,
        max_tokens=77,
        stop=["END"],
        extra_headers={"x-team": "one"},
        **WITH_TOOLS,
    )
    response = await made(messages=task(TOO_LONG), **arguments)
    assert said(response) == "Ready."
    asked, answered = side.requests
    assert asked.is_summary
    assert not answered.is_summary
    assert SECRET in json.dumps(answered.body)
    assert asked.body["model"] == answered.body["model"]
    assert 77 < asked.max_tokens <= CompactionSettings().budget(WINDOW).summary
    for name in ("tools", "temperature", "stop", "stop_sequences", "stream", "metadata"):
        assert not asked.body.get(name)
    assert answered.body["tools"]


def test_a_summarizer_of_ones_own_is_asked_instead(stage: Stage) -> None:
    side, other = stage.side(Answer("Ready.")), stage.side(key="-other")
    mine = summarizer(**stage.openai(key="-other"))
    made = with_compaction(litellm.completion, context_window=WINDOW, summarizer=mine)
    assert said(made(messages=task(TOO_LONG), **stage.openai())) == "Ready."
    assert [request.is_summary for request in side.requests] == [False]
    assert [request.is_summary for request in other.requests] == [True]
    assert SECRET in json.dumps(side.requests[0].body)


async def test_a_summarizer_of_ones_own_in_an_async_program(stage: Stage) -> None:
    """Two in a row, on connections that are kept."""
    other = stage.side(key="-other")
    stage.side()
    mine = summarizer(**stage.openai(key="-other"))
    made = with_compaction(litellm.acompletion, context_window=WINDOW, summarizer=mine)
    for _ in range(2):
        await made(messages=[user("Go."), *steps(TOO_LONG)], **stage.openai())
        await made(messages=[user("Come."), *steps(TOO_LONG)], **stage.openai())
    assert len(other.requests) == 2


@pytest.mark.parametrize(("finish", "is_used"), [("stop", True), ("length", False)])
def test_a_summary_that_was_cut_off_is_refused(stage: Stage, finish: str, is_used: bool) -> None:
    events = Events()
    side = stage.side(Answer("Ready."))
    other = stage.side(Answer("## Goal\n- KINGFISHER", stop=finish), key="-other")
    other.summary_text = ""
    made = with_compaction(
        litellm.completion, context_window=WINDOW, summarizer=_plain(stage.openai(key="-other")), on_event=events
    )
    made(messages=task(TOO_LONG), **stage.openai())
    assert (SECRET in json.dumps(side.requests[-1].body)) is is_used
    assert events.finished[0].used_fallback is not is_used
    assert events.finished[0].usage is not None


def _plain(arguments: Mapping[str, Any]) -> Any:
    """Asks with another system prompt, so that the provider takes it for an ordinary request."""
    inner = summarizer(**arguments)

    async def ask(request: SummaryRequest) -> Any:
        return await cast("Awaitable[Any]", inner(replace(request, system="Sum up.")))

    return ask


async def test_usage_is_learned(stage: Stage) -> None:
    """The size of a context is what the provider counted."""
    side = stage.side(Answer("one"), Answer("two"), Answer("three"))
    hooks = CompactionController(context_window=WINDOW)
    acompletion, completion = (
        with_compaction(function, hooks, session_id="one") for function in (litellm.acompletion, litellm.completion)
    )
    session = hooks.session("one")
    for number in range(3):
        messages = task(number + 1)
        if number == 0:
            await acompletion(messages=messages, **stage.openai())
        elif number == 1:
            completion(messages=messages, **stage.openai())
        else:
            stream = await acompletion(
                messages=messages, stream=True, stream_options={"include_usage": True}, **stage.openai()
            )
            async for _ in stream:
                pass
        state = session.state()
        assert not state.is_estimate
        assert state.context_tokens == side.requests[number].input_tokens


@pytest.mark.parametrize("is_routed", [False, True])
def test_usage_counts_for_the_model_of_the_call(is_routed: bool) -> None:
    """Azure answers with another name than a deployment's; a router may have asked another model."""
    answer = litellm.ModelResponse(model="gpt-4.1-2025-04-14", usage={"prompt_tokens": 300, "completion_tokens": 4})
    parameters = {"model": "azure/my-deployment", "api_key": "k", "api_base": "http://127.0.0.1:9"}
    router = litellm.Router(model_list=[{"model_name": "agent", "litellm_params": parameters}])
    hooks = CompactionController(context_window=WINDOW)
    completion = with_compaction(router.completion if is_routed else litellm.completion, hooks, session_id="one")
    completion(messages=task(1), mock_response=answer, **({"model": "agent"} if is_routed else parameters))
    assert hooks.session("one").state().is_estimate is is_routed


async def test_a_stream_is_still_litellms_own(stage: Stage) -> None:
    stage.side(Answer("a few words"), Answer("some other words"))
    hooks = CompactionController(context_window=WINDOW)
    stream = await with_compaction(litellm.acompletion, hooks)(messages=task(1), stream=True, **stage.openai())
    assert stream.model == "gpt-4o-mini"
    assert stream._hidden_params["model_id"] is None
    chunks = [chunk async for chunk in stream]
    assert said(litellm.stream_chunk_builder(chunks)) == "a few words"
    sync = with_compaction(litellm.completion, hooks)(messages=task(1), stream=True, **stage.openai())
    assert said(litellm.stream_chunk_builder(list(sync))) == "some other words"


async def test_a_stream_that_breaks_before_its_first_chunk_is_sent_again(stage: Stage) -> None:
    side = stage.side()
    side.stream_fail_after = 0
    made = with_compaction(litellm.acompletion, context_window=WINDOW, summarizer=Scripted("- facts"))
    stream = await made(messages=task(20), stream=True, **stage.openai())
    assert said(litellm.stream_chunk_builder([chunk async for chunk in stream])) == "Done."
    assert len(side.requests) == 2
    assert len(side.requests[1].messages) < len(side.requests[0].messages)


def _whole(content: object, **more: object) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": content, **more}, "finish_reason": "stop"}]}


PLAIN = f"## Goal\n- {SECRET}"
BLOCKS = [{"type": "text", "text": "## Goal\n"}, {"type": "text", "text": f"- {SECRET}"}]
CALL = {"id": "1", "type": "function", "function": {"name": "read_file", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("response", "is_used"),
    [
        pytest.param(PLAIN, True, id="text"),
        pytest.param(_whole(PLAIN), True, id="dict"),
        pytest.param(litellm.ModelResponse(**_whole(PLAIN)), True, id="object"),
        pytest.param(_whole(BLOCKS), True, id="blocks"),
        pytest.param(_whole(PLAIN, tool_calls=[CALL]), False, id="calls"),
        pytest.param({"choices": []}, False, id="no choice"),
        pytest.param(None, False, id="nothing"),
    ],
)
def test_a_summary_is_read_from_whatever_a_function_returns(response: object, is_used: bool) -> None:
    """What holds no text, or calls a tool, is no summary."""
    views: list[Any] = []

    def answer(*, messages: Any) -> object:
        views.append(messages)
        return response

    events = Events()
    with_compaction(answer, context_window=WINDOW, on_event=events)(messages=task(TOO_LONG))
    assert events.finished[0].used_fallback is not is_used
    assert (SECRET in json.dumps(views[-1])) is is_used
