"""Sessions of Qwen Code (~/.qwen/projects/*/chats/*.jsonl): Gemini's contents in a tree like Claude Code's.

The path to the last message is the conversation; an answer may take several lines with the same `uuid`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from compaction_hooks.replay.readers.builder import ConversationBuilder
from compaction_hooks.replay.readers.gemini_parts import add_content, read_usage
from compaction_hooks.replay.readers.lines import Line, SessionFile
from compaction_hooks.replay.readers.values import fields, text
from compaction_hooks.replay.recorded import Fields, RecordedSession, Unread

FORMAT_NAME: Final = "Qwen Code session"

_COUNTED: Final = {
    "prompt": "promptTokenCount",
    "tool": "toolUsePromptTokenCount",
    "answer": "candidatesTokenCount",
    "thoughts": "thoughtsTokenCount",
    "cached": "cachedContentTokenCount",
}


def recognises(lines: Sequence[Line]) -> bool:
    """Whether any line is a message of Gemini's parts with an id of its own."""
    return any("uuid" in line.value and isinstance(_message(line.value).get("parts"), list) for line in lines)


def read(file: SessionFile) -> Iterator[RecordedSession]:
    """Yield the conversation of the file."""
    builder = ConversationBuilder()
    for line in _path(file.lines, builder):
        message = _message(line.value)
        role = text(message.get("role"))
        usage = read_usage(fields(line.value.get("usageMetadata")), _COUNTED)
        if role and not isinstance(message.get("parts"), list):
            builder.skipped.add_kind("", line.number)

        model, key = text(line.value.get("model")), text(line.value.get("uuid"))
        if not add_content(builder, role, message.get("parts"), line.number, usage=usage, model=model, key=key):
            builder.skipped.add_kind(_name(line.value), line.number)

    if builder.has_answer:
        ids = (text(line.value.get("sessionId")) for line in file.lines)
        yield builder.session(next(filter(None, ids), file.path.stem), FORMAT_NAME)


def _path(lines: Sequence[Line], builder: ConversationBuilder) -> list[Line]:
    """Return the lines that lead to the last message; all lines if the tree is broken."""
    parents = _parents(lines)
    speaking = [line for line in lines if _message(line.value).get("role") in ("user", "model", "assistant")]

    on_path: set[str] = set()
    uuid = text(speaking[-1].value.get("uuid")) if speaking else None
    while uuid is not None and uuid not in on_path:
        if not uuid or uuid not in parents:
            builder.skipped.add(Unread("a message whose parent is missing: all lines count, also those gone back from"))
            return list(lines)
        on_path.add(uuid)
        uuid = parents[uuid]

    for line in lines:
        if line in speaking and text(line.value.get("uuid")) not in on_path:
            builder.skipped.add("on a branch the user went back from", line.number)
    return [line for line in lines if line not in speaking or text(line.value.get("uuid")) in on_path]


def _parents(lines: Sequence[Line]) -> dict[str, str | None]:
    """Return the parent of each line, None for the first; a line without the field follows the line before it."""
    parents: dict[str, str | None] = {}
    before: str | None = None
    for line in lines:
        uuid, parent = text(line.value.get("uuid")), line.value.get("parentUuid", before)
        parents.setdefault(uuid, None if parent is None else text(parent) or before)
        before = uuid
    return parents


def _message(value: Fields) -> Fields:
    return fields(value.get("message"))


def _name(value: Fields) -> str:
    return " ".join(filter(None, (text(value.get("type")), text(value.get("subtype")))))
