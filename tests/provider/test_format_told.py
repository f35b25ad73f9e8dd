"""Agents on the providers' clients, with a controller without `format=`: every request is accepted."""

from typing import Any

import pytest

from compaction_hooks import CompactionController
from tests.conversations import prose
from tests.provider import Answer, Call, LoopbackProvider

STEPS = 16


def answers() -> list[Answer]:
    return [Answer("Reading on.", (Call("read_file", {"path": f"src/{n}.py"}),)) for n in range(STEPS)]


def test_an_agent_on_anthropics_client(provider: LoopbackProvider) -> None:
    anthropic = pytest.importorskip("anthropic")
    side = provider.conversation("anthropic", answers=answers())
    hooks = CompactionController(context_window=8_192)
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Port the parser."}]
    with anthropic.Anthropic(base_url=provider.anthropic_url, api_key="anthropic", max_retries=0) as client:
        for _ in range(STEPS):
            answer = hooks.call_sync(
                messages, lambda view: client.messages.create(model="m", max_tokens=1_024, messages=view)
            )
            called = next(block for block in answer.content if block.type == "tool_use")
            result = {"type": "tool_result", "tool_use_id": called.id, "content": prose(800)}
            messages += [{"role": "assistant", "content": answer.content}, {"role": "user", "content": [result]}]
    assert hooks.state().compaction_count > 0
    assert len(side.requests) == STEPS
    assert side.rejections == []


def test_an_agent_on_openais_client(provider: LoopbackProvider) -> None:
    openai = pytest.importorskip("openai")
    side = provider.conversation("openai", answers=answers())
    hooks = CompactionController(context_window=8_192)
    messages: list[Any] = [{"role": "user", "content": "Port the parser."}]
    with openai.OpenAI(base_url=provider.openai_url, api_key="openai", max_retries=0) as client:
        for _ in range(STEPS):
            answer = hooks.call_sync(messages, lambda view: client.chat.completions.create(model="m", messages=view))
            message = answer.choices[0].message
            messages += [message, {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": prose(800)}]
    assert hooks.state().compaction_count > 0
    assert len(side.requests) == STEPS
    assert side.rejections == []
