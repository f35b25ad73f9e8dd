"""An agent on OpenAI's client, with a server whose chat template requires user and assistant in turn."""

from typing import Any

import pytest

pytest.importorskip("openai")

import openai

from compaction_hooks import CompactionController, CompactionSettings
from tests.conversations import prose
from tests.provider import Answer, Call, LoopbackProvider, Side

STEPS = 40


def agent(provider: LoopbackProvider, *, merges: bool) -> tuple[Side, CompactionController[Any]]:
    """Run an agent that reads a file and answers in each of its turns; its first request is pinned."""
    answers = [
        answer
        for n in range(STEPS // 2)
        for answer in (Answer("Reading.", (Call("read_file", {"path": f"src/{n}.py"}),)), Answer(f"Read {n}."))
    ]
    side = provider.conversation("strict", answers=answers)
    side.wants_turns = True
    settings = CompactionSettings(merge_user_messages=merges, clear_tool_results=False)
    hooks = CompactionController[Any](context_window=8_192, settings=settings)
    messages: list[Any] = [{"role": "system", "content": "You are careful."}]
    with openai.OpenAI(base_url=provider.openai_url, api_key="strict", max_retries=0) as client:
        for n in range(STEPS):
            if n % 2 == 0:
                messages.append({"role": "user", "content": f"Read src/{n // 2}.py."})
            if n == 0:
                hooks.pin(messages[-1])
            answer = hooks.call_sync(messages, lambda view: client.chat.completions.create(model="m", messages=view))
            message = answer.choices[0].message
            messages.append(message)
            calls = message.tool_calls or ()
            messages += [{"role": "tool", "tool_call_id": call.id, "content": prose(800)} for call in calls]
    return side, hooks


def test_a_summary_and_the_request_behind_it_are_refused(provider: LoopbackProvider) -> None:
    with pytest.raises(
        openai.BadRequestError, match="Conversation roles must alternate user/assistant/user/assistant/"
    ):
        agent(provider, merges=False)


def test_merged_nothing_is_refused(provider: LoopbackProvider) -> None:
    side, hooks = agent(provider, merges=True)
    assert len(side.requests) == STEPS
    assert side.rejections == []
    assert hooks.state().compaction_count >= 3
