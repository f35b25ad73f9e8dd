"""The Gemini API's `Content` (a role and parts), as Gemini CLI and its forks log it, as Anthropic's blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from compaction_hooks import Usage
from compaction_hooks.replay.readers.builder import ConversationBuilder
from compaction_hooks.replay.readers.media import media_block
from compaction_hooks.replay.readers.values import (
    call,
    count,
    fields,
    is_object,
    items,
    one_or_more,
    result,
    text,
    thinking,
)
from compaction_hooks.replay.recorded import Fields

_SERVER_SIDE: Final = ("executableCode", "codeExecutionResult")


def parts_of(content: object) -> list[Fields]:
    """The parts of a content: a text, one part, or a list of both."""
    parts = [{"text": each} if isinstance(each, str) else each for each in one_or_more(content)]
    return [part for part in parts if is_object(part)]


def spoken(content: object) -> list[Fields]:
    """What parts say or show, without calls and results."""
    return [block for part in parts_of(content) for block in _spoken(part)]


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
    """Give one `Content` to the builder: an answer of the model, or what it was told and the results it asked for.

    Returns:
        Whether there was anything in it.
    """
    parts = parts_of(content)
    if role in ("model", "gemini", "assistant"):
        said = [block for part in parts for block in (*_spoken(part), *_calls(part))]
        if said:
            builder.answer(said, key=key, usage=usage, model=model or None)
        return bool(said)
    answers = [part for part in parts if "functionResponse" in part]
    for part in answers:
        builder.result(response_block(fields(part.get("functionResponse"))), line=place)
    told = spoken(parts)
    if told and role == "system":
        builder.system(told)
    elif told:
        builder.prompt(told)
    return bool(told or answers)


def response_block(response: Fields, *, call_id: str = "", is_error: bool = False, shown: object = None) -> Fields:
    """A `tool_result` for a `functionResponse`; its text is "output" or "error" where the response has one.

    Args:
        call_id: For where the response does not name its call.
        shown: Parts that stand beside the response, such as a file that was read.
    """
    given = response.get("response")
    said = next((fields(given)[key] for key in ("output", "error") if key in fields(given)), given)
    beside = [*spoken(response.get("parts")), *spoken(shown)]
    block = result(
        text(response.get("id")) or call_id, said, is_error=is_error or (is_object(given) and "error" in given)
    )
    if not beside:
        return block
    content = block["content"]
    told = [{"type": "text", "text": content}] if isinstance(content, str) and content else items(content)
    return {**block, "content": [*told, *beside]}


def _spoken(part: Fields) -> Iterator[Fields]:
    said = text(part.get("text"))
    if part.get("thought") is True:
        yield from thinking(said, text(part.get("thoughtSignature")))
    elif said:
        yield {"type": "text", "text": said}
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
    asked = part.get("functionCall")
    if is_object(asked):
        yield call(asked.get("id"), asked.get("name"), asked.get("args"))


def usage_of(counted: Mapping[str, object], names: Mapping[str, str]) -> Usage | None:
    """Gemini counts the cached part inside the prompt, tool use and thoughts beside prompt and answer.

    Args:
        names: What `counted` calls "prompt", "tool", "answer", "thoughts" and "cached".
    """
    tokens = {meaning: count(counted.get(name)) for meaning, name in names.items()}
    if not tokens["prompt"]:
        return None
    return Usage(
        input_tokens=tokens["prompt"] + tokens["tool"],
        output_tokens=tokens["answer"] + tokens["thoughts"],
        cache_read_tokens=tokens["cached"],
    )
