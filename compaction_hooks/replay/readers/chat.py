"""Adds OpenAI chat messages to the builder; agents keep them among data of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from compaction_hooks import Usage
from compaction_hooks.replay.readers.builder import ConversationBuilder
from compaction_hooks.replay.readers.media import media_block
from compaction_hooks.replay.readers.values import (
    blocks,
    call,
    count,
    fields,
    is_list,
    is_object,
    is_whole,
    items,
    result,
    text,
    thinking,
    usage_of,
)
from compaction_hooks.replay.recorded import Fields

_KEPT_BLOCKS: Final = ("thinking", "redacted_thinking")


def add_message(
    builder: ConversationBuilder,
    message: Fields,
    place: int,
    *,
    usage: Usage | None = None,
    model: str = "",
    key: str = "",
) -> bool:
    """Add one message to the builder; return False if there was nothing to add."""
    role, content = message.get("role"), message.get("content")
    if not is_whole(content) or not is_whole(message.get("tool_calls")):
        builder.skipped.add_kind("", place)

    if role in ("tool", "function"):
        call_ids = [message.get("tool_call_id"), *items(message.get("tool_call_ids"))]  # SWE-agent has a list
        call_id = next((each for each in call_ids if text(each)), "")
        builder.add_result(result(call_id, content_blocks(content) if is_list(content) else content), line=place)
        return True

    if role == "assistant":
        answer = [*reasoning_of(message), *content_blocks(content), *calls_of(message)]
        if answer:
            builder.add_answer(answer, key=key, usage=usage, model=model or None)
        return bool(answer)

    prompt = content if isinstance(content, str) else content_blocks(content)
    if prompt and role in ("system", "developer"):
        builder.add_system(prompt)
    elif prompt and role == "user":
        builder.add_prompt(prompt)
    else:
        return False
    return True


def content_blocks(content: object) -> list[Fields]:
    """Return the blocks of a content: texts and images are translated, all other blocks are kept."""
    found: list[Fields] = []
    for block in blocks(content):
        kind = block.get("type")
        image = fields(block.get("image_url")).get("url") or block.get("image_url")
        if kind in ("text", "input_text", "output_text"):
            found += [{"type": "text", "text": text(block["text"])}] if text(block.get("text")) else []
        elif kind in ("image_url", "input_image") and (media := media_block("image", url=image)):
            found.append(media)
        else:
            found.append(block)
    return found


def calls_of(message: Fields) -> Iterator[Fields]:
    """Yield the tool calls of an answer, including one in the form of the first API version."""
    tool_calls = [fields(each) for each in items(message.get("tool_calls"))]
    for each in tool_calls:
        function = fields(each.get("function")) or each
        yield call(each.get("id"), function.get("name"), function.get("arguments"))
    first_version = message.get("function_call")
    if is_object(first_version) and not tool_calls:
        yield call("", first_version.get("name"), first_version.get("arguments"))


def litellm_usage(counted: Fields) -> Usage | None:
    """Return the usage that LiteLLM reports; it counts the cached part in the prompt for every provider."""
    whole = count(counted.get("prompt_tokens")) or count(counted.get("input_tokens"))
    details = fields(counted.get("prompt_tokens_details")) or fields(counted.get("input_tokens_details"))
    return usage_of(
        whole,
        count(counted.get("completion_tokens")) or count(counted.get("output_tokens")),
        read=count(counted.get("cache_read_input_tokens")) or count(details.get("cached_tokens")),
        written=count(counted.get("cache_creation_input_tokens")),
    )


def reasoning_of(message: Fields) -> list[Fields]:
    """Return the reasoning, which is not in the content: Anthropic's blocks, else its text."""
    signed = [block for block in blocks(message.get("thinking_blocks")) if block.get("type") in _KEPT_BLOCKS]
    return signed or thinking(text(message.get("reasoning_content")) or text(message.get("reasoning")))
