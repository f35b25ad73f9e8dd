"""Chats and checkpoints of Gemini CLI (~/.gemini/tmp/*/chats/session-*.json, ~/.gemini/tmp/*/checkpoint-*.json).

Differences from a list of messages:

- a chat is one JSON object with `messages`, from version 0.40 on a line for each: a header, messages, `$set` and `$rewindTo`;
- a message is written again with the same id after its tool calls have run: the last one counts;
- an answer contains tool calls together with their results;
- notices of the program (`info`, `warning`, `error`) are among the messages;
- a checkpoint is the API's own history: a list of `Content`, alone, under `history`, or as `contents` of a request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from compaction_hooks.replay.readers.builder import ConversationBuilder
from compaction_hooks.replay.readers.gemini_parts import (
    add_content,
    content_blocks,
    parts_of,
    read_usage,
    response_block,
)
from compaction_hooks.replay.readers.lines import Line, SessionFile
from compaction_hooks.replay.readers.values import call, fields, is_list, is_object, is_whole, items, text, thinking
from compaction_hooks.replay.recorded import Fields, RecordedSession, Unread

FORMAT_NAME: Final = "Gemini CLI session"

_MODEL: Final = ("gemini", "model")
_SPEAKERS: Final = ("user", *_MODEL)
_CHECKPOINT_ROLES: Final = ("user", "model", "gemini")
_FAILED: Final = ("error", "cancelled")
_COUNTED: Final = {"prompt": "input", "tool": "tool", "answer": "output", "thoughts": "thoughts", "cached": "cached"}


def recognises(lines: Sequence[Line]) -> bool:
    """Whether any line is a chat's header, a message of a chat, or a checkpoint."""
    return any(_is_header(line.value) or _is_checkpoint(line.value) or _is_log(line.value) for line in lines)


def read(file: SessionFile) -> Iterator[RecordedSession]:
    """Yield the conversation of the file."""
    is_one_object = len(file.lines) == 1
    builder = ConversationBuilder("message" if is_one_object else "line")
    if any(line.value.get("kind") == "subagent" for line in file.lines):
        builder.skipped.add("this is the session of a sub-agent")

    checkpoint = next((line.value for line in file.lines if _is_checkpoint(line.value)), None)
    if checkpoint is None:
        _add_chat(builder, file.lines)
    else:
        for place, content in enumerate(map(fields, _contents(checkpoint))):
            if "parts" in content and not is_list(content["parts"]):
                builder.skipped.add_kind("", place)
            if not add_content(builder, text(content.get("role")), content.get("parts"), place):
                builder.skipped.add_kind(text(content.get("role")), place)

    if builder.has_answer:
        ids = (text(line.value.get("sessionId")) for line in file.lines)
        yield builder.session(next(filter(None, ids), file.path.stem), FORMAT_NAME)


def _add_chat(builder: ConversationBuilder, lines: Sequence[Line]) -> None:
    last: Line | None = None
    for line in _messages(builder, lines):
        kind = text(line.value.get("type"))
        if kind in _MODEL:
            _add_answer(builder, line, last if _continues(line.value, last) else line)
            last = line
        elif kind == "user":
            last = None
            if not add_content(builder, kind, _content(line.value), line.number):
                builder.skipped.add("a message without content", line.number)
        else:
            builder.skipped.add_kind(kind, line.number)


def _continues(message: Fields, answer: Line | None) -> bool:
    """Whether a message has only the tool calls of the answer before it: a notice in between split the two."""
    is_rest = not _content(message) and read_usage(fields(message.get("tokens")), _COUNTED) is None
    return is_rest and answer is not None and not answer.value.get("toolCalls")


def _content(message: Fields) -> object:
    return message.get("content") or message.get("parts")


def _add_answer(builder: ConversationBuilder, line: Line, first: Line | None) -> None:
    """Add the answer in `line`, as a continuation if `first` is another line."""
    message = line.value
    calls = [each for each in items(message.get("toolCalls")) if is_object(each)]
    answer = [
        *(block for thought in items(message.get("thoughts")) for block in _thought(fields(thought))),
        *content_blocks(_content(message)),
        *(call(each.get("id"), each.get("name"), each.get("args")) for each in calls),
    ]
    if not is_whole(message.get("toolCalls")) or not is_whole(_content(message)):
        builder.skipped.add_kind("", line.number)

    if not answer:
        builder.skipped.add("an answer without content", line.number)
        return

    usage = read_usage(fields(message.get("tokens")), _COUNTED)
    key = text((first or line).value.get("id"))
    builder.add_answer(answer, key=key, usage=usage, model=text(message.get("model")) or None)

    for each in calls:
        if each.get("result"):
            builder.add_result(_result(each), line=line.number)


def _thought(thought: Fields) -> list[Fields]:
    return thinking("\n".join(filter(None, (text(thought.get("subject")), text(thought.get("description"))))))


def _result(tool_call: Fields) -> Fields:
    """Return the result of a tool call: its first response, and the parts next to it."""
    parts = parts_of(tool_call.get("result"))
    responses = [fields(part.get("functionResponse")) for part in parts if "functionResponse" in part]
    response = responses[0] if responses else {"response": {"output": ""}}
    is_error = tool_call.get("status") in _FAILED
    return {
        **response_block(response, is_error=is_error, shown=parts),
        "tool_use_id": text(tool_call.get("id")),  # the response may have another id, or none
    }


# -- messages of all versions


def _messages(builder: ConversationBuilder, lines: Sequence[Line]) -> list[Line]:
    """Return the final messages, in order: the last version of each, without those taken back."""
    found: dict[str, Line] = {}
    for line in lines:
        value = line.value
        if "$rewindTo" in value:
            _rewind(builder, found, text(value["$rewindTo"]), line.number)
        elif is_list(written := fields(value.get("$set", value)).get("messages")):
            if found:
                builder.skipped.add(f"the agent wrote its history anew, in place of {len(found)} messages", line.number)
                found.clear()
            numbered = (Line(place, fields(each)) for place, each in enumerate(written))
            _write(found, numbered if len(lines) == 1 else (Line(line.number, each.value) for each in numbered))
        elif "type" in value:
            _write(found, [line])
        elif "$set" not in value and not _is_header(value):
            builder.skipped.add_kind("", line.number)
    return list(found.values())


def _write(found: dict[str, Line], lines: Sequence[Line] | Iterator[Line]) -> None:
    for line in lines:
        found[text(line.value.get("id")) or f"without an id {len(found)}"] = line


def _rewind(builder: ConversationBuilder, found: dict[str, Line], target: str, number: int) -> None:
    places = list(found)
    if target not in found:
        builder.skipped.add(Unread("goes back to a message that is not there: nothing is taken back"), number)
        return
    taken_back = places[places.index(target) :]
    builder.skipped.add(f"took back {len(taken_back)} messages before it", number)
    for key in taken_back:
        del found[key]


def _contents(value: Fields) -> list[object]:
    return items(value.get("history")) or items(value.get("messages")) or items(value.get("contents"))


def _is_header(value: Fields) -> bool:
    """Whether only a chat of Gemini CLI has such a line."""
    messages = [fields(each) for each in items(fields(value.get("$set", value)).get("messages"))]
    is_message = value.get("type") in _SPEAKERS and ("tokens" in value or "toolCalls" in value)
    has_messages = any(each.get("type") == "gemini" for each in messages)
    return ("sessionId" in value and "projectHash" in value) or is_message or has_messages


def _is_checkpoint(value: Fields) -> bool:
    contents = [fields(each) for each in _contents(value)]
    return any("parts" in each and each.get("role") in _CHECKPOINT_ROLES for each in contents)


def _is_log(value: Fields) -> bool:
    """Whether this is the history of prompts for the arrow keys (logs.json)."""
    logged = [fields(each) for each in items(value.get("messages"))]
    return bool(logged) and all("sessionId" in each and "messageId" in each and "message" in each for each in logged)
