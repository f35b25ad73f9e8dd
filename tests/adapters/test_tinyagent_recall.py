from collections.abc import Mapping
from typing import Any

import pytest
from compaction_adapters.tinyagent import compaction_hook
from tinyagent import extract_text
from tinyagent.agent_types import AgentTool, AgentToolResult, TextContent

from compaction_hooks.testing import Script
from tests.adapters.recall_scene import KNOWN, REQUEST, UNKNOWN, Reader, read_page
from tests.adapters.tinyagent_stage import WINDOW, made_agent, openai_model
from tests.provider import LoopbackProvider


async def read(_id: str, arguments: Mapping[str, Any], *_: object) -> AgentToolResult:
    return AgentToolResult(content=[TextContent(text=read_page(arguments["page"]))])


READ_PAGE = AgentTool(
    name="read_page",
    description="Reads a page.",
    parameters={"type": "object", "properties": {"page": {"type": "integer"}}},
    execute=read,
)


@pytest.mark.parametrize(("recall", "said"), [(True, KNOWN), (False, UNKNOWN)])
async def test_an_agent_that_needs_a_covered_fact_recalls_it(
    provider: LoopbackProvider, request: pytest.FixtureRequest, recall: bool, said: str
) -> None:
    side = provider.conversation(request.node.nodeid, window=WINDOW)
    side.think = reader = Reader()
    hook = compaction_hook(context_window=WINDOW, recall=recall)
    agent = made_agent(hook, openai_model(provider.openai_url), request.node.nodeid, Script(turns=()), tools=())
    agent.set_tools([READ_PAGE])
    assert extract_text(await hook.prompt(agent, REQUEST)) == said
    assert reader.recalled is recall
    assert hook.session.state().compaction_count > 0
    assert ("recall" in str(side.model_requests[-1].messages)) is recall
