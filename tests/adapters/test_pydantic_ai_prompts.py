"""User prompts in a request: the request comes last, cache points move to the summary, strict chat templates get one prompt."""

from typing import Any

import pytest
from compaction_adapters.pydantic_ai import SUMMARY_KEY, Compaction, PydanticAIFormat
from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import CachePoint, ImageUrl, ModelMessage, ModelRequest, ToolReturnPart, UserPromptPart

from compaction_hooks import CompactionSettings
from tests.adapters.pydantic_ai_messages import SECRET, SUMMARIZE, CountingSummarizer, reader, spoken, texts
from tests.adapters.pydantic_ai_stage import WINDOW, Stage
from tests.cases import crossed
from tests.conversations import prose
from tests.provider import Answer, Rejection, Side

MERGE = CompactionSettings(merge_user_messages=True, clear_tool_results=False)


@crossed(kind=["openai", "anthropic"], instructions=[None, "You are careful."], persist=[False, True])
async def test_the_request_comes_last(stage: Stage, kind: str, instructions: str | None, persist: bool) -> None:
    """pydantic-ai puts no message of its own after the summary."""
    side = stage.side()
    compaction = Compaction[None](context_window=WINDOW, settings=SUMMARIZE, persist=persist)
    agent = Agent(getattr(stage, kind)(), instructions=instructions, capabilities=[compaction])
    first = await agent.run("And now?", message_history=spoken(13))
    await agent.run("And then?", message_history=first.all_messages())
    system = int(kind == "openai" and bool(instructions))
    for sent, request in zip(side.model_requests, ["And now?", "And then?"], strict=True):
        assert SECRET in texts(sent.messages)
        assert request in str(sent.messages[-1]["content"])
        assert [message["role"] for message in sent.messages].count("system") == system
        assert "<pyai" not in sent.system


async def test_the_last_cache_point_reaches_the_provider_on_the_summary(stage: Stage) -> None:
    side, messages = stage.side(Answer("Done.")), spoken(20)
    messages[2] = ModelRequest(parts=[UserPromptPart([prose(500), CachePoint(ttl="1h"), "More.", CachePoint()])])
    agent = reader(stage.anthropic(), Compaction(context_window=WINDOW, summarizer=CountingSummarizer()))
    await agent.run("Go on.", message_history=messages)
    blocks = [block for message in side.model_requests[0].messages for block in message["content"]]
    (with_mark,) = [block for block in blocks if "cache_control" in block]
    assert "[Conversation summary]" in with_mark["text"]
    assert with_mark["cache_control"]["ttl"] == "5m"


# -- `merge_user_messages=True`, on a server whose chat template wants user and assistant in turn


def strict(stage: Stage, *answers: Answer | Rejection) -> Side:
    side = stage.side(*answers)
    side.wants_turns = True
    return side


@pytest.mark.parametrize("persist", [False, True])
async def test_an_overflow_is_recovered_with_one_more_merged_request(stage: Stage, persist: bool) -> None:
    side = strict(stage, Answer("Done."))
    side.reject_next = 1
    agent = reader(stage.openai(), Compaction(context_window=WINDOW, settings=MERGE, persist=persist))
    result = await agent.run("Go on.", message_history=spoken(6))
    assert [request.status for request in side.model_requests] == [400, 200]
    users = [message for message in side.model_requests[1].messages if message["role"] == "user"]
    assert users[0]["content"].endswith("\n\nGo on.")
    assert sum(SUMMARY_KEY in (message.metadata or {}) for message in result.all_messages()) == persist


async def test_prompts_of_one_request_are_merged_too(stage: Stage) -> None:
    """The framework joins the requests in a row that it is given: a summary, a prompt whose run failed, the next prompt."""
    side = strict(stage, Rejection(500, None), Answer("Done."))
    compaction = Compaction[None](context_window=WINDOW, settings=MERGE)
    agent = reader(stage.openai(), compaction)
    stored = await compaction.session("thread").compact(spoken(8))
    failed = [*stored.messages, ModelRequest(parts=[UserPromptPart("First try.")])]
    with pytest.raises(ModelHTTPError, match="500"):
        await agent.run("Second try.", message_history=failed, conversation_id="thread")
    await agent.run("Third try.", message_history=failed, conversation_id="thread")
    assert [request.status for request in side.model_requests] == [500, 200]


def test_merged_prompts_keep_their_images_and_results_their_places() -> None:
    image = ImageUrl("https://example.org/a.png")
    request = ModelRequest(parts=[ToolReturnPart("read", "text", "c"), UserPromptPart("One.")])
    second = ModelRequest(parts=[UserPromptPart(["Two.", image]), UserPromptPart("Three.")], run_id="r")
    view: list[ModelMessage] = [request, second, *spoken(1)[1:]]
    before = list(view)
    merged = PydanticAIFormat().merge(view)
    assert view == before
    first: Any = merged[0]
    assert first.parts[0] is request.parts[0]
    assert first.run_id == "r"
    assert [part.content for part in first.parts[1:]] == [["One.", "Two.", image, "Three."]]
    assert merged[1:] == view[2:]
    assert PydanticAIFormat().merge(merged) is merged
    results: list[ModelMessage] = [ModelRequest(parts=request.parts[:1]), ModelRequest(parts=request.parts[:1])]
    assert PydanticAIFormat().merge(results) is results
