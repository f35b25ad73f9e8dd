"""The tools of the library, which the capability gives to its agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.tools import AgentDepsT, Tool
from pydantic_ai.toolsets import FunctionToolset

from compaction_adapters.kit import ModelTool
from compaction_adapters.pydantic_ai.models import Session


def make_toolset(
    offered: Sequence[ModelTool], find_session: Callable[[RunContext[Any]], Session], id: str
) -> FunctionToolset[AgentDepsT] | None:
    """Return tools that answer for the session of the run that calls them; None without any.

    Args:
        id: The beginning of the id of the toolset, which ends with the keywords that turn the tools on.
    """

    def make(each: ModelTool) -> Tool[AgentDepsT]:
        async def answer(ctx: RunContext[AgentDepsT], **arguments: Any) -> str:
            tool = each.make(find_session(ctx), lambda: ctx.messages)
            return tool(**arguments) if ctx.in_durable_context else await asyncio.to_thread(tool, **arguments)

        made = Tool[AgentDepsT].from_schema(answer, each.name, each.description, each.parameters, takes_ctx=True)
        # Workflow engines run it in the workflow: their workers have neither the run's messages nor its session.
        made.metadata = {"temporal": False, "prefect": False}
        return made

    keywords = [each.keyword for each in offered]
    return FunctionToolset([*map(make, offered)], id="_".join([id, *keywords])) if offered else None
