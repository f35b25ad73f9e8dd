"""Translates items of OpenAI's Responses API, as logged by Codex and other agents, to Anthropic's blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from compaction_hooks.replay.readers.media import media_block
from compaction_hooks.replay.readers.values import blocks, call, fields, is_object, items, result, text, thinking
from compaction_hooks.replay.recorded import Fields

_IMAGE_BYTES: Final = "result"
"""The field with the bytes of a generated image; no request sends it back as text."""


def content_blocks(content: object) -> list[Fields]:
    """Return the blocks of a message or of a tool's output, without encrypted and empty ones."""
    found: list[Fields] = []
    for block in blocks(content):
        words = text(block.get("text")) or text(block.get("refusal"))
        if words:
            found.append({"type": "text", "text": words})
        elif block.get("type") == "input_image":
            image = media_block("image", url=block.get("image_url"))
            found += [image] if image else []
    return found


def answer_blocks(item: Fields) -> list[Fields]:
    """Return the blocks of an item by the model, such as a message or a tool call; none for other items."""
    reader = _ANSWERS.get(text(item.get("type")))
    return reader(item) if reader else []


def result_block(item: Fields) -> Fields | None:
    """Return the tool result of an item; None for other items."""
    kind = text(item.get("type"))
    if kind == "tool_result":
        return result("", item.get("result"))
    if not kind.endswith("_output"):
        return None
    output = item.get("tools") if kind == "tool_search_output" else item.get("output")
    success = fields(output).get("success")
    return result(item.get("call_id"), _output_content(output), is_error=success is False)


def _output_content(output: object) -> object:
    """Return the content of an output, which is a text, blocks, a single block, or an object with content and success."""
    if is_object(output):
        return content_blocks([output]) or output.get("content", output)
    return content_blocks(output) if _is_content(output) else output


def _is_content(output: object) -> bool:
    kinds = {text(fields(block).get("type")) for block in items(output)}
    return bool(kinds) and kinds <= {"input_text", "input_image", "output_text", "text", "encrypted_content"}


def _message(item: Fields) -> list[Fields]:
    return content_blocks(item.get("content")) if item.get("role") == "assistant" else []


def _reasoning(item: Fields) -> list[Fields]:
    parts = [*items(item.get("summary")), *items(item.get("content"))]
    thoughts = "\n\n".join(filter(None, (text(fields(part).get("text")) for part in parts)))
    return thinking(thoughts, text(item.get("encrypted_content")))


def _call(item: Fields) -> list[Fields]:
    kind = text(item.get("type"))
    name = text(item.get("name")) or text(fields(item.get("function")).get("name")) or kind.removesuffix("_call")
    given = item.get("action") if kind == "local_shell_call" else item.get("arguments", item.get("input"))
    return [call(item.get("call_id") or item.get("id"), name, given)]


def _server_side(item: Fields) -> list[Fields]:
    """Return the item itself: the provider ran the tool, so there is no tool call that needs a result."""
    return [{name: value for name, value in item.items() if name != _IMAGE_BYTES}]


_ANSWERS: Final[dict[str, Callable[[Fields], list[Fields]]]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _call,
    "custom_tool_call": _call,
    "local_shell_call": _call,
    "tool_search_call": _call,
    "tool_call": _call,
    "web_search_call": _server_side,
    "image_generation_call": _server_side,
}
