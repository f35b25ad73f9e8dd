"""LiteLLM."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import litellm
from compaction_adapters.litellm import with_compaction

from tests.benchmarks.adapter_stages import RESULT, Run, Stage, Watch, controller, tool_call


def litellm_stages(count: int) -> Iterator[Stage]:
    """A function that takes messages, wrapped."""

    watch = Watch()
    history: list[dict[str, Any]] = [{"role": "user", "content": "Port the parser."}]
    while len(history) < count:
        call = tool_call(len(history))
        function = {"name": "read_file", "arguments": f'{{"path": "{call["args"]["path"]}"}}'}
        calls = [{"id": call["id"], "type": "function", "function": function}]
        history.append({"role": "assistant", "content": None, "tool_calls": calls})
        history.append({"role": "tool", "tool_call_id": call["id"], "content": RESULT})
    asked: dict[str, Any] = {"model": "gpt-4o", "messages": history[:count], "mock_response": "Done."}

    async def plain(**arguments: Any) -> Any:
        return await litellm.acompletion(**arguments)

    async def waited(**arguments: Any) -> Any:
        with watch.waiting():
            return await litellm.acompletion(**arguments)

    wrapped = with_compaction(waited, controller())

    async def ours(**arguments: Any) -> Any:
        with watch.working():
            return await wrapped(**arguments)

    def run_of(function: Any) -> Run:
        async def run(calls: int) -> object:
            for _ in range(calls):
                watch.note_call()
                await function(**asked)
            return None

        return run

    yield Stage("LiteLLM, `with_compaction`", run_of(plain), run_of(ours), watch)
