"""tinyagent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from compaction_adapters.tinyagent import compaction_hook
from tinyagent import Agent, AgentOptions, AgentTool, AgentToolResult, TextContent
from tinyagent.agent_types import (
    AssistantMessage,
    AssistantMessageEvent,
    Model,
    ToolCallContent,
    ToolResultMessage,
    UserMessage,
)

from tests.benchmarks.adapter_stages import RESULT, Stage, Watch, controller, tool_call


def tinyagent_stages(count: int) -> Iterator[Stage]:
    """`transform_context` of an agent."""

    watch = Watch()
    history: list[Any] = [UserMessage(content=[TextContent(text="Port the parser.")])]
    while len(history) < count - 1:
        call = tool_call(len(history))
        asked = ToolCallContent(id=call["id"], name="read_file", arguments=call["args"])
        found: Any = [TextContent(text=RESULT)]
        history.append(AssistantMessage(content=[asked], stop_reason="tool_calls"))
        history.append(ToolResultMessage(tool_call_id=call["id"], tool_name="read_file", content=found))
    history.append(AssistantMessage(content=[TextContent(text="Read.")], stop_reason="stop"))

    class Answer:
        def __init__(self, message: AssistantMessage) -> None:
            self._message = message

        async def result(self) -> AssistantMessage:
            return self._message

        async def __aiter__(self) -> AsyncIterator[Any]:
            yield AssistantMessageEvent(type="done", message=self._message)

    async def execute(*_: object) -> AgentToolResult:
        return AgentToolResult(content=[TextContent(text=RESULT)])

    async def hand_on(messages: list[Any], signal: object) -> list[Any]:
        return messages

    async def run(calls: int, transform: Any) -> object:
        left = iter(range(calls - 1))

        async def stream(*_: object) -> Any:
            watch.note_call()
            number = next(left, None)
            call = ToolCallContent(id=f"more_{number}", name="read_file", arguments={"path": f"more_{number}.py"})
            done = AssistantMessage(content=[TextContent(text="Done.")], stop_reason="stop")
            return Answer(done if number is None else AssistantMessage(content=[call], stop_reason="tool_calls"))

        agent: Any = Agent(AgentOptions(transform_context=transform, stream_fn=stream))
        agent.set_model(Model(provider="fake", id="fake", api="fake"))
        schema: Any = {"type": "object", "properties": {"path": {"type": "string"}}}
        agent.set_tools([AgentTool(name="read_file", description="Read.", parameters=schema, execute=execute)])
        agent.replace_messages(list(history))
        return await agent.prompt("Go on.")

    async def ours(calls: int) -> object:
        hook = compaction_hook(controller())

        async def watched(messages: list[Any], signal: Any) -> list[Any]:
            with watch.working():
                return await hook(messages, signal)

        return await run(calls, watched)

    yield Stage("tinyagent, `compaction_hook`", lambda calls: run(calls, hand_on), ours, watch)
