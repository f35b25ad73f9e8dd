"""`CompactionConversationManager`: a conversation manager that leaves the agent's messages whole."""

# ruff: noqa: ARG002 - the framework gives its hooks more than each needs

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from operator import eq
from typing import Any, Unpack, cast
from weakref import WeakSet

from strands.agent.conversation_manager import ConversationManager
from strands.hooks import AgentInitializedEvent, HookRegistry
from strands.middleware import InvokeModelContext, InvokeModelStage, ModelStopReason, TypedEvent
from strands.tools import PythonAgentTool

from compaction_adapters.kit import RECALL, ControllerKeywords, ModelCalls, ModelTool, join_id, model_tools
from compaction_adapters.strands.messages import FORMAT, StrandsMessage, split_injected, with_injected
from compaction_adapters.strands.models import call_options, is_prelude, read_event
from compaction_hooks import CompactionController


class CompactionConversationManager(ModelCalls[StrandsMessage], ConversationManager):
    """Keeps the conversation of each of its agents inside the model's context window, and recovers from overflows.

        agent = Agent(model=model, conversation_manager=CompactionConversationManager())

    Each model call is sent a view: summary, current request and recent messages. `agent.messages` and the session's store stay
    whole. A conversation has the agent's `session_id`, with `%/` and the `agent_id` if the agent has one of its own.

    Args:
        controller: A controller, shared or not, of any format. None: make one from the keywords.
        recall: Whether its agents get a tool by which the model reads again what its views leave out.
        compact: Whether its agents get a tool by which the model asks for a compaction.

    Raises:
        ConfigurationError: both a controller and keywords are given.
    """

    _is_copy = staticmethod(eq)  # Strands copies all messages for each call

    def __init__(
        self,
        controller: CompactionController[Any] | None = None,
        *,
        recall: bool = False,
        compact: bool = False,
        **keywords: Unpack[ControllerKeywords],
    ) -> None:
        super().__init__(controller, keywords, FORMAT)
        ConversationManager.__init__(self)
        self._tools = model_tools(recall=recall, compact=compact)
        self._agents: WeakSet[Any] = WeakSet()

    # -- what Strands asks of a conversation manager

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        """Subscribe to the event of an agent that has been made."""
        super().register_hooks(registry, **kwargs)
        registry.add_callback(AgentInitializedEvent, self._attach)

    def apply_management(self, agent: Any, **kwargs: Any) -> None:
        """Leave the agent's messages as they are."""

    def reduce_context(self, agent: Any, e: Exception | None = None, **kwargs: Any) -> None:
        """Raise the overflow: it was compacted and sent once more before, if that could help.

        If `agent.cancel()` ended that compaction, Strands makes the call again, which ends as cancelled.
        """
        if e is not None and not agent.cancel_signal.is_set():
            raise e

    def restore_from_session(self, state: Mapping[str, Any]) -> None:
        """Remove no message from the restored conversation, also if another manager had removed some."""

    # -- for agents

    def _attach(self, event: AgentInitializedEvent[Any]) -> None:
        agent = event.agent
        for tool in self._tools:
            tool.check_name(agent.tool_registry.registry)
            agent.tool_registry.register_tool(self._make_tool(tool))

        agent.add_middleware(InvokeModelStage, self._invoke_model)
        self._agents.add(agent)

    def _invoke_model(
        self, context: InvokeModelContext, next_fn: Callable[[InvokeModelContext], AsyncGenerator[TypedEvent]]
    ) -> AsyncGenerator[TypedEvent]:
        """Return the events of a model call: a middleware of `InvokeModelStage`."""
        agent: Any = context.agent
        own_id, is_cancelled = _conversation_id(agent), agent.cancel_signal
        whole: Any = context.messages
        messages, injected = split_injected(whole, context.dynamic_trailing_blocks)

        async def open_stream(view: list[StrandsMessage]) -> AsyncGenerator[TypedEvent]:
            if is_cancelled.is_set():
                yield _cancelled()
                return
            sent: Any = with_injected(view, injected)
            async for event in next_fn(context.replace(messages=sent)):
                yield event

        bare = context.replace(messages=[], dynamic_trailing_blocks=0)
        options = call_options(context, lambda view: next_fn(bare.replace(messages=cast("Any", view))))
        return self._stream(
            own_id,
            messages,
            open_stream,
            read_event,
            options,
            is_prelude,
            has_recall=RECALL in self._tools,
            signal=is_cancelled,
        )

    def _make_tool(self, tool: ModelTool) -> PythonAgentTool:
        async def answer(tool_use: Any, agent: Any, **state: Any) -> Any:  # noqa: ARG001 - Strands gives more than is needed
            text = await self._run_tool(tool, _conversation_id(agent), agent.messages, tool_use["input"])
            return {"toolUseId": tool_use["toolUseId"], "status": "success", "content": [{"text": text}]}

        spec: Any = {
            "name": tool.name,
            "description": tool.description,
            "inputSchema": {"json": tool.parameters},
        }
        return PythonAgentTool(tool.name, spec, answer)

    def _own_conversation(self) -> str | None:
        """Return the id of the conversation if the manager serves one agent."""
        return _conversation_id(*self._agents) if len(self._agents) == 1 else None


def _conversation_id(agent: Any) -> str:
    return join_id(agent.session_id, "" if agent.agent_id == "default" else agent.agent_id)


def _cancelled() -> ModelStopReason:
    """Return the answer of a call that `agent.cancel()` ended before it was sent, as Strands' own (`process_stream`)."""
    usage: Any = {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}
    message: Any = {"role": "assistant", "content": [{"text": "Cancelled by user"}]}
    return ModelStopReason("cancelled", message, usage, {"latencyMs": 0})
