"""The hook of one agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from contextlib import aclosing, contextmanager
from typing import Any, Unpack, overload
from uuid import uuid4

from tinyagent import Agent
from tinyagent.agent_types import (
    AgentEndEvent,
    AgentEvent,
    AgentMessage,
    AgentStartEvent,
    AgentTool,
    AssistantMessage,
    ImageContent,
    Model,
)

from compaction_adapters.kit import ByHand, ControllerKeywords, Sessions, controller_from, positive, tool_schema
from compaction_adapters.tinyagent.messages import TinyAgentFormat
from compaction_adapters.tinyagent.models import ModelCallError, summarizer
from compaction_adapters.tinyagent.recalling import recall_tool
from compaction_adapters.tinyagent.recovery import (
    EndedRun,
    events_during,
    is_cut_off,
    last_answer,
    read_answer,
)
from compaction_hooks import CallOptions, CompactionController, CompactionSession, ContextOverflowError
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.recall import RecallTool


@overload
def compaction_hook(
    controller: CompactionController[Any],
    *,
    session_id: str | None = ...,
    system: str | None = ...,
    tools: object = ...,
    recall: bool = ...,
) -> CompactionHook: ...


@overload
def compaction_hook(
    controller: None = ...,
    *,
    session_id: str | None = ...,
    system: str | None = ...,
    tools: object = ...,
    recall: bool = ...,
    **keywords: Unpack[ControllerKeywords],
) -> CompactionHook: ...


def compaction_hook(
    controller: CompactionController[Any] | None = None,
    *,
    session_id: str | None = None,
    system: str | None = None,
    tools: object = None,
    recall: bool = False,
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

    Raises:
        ConfigurationError: the arguments are contradictory, or a trigger is a ratio of a window that is not known.
    """
    chosen = controller_from(controller, keywords, TinyAgentFormat(), taker=compaction_hook, sees_model=False)
    fixed = CallOptions()
    if system is not None:
        fixed["system"] = system
    if tools is not None:
        fixed["tools"] = tools
    return CompactionHook(Sessions(chosen, TinyAgentFormat()), session_id, fixed, recall=recall)


class CompactionHook(ByHand[AgentMessage, Sessions[AgentMessage]]):
    """`transform_context` of one agent. tinyagent calls it before every model call; `agent.state.messages` stays whole.

    By itself the hook sees messages only. Attached to its agent (`attach`; `prompt`, `stream` and `recover` do it too) it also
    knows each run's model, system prompt, tools, conversation id and API key: they count, and if the controller has no summarizer
    the agent's own model writes the summary, through the agent's own stream function, without events for its subscribers.

    tinyagent ends a run that overflows with an error message. `prompt` and `stream` continue it: the error message is removed
    from `agent.state`, the context is compacted, and `agent.continue_()` makes the model call once more. Tool work already done
    is kept. A run is not continued if a part of the answer had been streamed, if it was aborted, if the agent's model has changed,
    or with `compact_on_overflow=False`.
    """

    def __init__(
        self, sessions: Sessions[AgentMessage], session_id: str | None, fixed: CallOptions, *, recall: bool = False
    ) -> None:
        self._recall = recall_tool(self._recallable) if recall else None
        self._messages: list[AgentMessage] = []
        self._sessions = sessions
        self._session_id = session_id
        self._own_id = f"tinyagent-{uuid4()}"
        self._fixed = fixed
        self._agent: Agent | None = None
        self._unsubscribe: Callable[[], None] | None = None
        self._signal: asyncio.Event | None = None
        self._options = fixed
        self._loop: asyncio.Task[object] | None = None
        self._has_streamed = False
        self._aborted = asyncio.Event()
        self._is_recovering = False

    @property
    def session(self) -> CompactionSession[AgentMessage]:
        """The controller's session of this conversation: its state, pins, undo and records."""
        return self._find_session(None)

    def _own_conversation(self) -> str:
        named = self._agent.session_id if self._agent else None
        return self._session_id or named or self._own_id

    def _options_by_hand(self, session: CompactionSession[AgentMessage]) -> CallOptions:  # noqa: ARG002 - one agent, one session
        return self._fixed if self._agent is None else self._options_of(self._agent)

    async def __call__(self, messages: list[AgentMessage], signal: asyncio.Event | None) -> list[AgentMessage]:
        """Return the list to send, see `CompactionSession.transform_context`. `signal` is the run's.

        Raises:
            RuntimeError: `abort()` was called in this run; tinyagent ends it with an answer whose stop reason is "aborted".
        """
        self._loop = asyncio.current_task()
        if self._agent is not None and (signal is None or signal is not self._signal):
            # A run keeps the options it started with, even if the agent's are changed meanwhile.
            self._signal, self._options = signal, self._options_of(self._agent)
        self._messages = messages
        if self._agent is not None and self._recall in self._agent.state.tools:
            self._recallable()
        view = await self.session.transform_context(messages, signal, **self._options)
        if self._aborted.is_set():
            # tinyagent's loop does not check its own signal: it would make all further model calls of the run.
            raise RuntimeError("Request was aborted")
        return view

    # -- the agent

    def attach(self, agent: Agent) -> Agent:
        """Read model, system prompt and tools from this agent, from its next run on; return the agent.

        Raises:
            ConfigurationError: the hook is attached to another agent that is running: each needs a hook of its own.
        """
        if self._agent is agent:
            self._offer_recall(agent)
            return agent
        if self._agent is not None and self._agent.state.is_streaming:
            raise ConfigurationError(
                "this hook's agent is running: make a compaction_hook(...) of its own for the other one"
            )
        if self._unsubscribe is not None:
            self._unsubscribe()
        self._agent, self._unsubscribe = agent, agent.subscribe(self._watch)
        self._signal, self._options = None, self._fixed
        self._offer_recall(agent)
        return agent

    def _offer_recall(self, agent: Agent) -> None:
        if self._recall is not None and self._recall not in agent.state.tools:
            agent.set_tools([*agent.state.tools, self._recall])

    def _recallable(self) -> RecallTool:
        """Return the session's tool, for the list of the run's last call."""
        return self.session.recall_tool(lambda: self._messages)

    def _watch(self, event: AgentEvent) -> None:
        if event.type == "turn_start":
            self._has_streamed = False
        elif event.type == "message_update":
            self._has_streamed = True
        elif event.type == "agent_end" and not self._is_recovering:
            self._aborted = asyncio.Event()

    def _options_of(self, agent: Agent) -> CallOptions:
        model = agent.state.model
        options = CallOptions(system=agent.state.system_prompt or None, tools=_schemas(agent.state.tools))
        if model is not None:
            options["model"] = model.id or None
            options["context_window"] = _set_by_user(model, "context_window")
            options["max_output_tokens"] = _set_by_user(model, "max_tokens")
            if agent.stream_fn is not None:
                options["summarizer"] = summarizer(agent.stream_fn, model, get_api_key=agent.get_api_key)
        return {**options, **self._fixed}

    # -- runs

    async def prompt(
        self,
        agent: Agent,
        input_data: str | AgentMessage | list[AgentMessage],
        images: list[ImageContent] | None = None,
    ) -> AgentMessage:
        """Return the final answer, as `agent.prompt` does; continue the run if it overflows.

        Cancelling this also cancels the loop, which tinyagent would leave running in the background.

        Raises:
            ContextOverflowError: the second model call overflowed too, or nothing smaller is valid. The provider's text is its
                cause; `agent.state` ends before the failed answer.
            ConfigurationError: the agent that overflowed was made without this hook; or the hook serves another, running agent.
        """
        self.attach(agent)
        with self._cancel_loop():
            answer = await agent.prompt(input_data, images)
            return await self._continue(agent) or answer

    async def stream(
        self,
        agent: Agent,
        input_data: str | AgentMessage | list[AgentMessage],
        images: list[ImageContent] | None = None,
    ) -> AsyncIterator[AgentEvent]:
        """Yield the events of a run, as `agent.stream` does; continue the run if it overflows.

        The stream has one `agent_start` and one `agent_end`, and includes the failed turn. Subscribers of the agent see two runs.

        Raises:
            ContextOverflowError, ConfigurationError: as `prompt` does.
        """
        self.attach(agent)
        before, ends = len(agent.state.messages), list[AgentEndEvent]()
        with self._cancel_loop():
            async for event in agent.stream(input_data, images):
                if isinstance(event, AgentEndEvent):
                    ends.append(event)
                else:
                    yield event
            async with aclosing(events_during(agent, self._continue(agent))) as more:
                async for event in more:
                    if isinstance(event, AgentEndEvent):
                        ends.append(event)
                    elif not isinstance(event, AgentStartEvent):
                        yield event
        if ends:
            yield ends[0] if len(ends) == 1 else AgentEndEvent(messages=agent.state.messages[before:])

    async def recover(self, agent: Agent) -> bool:
        """Continue a run that the host started itself, if it ended in an overflow; return whether it was continued.

        Call it after `agent.prompt(...)` or `agent.continue_()`. Attach the hook before them, so that it knows whether an answer
        had begun to stream, and leaves that one alone.

        Raises:
            ContextOverflowError, ConfigurationError: as `prompt` does.
        """
        self.attach(agent)
        with self._cancel_loop():
            return await self._continue(agent) is not None

    def abort(self) -> None:
        """End the agent's run before its next model call, and the compaction of a run that overflowed.

        `agent.abort()` alone ends neither: only tools and the stream function see its signal.
        """
        if self._agent is not None and (self._is_recovering or self._agent.state.is_streaming):
            self._aborted.set()
            self._agent.abort()

    @contextmanager
    def _cancel_loop(self) -> Generator[None]:
        """Cancel tinyagent's loop with its caller: its task outlives a cancelled `prompt` and an abandoned stream."""
        self._aborted, self._is_recovering = asyncio.Event(), True
        try:
            yield
        except (asyncio.CancelledError, GeneratorExit):
            if self._loop is not None and self._loop is not asyncio.current_task():
                self._loop.cancel()
            raise
        finally:
            self._aborted, self._is_recovering = asyncio.Event(), False

    # -- recovery

    async def _continue(self, agent: Agent) -> AgentMessage | None:
        """Continue the run as long as it ends in an overflow; return the last answer, or None if it was not continued."""
        answer: AgentMessage | None = None
        second: AssistantMessage | None = None
        while (ended := last_answer(agent)) is not None and ended is not second and self._may_recover(agent, ended):
            run = EndedRun(agent, ended, self._is_unseen)
            continued = await self._call_again(run)
            if continued is None:
                break
            answer, second = continued, run.second
        return answer

    def _may_recover(self, agent: Agent, ended: AssistantMessage) -> bool:
        """Return whether no part of the answer was shown, and the agent's model has not changed since."""
        model, called = agent.state.model, self._options.get("model") or ended.model
        return self._is_unseen(ended) and (model is None or called in (None, "", model.id))

    def _is_unseen(self, message: AssistantMessage) -> bool:
        return is_cut_off(message) and not self._has_streamed

    async def _call_again(self, run: EndedRun) -> AgentMessage | None:
        """Make the last model call of a run once more; return the run's new answer, or None if the call was not repeated."""
        if self._aborted.is_set():
            return None

        options = self._options_of(run.agent)
        try:
            answer = await self.session.call(run.kept, run.send, self._aborted, answer=read_answer, **options)
        except ModelCallError:
            return run.answer
        except ContextOverflowError as error:
            run.drop_failure()
            if run.answer is not None and self._loop is None:
                raise ConfigurationError(
                    "the agent does not call this hook: AgentOptions(transform_context=hook)"
                ) from error
            raise
        if answer is run.ended:
            run.restore()
            return None
        return answer


def _schemas(tools: list[AgentTool]) -> list[Mapping[str, object]]:
    return [tool_schema(tool.name, tool.description, tool.parameters) for tool in tools]  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def _set_by_user(model: Model, field: str) -> int | None:
    """Return a number of the model's metadata; None for tinyagent's default, which is the same for every model."""
    return positive(getattr(model, field, None)) if field in model.model_fields_set else None
