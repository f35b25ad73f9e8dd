"""`with_compaction` has every fact of the adapter kit: litellm's own functions with two providers' APIs, and a router's methods."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("litellm")

from compaction_adapters.litellm import with_compaction

from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.testing import ADAPTER_FACTS, AdapterFact, HostConversation, Opening, check_adapter, check_session
from tests.adapters import litellm_stage
from tests.adapters.litellm_stage import WITH_TOOLS, litellm
from tests.adapters.recorded_sessions import PATTERNS, recorded_script
from tests.cases import crossed
from tests.data import needs_data
from tests.provider import LoopbackProvider

pytestmark = litellm_stage.QUIET
provider = litellm_stage.provider


class AgentLoop:
    """An agent loop as people write it around litellm."""

    def __init__(
        self,
        opening: Opening,
        completion: Callable[..., Any],
        acompletion: Callable[..., Any],
        arguments: Mapping[str, object],
    ) -> None:
        self.session_id = opening.conversation_id
        self.completion, self.acompletion = completion, acompletion
        self.tools = {tool.name: tool for tool in opening.tools}
        self.messages: list[Any] = [{"role": "system", "content": opening.system}]
        self.arguments = {
            **arguments,
            **WITH_TOOLS,
            "max_retries": 0,
            "metadata": {"session_id": opening.conversation_id},
            "tools": [
                {
                    "type": "function",
                    "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
                }
                for tool in opening.tools
            ],
        }

    async def say(self, text: str, /) -> str:
        self.messages.append({"role": "user", "content": text})
        while True:
            response = await self.acompletion(messages=self.messages, **self.arguments)
            if self.take(response.choices[0].message):
                return str(response.choices[0].message.content)

    def say_sync(self, text: str, /) -> str:
        self.messages.append({"role": "user", "content": text})
        while True:
            response = self.completion(messages=self.messages, **self.arguments)
            if self.take(response.choices[0].message):
                return str(response.choices[0].message.content)

    async def say_streamed(self, text: str, /) -> list[str]:
        self.messages.append({"role": "user", "content": text})
        seen: list[str] = []
        while True:
            stream = await self.acompletion(messages=self.messages, stream=True, **self.arguments)
            chunks = [chunk async for chunk in stream]
            seen += [chunk.choices[0].delta.content for chunk in chunks if chunk.choices[0].delta.content]
            whole: Any = litellm.stream_chunk_builder(chunks)
            if self.take(whole.choices[0].message):
                return seen

    def take(self, answer: Any) -> bool:
        """Store an answer and run its tools; whether it was the last one."""
        self.messages.append(answer)
        for call in answer.tool_calls or ():
            result = self.tools[call.function.name].run(json.loads(call.function.arguments))
            self.messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        return not answer.tool_calls

    async def history(self) -> list[Any]:
        return self.messages


class Harness:
    """One way to call a model through litellm."""

    format = OpenAIChatFormat()
    has_sync = has_streaming = keeps_history = True

    def __init__(self, name: str) -> None:
        self.name = f"litellm-{name}"

    @asynccontextmanager
    async def open(self, opening: Opening, /) -> AsyncIterator[HostConversation[Any]]:
        completion, acompletion, arguments = self.functions(opening)
        if opening.controller is not None:
            completion = with_compaction(completion, opening.controller)
            acompletion = with_compaction(acompletion, opening.controller)
        yield AgentLoop(opening, completion, acompletion, arguments)
        litellm.in_memory_llm_clients_cache.flush_cache()  # the next loop needs connections of its own

    def functions(self, opening: Opening) -> tuple[Callable[..., Any], Callable[..., Any], Mapping[str, object]]:
        kind = self.name.rpartition("-")[2]
        url = opening.anthropic_url if kind == "anthropic" else opening.openai_url
        model = f"{'anthropic' if kind == 'anthropic' else 'openai'}/{opening.model}"
        connection = {"model": model, "api_base": url, "api_key": opening.api_key}
        if kind != "router":
            return litellm.completion, litellm.acompletion, connection
        router = litellm.Router(model_list=[{"model_name": "agent", "litellm_params": connection}])
        return router.completion, router.acompletion, {"model": "agent"}


@crossed(fact=ADAPTER_FACTS, way=["openai", "anthropic", "router"])
def test_the_adapter_has_every_fact(fact: AdapterFact, way: str, provider: LoopbackProvider) -> None:
    check_adapter(Harness(way), provider, fact)


@needs_data
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_recorded_session_runs_to_its_end(pattern: str, provider: LoopbackProvider) -> None:
    check_session(Harness("openai"), provider, recorded_script(pattern))
