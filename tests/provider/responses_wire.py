"""OpenAI's Responses on the wire, plain and as server-sent events."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.provider.item_compacting import is_ours, unseal
from tests.provider.openai_wire import ARGUMENTS_CHUNK_CHARS, CHUNK_CHARS, auth_error, text_of
from tests.provider.sides import SYSTEM_ROLES, Reply
from tests.provider.wordings import Rejection, openai_error

__all__ = ["auth_error", "compacted", "events", "fault", "messages_of", "system_of", "whole"]

_OUTPUTS = "function_call_output"


def system_of(body: Mapping[str, Any]) -> str:
    """Return the instructions, and the text of all system messages."""
    prompts = [text_of(item.get("content")) for item in _items(body) if item.get("role") in SYSTEM_ROLES]
    return "\n".join(filter(None, [body.get("instructions"), *prompts]))


def messages_of(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the items as chat messages, for their size: reasoning, other than OpenAI's, is counted as it is written."""
    return [_message(item) for item in _items(body)]


def _items(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    given = body.get("input") or []
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


def _message(item: Mapping[str, Any]) -> dict[str, Any]:
    match item.get("type"):
        case "function_call":
            return {"role": "assistant", "content": f"{item['name']}({item['arguments']})"}
        case "function_call_output":
            return {"role": "tool", "content": text_of(item["output"])}
        case None | "message":
            return {"role": item["role"], "content": text_of(item.get("content"))}
        case "compaction" if is_ours(item):
            return {"role": "assistant", "content": unseal(item), "is_compaction": True}
        case _:
            return {"role": "assistant", "content": json.dumps(item)}


def fault(body: Mapping[str, Any]) -> Rejection | None:
    """Return OpenAI's rejection of results without tool calls and tool calls without results; None if there are none."""
    calls = [item["call_id"] for item in _items(body) if item.get("type") == "function_call"]
    results = [item["call_id"] for item in _items(body) if item.get("type") == _OUTPUTS]
    for call_id in results:
        if call_id not in calls and not body.get("previous_response_id"):
            return _reject(f"No tool call found for function call output with call_id {call_id}.")
    for call_id in calls:
        if call_id not in results:
            return _reject(f"No tool output found for function call {call_id}.")
    return None


def _reject(text: str) -> Rejection:
    return Rejection(400, openai_error(text, "input"))


def whole(reply: Reply, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the whole answer."""
    is_short = reply.answer.stop == "length"
    return {
        **_frame(reply, body),
        "status": "incomplete" if is_short else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if is_short else None,
        "output": _output(reply),
        "usage": _usage(reply),
    }


def compacted(reply: Reply, _: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to a request that compacts."""
    name = {"id": f"resp_{reply.number:04}", "object": "response.compaction", "created_at": 1_700_000_000}
    return {**name, "output": [*map(dict, reply.thoughts)], "usage": _usage(reply)}


def events(reply: Reply, body: Mapping[str, Any]) -> Iterator[str]:
    """Yield the answer as server-sent events; the stream breaks off if the reply has an error."""
    for number, (kind, fields) in enumerate(_events(reply, body)):
        if reply.error is not None and number == reply.chunks_before_error:
            error = reply.error.body["error"] if isinstance(reply.error.body, dict) else {}
            kind, fields = "error", {"code": error.get("code"), "message": error.get("message"), "param": None}
        event = {"type": kind, "sequence_number": number, **fields}
        yield f"event: {kind}\ndata: {json.dumps(event)}\n\n"
        if kind == "error":
            return


def _events(reply: Reply, body: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "response.created", {"response": {**_frame(reply, body), "status": "in_progress", "output": []}}
    for index, item in enumerate(_output(reply)):
        place = {"output_index": index, "item_id": item.get("id")}
        yield "response.output_item.added", {"output_index": index, "item": _empty(item)}
        for kind, fields in _deltas(item):
            yield kind, {**place, **fields}
        yield "response.output_item.done", {"output_index": index, "item": item}
    last = whole(reply, body)
    yield f"response.{last['status']}", {"response": last}


def _empty(item: Mapping[str, Any]) -> dict[str, Any]:
    empty: dict[str, dict[str, Any]] = {
        "message": {"content": []},
        "function_call": {"arguments": ""},
        "reasoning": {"encrypted_content": None},
    }
    return {**item, **empty.get(item["type"], {})}


def _deltas(item: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    if item["type"] == "function_call":
        arguments = item["arguments"]
        for start in range(0, len(arguments), ARGUMENTS_CHUNK_CHARS):
            piece = arguments[start : start + ARGUMENTS_CHUNK_CHARS]
            yield "response.function_call_arguments.delta", {"delta": piece}
        yield "response.function_call_arguments.done", {"arguments": arguments, "name": item["name"]}
    if item["type"] == "message":
        (part,) = item["content"]
        place = {"content_index": 0}
        yield "response.content_part.added", {**place, "part": {**part, "text": ""}}
        for start in range(0, len(part["text"]), CHUNK_CHARS):
            piece = part["text"][start : start + CHUNK_CHARS]
            yield "response.output_text.delta", {**place, "delta": piece, "logprobs": []}
        yield "response.output_text.done", {**place, "text": part["text"], "logprobs": []}
        yield "response.content_part.done", {**place, "part": part}


def _output(reply: Reply) -> list[dict[str, Any]]:
    part = {"type": "output_text", "text": reply.answer.text, "annotations": []}
    status = "incomplete" if reply.answer.stop == "length" else "completed"
    message = {"type": "message", "role": "assistant", "status": status, "content": [part]}
    texts = [{**message, "id": f"msg_{reply.number:04}"}] if reply.answer.text or not reply.ids else []
    return [*map(dict, reply.thoughts), *texts, *_calls(reply)]


def _calls(reply: Reply) -> Sequence[dict[str, Any]]:
    return [
        {
            "type": "function_call",
            "id": f"fc_{id}",
            "call_id": id,
            "name": call.name,
            "arguments": json.dumps(dict(call.arguments)),
            "status": "completed",
        }
        for id, call in zip(reply.ids, reply.answer.calls, strict=True)
    ]


def _frame(reply: Reply, body: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": f"resp_{reply.number:04}",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": body.get("model", ""),
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "temperature": 1.0,
        "top_p": 1.0,
    }


def _usage(reply: Reply) -> dict[str, Any]:
    usage = reply.usage
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cache_read_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
