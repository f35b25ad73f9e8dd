"""Helpers of the LiteLLM adapter's tests: litellm without the network, the provider, calls that reach it."""

import gc
import importlib.util
import logging
import os
import warnings
from collections.abc import AsyncIterator, Awaitable, Iterator
from importlib import import_module
from importlib.metadata import version
from typing import Any

import pytest

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

with warnings.catch_warnings():
    # litellm's own models warn while they are built, which is when they are first used.
    warnings.simplefilter("ignore")
    litellm: Any = import_module("litellm")
    litellm.ModelResponse()
    litellm.ModelResponseStream()

from compaction_hooks.events import CompactionEvent, CompactionFinished
from tests.adapters.stage import SECRET as SECRET
from tests.adapters.stage import ProviderStage
from tests.conversations import Chat, steps, system, user
from tests.provider import LoopbackProvider, Side

litellm.suppress_debug_info = True
for noisy in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
    logging.getLogger(noisy).setLevel(logging.CRITICAL)

# Some versions (1.106) import mcp for every call that offers tools, without requiring it; this argument of theirs spares that.
WITH_TOOLS: dict[str, Any] = {} if importlib.util.find_spec("mcp") else {"_skip_mcp_handler": True}
QUIET = pytest.mark.filterwarnings(
    "ignore:Accessing the 'model_:DeprecationWarning",
    "ignore:The `dict` method is deprecated:DeprecationWarning",
    "ignore:Pydantic serializer warnings:UserWarning",
    "ignore:Items? .* on TypedDict class .* using the `ReadOnly` qualifier:UserWarning",
    "ignore:unclosed:ResourceWarning",
    "ignore:Exception ignored in. <(socket|function .*.__del__):pytest.PytestUnraisableExceptionWarning",
)
"""litellm uses what pydantic has deprecated, and leaves connections to the garbage collector."""
IS_OLD = tuple(map(int, version("litellm").split(".")[:2])) < (1, 85)
"""Whether litellm sends no compaction blocks, and loses signatures of thinking when it rebuilds a streamed answer."""
WINDOW = 8_192
TOO_LONG = 60
"""Tool steps that are more than the window."""


class Stage(ProviderStage):
    window = WINDOW

    def openai(self, model: str = "gpt-4o-mini", key: str = "", **arguments: Any) -> dict[str, Any]:
        connection = {"api_base": self.provider.openai_url, "api_key": self.key + key}
        return {"model": f"openai/{model}", **connection, **arguments}

    def anthropic(self, model: str = "claude-sonnet-4-5", key: str = "", **arguments: Any) -> dict[str, Any]:
        connection = {"api_base": self.provider.anthropic_url, "api_key": self.key + key}
        return {"model": f"anthropic/{model}", **connection, **arguments}

    def google(self, model: str) -> dict[str, Any]:
        return {"model": f"gemini/{model}", "api_base": f"{self.provider.anthropic_url}/v1beta", "api_key": self.key}

    def bedrock(self, model: str) -> dict[str, Any]:
        connection = {"aws_bedrock_runtime_endpoint": self.provider.anthropic_url, "aws_region_name": "us-east-1"}
        keys = {"aws_access_key_id": self.key, "aws_secret_access_key": "secret"}
        return {"model": f"bedrock/converse/{model}", **connection, **keys}

    def deployment(
        self, name: str, key: str = "", model: str = "gpt-4o-mini", max_input_tokens: int | None = None
    ) -> dict[str, Any]:
        info = {} if max_input_tokens is None else {"max_input_tokens": max_input_tokens}
        return {"model_name": name, "litellm_params": self.openai(model, key), "model_info": info}

    async def close(self) -> None:
        """End everything that litellm keeps for later calls: it belongs to this test's loop."""
        worker: Any = import_module("litellm.litellm_core_utils.logging_worker")
        await worker.GLOBAL_LOGGING_WORKER.clear_queue()
        await litellm.close_litellm_async_clients()
        litellm.in_memory_llm_clients_cache.flush_cache()


class Events(list[CompactionEvent]):
    __call__ = list.append

    @property
    def finished(self) -> list[CompactionFinished]:
        return [event for event in self if isinstance(event, CompactionFinished)]

    @property
    def sessions(self) -> set[str]:
        return {event.session_id for event in self}


@pytest.fixture(scope="module")
def provider() -> Iterator[LoopbackProvider]:
    with LoopbackProvider() as running:
        yield running
    # What litellm left open is collected here, where its warnings are expected, and not in the tests of others.
    litellm.in_memory_llm_clients_cache.flush_cache()
    gc.collect()


class Model:
    """Functions like litellm's that keep the messages of every call."""

    def __init__(self) -> None:
        self.sent: list[list[Chat]] = []

    def completion(self, model: str, messages: list[Chat], **options: object) -> str:
        self.sent.append(messages)
        return "fine"

    async def acompletion(self, model: str, messages: list[Chat], **options: object) -> str:
        return self.completion(model, messages, **options)

    def hidden(self, *args: Any, **kwargs: Any) -> str:
        return self.completion(*args, **kwargs)


BOTH = pytest.mark.parametrize("function", [litellm.completion, litellm.acompletion], ids=["sync", "async"])
EITHER = pytest.mark.parametrize(
    "function",
    [
        pytest.param(litellm.completion, id="sync", marks=pytest.mark.full),
        pytest.param(litellm.acompletion, id="async"),
    ],
)
"""For what does not depend on how litellm's two functions differ: the fast suite has one of them."""


async def got(answer: Any) -> Any:
    return await answer if isinstance(answer, Awaitable) else answer


async def whole(stream: Any) -> str:
    chunks = [chunk async for chunk in stream] if isinstance(stream.completion_stream, AsyncIterator) else [*stream]
    return said(litellm.stream_chunk_builder(chunks))


def offered(name: str, **properties: object) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "description": "", "parameters": parameters}}


def is_compacted(view: list[Chat]) -> bool:
    return any("[Conversation summary]" in str(message.get("content")) for message in view)


def task(tool_steps: int = 30) -> list[Chat]:
    """Return a request and so many steps of reading files, about 260 tokens each."""
    return [system(), user("Port the parser, and never touch the public API."), *steps(tool_steps)]


def said(response: Any) -> str:
    return str(response.choices[0].message.content)


def statuses(side: Side) -> list[int]:
    return [request.status for request in side.model_requests]
