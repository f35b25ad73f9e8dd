"""tinyagent: summaries asked in place, at the end of the agent's own conversation, and in the background."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from compaction_adapters.tinyagent import compaction_hook, in_place, summarizer
from tinyagent import extract_text
from tinyagent.agent_types import AgentTool, AgentToolResult, TextContent

from compaction_hooks.testing import Script
from tests.adapters.tinyagent_stage import made_agent, openai_model, stream_openai
from tests.background_scene import check_background
from tests.in_place_scene import REQUEST, SETTINGS, WINDOW, check_in_place, read_page
from tests.provider import LoopbackProvider


async def read(_id: str, arguments: Mapping[str, Any], *_: object) -> AgentToolResult:
    return AgentToolResult(content=[TextContent(text=read_page(**arguments))])


READ_PAGE = AgentTool(
    name="read_page",
    description="Reads a page.",
    parameters={"type": "object", "properties": {"page": {"type": "integer"}}},
    execute=read,
)


def asker_of(provider: LoopbackProvider, name: str, write: Any, **keywords: Any) -> Callable[[], Awaitable[str]]:
    """Return a function that asks an agent to read all pages."""
    model = openai_model(provider.openai_url)
    written = write(stream_openai, model, get_api_key=lambda _: name)
    hook = compaction_hook(context_window=WINDOW, settings=SETTINGS, summarizer=written, **keywords)
    agent = made_agent(hook, model, name, Script(system="You read.", turns=()), tools=())
    agent.set_tools([READ_PAGE])

    async def ask() -> str:
        return extract_text(await hook.prompt(agent, REQUEST))

    return ask


async def test_a_summary_is_asked_by_the_list_of_the_call(
    provider: LoopbackProvider, request: pytest.FixtureRequest
) -> None:
    name = request.node.nodeid
    await check_in_place(provider.conversation(name), asker_of(provider, name, in_place))


async def test_no_call_waits_for_a_summary_in_the_background(
    provider: LoopbackProvider, request: pytest.FixtureRequest
) -> None:
    name = request.node.nodeid
    await check_background(provider.conversation(name), asker_of(provider, name, summarizer, background=True))
