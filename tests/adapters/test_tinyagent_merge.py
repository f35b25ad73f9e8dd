"""`merge_user_messages=True` with tinyagent's agents, on a server whose chat template wants user and assistant in turn."""

from __future__ import annotations

import pytest

pytest.importorskip("tinyagent")
pytest.importorskip("starlette")

from compaction_adapters.tinyagent import TinyAgentFormat
from tinyagent.agent_types import AgentMessage, AssistantMessage, CacheControl, ImageContent, TextContent, UserMessage

from compaction_hooks import CompactionSettings
from tests.adapters import tinyagent_stage
from tests.adapters.tinyagent_stage import Stage, turns
from tests.provider import Answer, LoopbackProvider

provider = tinyagent_stage.provider


def stage(provider: LoopbackProvider, key: str, *, merges: bool) -> Stage:
    """An agent with a conversation behind it that is due."""
    settings = CompactionSettings(merge_user_messages=merges)
    made = Stage(provider, key, context_window=8_192, settings=settings)
    made.side.wants_turns = True
    made.side.answers.clear()
    made.side.answers.extend([Answer("Yes."), Answer("Done.")])
    made.agent.replace_messages(turns(10, 500))
    return made


async def test_a_summary_and_the_request_behind_it_are_sent_as_one(provider: LoopbackProvider) -> None:
    merging = stage(provider, "merging", merges=True)
    for text in ("Go on.", "And now?"):
        await merging.hook.prompt(merging.agent, text)
    assert merging.side.rejections == []
    assert len(merging.side.model_requests) == 2


async def test_without_the_setting_they_are_refused(provider: LoopbackProvider) -> None:
    refused = stage(provider, "refused", merges=False)
    await refused.hook.prompt(refused.agent, "Go on.")
    assert "Conversation roles must alternate" in str(refused.agent.state.error)


def test_images_and_cache_marks_keep_their_places() -> None:
    mark = CacheControl(type="ephemeral")
    image = ImageContent(url="https://example.org/a.png")
    one, two = TextContent(text="One."), TextContent(text="Two.", cache_control=mark)
    view: list[AgentMessage] = [
        UserMessage(content=[image, one]),
        UserMessage(content=[two]),
        UserMessage(content=[TextContent(text="Three."), image]),
        AssistantMessage(content=[TextContent(text="Yes.")]),
    ]
    before = [message.model_copy(deep=True) for message in view]
    merged = TinyAgentFormat().merge(view)
    assert merged[1:] == view[3:]
    (first,) = merged[:1]
    assert isinstance(first, UserMessage)
    assert first.content == [
        image,
        TextContent(text="One.\n\nTwo.", cache_control=mark),
        TextContent(text="Three."),
        image,
    ]
    assert view == before
    assert TinyAgentFormat().merge(merged) is merged
