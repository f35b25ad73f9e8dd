"""Gemini's contents on the wire, plain and as server-sent events. Requests are read as Anthropic's, blocks with their signature."""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import count, pairwise, repeat
from typing import Any

from tests.provider.sides import Reply
from tests.provider.wordings import Rejection


def read(body: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return a request in Anthropic's form."""
    model, _, method = path.rpartition("/")[2].partition(":")
    body = {_NAMES.get(name, name): value for name, value in body.items()}
    messages: list[dict[str, Any]] = []
    for number, one in enumerate(body["contents"]):
        called = [block["id"] for block in messages[-1]["content"] if "id" in block] if messages else []
        content = _content(one["parts"], number, called)
        messages.append({"role": "assistant" if one.get("role") == "model" else "user", "content": content})
    return {
        "model": model,
        "stream": method == "streamGenerateContent",
        "system": _content((body.get("systemInstruction") or {}).get("parts") or (), 0),
        "tools": [one for tool in body.get("tools") or [] for one in tool.get("functionDeclarations") or [tool]],
        "messages": messages,
    }


_NAMES = {
    "system_instruction": "systemInstruction",
    "function_call": "functionCall",
    "function_response": "functionResponse",
    "thought_signature": "thoughtSignature",
}
"""The API takes both cases of a name."""


def _content(parts: Iterable[dict[str, Any]], number: int, called: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Return blocks of Anthropic's.

    Args:
        called: The ids of the calls in the content before: a response without an id answers the next of those that none names.
    """
    calls, blocks = count(), list[dict[str, Any]]()
    named = [{_NAMES.get(name, name): value for name, value in written.items()} for written in parts]
    ids = {response["id"] for part in named if (response := part.get("functionResponse")) and response.get("id")}
    waiting = (id for id in [*called, *repeat("no call", len(named))] if id not in ids)
    for part in named:
        signature = part.get("thoughtSignature", "")
        if call := part.get("functionCall"):
            id = call.get("id") or f"{number}.{next(calls)}"
            block = {"type": "tool_use", "id": id, "name": call["name"], "input": call["args"]}
        elif response := part.get("functionResponse"):
            text = {"type": "text", "text": json.dumps(response["response"])}
            block = {"type": "tool_result", "tool_use_id": response.get("id") or next(waiting), "content": [text]}
        else:
            block = {"type": "text", "text": part.get("text", "")}
        blocks.append({**block, "signature": signature})
    return blocks


def fault(body: Mapping[str, Any]) -> Rejection | None:
    """Return the rejection of a malformed request; None if it is well formed."""
    messages = body["messages"]
    for one, following in pairwise([*messages, {"role": "", "content": []}]):
        called = {block["id"] for block in one["content"] if block["type"] == "tool_use"}
        answered = {block["tool_use_id"] for block in following["content"] if block["type"] == "tool_result"}
        if called != answered:
            return Rejection(400, error(_UNEQUAL))
        if called and one["role"] == following["role"]:
            return Rejection(400, error(_OUT_OF_TURN))
        if not one["content"]:
            return Rejection(400, error("Unable to submit request because it must include at least one parts field."))
    return None


_UNEQUAL = (
    "Please ensure that the number of function response parts is equal to the number of function call parts of the "
    "function call turn."
)
_OUT_OF_TURN = (
    "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
)


def whole(reply: Reply, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the whole answer."""
    return _chunk(reply, body, _parts(reply), is_last=True)


def events(reply: Reply, body: Mapping[str, Any]) -> Iterator[str]:
    """Yield the answer as server-sent events, a part in each."""
    parts = _parts(reply)
    for number, part in enumerate(parts, 1):
        yield f"data: {json.dumps(_chunk(reply, body, [part], is_last=number == len(parts)))}\n\n"


def _chunk(reply: Reply, body: Mapping[str, Any], parts: list[dict[str, Any]], *, is_last: bool) -> dict[str, Any]:
    usage, output = reply.usage, reply.usage.output_tokens
    return {
        "candidates": [
            {"content": {"role": "model", "parts": parts}, "index": 0} | ({"finishReason": "STOP"} if is_last else {})
        ],
        "usageMetadata": {
            "promptTokenCount": usage.input_tokens,
            "cachedContentTokenCount": usage.cache_read_tokens,
            "candidatesTokenCount": output,
            "totalTokenCount": usage.input_tokens + output,
        },
        "modelVersion": body["model"],
    }


def _parts(reply: Reply) -> list[dict[str, Any]]:
    """Return the parts of an answer: the first call is signed, or the text of an answer without calls."""
    said = [{"text": reply.answer.text}] if reply.answer.text else []
    calls = [
        {"functionCall": {"id": id, "name": call.name, "args": dict(call.arguments)}}
        for id, call in zip(reply.ids, reply.answer.calls, strict=True)
    ]
    signatures = [{"thoughtSignature": thought["signature"]} for thought in reply.thoughts][:1]
    for part in (calls or said)[:1]:
        part.update(*signatures)
    return [*said, *calls]


def error(message: str) -> dict[str, Any]:
    """Return the body of an error."""
    return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}
