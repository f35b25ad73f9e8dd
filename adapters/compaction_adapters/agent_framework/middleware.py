"""`CompactionMiddleware`, and the tools of a run."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Unpack

from agent_framework import (
    ChatContext,
    ChatMiddleware,
    ChatResponse,
    ChatResponseUpdate,
    FunctionInvocationLayer,
    FunctionTool,
    ResponseStream,
    normalize_tools,
    validate_tool_mode,
)
from agent_framework import Message as ChatMessage

from compaction_adapters.agent_framework.clients import CALL, Send, let_deliver
from compaction_adapters.agent_framework.messages import AgentFrameworkFormat, is_copy, with_results
from compaction_adapters.agent_framework.models import (
    SENT,
    AnswerReader,
    Sent,
    ask_by,
    in_place_or,
    is_prelude,
    text_of,
)
from compaction_adapters.kit import (
    RECALL,
    ControllerKeywords,
    ModelCalls,
    ModelTool,
    model_tools,
    positive,
    tool_schema,
)
from compaction_hooks import CallOptions, CompactionController

_PROVIDER: Final = "compaction"
"""The default `source_id` of the framework's `CompactionProvider`, under which it has a state in the session."""
_NOT_ANSWERED: Final = "This call was not made. Call the tool again."
"""The result of a tool next to a call that a person had to approve: when the run goes on, its loop does not know the tool yet."""
_OF_SUMMARIES: Final = ("model", "store", "user")
"""Options of a model call that are those of its summaries too."""


class CompactionMiddleware(ModelCalls[ChatMessage], ChatMiddleware):
    """Keeps the conversations of an agent, or of all agents of a client, inside the model's context window.

    Each model call sends a view; all that the framework stores stays whole. A request that the provider rejects as too long is
    compacted and sent once more, a stream up to its first content. A conversation is an `AgentSession`, by its `session_id`;
    without one, the beginning of the messages names it.

        agent = Agent(client=client, tools=[...], middleware=[CompactionMiddleware()])

    Args:
        controller: A controller, shared or not, of any format. None: make one from the keywords.
        recall: Whether the model gets a tool by which it reads again what its views leave out.
        compact: Whether the model gets a tool by which it asks for a compaction.

    Raises:
        ConfigurationError: both a controller and keywords are given.
    """

    _is_copy = staticmethod(is_copy)  # the framework copies all messages at the start of each run

    def __init__(
        self,
        controller: CompactionController[Any] | None = None,
        *,
        recall: bool = False,
        compact: bool = False,
        **keywords: Unpack[ControllerKeywords],
    ) -> None:
        super().__init__(controller, keywords, AgentFrameworkFormat())
        self._tools = model_tools(recall=recall, compact=compact)

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Let the client send a view in place of the messages of this model call.

        Raises:
            ConfigurationError: the client is none of the framework's.
        """
        let_deliver(context.client)
        session = context.session
        conversation_id = None if session is None else session.session_id
        run = self._offer_tools(context) if self._tools else None
        call = _ModelCall(context.client, conversation_id, _own_compaction(context), run)
        context.kwargs[CALL] = partial(self._deliver, call)
        await call_next()

    def _offer_tools(self, context: ChatContext) -> _Run | None:
        """Return the run of a model call, whose tool loop has our tools from its first call on; None without a loop."""
        options: Any = context.options  # the tool loop's own dict, from which it also takes the tools that it runs
        if not isinstance(context.client, FunctionInvocationLayer):
            return None
        tools = normalize_tools(options.get("tools"))
        for tool in tools:
            if isinstance(tool, _SessionFunction):
                return tool.run
        run = _Run()
        options["tools"] = [*tools, *(_SessionFunction(tool, run, self._run_tool) for tool in self._tools)]
        return run

    # -- for a model call

    def _deliver(
        self, call: _ModelCall, send: Send, messages: Sequence[ChatMessage], options: Mapping[str, Any], stream: bool
    ) -> Awaitable[ChatResponse] | ResponseStream[ChatResponseUpdate, ChatResponse]:
        """Make a model call through the session of its conversation."""
        listed = messages if isinstance(messages, list) else list(messages)
        # A conversation that the service keeps: the list has the new messages only.
        is_whole = not options.get("conversation_id")
        if call.run is not None and is_whole:
            for tool in self._tools:
                listed = with_results(listed, tool.name, _NOT_ANSWERED)
            call.run.conversation_id, call.run.messages = call.conversation_id, listed
        place = call.conversation_id, listed
        told = _options_of(call, send, options)
        has_recall = RECALL in self._tools and call.run is not None and is_whole
        reader = AnswerReader()
        if not stream:
            whole = partial(send, stream=False)
            return self._call(
                *place,
                lambda view: whole(messages=view),
                reader.read,
                told,
                is_whole=is_whole,
                has_recall=has_recall,
            )

        streams: list[ResponseStream[ChatResponseUpdate, ChatResponse]] = []

        async def open_stream(view: list[ChatMessage]) -> AsyncGenerator[ChatResponseUpdate]:
            opened = await send(messages=view, stream=True)
            streams.append(opened)
            reader.begin_stream()
            try:
                async for update in opened:
                    reader.count(update)
                    yield update
            finally:
                await opened.close()

        updates = self._stream(
            *place, open_stream, reader.read_update, told, is_prelude, is_whole=is_whole, has_recall=has_recall
        )
        # The client's own stream knows how to read its answer, such as structured output.
        return ResponseStream(updates, finalizer=lambda _: streams[-1].get_final_response())


@dataclass
class _Run:
    """A run whose model has our tools: the conversation, and the whole list, of its last model call."""

    conversation_id: str | None = None
    messages: Sequence[ChatMessage] = ()


@dataclass(frozen=True)
class _ModelCall:
    """The middleware's knowledge of a model call.

    Attributes:
        conversation_id: Of the `AgentSession`; None without one.
        own_compaction: Name of the framework's own compaction of this call; None without one.
        run: The run, if its model has our tools.
    """

    client: Any
    conversation_id: str | None
    own_compaction: str | None
    run: _Run | None


class _SessionFunction(FunctionTool):
    """A tool of one run."""

    def __init__(
        self,
        tool: ModelTool,
        run: _Run,
        answer_for: Callable[[ModelTool, str | None, Sequence[ChatMessage], dict[str, Any]], Awaitable[str]],
    ) -> None:
        self.run, self._tool = run, tool

        async def answer(**arguments: Any) -> str:
            return await answer_for(tool, run.conversation_id, run.messages, arguments)

        super().__init__(name=tool.name, description=tool.description, func=answer, input_model=tool.parameters)

    def parameters(self) -> dict[str, Any]:
        """Return a new schema, by which calls with misnamed arguments pass: the tool itself takes any.

        It has no required argument; and it is new, because the client of Responses forbids others in the schema that it gets.
        """
        return {**self._tool.parameters, "required": []}


def _own_compaction(context: ChatContext) -> str | None:
    """Return the name of the framework's own compaction of a call, or None."""
    if context.kwargs.get("compaction_strategy") or getattr(context.client, "compaction_strategy", None):
        return "compaction_strategy"
    is_provided = context.session is not None and _PROVIDER in context.session.state
    return "CompactionProvider" if is_provided else None


def _options_of(call: _ModelCall, send: Send, options: Mapping[str, Any]) -> CallOptions:
    """Return the options of a model call: its model, and the instructions and tools that are not in the list."""
    own = {} if call.own_compaction is None else {call.own_compaction: True}
    place = {name: options[name] for name in _OF_SUMMARIES if name in options}
    choice = (validate_tool_mode(options.get("tool_choice")) or {}).get("mode")
    return CallOptions(
        model=options.get("model") or getattr(call.client, "model", None),
        max_output_tokens=positive(options.get("max_tokens")),
        system=text_of(options.get("instructions")),
        tools=[_schema(tool) for tool in normalize_tools(options.get("tools"))],
        request={**options, **own, "tool_choice": choice, SENT: Sent(send, {**options})},
        summarizer=in_place_or(ask_by(send, place)),
    )


def _schema(tool: object) -> object:
    return tool_schema(tool.name, tool.description, tool.parameters()) if isinstance(tool, FunctionTool) else tool
