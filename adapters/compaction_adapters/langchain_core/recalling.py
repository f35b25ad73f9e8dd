"""The recall tool of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.runnables import RunnableConfig

from compaction_adapters.langchain_core.conversations import Conversations
from compaction_adapters.langchain_core.tasks import Task

if TYPE_CHECKING:  # slow to import, and no graph without tools needs it
    from langchain_core.tools import BaseTool


def recall_tool(conversations: Conversations, messages_key: str) -> BaseTool:
    """Return the recall tool of the conversations of a graph; it reads the messages in the state of its run.

    Args:
        messages_key: The state's key for messages.
    """
    from langchain_core.tools import StructuredTool

    from compaction_hooks.recall import RecallTool

    def recall(config: RunnableConfig, **arguments: Any) -> str:
        task = Task(config, is_tool=True)
        messages: list[Any] = task.get(messages_key) or []
        session = conversations.of(task, messages).session
        return session.recall_tool(lambda: messages)(**arguments)

    return StructuredTool.from_function(
        recall,
        name=RecallTool.name,
        description=RecallTool.description,
        args_schema={**RecallTool.parameters},
        infer_schema=False,
    )
