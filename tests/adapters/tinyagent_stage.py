"""What the tests of the tinyagent adapter share: the provider, agents that talk to it, the conversation of the adapter kit."""

import importlib.util
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from compaction_adapters.tinyagent import CompactionHook, TinyAgentFormat, compaction_hook
from tinyagent import Agent, AgentOptions, extract_text
from tinyagent.agent_types import (
    AgentMessage,
    AgentTool,
    AgentToolResult,
    AssistantMessage,
    Context,
    MessageUpdateEvent,
    Model,
    SimpleStreamOptions,
    StreamFn,
    StreamResponse,
    TextContent,
    ToolCallContent,
    ToolResultMessage,
    UserMessage,
)
from tinyagent.alchemy_provider import OpenAICompatModel, stream_alchemy_openai_completions

from compaction_hooks import CompactionFinished, CompactionReason
from compaction_hooks.events import CompactionEvent
from compaction_hooks.testing import HostConversation, Opening, Script, ScriptedTool, long_script, tools_of
from tests.adapters.tinyagent_http import stream_http
from tests.conversations import prose
from tests.provider import LoopbackProvider, Side

HAS_BINDING = importlib.util.find_spec("tinyagent._alchemy") is not None
"""Whether tinyagent's Rust binding is there; older versions, and those for some machines, come without."""
needs_binding = pytest.mark.skipif(not HAS_BINDING, reason="needs tinyagent's Rust binding")
stream_openai: StreamFn = stream_alchemy_openai_completions if HAS_BINDING else stream_http
MODEL = "scripted-model"
WINDOW = 16_384
BELIEVED = 131_072
"""What the controller believes the window is, where it is to be wrong."""
SCRIPT = long_script(2, steps=4, text_chars=4_000)


def agent_tool(tool: ScriptedTool) -> AgentTool:
    async def execute(call_id: str, arguments: Mapping[str, Any], *_: object) -> AgentToolResult:
        return AgentToolResult(content=[TextContent(text=tool.run(arguments))])

    parameters: Any = tool.parameters
    return AgentTool(name=tool.name, description=tool.description, parameters=parameters, execute=execute)


def openai_model(url: str, **fields: Any) -> Model:
    return OpenAICompatModel(**{"provider": "openai", "id": MODEL, **fields}, base_url=f"{url}/chat/completions")


def anthropic_model(url: str, **fields: Any) -> Model:
    """A model that tinyagent's binding calls by Anthropic's API."""
    from tinyagent.rust_binding_provider import RustBindingModel

    return RustBindingModel(**{"provider": "kimi", "id": MODEL, **fields}, api="anthropic-messages", base_url=url)


async def stream_anthropic(model: Model, context: Context, options: SimpleStreamOptions) -> StreamResponse:
    """The binding's stream function for that."""
    from tinyagent.rust_binding_provider import stream_rust_binding

    return await stream_rust_binding(model, context, options)


def made_agent(
    hook: CompactionHook | None,
    model: Model,
    key: str,
    script: Script,
    *,
    stream_fn: StreamFn | None = None,
    tools: Sequence[ScriptedTool] | None = None,
    **options: Any,
) -> Agent:
    """An agent that plays this script's part of the host; by default its model is called by tinyagent's binding."""
    bound = stream_anthropic if model.api == "anthropic-messages" else stream_openai
    agent = Agent(
        AgentOptions(transform_context=hook, stream_fn=stream_fn or bound, get_api_key=lambda _: key, **options)
    )
    agent.set_model(model)
    agent.set_system_prompt(script.system)
    agent.set_tools([agent_tool(tool) for tool in (tools_of(script) if tools is None else tools)])
    return agent


def turns(count: int, tokens: int) -> list[AgentMessage]:
    messages: list[AgentMessage] = []
    for number in range(count):
        messages += [
            UserMessage(content=[TextContent(text=f"{number}: {prose(tokens)}")]),
            AssistantMessage(content=[TextContent(text=f"{number} done. {prose(tokens)}")], stop_reason="stop"),
        ]
    return messages


class Stage:
    def __init__(
        self, provider: LoopbackProvider, key: str, *, model: Callable[[str], Any] | None = None, **hook: Any
    ) -> None:
        self.key = key
        self.side: Side = provider.conversation(key, window=WINDOW, answers=SCRIPT.answers)
        self.events: list[CompactionEvent] = []
        self.told: list[str] = []
        self.tools = tools_of(SCRIPT)
        made = {"context_window": BELIEVED, "on_event": self.events.append, **hook}
        self.hook: CompactionHook = compaction_hook(**made)
        self.model = model(provider.anthropic_url) if model else openai_model(provider.openai_url)
        self.agent: Agent = made_agent(self.hook, self.model, key, SCRIPT, tools=self.tools)
        self.agent.subscribe(lambda event: self.told.append(event.type))

    async def close(self) -> None:
        """Close nothing: tinyagent opens a connection for each request."""

    @property
    def reasons(self) -> list[CompactionReason]:
        return [event.reason for event in self.events if isinstance(event, CompactionFinished)]

    def demand_whole_history(self, said: int) -> None:
        """No failed answer is left, every call has its result, and no tool ran twice."""
        messages = self.agent.state.messages
        answers = [message for message in messages if isinstance(message, AssistantMessage)]
        assert "error" not in {answer.stop_reason for answer in answers}
        assert len([message for message in messages if isinstance(message, UserMessage)]) == said
        calls = [block.id for answer in answers for block in answer.content if isinstance(block, ToolCallContent)]
        assert calls == [message.tool_call_id for message in messages if isinstance(message, ToolResultMessage)]
        assert len(calls) == sum(len(tool.runs) for tool in self.tools)


class TinyAgentConversation:
    def __init__(self, opening: Opening) -> None:
        self.session_id = opening.conversation_id
        self._hook = compaction_hook(opening.controller) if opening.controller is not None else None
        self._agent = made_agent(
            self._hook,
            openai_model(opening.openai_url, id=opening.model),
            opening.api_key,
            Script(turns=(), system=opening.system),
            tools=opening.tools,
            session_id=opening.conversation_id,
        )

    async def say(self, text: str, /) -> str:
        ended = await (self._hook.prompt(self._agent, text) if self._hook else self._agent.prompt(text))
        self._raise_for_error()
        return extract_text(ended)

    def say_sync(self, text: str, /) -> str:
        raise NotImplementedError("tinyagent has no sync methods")

    async def say_streamed(self, text: str, /) -> Sequence[str]:
        pieces: list[str] = []
        events = self._hook.stream(self._agent, text) if self._hook else self._agent.stream(text)
        async for event in events:
            update = event.assistant_message_event if isinstance(event, MessageUpdateEvent) else None
            if update is not None and update.type == "text_delta" and update.delta:
                pieces.append(update.delta)
        self._raise_for_error()
        return pieces

    async def history(self) -> Sequence[AgentMessage]:
        return self._agent.state.messages

    def _raise_for_error(self) -> None:
        if self._agent.state.error is not None:
            raise RuntimeError(self._agent.state.error)


class TinyAgentHarness:
    name = "tinyagent"
    format = TinyAgentFormat()
    has_sync = False
    has_streaming = True
    keeps_history = True

    @asynccontextmanager
    async def open(self, opening: Opening, /) -> AsyncIterator[HostConversation[AgentMessage]]:
        yield TinyAgentConversation(opening)


def shown(messages: Sequence[AgentMessage]) -> str:
    return "\n".join(message.model_dump_json() for message in messages)
