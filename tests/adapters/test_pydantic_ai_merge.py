"""`merge_user_messages=True` with pydantic-ai's agents, on a server whose chat template wants user and assistant in turn."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pydantic_ai.models.openai", exc_type=ImportError)

from compaction_adapters.pydantic_ai import SUMMARY_KEY, Compaction, PydanticAIFormat
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ImageUrl, ModelMessage, ModelRequest, ToolReturnPart, UserPromptPart

from compaction_hooks import CompactionController, CompactionSettings
from tests.adapters import pydantic_ai_stage
from tests.adapters.pydantic_ai_messages import reader, reads, spoken
from tests.adapters.pydantic_ai_stage import Stage
from tests.provider import Answer, Rejection

provider = pydantic_ai_stage.provider
stage = pydantic_ai_stage.stage

MERGES = CompactionSettings(merge_user_messages=True, clear_tool_results=False)


def wanting_turns(stage: Stage, *answers: Answer | Rejection) -> Any:
    side = stage.side(*answers)
    side.wants_turns = True
    return side


async def test_without_the_setting_a_summary_and_the_request_behind_it_are_refused(stage: Stage) -> None:
    wanting_turns(stage, Answer("Done."))
    agent = reader(stage.openai(), Compaction(context_window=16_384))
    with pytest.raises(ModelHTTPError, match="Conversation roles must alternate"):
        await agent.run("Go on.", message_history=spoken(20))


@pytest.mark.parametrize("persist", [False, True])
async def test_turns_of_an_agent_are_all_accepted(stage: Stage, persist: bool) -> None:
    side = wanting_turns(stage, *(answer for n in range(10) for answer in (reads(f"{n}.py"), Answer(f"Read {n}."))))
    shared = CompactionController[Any](context_window=8_192, settings=MERGES)
    compaction = (
        Compaction[None](shared, persist=True) if persist else Compaction(context_window=8_192, settings=MERGES)
    )
    agent = reader(stage.openai(), compaction, tokens=2_000, system_prompt="You are careful.")
    messages: list[ModelMessage] = []
    for n in range(10):
        result = await agent.run(f"Read {n}.py.", message_history=messages, conversation_id="thread")
        messages = result.all_messages()
    assert side.rejections == []
    assert len(side.model_requests) == 20
    assert compaction.session("thread").state().compaction_count >= 2


@pytest.mark.parametrize("persist", [False, True])
async def test_an_overflow_is_recovered_from_with_one_more_request(stage: Stage, persist: bool) -> None:
    side = wanting_turns(stage, reads("a.py"), Answer("Done."))
    side.reject_next = 1
    agent = reader(stage.openai(), Compaction(context_window=16_384, settings=MERGES, persist=persist))
    result = await agent.run("Go on.", message_history=spoken(20))
    assert [request.status for request in side.model_requests] == [400, 200, 200]
    users = [message for message in side.model_requests[1].messages if message["role"] == "user"]
    assert users[0]["content"].endswith("\n\nGo on.")
    assert sum(SUMMARY_KEY in (message.metadata or {}) for message in result.all_messages()) == persist


async def test_what_was_compacted_between_runs_and_a_run_that_failed_are_gone_on_with(stage: Stage) -> None:
    """The framework makes one request of the requests in a row that it is given, which has several prompts then."""
    side = wanting_turns(stage, Rejection(500, None), Answer("Done."))
    compaction = Compaction[None](context_window=16_384, settings=MERGES)
    agent = reader(stage.openai(), compaction)
    stored = await compaction.session("thread").compact(spoken(8))
    failed = [*stored.messages, ModelRequest(parts=[UserPromptPart("First try.")])]
    with pytest.raises(ModelHTTPError, match="500"):
        await agent.run("Second try.", message_history=failed, conversation_id="thread")
    await agent.run("Third try.", message_history=failed, conversation_id="thread")
    assert [request.status for request in side.model_requests] == [500, 200]


def test_images_marks_and_results_keep_their_places() -> None:
    image = ImageUrl("https://example.org/a.png")
    request = ModelRequest(parts=[ToolReturnPart("read", "text", "c"), UserPromptPart("One.")])
    first, second = UserPromptPart(["Two.", image]), UserPromptPart("Three.")
    view: list[ModelMessage] = [request, ModelRequest(parts=[first, second], run_id="r"), *spoken(1)[1:]]
    before = list(view)
    merged = PydanticAIFormat().merge(view)
    assert view == before
    assert merged[0].parts[0] is request.parts[0]
    assert merged[0].run_id == "r"
    (prompt,) = merged[0].parts[1:]
    assert isinstance(prompt, UserPromptPart)
    assert list(prompt.content) == ["One.", "Two.", image, "Three."]
    assert merged[1:] == view[2:]
    assert PydanticAIFormat().merge(merged) is merged
