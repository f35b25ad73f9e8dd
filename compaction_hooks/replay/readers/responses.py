"""Items of OpenAI's Responses API, as Codex logs them and other agents keep them, as Anthropic's blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from compaction_hooks.replay.readers.media import media_block
from compaction_hooks.replay.readers.values import blocks, call, fields, is_object, items, result, text, thinking
from compaction_hooks.replay.recorded import Fields

_IMAGE_BYTES: Final = "result"
"""The field of an image the provider made; no request carries it back as text."""


def spoken(content: object) -> list[Fields]:
    """The blocks of a message or of a tool's output; what is encrypted or empty is left out."""
    found: list[Fields] = []
    for block in blocks(content):
        said = text(block.get("text")) or text(block.get("refusal"))
        if said:
            found.append({"type": "text", "text": said})
        elif block.get("type") == "input_image":
            image = media_block("image", url=block.get("image_url"))
            found += [image] if image else []
    return found


def answer_blocks(item: Fields) -> list[Fields]:
    """What a model said or asked for with one item; nothing for every other item."""
    reader = _ANSWERS.get(text(item.get("type")))
    return reader(item) if reader else []


def result_block(item: Fields) -> Fields | None:
    """The result that an item is; None for every other item."""
    kind = text(item.get("type"))
    if kind == "tool_result":
        return result("", item.get("result"))
    if not kind.endswith("_output"):
        return None
    output = item.get("tools") if kind == "tool_search_output" else item.get("output")
    success = fields(output).get("success")
    return result(item.get("call_id"), _shown(output), is_error=success is False)


def _shown(output: object) -> object:
    """An output is a text, blocks, one block alone, or an object with its content beside whether it went well."""
    if is_object(output):
        return spoken([output]) or output.get("content", output)
    return spoken(output) if _is_spoken(output) else output


def _is_spoken(output: object) -> bool:
    kinds = {text(fields(block).get("type")) for block in items(output)}
    return bool(kinds) and kinds <= {"input_text", "input_image", "output_text", "text", "encrypted_content"}


def _message(item: Fields) -> list[Fields]:
    return spoken(item.get("content")) if item.get("role") == "assistant" else []


def _reasoning(item: Fields) -> list[Fields]:
    parts = [*items(item.get("summary")), *items(item.get("content"))]
    said = "\n\n".join(filter(None, (text(fields(part).get("text")) for part in parts)))
    return thinking(said, text(item.get("encrypted_content")))


def _call(item: Fields) -> list[Fields]:
    kind = text(item.get("type"))
    name = text(item.get("name")) or text(fields(item.get("function")).get("name")) or kind.removesuffix("_call")
    given = item.get("action") if kind == "local_shell_call" else item.get("arguments", item.get("input"))
    return [call(item.get("call_id") or item.get("id"), name, given)]


def _server_side(item: Fields) -> list[Fields]:
    """The provider ran it: there is no result of its own in the log, and no call to be answered."""
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
