"""Images that are too many bytes for a request, in an agent of tinyagent."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("tinyagent")
pytest.importorskip("httpx")

from compaction_adapters.tinyagent import compaction_hook
from tinyagent import Agent, AgentOptions
from tinyagent.agent_types import (
    AgentMessage,
    AssistantMessage,
    AssistantMessageEvent,
    Context,
    ImageContent,
    TextContent,
    UserMessage,
)

from tests.adapters.large_media import IMAGES, image
from tests.adapters.tinyagent_stage import openai_model, shown


class Refusing:
    """A stream function that refuses requests with more than four images, as tinyagent tells of it."""

    def __init__(self) -> None:
        self.sent: list[list[AgentMessage]] = []

    async def __call__(self, model: Any, context: Context, options: Any) -> Any:
        self.sent.append(list(context.messages))
        if shown(context.messages).count("data:image/png") > IMAGES // 2:
            raise RuntimeError("API returned error: 413 - request_too_large: Request exceeds the maximum size")
        return Ended(AssistantMessage(content=[TextContent(text="Fine.")], stop_reason="stop"))


class Ended:
    """A finished answer."""

    def __init__(self, message: AssistantMessage) -> None:
        self._message = message
        self._events = [AssistantMessageEvent(type="done", message=message, reason="stop")]

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        if not self._events:
            raise StopAsyncIteration
        return self._events.pop()

    async def result(self) -> AssistantMessage:
        return self._message


async def test_too_many_bytes_of_images_are_sent_once_more_without_the_oldest() -> None:
    hook, model = compaction_hook(context_window=100_000), Refusing()
    agent = Agent(AgentOptions(transform_context=hook, stream_fn=model))
    agent.set_model(openai_model("http://127.0.0.1"))
    history: list[AgentMessage] = []
    for number in range(IMAGES):
        picture = ImageContent(url=f"data:image/png;base64,{image(number)}", mime_type="image/png")
        seen = AssistantMessage(content=[TextContent(text="Seen.")], stop_reason="stop")
        history += [UserMessage(content=[TextContent(text=f"Picture {number}."), picture]), seen]
    agent.replace_messages(history)
    await hook.prompt(agent, "And now?")
    sent = shown(model.sent[1])
    assert [image(number) in sent for number in range(IMAGES)] == [False] * 4 + [True] * 4
    assert sent.count("[Left out, the request was too large with it: image/png sha256 ") == 4
    assert [image(number) in shown(agent.state.messages) for number in range(IMAGES)] == [True] * 8
