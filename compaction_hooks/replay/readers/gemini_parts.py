"""Translates the Gemini API's `Content` (a role and parts), as logged by Gemini CLI and its forks, to Anthropic's blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from compaction_hooks import Usage
from compaction_hooks.formats import GeminiFormat
from compaction_hooks.replay.readers.builder import ConversationBuilder
from compaction_hooks.replay.readers.media import media_block
from compaction_hooks.replay.readers.values import (
    call,
    count,
    fields,
    is_object,
    is_whole,
    items,
    one_or_more,
    result,
    text,
    thinking,
    usage_of,
)
from compaction_hooks.replay.recorded import Fields

_SERVER_SIDE: Final = ("executableCode", "codeExecutionResult")


def parts_of(content: object) -> list[Fields]:
    """Return the parts of a content, which is a text, one part, or a list of both."""
    parts = [{"text": each} if isinstance(each, str) else each for each in one_or_more(content)]
    return [part for part in parts if is_object(part)]


def content_blocks(content: object) -> list[Fields]:
    """Return the texts, thoughts and media of a content, without tool calls and results."""
    return [block for part in parts_of(content) for block in _part_blocks(part)]


def add_content(
    builder: ConversationBuilder,
    role: str,
    content: object,
    place: int,
    *,
    usage: Usage | None = None,
    model: str = "",
    key: str = "",
) -> bool:
    """Add one `Content` to the builder: an answer of the model, or a prompt and tool results; return False if it is empty."""
    parts = parts_of(content)
    if not is_whole(content):
        builder.skipped.add_kind("", place)

    if role in ("model", "gemini", "assistant"):
        answer = [block for part in parts for block in (*_part_blocks(part), *_calls(part))]
        if answer:
            builder.add_answer(answer, key=key, usage=usage, model=model or None)
        return bool(answer)

    answers = [part for part in parts if "functionResponse" in part]
    for part in answers:
        builder.add_result(response_block(fields(part.get("functionResponse"))), line=place)

    prompt = content_blocks(parts)
    if prompt and role == "system":
        builder.add_system(prompt)
    elif prompt:
        builder.add_prompt(prompt)
    return bool(prompt or answers)


def response_block(response: Fields, *, call_id: str = "", is_error: bool = False, shown: object = None) -> Fields:
    """Return a `tool_result` for a `functionResponse`, with its text as `GeminiFormat` reads it.

    Args:
        call_id: The id if the response has none.
        shown: Parts next to the response, such as a file that was read.
    """
    (piece,) = GeminiFormat().read({"role": "user", "parts": [{"functionResponse": response}]})
    (read,) = piece.results
    media = [*content_blocks(response.get("parts")), *content_blocks(shown)]
    block = result(text(response.get("id")) or call_id, read.text, is_error=is_error or read.is_error)
    if not media:
        return block
    content = block["content"]
    texts = [{"type": "text", "text": content}] if isinstance(content, str) and content else items(content)
    return {**block, "content": [*texts, *media]}


def _part_blocks(part: Fields) -> Iterator[Fields]:
    words = text(part.get("text"))
    if part.get("thought") is True:
        yield from thinking(words, text(part.get("thoughtSignature")))
    elif words:
        yield {"type": "text", "text": words}

    inline, file = fields(part.get("inlineData")), fields(part.get("fileData"))
    media = media_block(text(inline.get("mimeType")), data=inline.get("data")) or media_block(
        text(file.get("mimeType")), url=file.get("fileUri")
    )
    if media:
        yield media

    for kind in _SERVER_SIDE:
        if kind in part:
            yield {"type": kind, kind: part[kind]}


def _calls(part: Fields) -> Iterator[Fields]:
    function_call = part.get("functionCall")
    if is_object(function_call):
        yield call(function_call.get("id"), function_call.get("name"), function_call.get("args"))


def read_usage(counted: Mapping[str, object], names: Mapping[str, str]) -> Usage | None:
    """Return the usage; Gemini counts the cached part in the prompt, but not tool use in the prompt or thoughts in the answer.

    Args:
        names: The fields of `counted` for "prompt", "tool", "answer", "thoughts" and "cached".
    """
    tokens = {meaning: count(counted.get(name)) for meaning, name in names.items()}
    whole = tokens["prompt"] and tokens["prompt"] + tokens["tool"]
    return usage_of(whole, tokens["answer"] + tokens["thoughts"], read=tokens["cached"])
