"""One message a line, with tool calls and their results on lines of their own that carry no ids, as early agents logged them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from compaction_hooks.formats import AnthropicFormat
from compaction_hooks.replay.readers.builder import ConversationBuilder
from compaction_hooks.replay.readers.lines import Line, SessionFile
from compaction_hooks.replay.readers.values import fields, is_object, text
from compaction_hooks.replay.recorded import Fields, RecordedSession

FORMAT_NAME: Final = "message lines"


def recognises(lines: Sequence[Line]) -> bool:
    """Whether some line is an answer of the assistant and nothing around it."""
    return any(line.value.get("role") == "assistant" and "content" in line.value for line in lines)


def read(file: SessionFile) -> Iterator[RecordedSession]:
    """The conversation of the file. A result answers the oldest call above it that has none."""
    builder = ConversationBuilder()
    notes: list[str] = []
    for line in file.lines:
        kind = text(line.value.get("type"))
        if kind == "tool_call":
            builder.answer([_call(line.value)])
        elif kind == "tool_result":
            builder.result({"type": "tool_result", "content": text(line.value.get("result"))}, line=line.number)
        elif not _add(builder, line.value):
            notes.append(f"line {line.number}: {kind or 'an object'} is no message")
    if builder.has_answer:
        conversation = builder.finish()
        yield RecordedSession(
            id=file.path.stem,
            format_name=FORMAT_NAME,
            format=AnthropicFormat(),
            messages=conversation.messages,
            model=next((text(line.value["model"]) for line in file.lines if line.value.get("model")), None),
            skipped=(*notes, *conversation.notes),
        )


def _add(builder: ConversationBuilder, value: Fields) -> bool:
    content = text(value.get("content"))
    if not content or value.get("role") not in ("user", "assistant"):
        return False
    if value["role"] == "user":
        builder.prompt(content)
    else:
        builder.answer([{"type": "text", "text": content}])
    return True


def _call(value: Fields) -> Fields:
    arguments = value.get("arguments")
    try:
        parsed: object = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        parsed = arguments
    given = parsed if is_object(parsed) else {"arguments": parsed}
    return {"type": "tool_use", "name": text(fields(value.get("function")).get("name")), "input": given}
