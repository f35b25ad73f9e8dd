"""The provider of models whose conversations are kept inside the window."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, TypeVar, Unpack

from agents import FunctionTool, Model, ModelProvider, ModelResponse, MultiProvider, RunConfig
from agents.memory import Session
from agents.run_config import ModelInputData
from agents.tool_context import ToolContext

from compaction_adapters.kit import (
    COMPACT,
    RECALL,
    ControllerKeywords,
    Flow,
    ModelCalls,
    ModelTool,
    run_async,
    run_in_loop,
)
from compaction_adapters.openai_agents.models import (
    FORMAT,
    CompactingModel,
    Item,
    ModelCall,
    is_prelude,
    read_event,
    read_response,
)
from compaction_hooks import CompactionController
from compaction_hooks.arguments import format_value
from compaction_hooks.errors import ConfigurationError

R = TypeVar("R")


class _Turn(NamedTuple):
    """What a run told before its model call.

    Attributes:
        teller: The filter that told it, which is that of the run's configuration.
    """

    conversation_id: str | None
    messages: list[Item]
    teller: object = None


_TURN: Final[ContextVar[_Turn | None]] = ContextVar("compaction_turn", default=None)
"""A context variable, because the SDK tells its models nothing of the run. It outlives the run."""


class CompactionModelProvider(ModelCalls[Item], ModelProvider):
    """Keeps the conversations of its models inside the window, and recovers when the provider says that one is too long.

        provider = CompactionModelProvider()
        await Runner.run(agent, text, session=session, run_config=provider.run_config(session))

    Sessions, results and run states keep the whole history.

    Args:
        controller: A controller, shared or not, of any format. None: make one from the keywords.
        provider: Finds models by name. None: the SDK's own.

    Raises:
        ConfigurationError: both a controller and keywords are given.
    """

    def __init__(
        self,
        controller: CompactionController[Any] | None = None,
        *,
        provider: ModelProvider | None = None,
        **keywords: Unpack[ControllerKeywords],
    ) -> None:
        super().__init__(controller, keywords, FORMAT)
        self._provider = provider or MultiProvider()

    def run_config(self, session: Session | str | None = None, **fields: Any) -> RunConfig:
        """Return the configuration of runs of one conversation.

        Args:
            session: The session of the run, or the conversation's id. None: `group_id`, else the beginning of the list names the
                conversation.
            **fields: Fields of `RunConfig`. A `model` that is no name is wrapped; a `call_model_input_filter` comes first.

        Raises:
            ConfigurationError: `session` is no session of the SDK and no text.
        """
        conversation_id: Any = getattr(session, "session_id", session) or fields.get("group_id")
        if not isinstance(conversation_id, str | None):
            raise ConfigurationError(
                f"run_config({format_value(session)}) needs a session of the SDK, or the conversation's id as a text"
            )
        theirs = fields.pop("call_model_input_filter", None)

        async def tell_conversation(data: Any) -> Any:
            changed = data.model_data if theirs is None else theirs(data)
            if inspect.isawaitable(changed):
                changed = await changed
            if isinstance(changed, ModelInputData):
                _TURN.set(_Turn(conversation_id, changed.input, tell_conversation))
            return changed

        if isinstance(fields.get("model"), Model):
            fields["model"] = self.wrap(fields["model"])
        return RunConfig(model_provider=self, call_model_input_filter=tell_conversation, **fields)

    def get_model(self, model_name: str | None) -> Model:
        """Return the model with this name, wrapped."""
        return self.wrap(self._provider.get_model(model_name))

    def wrap(self, model: Model) -> Model:
        """Return a model, for an agent that has an instance in place of a name, so that its calls are compacted."""
        is_wrapped = isinstance(model, CompactingModel) and model.caller is self
        return model if is_wrapped else CompactingModel(model, self)

    async def aclose(self) -> None:
        """Wait for the summaries that are written in the background, and close the provider inside."""
        await super().aclose()
        await self._provider.aclose()

    def recall_tool(self) -> FunctionTool:
        """Return the tool by which the model of an agent reads again what its views leave out; its runs need `run_config`."""
        return _function_tool(RECALL, self._invoke_recall)

    def compact_tool(self) -> FunctionTool:
        """Return the tool by which the model of an agent asks for a compaction; its runs need `run_config`."""
        return _function_tool(COMPACT, self._invoke_compact)

    async def _invoke_recall(self, ctx: ToolContext[Any], arguments: str) -> str:
        return await self._invoke(RECALL, ctx, arguments)

    async def _invoke_compact(self, ctx: ToolContext[Any], arguments: str) -> str:
        return await self._invoke(COMPACT, ctx, arguments)

    async def _invoke(self, tool: ModelTool, ctx: ToolContext[Any], arguments: str) -> str:
        turn, config = _TURN.get(), ctx.run_config
        # A resumed run runs its tools before its first model call, in the context of whichever run was before it.
        if turn is None or config is None or turn.teller is not config.call_model_input_filter:
            return f"{tool.name} has no answer before your next step: call this tool again then."
        return await self._run_tool(tool, turn.conversation_id, turn.messages, arguments)

    # -- calls of the wrapped models

    async def answer(self, call: ModelCall, given: str | list[Item]) -> ModelResponse:
        """Return the answer to a call."""
        place, options = self._place_of(call, given), call.options()
        has_recall = _offers(call, self._invoke_recall)
        return await self._call(
            *place, call.send, read_response, options, is_whole=call.is_whole, has_recall=has_recall
        )

    def stream(self, call: ModelCall, given: str | list[Item]) -> AsyncIterator[Any]:
        """Return the events of the answer to a call."""
        place, options = self._place_of(call, given), call.options()
        has_recall = _offers(call, self._invoke_recall)
        return self._stream(
            *place, call.stream, read_event, options, is_prelude, is_whole=call.is_whole, has_recall=has_recall
        )

    def _place_of(self, call: ModelCall, given: str | list[Item]) -> tuple[str | None, list[Item]]:
        """Return the conversation of a call, if its run has told it, and its messages.

        Raises:
            ConfigurationError: the run has told nothing, and its agent has a tool of ours, which would be for another list.
        """
        messages = [{"role": "user", "content": given}] if isinstance(given, str) else given
        turn = _TURN.get()
        # An older run in the same context may have told the last one.
        if turn is not None and messages and turn.messages and turn.messages[-1] is messages[-1]:
            return turn.conversation_id, messages
        if _offers(call, self._invoke_recall, self._invoke_compact):
            raise ConfigurationError(
                "an agent with the tool for recall or for compaction needs run_config=provider.run_config(session)"
            )
        return None, messages

    def _run_sync(self, flow: Flow[R]) -> R:
        return run_in_loop(run_async(flow))


def _function_tool(tool: ModelTool, invoke: Callable[[ToolContext[Any], str], Awaitable[str]]) -> FunctionTool:
    return FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=tool.parameters,
        on_invoke_tool=invoke,
        strict_json_schema=False,
    )


def _offers(call: ModelCall, *invokes: object) -> bool:
    """Return whether a call offers a tool that is run by one of these functions."""
    return any(getattr(tool, "on_invoke_tool", None) in invokes for tool in call.tools)
