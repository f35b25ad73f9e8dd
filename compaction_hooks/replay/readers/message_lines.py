"""One message a line, with tool calls and their results on lines of their own that carry no ids, as early agents logged them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from compaction_hooks.replay.readers.builder import ConversationBuilder
from compaction_hooks.replay.readers.lines import Line, SessionFile
from compaction_hooks.replay.readers.values import call, fields, result, text
from compaction_hooks.replay.recorded import Fields, RecordedSession

FORMAT_NAME: Final = "message lines"

_CALLS: Final = ("tool_call", "function_call")
_RESULTS: Final = ("tool_result", "function_result")


def recognises(lines: Sequence[Line]) -> bool:
    """Whether some line is an answer of the assistant, or a call, and nothing around it."""
    return any(
        (line.value.get("role") == "assistant" and "content" in line.value)
        or (line.value.get("type") in _CALLS and "function" in line.value)
        for line in lines
    )


def read(file: SessionFile) -> Iterator[RecordedSession]:
    """The conversation of the file. A result answers the oldest call above it that has none."""
    builder = ConversationBuilder()
    for line in file.lines:
        kind = text(line.value.get("type"))
        if kind in _CALLS:
            builder.answer([call("", fields(line.value.get("function")).get("name"), line.value.get("arguments"))])
        elif kind in _RESULTS:
            builder.result(result("", line.value.get("result")), line=line.number)
        elif not _add(builder, line.value):
            builder.skipped.add(f"{kind or 'an object'} is no message", line.number)
    if builder.has_answer:
        models = (text(line.value.get("model")) for line in file.lines)
        yield builder.session(file.path.stem, FORMAT_NAME, model=next(filter(None, models), ""))


def _add(builder: ConversationBuilder, value: Fields) -> bool:
    content = text(value.get("content")) or text(value.get("message"))
    if not content or value.get("role") not in ("user", "assistant"):
        return False
    if value["role"] == "user":
        builder.prompt(content)
    else:
        builder.answer([{"type": "text", "text": content}])
    return True
