"""Logs of early agents: one message a line, with tool calls and results on lines of their own, without ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from compaction_hooks.replay.readers.builder import ConversationBuilder
from compaction_hooks.replay.readers.lines import Line, SessionFile
from compaction_hooks.replay.readers.notes import NO_KIND
from compaction_hooks.replay.readers.values import call, fields, result, text
from compaction_hooks.replay.recorded import Fields, RecordedSession, Unread

FORMAT_NAME: Final = "message lines"

_CALLS: Final = ("tool_call", "function_call")
_RESULTS: Final = ("tool_result", "function_result")


def recognises(lines: Sequence[Line]) -> bool:
    """Whether any line is an answer of the assistant or a tool call, without wrapping."""
    return any(
        (line.value.get("role") == "assistant" and "content" in line.value)
        or (line.value.get("type") in _CALLS and "function" in line.value)
        for line in lines
    )


def read(file: SessionFile) -> Iterator[RecordedSession]:
    """Yield the conversation of the file. A result belongs to the oldest tool call above it without one."""
    builder = ConversationBuilder()
    for line in file.lines:
        kind = text(line.value.get("type"))
        if kind in _CALLS:
            builder.add_answer([call("", fields(line.value.get("function")).get("name"), line.value.get("arguments"))])
        elif kind in _RESULTS:
            builder.add_result(result("", line.value.get("result")), line=line.number)
        elif not _add(builder, line.value):
            reason = f"{kind} is no message" if kind else NO_KIND
            builder.skipped.add(Unread(reason) if "role" in line.value else reason, line.number)

    if builder.has_answer:
        models = (text(line.value.get("model")) for line in file.lines)
        yield builder.session(file.path.stem, FORMAT_NAME, model=next(filter(None, models), ""))


def _add(builder: ConversationBuilder, value: Fields) -> bool:
    content = text(value.get("content")) or text(value.get("message"))
    if not content or value.get("role") not in ("user", "assistant"):
        return False
    if value["role"] == "user":
        builder.add_prompt(content)
    else:
        builder.add_answer([{"type": "text", "text": content}])
    return True
