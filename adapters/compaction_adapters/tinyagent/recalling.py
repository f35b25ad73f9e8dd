"""The recall tool of an agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from tinyagent.agent_types import AgentTool, AgentToolResult, TextContent

from compaction_hooks.recall import RecallTool


def recall_tool(find: Callable[[], RecallTool]) -> AgentTool:
    """Return an agent's recall tool.

    Args:
        find: Returns the tool of the agent's session.
    """

    async def execute(_id: str, arguments: Mapping[str, Any], *_: object) -> AgentToolResult:
        # A first search of a long conversation would hold the event loop up.
        answer = await asyncio.to_thread(find(), **arguments)
        return AgentToolResult(content=[TextContent(text=answer)])

    return AgentTool(
        name=RecallTool.name, description=RecallTool.description, parameters=RecallTool.parameters, execute=execute
    )
