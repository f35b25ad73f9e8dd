"""The tools of the library, which a plugin adds to a request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from google.adk.tools.base_tool import BaseTool
from google.genai import types

from compaction_adapters.kit import ModelTool


class SessionTool(BaseTool):
    """A tool of one model call.

    Args:
        answer: Answers the model, given its arguments.
    """

    def __init__(self, tool: ModelTool, answer: Callable[[dict[str, Any]], Awaitable[str]]) -> None:
        super().__init__(name=tool.name, description=tool.description)
        self._parameters = tool.parameters
        self._answer = answer

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=self._parameters
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: object) -> str:  # noqa: ARG002 - its caller gives it
        """Return the answer to a call of the model."""
        return await self._answer(args)


def takes_functions(config: types.GenerateContentConfig) -> bool:
    """Return whether a request may have a function more: not if it asks for JSON alone, or has tools of Google's own."""
    if config.response_schema is not None or config.response_json_schema is not None:
        return False
    return all(isinstance(tool, types.Tool) and tool.function_declarations for tool in config.tools or ())
