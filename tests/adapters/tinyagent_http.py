"""A stream function for tinyagent over httpx, for OpenAI's API: for where its binding is not, and for what that hides."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import httpx
from tinyagent import extract_text
from tinyagent.agent_types import (
    AgentMessage,
    AssistantMessage,
    AssistantMessageEvent,
    Context,
    Model,
    SimpleStreamOptions,
    TextContent,
    ToolCallContent,
    ToolResultMessage,
)

_STOP_REASONS = ("stop", "length", "tool_calls")


async def stream_http(model: Model, context: Context, options: SimpleStreamOptions) -> HttpAnswer:
    """A `StreamFn`. What the provider refuses is an error event with the binding's words; what breaks a stream, which that drops,
    is raised."""
    system = [{"role": "system", "content": context.system_prompt}] if context.system_prompt else []
    functions = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        for tool in context.tools or ()
    ]
    body: dict[str, Any] = {
        "model": model.id,
        "messages": [*system, *map(_chat, context.messages)],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if functions:
        body["tools"] = [{"type": "function", "function": function} for function in functions]
    if options.max_tokens is not None:
        body["max_completion_tokens"] = options.max_tokens
    return HttpAnswer(model, body, options.api_key or "")


def _chat(message: AgentMessage) -> dict[str, Any]:
    if isinstance(message, ToolResultMessage):
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": extract_text(message)}
    calls = [block for block in getattr(message, "content", ()) if isinstance(block, ToolCallContent)]
    functions = [{"name": block.name, "arguments": json.dumps(block.arguments)} for block in calls]
    chat: dict[str, Any] = {"role": message.role, "content": extract_text(message)}
    if calls:
        pairs = zip(calls, functions, strict=True)
        chat["tool_calls"] = [{"id": block.id, "type": "function", "function": function} for block, function in pairs]
    return chat


class HttpAnswer:
    def __init__(self, model: Model, body: Mapping[str, Any], key: str) -> None:
        self._model = model
        self._text = ""
        self._calls: list[dict[str, str]] = []
        self._stop: Any = "stop"
        self._error: str | None = None
        self._usage: Any = None
        self._events = self._stream(str(getattr(model, "base_url", "")), body, key)

    def __aiter__(self) -> AsyncIterator[AssistantMessageEvent]:
        return self

    async def __anext__(self) -> AssistantMessageEvent:
        return await anext(self._events)

    async def result(self) -> AssistantMessage:
        return self._message()

    async def _stream(self, url: str, body: Mapping[str, Any], key: str) -> AsyncIterator[AssistantMessageEvent]:
        has_begun = False
        headers = {"authorization": f"Bearer {key}"}
        async with httpx.AsyncClient() as client, client.stream("POST", url, json=body, headers=headers) as response:
            if response.is_error:
                text = (await response.aread()).decode()
                self._stop, self._error = "error", f"API returned error: {response.status_code} - {text}"
            async for line in response.aiter_lines():
                chunk = json.loads(line[6:]) if line.startswith("data: {") else {}
                if "error" in chunk:
                    raise RuntimeError(json.dumps(chunk["error"]))
                for event in self._taken(chunk):
                    if not has_begun:
                        has_begun = True
                        yield AssistantMessageEvent(type="start", partial=self._message())
                    yield event
        yield AssistantMessageEvent(type="error" if self._error else "done", message=self._message())

    def _taken(self, chunk: Mapping[str, Any]) -> Iterator[AssistantMessageEvent]:
        for choice in chunk.get("choices", ()):
            reason, delta = choice.get("finish_reason"), choice["delta"]
            if reason is not None:
                self._stop = reason if reason in _STOP_REASONS else "stop"
            if delta.get("content"):
                self._text += delta["content"]
                yield AssistantMessageEvent(type="text_delta", partial=self._message(), delta=delta["content"])
            for call in delta.get("tool_calls", ()):
                if call["index"] == len(self._calls):
                    self._calls.append({"id": call["id"], "name": call["function"]["name"], "arguments": ""})
                self._calls[call["index"]]["arguments"] += call["function"]["arguments"]
                yield AssistantMessageEvent(type="tool_call_delta", partial=self._message())
        usage = chunk.get("usage")
        if usage:
            cached = usage["prompt_tokens_details"]["cached_tokens"]
            counts = {"input": usage["prompt_tokens"], "output": usage["completion_tokens"], "cache_read": cached}
            self._usage = {**counts, "cache_write": 0, "total_tokens": usage["total_tokens"]}

    def _message(self) -> AssistantMessage:
        calls = [
            ToolCallContent(id=call["id"], name=call["name"], arguments=_read(call["arguments"]))
            for call in self._calls
        ]
        return AssistantMessage(
            content=[*([TextContent(text=self._text)] if self._text else []), *calls],
            stop_reason=self._stop,
            error_message=self._error,
            api=self._model.api,
            provider=self._model.provider,
            model=self._model.id,
            usage=self._usage,
        )


def _read(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return {}
