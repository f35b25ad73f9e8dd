"""Messages dumped by LangChain and LangGraph, in all forms.

- `messages_to_dict`: `{"type": "human", "data": {...}}`;
- `dumpd`: `{"lc": 1, "type": "constructor", "id": [..., "HumanMessage"], "kwargs": {...}}`;
- `model_dump`, as LangGraph's server answers: `{"type": "human", "content": ...}`.

They are in a JSON list, one on each line, or in an object: a thread's state (`values`, `channel_values`) or a traced run
(`inputs`, `outputs`), which may have a list of such lists. Records from before `tool_calls` have OpenAI's own tool calls in
`additional_kwargs`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from compaction_hooks import Usage
from compaction_hooks.replay.readers.builder import ConversationBuilder
from compaction_hooks.replay.readers.chat import calls_of, content_blocks
from compaction_hooks.replay.readers.lines import Line, SessionFile
from compaction_hooks.replay.readers.media import media_block
from compaction_hooks.replay.readers.notes import join_sessions
from compaction_hooks.replay.readers.values import (
    blocks,
    call,
    count,
    fields,
    is_object,
    is_whole,
    items,
    result,
    text,
    thinking,
    usage_of,
)
from compaction_hooks.replay.recorded import Fields, RecordedSession

FORMAT_NAME: Final = "LangChain messages"

_SPEAKERS: Final = ("human", "ai", "system", "tool", "function", "chat", "remove")
_CLASSES: Final = {f"{kind.capitalize()}Message": kind for kind in _SPEAKERS} | {"AIMessage": "ai"}
_ROLES: Final = {"user": "human", "assistant": "ai", "developer": "system"}
_CONTAINERS: Final = ("values", "channel_values", "inputs", "outputs", "kwargs", "input", "output")
_CALL_BLOCKS: Final = ("tool_use", "tool_call", "function_call", "input_json_delta", "tool_call_chunk")
"""Tool calls in the content are also in `tool_calls`."""


def holds(value: Fields) -> bool:
    """Whether this is a LangChain message, or contains one."""
    return bool(_messages(value))


def read(file: SessionFile) -> Iterator[RecordedSession]:
    """Yield a session for each list of messages in which a model answers; messages on lines of their own are one session."""
    alone = [line for line in file.lines if _kind(line.value)]
    if alone:
        yield from _session(file.path.stem, "line", alone)
        return
    yield from join_sessions(_sessions(file))


def _sessions(file: SessionFile) -> Iterator[Iterator[RecordedSession]]:
    lists = [(line, messages) for line in file.lines for messages in _messages(line.value)]
    for number, (line, messages) in enumerate(lists, 1):
        own_id = text(line.value.get("id")) or text(line.value.get("thread_id"))
        session_id = own_id or file.path.stem
        numbered = [Line(place, fields(message)) for place, message in enumerate(messages)]
        yield _session(session_id if len(lists) == 1 else f"{session_id}#{number}", "message", numbered)


def _session(session_id: str, unit: str, messages: Sequence[Line]) -> Iterator[RecordedSession]:
    builder = ConversationBuilder(unit)
    for message in messages:
        if not _add(builder, message):
            builder.skipped.add_kind(_kind(message.value) or text(message.value.get("type")), message.number)
    if builder.has_answer:
        yield builder.session(session_id, FORMAT_NAME)


def _add(builder: ConversationBuilder, line: Line) -> bool:
    kind, message = _kind(line.value), _fields(line.value)
    extra = fields(message.get("additional_kwargs"))
    content = message.get("content")
    if not is_whole(content) or not is_whole(message.get("tool_calls")):
        builder.skipped.add_kind("", line.number)

    if kind in ("tool", "function"):
        is_error = message.get("status") == "error"
        output = content if isinstance(content, str) else _content_blocks(content)
        builder.add_result(result(message.get("tool_call_id"), output, is_error=is_error), line=line.number)
        return True

    if kind == "ai":
        answer = [*_reasoning(extra), *_content_blocks(content), *_calls(message, extra)]
        if answer:
            builder.add_answer(answer, usage=_usage(message), model=_model(message))
        return bool(answer)

    prompt = content if isinstance(content, str) else _content_blocks(content)
    if not prompt or kind not in ("human", "system"):
        return False
    if kind == "system" or extra.get("__openai_role__") == "developer":
        builder.add_system(prompt)
    else:
        builder.add_prompt(prompt)
    return True


def _content_blocks(content: object) -> list[Fields]:
    """Return the blocks of a content: LangChain's own for media and reasoning are translated, those of providers kept."""
    found: list[Fields] = []
    listed = [{"type": "text", "text": each} if isinstance(each, str) else each for each in items(content)]

    for block in content_blocks(listed or content):
        kind = text(block.get("type"))
        media = None
        if kind in ("image", "file", "audio", "video") and "source" not in block:
            encoded = block.get("base64") or block.get("data")
            media = media_block(text(block.get("mime_type")) or kind, data=encoded, url=block.get("url"))

        if kind == "reasoning":
            reasoning = text(block.get("reasoning")) or _summary(block)
            found += thinking(reasoning, text(block.get("encrypted_content")))
        elif kind not in _CALL_BLOCKS:
            found.append(media or block)
    return found


def _summary(block: Fields) -> str:
    return "\n\n".join(text(part.get("text")) for part in blocks(block.get("summary")))


def _reasoning(extra: Fields) -> list[Fields]:
    reasoning = extra.get("reasoning_content")
    return thinking(text(reasoning)) if isinstance(reasoning, str) else []


def _calls(message: Fields, extra: Fields) -> Iterator[Fields]:
    tool_calls = [fields(each) for each in items(message.get("tool_calls"))]
    broken = [fields(each) for each in items(message.get("invalid_tool_calls"))]
    for each in (*tool_calls, *broken):
        yield call(each.get("id"), each.get("name"), each.get("args"))
    if not tool_calls and not broken:
        yield from calls_of(extra)


def _usage(message: Fields) -> Usage | None:
    """Return the usage; LangChain counts the cached part in the input for every provider."""
    counted = fields(message.get("usage_metadata"))
    whole = count(counted.get("input_tokens"))
    details = fields(counted.get("input_token_details"))
    return usage_of(
        whole,
        count(counted.get("output_tokens")),
        read=count(details.get("cache_read")),
        written=count(details.get("cache_creation")),
    )


def _model(message: Fields) -> str | None:
    metadata = fields(message.get("response_metadata"))
    return text(metadata.get("model_name")) or text(metadata.get("model")) or None


# -- messages of all forms


def _messages(value: Fields, depth: int = 3) -> list[list[object]]:
    """Return the lists of messages in an object, at most `depth` objects deep; a single message is a list of one."""
    if _kind(value):
        return [[value]]

    listed = items(value.get("messages"))
    lists = [items(each) for each in listed] if any(map(items, listed)) else [listed]
    found = lists if any(_kind(fields(message)) for each in lists for message in each) else []
    if found or not depth:
        return found

    # The input of a run is the beginning of its output, so the longest list is the conversation.
    for inner_value in filter(is_object, map(value.get, _CONTAINERS)):
        inner = _messages(inner_value, depth - 1)
        found = max(found, inner, key=lambda lists: sum(map(len, lists)))
    return found


def _fields(value: Fields) -> Fields:
    inner = value.get("data") if "data" in value else value.get("kwargs")
    return inner if is_object(inner) else value


def _kind(value: Fields) -> str:
    """Return the kind of message in LangChain's words; "" if it is not a LangChain message."""
    kind = text(value.get("type"))
    if kind == "constructor":
        names = items(value.get("id"))
        kind = (
            _CLASSES.get(text(names[-1]).removesuffix("Chunk"), "") if names and is_object(value.get("kwargs")) else ""
        )
    elif "content" not in _fields(value) or not (is_object(value.get("data")) or _is_dumped(value)):
        return ""

    kind = kind.removesuffix("MessageChunk").lower()
    role = text(_fields(value).get("role"))
    kind = _ROLES.get(role, role) if kind == "chat" else kind
    return kind if kind in _SPEAKERS else ""


def _is_dumped(value: Fields) -> bool:
    """Whether this is a message without wrapping, recognized by fields that only LangChain has."""
    return "additional_kwargs" in value or "response_metadata" in value
