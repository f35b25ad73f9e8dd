"""Bedrock's Converse on the wire, plain and as Amazon's event stream.

Requests are read as Anthropic's: the same rules and signatures hold for both.
"""

import base64
import json
from binascii import crc32
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from tests.provider.sides import Reply
from tests.provider.validation import anthropic_fault
from tests.provider.wordings import Rejection, anthropic_error


def read(body: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return a request in Anthropic's form."""
    tools = (body.get("toolConfig") or {}).get("tools") or ()
    return {
        **(body.get("additionalModelRequestFields") or {}),
        "model": path.split("/")[2],
        "stream": path.endswith("/converse-stream"),
        "max_tokens": (body.get("inferenceConfig") or {}).get("maxTokens", 0),
        "system": [_block(block) for block in body.get("system") or ()],
        "tools": [tool["toolSpec"] for tool in tools if "toolSpec" in tool],
        "messages": [{**one, "content": [_block(block) for block in one["content"]]} for one in body["messages"]],
    }


def _block(block: Mapping[str, Any]) -> dict[str, Any]:
    match dict(block):
        case {"toolUse": call}:
            return {"type": "tool_use", "id": call["toolUseId"], "name": call["name"], "input": call["input"]}
        case {"toolResult": result}:
            content = [_block(inner) for inner in result["content"]]
            return {"type": "tool_result", "tool_use_id": result["toolUseId"], "content": content}
        case {"reasoningContent": {"reasoningText": shown}}:
            return {"type": "thinking", "thinking": shown["text"], "signature": shown.get("signature", "")}
        case {"reasoningContent": {"redactedContent": sealed}}:
            return {"type": "redacted_thinking", "data": base64.b64decode(sealed).decode()}
        case {"text": text}:
            return {"type": "text", "text": text}
        case other:
            return {"type": "other", **other}


def fault(body: Mapping[str, Any]) -> Rejection | None:
    """Return the rejection of a malformed request; None if it is well formed."""
    for one, following in pairwise(body["messages"]):
        if one["role"] == following["role"]:
            text = "A conversation must alternate between user and assistant roles."
            return Rejection(400, anthropic_error("invalid_request_error", text))
    return anthropic_fault(body)


def whole(reply: Reply, _: Mapping[str, Any]) -> dict[str, Any]:
    """Return the whole answer."""
    return {"output": {"message": {"role": "assistant", "content": _content(reply)}}, **_stop(reply), **_counts(reply)}


def events(reply: Reply, _: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the answer as an event stream."""
    yield _event("messageStart", {"role": "assistant"})
    for index, block in enumerate(_content(reply)):
        deltas = [block]
        if call := block.get("toolUse"):
            start = {"toolUse": {"toolUseId": call["toolUseId"], "name": call["name"]}}
            yield _event("contentBlockStart", {"start": start, "contentBlockIndex": index})
            deltas = [{"toolUse": {"input": json.dumps(call["input"])}}]
        elif shown := block.get("reasoningContent", {}).get("reasoningText"):
            deltas = [{"reasoningContent": {name: value}} for name, value in shown.items()]
        for delta in deltas:
            yield _event("contentBlockDelta", {"delta": delta, "contentBlockIndex": index})
        yield _event("contentBlockStop", {"contentBlockIndex": index})
    yield _event("messageStop", _stop(reply))
    yield _event("metadata", _counts(reply))


def _event(kind: str, fields: Mapping[str, Any]) -> bytes:
    """Return a message of https://docs.aws.amazon.com/transcribe/latest/dg/event-stream.html."""
    named = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    headers = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + len(value).to_bytes(2, "big") + value.encode()
        for name, value in named.items()
    )
    payload = json.dumps(fields).encode()
    start = (16 + len(headers) + len(payload)).to_bytes(4, "big") + len(headers).to_bytes(4, "big")
    message = start + crc32(start).to_bytes(4, "big") + headers + payload
    return message + crc32(message).to_bytes(4, "big")


def _content(reply: Reply) -> list[dict[str, Any]]:
    text = [{"text": reply.answer.text}] if reply.answer.text else []
    calls = [
        {"toolUse": {"toolUseId": f"tooluse_{id}", "name": call.name, "input": dict(call.arguments)}}
        for id, call in zip(reply.ids, reply.answer.calls, strict=True)
    ]
    return [*map(_thought, reply.thoughts), *text, *calls]


def _stop(reply: Reply) -> dict[str, Any]:
    return {"stopReason": reply.answer.stop or ("tool_use" if reply.answer.calls else "end_turn")}


def _counts(reply: Reply) -> dict[str, Any]:
    usage, output = reply.usage, reply.usage.output_tokens
    return {
        "usage": {
            "inputTokens": usage.input_tokens - usage.cache_read_tokens,
            "cacheReadInputTokens": usage.cache_read_tokens,
            "outputTokens": output,
            "totalTokens": usage.input_tokens + output,
        },
        "metrics": {"latencyMs": 1},
    }


def _thought(block: Mapping[str, Any]) -> dict[str, Any]:
    if block["type"] == "redacted_thinking":
        return {"reasoningContent": {"redactedContent": base64.b64encode(block["data"].encode()).decode()}}
    return {"reasoningContent": {"reasoningText": {"text": block["thinking"], "signature": block["signature"]}}}


def error(message: str) -> dict[str, Any]:
    """Return the body of an error."""
    return {"message": message}
