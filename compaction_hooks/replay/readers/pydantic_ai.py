"""Messages dumped by pydantic-ai (`result.all_messages_json()`, `ModelMessagesTypeAdapter.dump_json`).

A list of requests and responses, each of parts. Differences from a list of messages:

- the system prompt is a part of the first request, like the user's;
- tool arguments are JSON text or an object, in old records inside `args_json` or `args_dict`;
- a retry is the result of a tool call, or a user message if there was no tool call;
- tool calls run by the provider are in the response together with their results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from compaction_hooks import Usage
from compaction_hooks.replay.readers.builder import ConversationBuilder
from compaction_hooks.replay.readers.lines import Line, SessionFile
from compaction_hooks.replay.readers.media import media_block
from compaction_hooks.replay.readers.notes import join_sessions
from compaction_hooks.replay.readers.values import (
    call,
    count,
    fields,
    is_list,
    is_object,
    items,
    json_text,
    result,
    text,
    thinking,
    usage_of,
)
from compaction_hooks.replay.recorded import Fields, RecordedSession, Unread

FORMAT_NAME: Final = "pydantic-ai messages"

_KINDS: Final = ("request", "response")
_CONTAINERS: Final = ("messages", "message_history", "all_messages")


def holds(value: Fields) -> bool:
    """Whether this is a request or a response, or contains one."""
    return _is_message(value) or bool(_find_messages(value))


def read(file: SessionFile) -> Iterator[RecordedSession]:
    """Yield a session for each list of messages in which a model answers; messages on lines of their own are one session."""
    alone = [line for line in file.lines if _is_message(line.value)]
    if alone:
        yield from _session(file.path.stem, "line", alone)
        return
    yield from join_sessions(_sessions(file))


def _sessions(file: SessionFile) -> Iterator[Iterator[RecordedSession]]:
    lists = [line for line in file.lines if _find_messages(line.value)]
    for line in lists:
        session_id = text(line.value.get("id")) or file.path.stem
        numbered = [Line(place, fields(each)) for place, each in enumerate(_find_messages(line.value))]
        yield _session(session_id if len(lists) == 1 else f"{session_id}#{line.number}", "message", numbered)


def _session(session_id: str, unit: str, messages: Sequence[Line]) -> Iterator[RecordedSession]:
    builder = ConversationBuilder(unit)
    instructions = ""
    for message in messages:
        parts = [part for part in items(message.value.get("parts")) if is_object(part)]
        if message.value.get("kind") in _KINDS and not _has_whole_parts(message.value):
            builder.skipped.add_kind("", message.number)

        if message.value.get("kind") == "response":
            _add_response(builder, message, parts)
        elif message.value.get("kind") == "request":
            instructions = text(message.value.get("instructions")) or instructions
            for part in parts:
                _add_request_part(builder, part, message.number)
        else:
            builder.skipped.add(Unread("neither a request nor a response"), message.number)

    if builder.has_answer:
        yield builder.session(session_id, FORMAT_NAME, system=instructions)


def _add_request_part(builder: ConversationBuilder, part: Fields, place: int) -> None:
    kind, content = text(part.get("part_kind")), part.get("content")
    if kind == "tool-return":
        builder.add_result(_result(part, content), line=place)
    elif kind == "retry-prompt" and part.get("tool_name"):
        builder.add_result(_result(part, json_text(content), is_error=True), line=place)
    elif kind == "retry-prompt":
        builder.add_prompt(json_text(content))
    elif kind not in ("system-prompt", "user-prompt") or not (prompt := _prompt_content(content)):
        builder.skipped.add_kind(kind, place)
    elif kind == "system-prompt":
        builder.add_system(prompt)
    else:
        builder.add_prompt(prompt)


def _add_response(builder: ConversationBuilder, message: Line, parts: Sequence[Fields]) -> None:
    answer = [block for part in parts for block in _answer_blocks(part)]
    if not answer:
        builder.skipped.add("a response without content", message.number)
        return
    usage = _usage(fields(message.value.get("usage")))
    builder.add_answer(answer, usage=usage, model=text(message.value.get("model_name")) or None)


def _answer_blocks(part: Fields) -> list[Fields]:
    kind, content = text(part.get("part_kind")), part.get("content")
    if kind == "text":
        return [{"type": "text", "text": content}] if text(content) else []
    if kind == "thinking":
        return thinking(text(content), text(part.get("signature")))
    if kind == "tool-call":
        return [call(part.get("tool_call_id"), part.get("tool_name"), _arguments(part.get("args")))]
    if kind == "file":
        return _content_blocks([content])
    return [{"type": kind, **part}] if kind else []


def _arguments(given: object) -> object:
    if is_object(given) and len(given) == 1:
        return given.get("args_json", given.get("args_dict", given))
    return given


def _result(part: Fields, content: object, *, is_error: bool = False) -> Fields:
    """Return a tool result; content that is neither text nor media is sent as JSON."""
    listed = items(content)
    has_media = any(_media(fields(each)) for each in (*listed, content))
    shown = _content_blocks(listed or [content]) if has_media else json_text(content)
    failed = is_error or part.get("outcome") in ("failed", "denied")
    return result(part.get("tool_call_id"), shown, is_error=failed)


def _prompt_content(content: object) -> object:
    return content if isinstance(content, str) else _content_blocks(items(content))


def _content_blocks(listed: Sequence[object]) -> list[Fields]:
    """Return a block for each text and each medium; other content becomes its JSON text."""
    found: list[Fields] = []
    for each in listed:
        media = _media(fields(each))
        words = text(fields(each).get("content")) or json_text(each)
        if fields(each).get("kind") != "cache-point" and (media or words):
            found.append(media or {"type": "text", "text": words})
    return found


def _media(value: Fields) -> Fields | None:
    kind = text(value.get("kind"))
    if kind == "binary":
        return media_block(text(value.get("media_type")), data=value.get("data"))
    return media_block(kind.removesuffix("-url"), url=value.get("url")) if kind.endswith("-url") else None


def _usage(counted: Fields) -> Usage | None:
    """Return the usage; the input includes the cached part for every provider. Older records use other field names."""
    whole = count(counted.get("input_tokens")) or count(counted.get("request_tokens"))
    return usage_of(
        whole,
        count(counted.get("output_tokens")) or count(counted.get("response_tokens")),
        read=count(counted.get("cache_read_tokens")),
        written=count(counted.get("cache_write_tokens")),
    )


def _find_messages(value: Fields) -> list[object]:
    for name in _CONTAINERS:
        listed = items(value.get(name))
        if any(_is_message(fields(message)) for message in listed):
            return listed
    return []


def _has_whole_parts(value: Fields) -> bool:
    listed = value.get("parts")
    return is_list(listed) and all(text(fields(part).get("part_kind")) for part in listed)


def _is_message(value: Fields) -> bool:
    parts = [fields(part) for part in items(value.get("parts"))]
    return value.get("kind") in _KINDS and any("part_kind" in part for part in parts)
