"""`with_compaction` over HTTP: summaries, usage, streams, answers cut by the window, media, sessions between calls."""

import json
from typing import Any

import pytest
from compaction_adapters.kit import REASONING_TOKENS
from compaction_adapters.litellm import summarizer, with_compaction

from compaction_hooks import CompactionController, CompactionSettings, Usage
from tests import careless_model
from tests.adapters import litellm_stage, summary_answers
from tests.adapters.litellm_stage import (
    BOTH,
    EITHER,
    SECRET,
    TOO_LONG,
    WINDOW,
    WITH_TOOLS,
    Events,
    Stage,
    got,
    litellm,
    offered,
    said,
    task,
    whole,
)
from tests.cases import folded
from tests.conversations import Scripted, steps, texts, user
from tests.provider import Answer

pytestmark = litellm_stage.QUIET
provider = litellm_stage.provider


# -- summaries


@pytest.mark.parametrize("api", ["openai", "anthropic"])
async def test_the_called_model_writes_the_summary(stage: Stage, api: str) -> None:
    """It is asked at the address of the call, with no argument that shapes the user's answer."""
    side = stage.side(Answer("Ready."))
    made = with_compaction(litellm.acompletion, context_window=WINDOW)
    shaping = {"temperature": 0.5, "max_tokens": 77, "stop": ["END"], "extra_headers": {"x-team": "one"}}
    arguments = getattr(stage, api)(tools=[offered("read_file")], **shaping, **WITH_TOOLS)
    assert said(await made(messages=task(TOO_LONG), **arguments)) == "Ready."
    asked, answered = side.requests
    assert (asked.is_summary, answered.is_summary) == (True, False)
    assert "<conversation>" in json.dumps(asked.messages)  # the whole prompt
    assert SECRET in json.dumps(answered.body)
    assert asked.body["model"] == answered.body["model"]
    assert 77 < asked.max_tokens - REASONING_TOKENS <= CompactionSettings().budget(WINDOW).summary
    for name in ("tools", "temperature", "stop", "stop_sequences", "stream", "metadata"):
        assert not asked.body.get(name)
    assert answered.body["tools"]


@pytest.mark.parametrize(
    ("api", "model"),
    [
        pytest.param("openai", "gpt-4o-mini", marks=pytest.mark.full),
        ("openai", "gpt-5.2"),
        ("anthropic", "claude-opus-4-7"),
    ],
)
async def test_an_answer_that_is_no_summary_is_refused_and_reasoning_has_room(
    stage: Stage, api: str, model: str
) -> None:
    await summary_answers.check(stage.side(window=200_000), summarizer(**getattr(stage, api)(model)))


@EITHER
async def test_a_summarizer_asks_its_own_model(stage: Stage, function: Any) -> None:
    side, other = stage.side(), stage.side(key="-other")
    own = summarizer(**stage.openai(key="-other", max_tokens=3_000))
    made = with_compaction(function, context_window=WINDOW, summarizer=own)
    for text in ("Go.", "Come."):
        await got(made(messages=[user(text), *steps(TOO_LONG)], **stage.openai()))
    assert [request.is_summary for request in side.requests] == [False, False]
    assert [(request.is_summary, request.max_tokens) for request in other.requests] == [(True, 3_000)] * 2
    assert SECRET in json.dumps(side.requests[0].body)


@BOTH
async def test_a_failed_summary_is_not_asked_for_again(stage: Stage, function: Any) -> None:
    side = stage.side()
    side.fail_summaries = True
    made = with_compaction(function, context_window=WINDOW)
    assert said(await got(made(messages=task(TOO_LONG), num_retries=2, **stage.openai()))) == "Done."
    assert [request.is_summary for request in side.requests] == [True, False]


def completion(content: object, finish_reason: str = "stop", **more: object) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, **more}
    return {"choices": [{"message": message, "finish_reason": finish_reason}], "usage": {"prompt_tokens": 9}}


PLAIN = f"## Goal\n- {SECRET}"
BLOCKS = [{"type": "text", "text": "## Goal\n"}, {"type": "text", "text": f"- {SECRET}"}]
CALL = {"id": "1", "type": "function", "function": {"name": "read_file", "arguments": "{}"}}


@folded(
    "response, is_used",
    {
        "text": (PLAIN, True),
        "dict": (completion(PLAIN), True),
        "object": (litellm.ModelResponse(**completion(PLAIN)), True),
        "blocks": (completion(BLOCKS), True),
        "cut off": (completion(PLAIN, "length"), False),
        "calls": (completion(PLAIN, tool_calls=[CALL]), False),
        "no choice": ({"choices": []}, False),
        "nothing": (None, False),
    },
)
def test_a_summary_is_read_from_the_response_of_any_function(response: object, is_used: bool) -> None:
    views: list[Any] = []

    def answer(*, messages: Any) -> object:
        views.append(messages)
        return response

    events = Events()
    with_compaction(answer, context_window=WINDOW, on_event=events)(messages=task(TOO_LONG))
    assert events.finished[0].used_fallback is not is_used
    has_usage = isinstance(response, dict | litellm.ModelResponse) and bool(response.get("choices"))
    usage = events.finished[0].usage
    assert (usage is not None and not usage.is_estimate) is has_usage
    assert (SECRET in json.dumps(views[-1])) is is_used


# -- usage and streams


async def test_usage_is_the_providers_count(stage: Stage) -> None:
    side = stage.side()
    hooks = CompactionController(context_window=WINDOW)
    functions = [with_compaction(one, hooks, session_id="one") for one in (litellm.acompletion, litellm.completion)]
    streamed: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
    for number, (function, options) in enumerate([(0, {}), (1, {}), (0, streamed)]):
        answer = await got(functions[function](messages=task(number + 1), **options, **stage.openai()))
        if options:
            await whole(answer)
        state = hooks.session("one").state()
        assert not state.is_estimate
        assert state.context_tokens == side.requests[number].input_tokens


@pytest.mark.parametrize("is_routed", [False, True])
def test_usage_counts_for_the_model_of_the_call(is_routed: bool) -> None:
    """Azure answers with another name than a deployment's; a router may have asked another model."""
    answer = litellm.ModelResponse(model="gpt-4.1-2025-04-14", usage={"prompt_tokens": 300, "completion_tokens": 4})
    parameters = {"model": "azure/my-deployment", "api_key": "k", "api_base": "http://127.0.0.1:9"}
    router = litellm.Router(model_list=[{"model_name": "agent", "litellm_params": parameters}])
    hooks = CompactionController(context_window=WINDOW)
    made = with_compaction(router.completion if is_routed else litellm.completion, hooks, session_id="one")
    made(messages=task(1), mock_response=answer, **({"model": "agent"} if is_routed else parameters))
    assert hooks.session("one").state().is_estimate is is_routed


@BOTH
async def test_a_stream_is_still_litellms_own(stage: Stage, function: Any) -> None:
    stage.side(Answer("a few words"))
    made = with_compaction(function, context_window=WINDOW)
    stream = await got(made(messages=task(1), stream=True, **stage.openai()))
    assert stream.model == "gpt-4o-mini"
    assert stream._hidden_params["model_id"] is None
    assert await whole(stream) == "a few words"


async def test_a_stream_that_breaks_before_its_first_chunk_is_sent_again(stage: Stage) -> None:
    side = stage.side()
    side.stream_fail_after = 0
    made = with_compaction(litellm.acompletion, context_window=WINDOW, summarizer=Scripted("- facts"))
    assert await whole(await made(messages=task(20), stream=True, **stage.openai())) == "Done."
    assert len(side.requests) == 2
    assert len(side.requests[1].messages) < len(side.requests[0].messages)


# -- limits of the provider


def test_a_logger_fn_of_the_user_is_called_too(stage: Stage) -> None:
    """Raw responses are read by a `logger_fn`."""
    stage.side()
    seen: list[Any] = []
    made = with_compaction(litellm.completion)
    made(messages=[user("Hi.")], logger_fn=lambda details: seen.append(details["log_event_type"]), **stage.openai())
    assert seen == ["pre_api_call", "post_api_call"]


@EITHER
async def test_an_answer_cut_by_the_window_is_asked_for_again(stage: Stage, function: Any) -> None:
    cut = Answer("Once upon a", stop="length", usage=Usage(input_tokens=8_000, output_tokens=192))
    side = stage.side(cut, Answer("The whole story."))
    made = with_compaction(function, context_window=8_192, summarizer=Scripted())
    assert said(await got(made(messages=task(20), **stage.openai()))) == "The whole story."
    assert [request.status for request in side.model_requests] == [200, 200]
    first, second = side.model_requests
    assert len(second.messages) < len(first.messages)


# -- between calls

THREAD: dict[str, Any] = {"metadata": {"session_id": "thread-1"}}
MESSAGES = task(8)


async def test_a_conversation_is_compacted_pinned_and_undone_between_calls(stage: Stage) -> None:
    side = stage.side()
    acompletion = with_compaction(litellm.acompletion, context_window=WINDOW)
    await acompletion(**stage.openai(), messages=MESSAGES, **THREAD)
    session = acompletion.session("thread-1")
    assert session.state().context_tokens
    session.pin(MESSAGES[4])
    model = summarizer(**stage.openai())
    result = await session.compact(MESSAGES, keep_recent_tokens=500, summarizer=model)
    assert SECRET in texts(result.messages)
    assert any(message is MESSAGES[4] for message in result.messages)
    assert [record.reason for record in session.history()] == ["manual"]
    for is_compacted in (True, False):
        await acompletion(**stage.openai(), messages=MESSAGES, **THREAD)
        assert (SECRET in json.dumps(side.requests[-1].messages)) is is_compacted
        assert (session.undo() is not None) is is_compacted
    assert not side.rejections


@pytest.mark.full
async def test_a_models_summary_gets_back_what_it_drops(stage: Stage) -> None:
    await careless_model.check(summarizer(**stage.openai()), stage.side())
