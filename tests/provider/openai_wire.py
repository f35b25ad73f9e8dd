"""OpenAI chat completions on the wire, plain and as server-sent events."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.provider.sides import SYSTEM_ROLES, Reply
from tests.provider.wordings import openai_error

CHUNK_CHARS = 24
"""Characters of one streamed chunk of text."""
ARGUMENTS_CHUNK_CHARS = 400
"""Characters of one streamed chunk of a call's arguments."""


def system_of(body: Mapping[str, Any]) -> str:
    """Return the text of all system messages."""
    messages = body.get("messages") or ()
    return "\n".join(text_of(message.get("content")) for message in messages if message.get("role") in SYSTEM_ROLES)


def text_of(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(str(block.get("text", "")) for block in content)
    return content if isinstance(content, str) else ""


def auth_error() -> dict[str, Any]:
    """Return the body for a key that names no conversation."""
    return openai_error("Incorrect API key provided.", code="invalid_api_key")


def completion(reply: Reply, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the whole answer."""
    calls = _calls(reply)
    field, other = ("refusal", "content") if reply.answer.stop == "refusal" else ("content", "refusal")
    message = {"role": "assistant", field: reply.answer.text or None, other: None, **_reasoning(reply)}
    choice = {
        "index": 0,
        "message": {**message, "tool_calls": calls} if calls else message,
        "logprobs": None,
        "finish_reason": _finish_reason(reply),
    }
    return {**_frame(body, "chat.completion"), "choices": [choice], "usage": _usage(reply)}


def _reasoning(reply: Reply) -> dict[str, Any]:
    """Return the fields of a gateway for reasoning: its text, and its blocks with signatures."""
    text = "".join(str(block.get("thinking", "")) for block in reply.thoughts)
    if reply.chat_field == "thinking_blocks":
        return {"reasoning_content": text, "thinking_blocks": [*map(dict, reply.thoughts)]}
    details = [
        {"type": "reasoning.encrypted", "data": block["data"]}
        if "data" in block
        else {"type": "reasoning.text", "text": block["thinking"], "signature": block["signature"]}
        for block in reply.thoughts
    ]
    return {"reasoning": text, "reasoning_details": details} if reply.thoughts else {}


def events(reply: Reply, body: Mapping[str, Any]) -> Iterator[str]:
    """Yield the answer as server-sent events; the stream breaks off if the reply has an error."""
    frame = _frame(body, "chat.completion.chunk")
    deltas = [*_deltas(reply)]
    if reply.error is not None:
        for delta in deltas[: reply.chunks_before_error]:
            yield _event({**frame, "choices": [_choice(delta)]})
        yield _event(reply.error.body)
        return
    for delta in deltas:
        yield _event({**frame, "choices": [_choice(delta)]})
    yield _event({**frame, "choices": [_choice({}, _finish_reason(reply))]})
    if (body.get("stream_options") or {}).get("include_usage"):
        yield _event({**frame, "choices": [], "usage": _usage(reply)})
    yield "data: [DONE]\n\n"


def _deltas(reply: Reply) -> Iterator[dict[str, Any]]:
    text = reply.answer.text
    starts = range(0, len(text), CHUNK_CHARS) or (0,)
    for start in starts:
        role = {"role": "assistant"} if start == 0 else {}
        yield {**role, "content": text[start : start + CHUNK_CHARS]}
    for index, call in enumerate(_calls(reply)):
        arguments = call["function"]["arguments"]
        yield {"tool_calls": [{"index": index, **call, "function": {**call["function"], "arguments": ""}}]}
        for start in range(0, len(arguments), ARGUMENTS_CHUNK_CHARS):
            piece = arguments[start : start + ARGUMENTS_CHUNK_CHARS]
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _choice(delta: Mapping[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}


def _event(body: object) -> str:
    return f"data: {json.dumps(body)}\n\n"


def _frame(body: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-loopback", "object": kind, "created": 1_700_000_000, "model": body.get("model", "")}


def _calls(reply: Reply) -> list[dict[str, Any]]:
    return [
        {"id": id, "type": "function", "function": {"name": call.name, "arguments": json.dumps(dict(call.arguments))}}
        for id, call in zip(reply.ids, reply.answer.calls, strict=True)
    ]


def _finish_reason(reply: Reply) -> str:
    stop = reply.answer.stop if reply.answer.stop != "refusal" else "stop"  # a refusal has a field of its own
    return stop or ("tool_calls" if reply.answer.calls else "stop")


def _usage(reply: Reply) -> dict[str, Any]:
    usage = reply.usage
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }
