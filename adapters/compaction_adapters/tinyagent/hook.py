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

from compaction_adapters.kit import ControllerKeywords, Sessions, controller_from, positive, tool_schema
from compaction_adapters.tinyagent.messages import TinyAgentFormat
from compaction_adapters.tinyagent.models import ModelCallError, summarizer
from compaction_adapters.tinyagent.recovery import (
    EndedRun,
    events_during,
    is_cut_off,
    last_answer,
    read_answer,
)
from compaction_hooks import CallOptions, CompactionController, CompactionSession, ContextOverflowError
from compaction_hooks.errors import ConfigurationError


@overload
def compaction_hook(
    controller: CompactionController[Any],
    *,
    session_id: str | None = ...,
    system: str | None = ...,
    tools: object = ...,
) -> CompactionHook: ...


@overload
def compaction_hook(
    controller: None = ...,
    *,
    session_id: str | None = ...,
    system: str | None = ...,
    tools: object = ...,
    **keywords: Unpack[ControllerKeywords],
) -> CompactionHook: ...


def compaction_hook(
    controller: CompactionController[Any] | None = None,
    *,
    session_id: str | None = None,
    system: str | None = None,
    tools: object = None,
    **keywords: Unpack[ControllerKeywords],
) -> CompactionHook:
    """Return the hook of one agent, to pass as `AgentOptions(transform_context=...)`.

    Args:
        controller: A controller, shared or not, whatever its format; or none, and its keywords here.
        session_id: Names the conversation, for records in a store. None: the `session_id` of the agent it is attached to, else
            one of its own that nobody else has.
        system: A system prompt that counts; None: that of the agent it is attached to.
        tools: Tool schemas that count, likewise.

    Raises:
        ConfigurationError: contradictory arguments, or a trigger that is a part of a window nobody knows.
    """
    chosen = controller_from(controller, keywords, TinyAgentFormat(), taker=compaction_hook, sees_model=False)
    given = CallOptions()
    if system is not None:
        given["system"] = system
    if tools is not None:
        given["tools"] = tools
    return CompactionHook(Sessions(chosen, TinyAgentFormat()), session_id, given)


class CompactionHook:
    """`transform_context` of one agent. tinyagent calls it before every model call; `agent.state.messages` stays whole.

    By itself it sees messages only. Attached to its agent (`attach`; `prompt`, `stream` and `recover` do it too) it also knows
    each run's model, system prompt, tools, conversation id and API key: they count, and where the controller has no summariser the
    agent's own model is asked, by the agent's own stream function, out of sight of its subscribers.

    tinyagent ends a run that overflows in an error message. `prompt` and `stream` go on with it: the error message is taken out
    of `agent.state`, the context is compacted, and `agent.continue_()` makes the model call once more. Tool work already done
    is kept. A run stays as tinyagent ended it when a part of the answer had been streamed, when it was aborted, when the agent's
    model is another one by now, and with `compact_on_overflow=False`.
    """

    def __init__(self, sessions: Sessions[AgentMessage], session_id: str | None, given: CallOptions) -> None:
        self._sessions = sessions
        self._session_id = session_id
        self._own_id = f"tinyagent-{uuid4()}"
        self._given = given
        self._agent: Agent | None = None
        self._unsubscribe: Callable[[], None] | None = None
        self._signal: asyncio.Event | None = None
        self._options = given
        self._loop: asyncio.Task[object] | None = None
        self._has_streamed = False
        self._giving_up = asyncio.Event()
        self._is_gone_on_with = False

    @property
    def session(self) -> CompactionSession[AgentMessage]:
        """The controller's session of this conversation: its state, pins, undo and records."""
        named = self._agent.session_id if self._agent else None
        return self._sessions.open(self._session_id or named or self._own_id)

    async def __call__(self, messages: list[AgentMessage], signal: asyncio.Event | None) -> list[AgentMessage]:
        """Return the list to send, see `CompactionSession.transform_context`. `signal` is the run's.

        Raises:
            RuntimeError: `abort()` was called in this run; tinyagent ends it with an answer whose stop reason is "aborted".
        """
        self._loop = asyncio.current_task()
        if self._agent is not None and (signal is None or signal is not self._signal):
            # What a run was started with holds to its end, whatever is set on the agent meanwhile.
            self._signal, self._options = signal, self._options_of(self._agent)
        view = await self.session.transform_context(messages, signal, **self._options)
        if self._giving_up.is_set():
            # tinyagent's loop does not look at its own signal: it would make every other model call of the run.
            raise RuntimeError("Request was aborted")
        return view

    # -- the agent

    def attach(self, agent: Agent) -> Agent:
        """Learn from this agent what the hook cannot see, from the next run on; return the agent.

        Raises:
            ConfigurationError: the hook's agent is another one, and it is running: each needs a hook of its own.
        """
        if self._agent is agent:
            return agent
        if self._agent is not None and self._agent.state.is_streaming:
            raise ConfigurationError(
                "this hook's agent is running: make a compaction_hook(...) of its own for the other one"
            )
        if self._unsubscribe is not None:
            self._unsubscribe()
        self._agent, self._unsubscribe = agent, agent.subscribe(self._watch)
        self._signal, self._options = None, self._given
        return agent

    def _watch(self, event: AgentEvent) -> None:
        if event.type == "turn_start":
            self._has_streamed = False
        elif event.type == "message_update":
            self._has_streamed = True
        elif event.type == "agent_end" and not self._is_gone_on_with:
            self._giving_up = asyncio.Event()

    def _options_of(self, agent: Agent) -> CallOptions:
        model = agent.state.model
        options = CallOptions(system=agent.state.system_prompt or None, tools=_schemas(agent.state.tools))
        if model is not None:
            options["model"] = model.id or None
            options["context_window"] = _set_by_user(model, "context_window")
            options["max_output_tokens"] = _set_by_user(model, "max_tokens")
            if agent.stream_fn is not None:
                options["summarizer"] = summarizer(agent.stream_fn, model, get_api_key=agent.get_api_key)
        return {**options, **self._given}

    # -- runs

    async def prompt(
        self,
        agent: Agent,
        input_data: str | AgentMessage | list[AgentMessage],
        images: list[ImageContent] | None = None,
    ) -> AgentMessage:
        """Return the final answer, as `agent.prompt` does, gone on with where the run overflows.

        When it is cancelled, so is the loop that tinyagent would leave running in the background.

        Raises:
            ContextOverflowError: the model call that was made once more overflowed again, or nothing smaller is valid. The
                provider's text is its cause; `agent.state` ends before the answer that failed.
            ConfigurationError: the agent that overflowed was made without this hook; or the hook serves another, running one.
        """
        self.attach(agent)
        with self._cancelling_the_loop():
            answer = await agent.prompt(input_data, images)
            return await self._gone_on(agent) or answer

    async def stream(
        self,
        agent: Agent,
        input_data: str | AgentMessage | list[AgentMessage],
        images: list[ImageContent] | None = None,
    ) -> AsyncIterator[AgentEvent]:
        """Yield the events of a run, as `agent.stream` does, gone on with where it overflows.

        It is one run, with one `agent_start` and one `agent_end`, and with the turn that failed among its events. Subscribers of
        the agent see two.

        Raises:
            ContextOverflowError, ConfigurationError: as `prompt` does.
        """
        self.attach(agent)
        before, ends = len(agent.state.messages), list[AgentEndEvent]()
        with self._cancelling_the_loop():
            async for event in agent.stream(input_data, images):
                if isinstance(event, AgentEndEvent):
                    ends.append(event)
                else:
                    yield event
            async with aclosing(events_during(agent, self._gone_on(agent))) as more:
                async for event in more:
                    if isinstance(event, AgentEndEvent):
                        ends.append(event)
                    elif not isinstance(event, AgentStartEvent):
                        yield event
        if ends:
            yield ends[0] if len(ends) == 1 else AgentEndEvent(messages=agent.state.messages[before:])

    async def recover(self, agent: Agent) -> bool:
        """Go on with a run that the host started itself, when it ended in an overflow; return whether it was gone on with.

        To be called after `agent.prompt(...)` or `agent.continue_()`, with the hook attached before them: then an answer that had
        begun to stream is left alone.

        Raises:
            ContextOverflowError, ConfigurationError: as `prompt` does.
        """
        self.attach(agent)
        with self._cancelling_the_loop():
            return await self._gone_on(agent) is not None

    def abort(self) -> None:
        """End the agent's run before its next model call; also the compaction before an overflowed run goes on.

        `agent.abort()` reaches neither: only tools and the stream function see its signal.
        """
        if self._agent is not None and (self._is_gone_on_with or self._agent.state.is_streaming):
            self._giving_up.set()
            self._agent.abort()

    @contextmanager
    def _cancelling_the_loop(self) -> Generator[None]:
        """tinyagent runs its loop in a task that outlives a cancelled `prompt`, and a stream that is no longer read."""
        self._giving_up, self._is_gone_on_with = asyncio.Event(), True
        try:
            yield
        except (asyncio.CancelledError, GeneratorExit):
            if self._loop is not None and self._loop is not asyncio.current_task():
                self._loop.cancel()
            raise
        finally:
            self._giving_up, self._is_gone_on_with = asyncio.Event(), False

    # -- recovery

    async def _gone_on(self, agent: Agent) -> AgentMessage | None:
        """Go on while the window ends the run; return the last answer, None when there was nothing to go on with."""
        answer: AgentMessage | None = None
        second: AssistantMessage | None = None
        while (ended := last_answer(agent)) is not None and ended is not second and self._may_recover(agent, ended):
            run = EndedRun(agent, ended, self._is_unseen)
            continued = await self._called_again(run)
            if continued is None:
                break
            answer, second = continued, run.second
        return answer

    def _may_recover(self, agent: Agent, ended: AssistantMessage) -> bool:
        """Whether nobody saw anything of the answer, and the agent's model is still the one that gave it."""
        model, called = agent.state.model, self._options.get("model") or ended.model
        return self._is_unseen(ended) and (model is None or called in (None, "", model.id))

    def _is_unseen(self, message: AssistantMessage) -> bool:
        return is_cut_off(message) and not self._has_streamed

    async def _called_again(self, run: EndedRun) -> AgentMessage | None:
        """Return what the run came to when its last model call was made once more; None when that was no use."""
        if self._giving_up.is_set():
            return None
        options = self._options_of(run.agent)
        try:
            answer = await self.session.call(run.kept, run.send, self._giving_up, answer=read_answer, **options)
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
            run.put_back()
            return None
        return answer


def _schemas(tools: list[AgentTool]) -> list[Mapping[str, object]]:
    return [tool_schema(tool.name, tool.description, tool.parameters) for tool in tools]  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def _set_by_user(model: Model, field: str) -> int | None:
    """A number of the model's metadata; None where it is tinyagent's default, the same for every model."""
    return positive(getattr(model, field, None)) if field in model.model_fields_set else None
