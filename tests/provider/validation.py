"""Rejections of malformed requests by the two APIs, in their own words."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, takewhile
from typing import Any, TypeAlias

from tests.provider.wordings import Rejection, anthropic_error, openai_error

Body: TypeAlias = Mapping[str, Any]
Messages: TypeAlias = Sequence[Mapping[str, Any]]

_OPENAI_ROLES = ("system", "developer", "user", "assistant", "tool", "function")


def openai_fault(body: Body) -> Rejection | None:
    """Return OpenAI's rejection of a malformed chat completions request; None if it is well formed."""
    for message, param in _openai_faults(body.get("messages") or []):
        return Rejection(400, openai_error(message, param))
    return None


def _openai_faults(messages: Messages) -> Iterator[tuple[str, str]]:
    if not messages:
        yield (
            "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.",
            "messages",
        )
    for index, message in enumerate(messages):
        if message.get("role") not in _OPENAI_ROLES:
            yield (
                f"Invalid value: '{message.get('role')}'. Supported values are: {_OPENAI_ROLES}.",
                f"messages[{index}].role",
            )
        if not message.get("content") and _needs_content(message):
            yield "Invalid value for 'content': expected a string, got null.", f"messages.[{index}].content"
    yield from _openai_pair_faults(messages)


def _needs_content(message: Mapping[str, Any]) -> bool:
    is_given = isinstance(message.get("content"), str)  # an empty text is accepted, null and an empty list are not
    return not is_given and not (message["role"] == "assistant" and message.get("tool_calls"))


def _openai_pair_faults(messages: Messages) -> Iterator[tuple[str, str]]:
    open_ids: dict[str, None] = {}
    has_calls = False
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            if not has_calls:
                yield (
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
                    "'tool_calls'.",
                    f"messages.[{index}].role",
                )
            elif message.get("tool_call_id") not in open_ids:
                yield (
                    f"Invalid parameter: 'tool_call_id' of '{message.get('tool_call_id')}' not found in 'tool_calls' of "
                    "previous message.",
                    f"messages.[{index}].tool_call_id",
                )
            open_ids.pop(str(message.get("tool_call_id")), None)
            continue
        yield from _missing_results(open_ids, index)
        ids = [call["id"] for call in message.get("tool_calls") or ()]
        for id_ in ids:
            if ids.count(id_) > 1 or not id_:  # as DeepSeek and Moonshot
                yield (
                    f"Duplicate value for 'tool_call_id' of {id_} in message[{index}]",
                    f"messages.[{index}].tool_calls",
                )
        open_ids = dict.fromkeys(ids)
        has_calls = bool(open_ids)
    yield from _missing_results(open_ids, len(messages))


def _missing_results(ids: Mapping[str, None], index: int) -> Iterator[tuple[str, str]]:
    if ids:
        yield (
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
            f"The following tool_call_ids did not have response messages: {', '.join(ids)}",
            f"messages.[{index}].role",
        )


def template_fault(body: Body) -> Rejection | None:
    """Return vLLM's rejection of chat messages that Mistral's template rejects; None if user and assistant take turns.

    The template accepts a system message first, and ignores tool calls and their results.
    """
    speakers = [
        message["role"]
        for message in body.get("messages") or []
        if message["role"] == "user" or (message["role"] == "assistant" and not message.get("tool_calls"))
    ]
    if all(role == ("user", "assistant")[place % 2] for place, role in enumerate(speakers)):
        return None
    text = "Conversation roles must alternate user/assistant/user/assistant/..."
    return Rejection(400, {"object": "error", "message": text, "type": "BadRequestError", "param": None, "code": 400})


def anthropic_fault(body: Body) -> Rejection | None:
    """Return Anthropic's rejection of a malformed messages request; None if it is well formed."""
    for message in _anthropic_faults(body):
        return Rejection(400, anthropic_error("invalid_request_error", message))
    return None


def _anthropic_faults(body: Body) -> Iterator[str]:
    messages: Messages = body.get("messages") or []
    if "max_tokens" not in body:
        yield "max_tokens: Field required"
    if not messages:
        yield "messages: at least one message is required"
        return
    for index, message in enumerate(messages):
        if message["role"] not in ("user", "assistant"):
            yield (
                f'messages: Unexpected role "{message["role"]}". The Messages API accepts a top-level `system` parameter, '
                'not "system" as an input message role.'
            )
        yield from _empty_faults(index, message, is_last=index == len(messages) - 1)
    begins_with_summary = any(block["type"] == "compaction" for block in blocks(messages[0].get("content"))[:1])
    if messages[0]["role"] != "user" and not begins_with_summary:
        yield 'messages: first message must use the "user" role'
    if messages[-1]["role"] != "user" and not body.get("compaction"):
        yield "This model does not support assistant message prefill. The conversation must end with a user message."
    yield from _anthropic_pair_faults(_merge(messages))


def _empty_faults(index: int, message: Mapping[str, Any], *, is_last: bool) -> Iterator[str]:
    content = message.get("content")
    if not content and not (is_last and message["role"] == "assistant"):
        yield f"messages.{index}: all messages must have non-empty content except for the optional final assistant message"
    for block in blocks(content):
        if block["type"] == "text" and not block["text"]:
            yield "messages: text content blocks must be non-empty"
        elif block["type"] == "text" and not block["text"].strip():
            yield "messages: text content blocks must contain non-whitespace text"


def blocks(content: object) -> list[dict[str, Any]]:
    """Return the blocks of an Anthropic message's content."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content if isinstance(content, list) else []


def _merge(messages: Messages) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the messages as read by Anthropic: consecutive ones of a role are one."""
    return [
        (role, [block for message in group for block in blocks(message.get("content"))])
        for role, group in groupby(messages, key=lambda message: str(message["role"]))
    ]


def _anthropic_pair_faults(turns: Sequence[tuple[str, list[dict[str, Any]]]]) -> Iterator[str]:
    known: set[str] = set()
    open_ids: list[str] = []
    for index, (_, content) in enumerate(turns):
        answered = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        # Results must come before any other block of their turn.
        leading = [block["tool_use_id"] for block in takewhile(lambda block: block["type"] == "tool_result", content)]
        missing = [id for id in open_ids if id not in leading]
        if missing:
            yield (
                f"messages.{index - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the next message."
            )
        for id in answered:
            if id not in open_ids:
                yield (
                    f"messages.{index}.content.0: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each "
                    "`tool_result` block must have a corresponding `tool_use` block in the previous message."
                )
            if answered.count(id) > 1:
                yield (
                    f"messages.{index}: each tool_use must have a single result. Found multiple `tool_result` blocks with "
                    f"id: {id}"
                )
        open_ids = [block["id"] for block in content if block["type"] == "tool_use"]
        if known & set(open_ids) or len(set(open_ids)) < len(open_ids):
            yield "messages: `tool_use` ids must be unique"
        known |= set(open_ids)
    if open_ids:
        yield (
            f"messages.{len(turns) - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(open_ids)}. Each `tool_use` block must have a corresponding `tool_result` block in the next message."
        )
