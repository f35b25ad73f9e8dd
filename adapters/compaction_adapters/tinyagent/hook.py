"""The hook of one agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Unpack, cast
from uuid import uuid4

from tinyagent import Agent, extract_text
from tinyagent.agent_loop import stream_simple
from tinyagent.agent_types import (
    AgentEvent,
    AgentMessage,
    AgentState,
    AgentTool,
    AgentToolResult,
    AssistantMessage,
    Context,
    ImageContent,
    Model,
    SimpleStreamOptions,
    StreamFn,
    StreamResponse,
    TextContent,
)

from compaction_adapters.kit import (
    RECALL,
    ByHand,
    ControllerKeywords,
    ModelTool,
    Sessions,
    controller_from,
    model_tools,
    positive,
    tool_schema,
)
from compaction_adapters.tinyagent.messages import TinyAgentFormat
from compaction_adapters.tinyagent.models import SENT, Answer, ModelCallError, Sent, in_place, resolve
from compaction_hooks import CallOptions, CompactionController, CompactionSession, ContextOverflowError
from compaction_hooks.errors import ConfigurationError


def compaction_hook(
    controller: CompactionController[Any] | None = None,
    *,
    session_id: str | None = None,
    system: str | None = None,
    tools: object = None,
    recall: bool = False,
    compact: bool = False,
    **keywords: Unpack[ControllerKeywords],
) -> CompactionHook:
    """Return the hook of one agent, to pass as `AgentOptions(transform_context=...)`.

    Args:
        controller: A controller, shared or not, of any format. None: make one from the keywords.
        session_id: Names the conversation, for records in a store. None: the `session_id` of the attached agent, else a new
            unique id.
        system: The system prompt, for its size; None: that of the attached agent.
        tools: The tool schemas, for their size; None: those of the attached agent.
        recall: Whether an attached agent gets a tool by which it reads again what its views leave out.
        compact: Whether an attached agent gets a tool by which it asks for a compaction.

    Raises:
        ConfigurationError: both a controller and keywords are given, or a trigger is a ratio of a window that is not known.
    """
    chosen = controller_from(controller, keywords, TinyAgentFormat(), taker=compaction_hook, sees_model=False)
    fixed = {name: value for name, value in {"system": system, "tools": tools}.items() if value is not None}
    offered = model_tools(recall=recall, compact=compact)
    return CompactionHook(Sessions(chosen, TinyAgentFormat()), session_id, cast("CallOptions", fixed), offered)


class CompactionHook(ByHand[AgentMessage, Sessions[AgentMessage]]):
    """`transform_context` of one agent. tinyagent calls it before every model call; `agent.state.messages` stays whole.

    By itself the hook sees messages only, and returns views of them. Attached to its agent (`attach`; `prompt`, `stream` and
    `recover` do it too) it makes the model calls, through the agent's own stream function. Then the model, system prompt, tools
    and API key of each call count. A call that overflows is made once more, with a smaller view, unless a part of the answer was
    streamed. If the controller has no summarizer, the agent's model writes the summary, without events for its subscribers.
    """

    def __init__(
        self,
        sessions: Sessions[AgentMessage],
        session_id: str | None,
        fixed: CallOptions,
        offered: Sequence[ModelTool] = (),
    ) -> None:
        self._sessions = sessions
        self._session_id = session_id
        self._own_id = f"tinyagent-{uuid4()}"
        self._fixed = fixed

        self._tools = [
            AgentTool(tool.name, tool.description, tool.parameters, execute=partial(self._execute, tool))
            for tool in offered
        ]

        self._agent: Agent | None = None
        self._stream_fn: StreamFn = stream_simple
        self._wrapper: StreamFn | None = None
        self._messages: list[AgentMessage] = []
        self._expects_call = False
        self._loop: asyncio.Task[Any] | None = None

    @property
    def session(self) -> CompactionSession[AgentMessage]:
        """The controller's session of this conversation: its state, pins, undo and records."""
        return self._find_session(None)

    def _own_conversation(self) -> str:
        return self._session_id or (self._agent and self._agent.session_id) or self._own_id

    async def __call__(self, messages: list[AgentMessage], signal: asyncio.Event | None) -> list[AgentMessage]:
        """Return the list to send, see `CompactionSession.transform_context`. `signal` is the run's.

        For an attached agent this is the whole list: its stream function sends a view of it.
        """
        self._messages, self._loop = messages, asyncio.current_task()
        self._expects_call = self._agent is not None and self._agent.stream_fn is self._wrapper
        if self._expects_call:
            return messages
        return await self.session.transform_context(messages, signal, **self._options_by_hand(self.session))

    # -- the agent

    def attach(self, agent: Agent) -> Agent:
        """Put a function around the agent's `stream_fn`, which makes its model calls from the next run on; return the agent.

        The agent that the hook was attached to before gets its own `stream_fn` back. If you set `stream_fn` later, attach again.

        Raises:
            ConfigurationError: one of the two agents is running.
        """
        if self._agent is not agent:
            if any(one is not None and one.state.is_streaming for one in (agent, self._agent)):
                raise ConfigurationError(
                    "the agent is running: attach the hook between runs, and make each agent a compaction_hook(...) of its own"
                )
            if self._agent is not None and self._agent.stream_fn is self._wrapper:
                self._agent.stream_fn = self._stream_fn
            self._agent, self._loop = agent, None

        if self._wrapper is None or agent.stream_fn is not self._wrapper:
            self._stream_fn = agent.stream_fn or stream_simple
            self._wrapper = agent.stream_fn = partial(self._call_model, agent, self._stream_fn)

        lacking = [tool for tool in self._tools if tool not in agent.state.tools]
        if lacking:
            agent.set_tools([*agent.state.tools, *lacking])
        return agent

    def _options_by_hand(self, session: CompactionSession[AgentMessage]) -> CallOptions:  # noqa: ARG002 - one agent, one session
        if self._agent is None or self._agent.state.model is None:
            return self._fixed
        return self._options_of(self._agent, self._agent.state.model, self._agent.state)

    def _options_of(self, agent: Agent, model: Model, context: AgentState | Context) -> CallOptions:
        return {
            **CallOptions(
                model=model.id or None,
                context_window=_set_by_user(model, "context_window"),
                max_output_tokens=_set_by_user(model, "max_tokens"),
                system=context.system_prompt or None,
                tools=[tool_schema(tool.name, tool.description, tool.parameters) for tool in context.tools or ()],  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
                summarizer=in_place(self._stream_fn, model, get_api_key=agent.get_api_key),
            ),
            **self._fixed,
        }

    async def _execute(self, tool: ModelTool, _id: str, arguments: Mapping[str, Any], *_: object) -> AgentToolResult:
        """Run a tool of the hook's own."""
        # A first search of a long conversation would hold the event loop up.
        answer = await asyncio.to_thread(tool.make(self.session, lambda: self._messages), **arguments)
        return AgentToolResult(content=[TextContent(text=answer)])

    async def _call_model(
        self, agent: Agent, stream_fn: StreamFn, model: Model, context: Context, options: SimpleStreamOptions
    ) -> StreamResponse:
        """Make a model call of the agent's loop, which has just called the hook with the messages."""
        if not self._expects_call:  # the host's own call, outside the loop
            return await stream_fn(model, context, options)
        messages, self._expects_call = self._messages, False
        convert = agent._convert_to_llm  # pyright: ignore[reportPrivateUsage] - no public name
        answers: list[Answer] = []

        async def send(view: list[AgentMessage]) -> tuple[Answer]:
            if options.signal is not None and options.signal.is_set():
                # tinyagent's loop does not check its own signal: it would make all further model calls of the run.
                raise RuntimeError("Request was aborted")
            sent = context
            if view is not messages:
                sent = replace(context, messages=await resolve(convert(view)))
            answers.append(Answer(await stream_fn(model, sent, options)))
            await answers[-1].begin()
            return (answers[-1],)  # not the answer itself: a session does not see that a stream was cut short

        if any(tool.name == RECALL.name and tool in self._tools for tool in context.tools or ()):
            self.session.recall_tool(lambda: messages)
        told: CallOptions = {
            **self._options_of(agent, model, context),
            "request": {SENT: Sent(stream_fn, model, replace(context, messages=[]), options, convert)},
        }
        try:
            (answer,) = await self.session.call(
                messages,
                send,
                options.signal,
                answer=lambda given: given[0].message,
                **told,
            )
            return answer
        except ModelCallError:
            return answers[-1]

    # -- runs

    async def prompt(
        self,
        agent: Agent,
        input_data: str | AgentMessage | list[AgentMessage],
        images: list[ImageContent] | None = None,
    ) -> AgentMessage:
        """Return the final answer, as `agent.prompt` does.

        Cancelling this also cancels the loop, which tinyagent would leave running in the background.

        Raises:
            ContextOverflowError: a model call overflowed twice, or nothing smaller is valid. The provider's error is its cause;
                `agent.state` ends before the failed answer.
            ConfigurationError: the agent was made without this hook; or it is running, or the agent that the hook was attached to.
        """
        with self._run(agent):
            return await agent.prompt(input_data, images)

    async def stream(
        self,
        agent: Agent,
        input_data: str | AgentMessage | list[AgentMessage],
        images: list[ImageContent] | None = None,
    ) -> AsyncIterator[AgentEvent]:
        """Yield the events of a run, as `agent.stream` does.

        Raises:
            ContextOverflowError, ConfigurationError: as `prompt` does.
        """
        with self._run(agent):
            async for event in agent.stream(input_data, images):
                yield event

    async def recover(self, agent: Agent) -> bool:
        """Continue a run that ended in an overflow before the hook was attached; return whether it was continued.

        Remove the error message from `agent.state`, and make the model call again. A failed answer with a text is left alone.

        Raises:
            ContextOverflowError, ConfigurationError: as `prompt` does.
        """
        ended = agent.state.messages[-1] if agent.state.messages else None
        if not (
            isinstance(ended, AssistantMessage)
            and ended.stop_reason == "error"
            and not extract_text(ended)
            and self._sessions.is_curable(ModelCallError(ended), ended.model)
        ):
            return False

        agent.replace_messages(agent.state.messages[:-1])
        with self._run(agent):
            await agent.continue_()
        return True

    def abort(self) -> None:
        """End the run of the attached agent before its next model call, as `agent.abort()` does too."""
        if self._agent is not None:
            self._agent.abort()

    @contextmanager
    def _run(self, agent: Agent) -> Generator[None]:
        """Attach. Cancel tinyagent's loop with its caller; raise the overflow that tinyagent has turned into a message."""
        self.attach(agent)
        try:
            yield
        except (asyncio.CancelledError, GeneratorExit):
            if self._loop is not None:
                self._loop.cancel()
            raise

        if self._loop is None:
            raise ConfigurationError("the agent does not call this hook: AgentOptions(transform_context=hook)")

        failure = self._loop.exception() if self._loop.done() else None
        if (
            isinstance(failure, ContextOverflowError)
            and getattr(agent.state.messages[-1], "stop_reason", "") == "error"
        ):
            agent.replace_messages(agent.state.messages[:-1])
            raise failure


def _set_by_user(model: Model, field: str) -> int | None:
    """Return a number of the model's metadata; None for tinyagent's default, which is the same for every model."""
    return positive(getattr(model, field, None)) if field in model.model_fields_set else None
