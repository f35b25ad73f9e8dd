"""pydantic-ai."""

from __future__ import annotations

from collections.abc import Iterator
from functools import wraps
from typing import Any

from compaction_adapters.pydantic_ai import Compaction, history_processor
from pydantic_ai import Agent, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.capabilities import AbstractCapability, ProcessHistory
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RequestUsage

from tests.benchmarks.adapter_stages import RESULT, Run, Stage, Watch, controller, read_file, tool_call


def pydantic_ai_stages(count: int) -> Iterator[Stage]:
    """A capability, and a history processor."""
    watch = Watch()
    history: list[Any] = [ModelRequest(parts=[UserPromptPart("Port the parser.")])]
    while len(history) < count - 1:
        call = tool_call(len(history))
        part = ToolReturnPart(tool_name="read_file", content=RESULT, tool_call_id=call["id"])
        history.append(ModelResponse(parts=[ToolCallPart("read_file", call["args"], tool_call_id=call["id"])]))
        history.append(ModelRequest(parts=[part]))
    history.append(ModelResponse(parts=[TextPart("Read.")]))

    class HandOn(AbstractCapability[Any]):
        async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
            return request_context

    class Watched(Compaction[Any]):
        async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
            with watch.working():
                return await super().before_model_request(ctx, request_context)

    async def hand_on(messages: list[Any]) -> list[Any]:
        return messages

    process = history_processor(controller())

    @wraps(process)  # pydantic-ai reads from the annotations what it takes
    async def watched(ctx: Any, messages: list[Any]) -> list[Any]:
        with watch.working():
            return await process(ctx, messages)

    def run_of(capability: Any) -> Run:
        async def run(calls: int) -> object:
            left = iter(range(calls - 1))

            def answer(*_: object) -> Any:
                watch.note_call()
                number = next(left, None)
                call = ToolCallPart("read_file", {"path": f"more_{number}.py"})
                # Without usage the fake would count every message again.
                usage = RequestUsage(input_tokens=30 * count, output_tokens=10)
                return ModelResponse(parts=[TextPart("Done.") if number is None else call], usage=usage)

            agent: Any = Agent(FunctionModel(answer), capabilities=[capability], tools=[read_file])
            return await agent.run("Go on.", message_history=history)

        return run

    yield Stage("pydantic-ai, `Compaction`", run_of(HandOn()), run_of(Watched(controller())), watch)
    plain, ours = run_of(ProcessHistory(hand_on)), run_of(ProcessHistory(watched))
    yield Stage("pydantic-ai, `history_processor`", plain, ours, watch)
