"""Anthropic responses, plain and as server-sent events."""

import json
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Any

from tests.provider.counting import CACHE_BLOCK_TOKENS, CACHE_MINIMUM_TOKENS
from tests.provider.openai_wire import ARGUMENTS_CHUNK_CHARS, CHUNK_CHARS
from tests.provider.sides import Reply
from tests.provider.validation import blocks
from tests.provider.wordings import anthropic_error

_STOP_REASONS = {"length": "max_tokens", "stop": "end_turn", "tool_calls": "tool_use"}
"""Anthropic's names of OpenAI's finish reasons."""


def system_of(body: Mapping[str, Any]) -> str:
    """Return the text of the system prompt."""
    return "\n".join(str(block.get("text", "")) for block in blocks(body.get("system")))


def auth_error() -> dict[str, Any]:
    """Return the error body for an unknown API key."""
    return anthropic_error("authentication_error", "invalid x-api-key")


def message(reply: Reply, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the whole answer."""
    return {
        **_frame(reply, body),
        "content": _content(reply),
        "stop_reason": _stop_reason(reply),
        "usage": _usage(reply, body),
    }


def events(reply: Reply, body: Mapping[str, Any]) -> Iterator[str]:
    """Yield the answer as server-sent events; the stream breaks off if the reply has an error."""
    first = {
        **_frame(reply, body),
        "content": [],
        "stop_reason": None,
        "usage": {**_usage(reply, body), "output_tokens": 1},
    }
    stop = {"stop_reason": _stop_reason(reply), "stop_sequence": None}
    sent = chain(
        [("message_start", {"message": first})],
        chain.from_iterable(_block_events(index, block) for index, block in enumerate(_content(reply))),
        [
            ("message_delta", {"delta": stop, "usage": {"output_tokens": reply.usage.output_tokens}}),
            ("message_stop", {}),
        ],
    )
    if reply.error is not None:
        sent = chain(islice(sent, reply.chunks_before_error), [("error", _error(reply.error.body))])
    for kind, fields in sent:
        yield f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"


def _error(body: object) -> dict[str, Any]:
    return {"error": body["error"]} if isinstance(body, dict) else {"error": {"type": "api_error", "message": ""}}


def _block_events(index: int, block: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    if "thinking" in block["type"]:
        yield from _reasoning_events(index, block)
        return
    is_text = block["type"] == "text"
    start, kind, field = (
        ({**block, "text": ""}, "text_delta", "text")
        if is_text
        else ({**block, "input": {}}, "input_json_delta", "partial_json")
    )
    text = block["text"] if is_text else json.dumps(block["input"])
    size = CHUNK_CHARS if is_text else ARGUMENTS_CHUNK_CHARS
    yield "content_block_start", {"index": index, "content_block": start}
    for at in range(0, len(text), size):
        yield "content_block_delta", {"index": index, "delta": {"type": kind, field: text[at : at + size]}}
    yield "content_block_stop", {"index": index}


def _reasoning_events(index: int, block: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the events of reasoning: redacted reasoning whole, other reasoning as its text, then its signature."""
    is_open = block["type"] == "thinking"
    start = {**block, "thinking": "", "signature": ""} if is_open else block
    yield "content_block_start", {"index": index, "content_block": start}
    for kind, field in (("thinking_delta", "thinking"), ("signature_delta", "signature")) if is_open else ():
        yield "content_block_delta", {"index": index, "delta": {"type": kind, field: block[field]}}
    yield "content_block_stop", {"index": index}


def _frame(reply: Reply, body: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **({"input_transformations": [*map(dict, reply.dropped)]} if reply.dropped else {}),
        "id": "msg_loopback",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", ""),
        "stop_sequence": None,
    }


def _content(reply: Reply) -> list[dict[str, Any]]:
    text = [{"type": "text", "text": reply.answer.text}] if reply.answer.text else []
    calls = [
        {"type": "tool_use", "id": f"toolu_{id}", "name": call.name, "input": dict(call.arguments)}
        for id, call in zip(reply.ids, reply.answer.calls, strict=True)
    ]
    return [*map(dict, reply.thoughts), *text, *calls]


def _stop_reason(reply: Reply) -> str:
    stop = reply.answer.stop
    return _STOP_REASONS.get(stop, stop) if stop else ("tool_use" if reply.answer.calls else "end_turn")


def _usage(reply: Reply, body: Mapping[str, Any]) -> dict[str, Any]:
    counted = _counts(reply)
    if not body.get("compaction"):
        return counted
    # A compaction is counted apart from the answer.
    return {**dict.fromkeys(counted, 0), "iterations": [{"type": "compaction", **counted}]}


def _counts(reply: Reply) -> dict[str, Any]:
    usage, read = reply.usage, reply.usage.cache_read_tokens
    whole = usage.input_tokens // CACHE_BLOCK_TOKENS * CACHE_BLOCK_TOKENS
    written = max(whole - read, 0) if usage.input_tokens >= CACHE_MINIMUM_TOKENS else 0
    return {
        "input_tokens": usage.input_tokens - read - written,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
        "output_tokens": usage.output_tokens,
    }
