"""Lists of OpenAI chat, Anthropic or Bedrock Converse messages, alone or in an object.

The object may also have "id", "model", "system", "tools", "usage", "compactions" and "probes". A file with one object a line
has several sessions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from compaction_hooks.errors import FormatError
from compaction_hooks.formats import AnthropicFormat, BedrockConverseFormat, OpenAIChatFormat, format_of
from compaction_hooks.messages import MessageFormat
from compaction_hooks.replay.readers.lines import Line, SessionFile
from compaction_hooks.replay.readers.notes import NO_KIND
from compaction_hooks.replay.readers.values import blocks, count, fields, is_whole, items, text, usage_of
from compaction_hooks.replay.recorded import Fields, Probe, RecordedCall, RecordedCompaction, RecordedSession, Unread

_ANTHROPIC_BLOCKS: Final = ("tool_use", "tool_result", "thinking", "redacted_thinking", "document")
_ANTHROPIC_SOURCES: Final = ("base64", "url", "file")

_NAMES: Final = {
    "anthropic": "Anthropic messages",
    "bedrock_converse": "Bedrock Converse messages",
    "openai_chat": "OpenAI chat messages",
}

_STREAM_START: Final = "claude-code"
"""The harness that logs output counts from the start of the stream."""


def recognises(lines: Sequence[Line]) -> bool:
    """Whether any object has a list of messages with roles."""
    return any(_has_messages(line.value) for line in lines)


def read(file: SessionFile) -> Iterator[RecordedSession]:
    """Yield a session for each object with messages in which a model answers."""
    sessions = [_session(file, line) for line in file.lines if _has_messages(line.value)]
    answered = [
        session for session in sessions if any(message.get("role") == "assistant" for message in session.messages)
    ]
    others = [line.number for line in file.lines if not _has_messages(line.value)]
    notes = [Unread(f"line {number}: an object without messages") for number in others]
    if len(answered) < len(sessions):
        notes.append(Unread(f"{len(sessions) - len(answered)} sessions in which no model answers"))
    for session in answered:
        yield replace(session, skipped=(*notes, *session.skipped))
        notes = []


def _session(file: SessionFile, line: Line) -> RecordedSession:
    value = line.value
    listed = [fields(message) for message in items(value.get("messages"))]
    system = value.get("system")
    reader = _find_format(listed, system)

    messages: list[Fields] = []
    skipped: list[str] = []
    for index, message in enumerate(listed):
        try:
            reader.read(message)
        except FormatError as wrong:
            skipped.append(Unread(f"line {line.number}, message {index}: {wrong}"))
        else:
            messages.append(message)
            if not is_whole(message.get("content")) or not is_whole(message.get("tool_calls")):
                skipped.append(Unread(f"line {line.number}, message {index}: {NO_KIND}"))

    kept_all = len(messages) == len(listed)
    return RecordedSession(
        id=text(value.get("id")) or _name(file, line),
        format_name=_NAMES[reader.name],
        format=reader,
        messages=tuple(messages),
        system="\n\n".join(text(block.get("text")) for block in blocks(system)) or None,
        tools=tuple(fields(tool) for tool in items(value.get("tools"))),
        model=text(value.get("model")) or None,
        # These name messages by their index, which is wrong once a message is left out.
        calls=tuple(_calls(value, len(messages))) if kept_all else (),
        compactions=tuple(_compactions(value)) if kept_all else (),
        probes=tuple(_probes(value)) if kept_all else (),
        skipped=tuple(skipped),
    )


def _find_format(messages: Sequence[Fields], system: object) -> MessageFormat[Fields]:
    found = format_of(messages)
    if isinstance(found, BedrockConverseFormat):
        return found
    return AnthropicFormat() if _is_anthropic(messages, system) else OpenAIChatFormat()


def _is_anthropic(messages: Sequence[Fields], system: object) -> bool:
    """Whether the system prompt is separate from the messages, or a block is of a kind that only Anthropic has."""
    if any(
        message.get("role") in ("system", "developer", "tool", "function") or "tool_calls" in message
        for message in messages
    ):
        return False

    if system:
        return True

    found = [block for message in messages for block in blocks(message.get("content"))]
    return any(
        block.get("type") in _ANTHROPIC_BLOCKS or fields(block.get("source")).get("type") in _ANTHROPIC_SOURCES
        for block in found
    )


def _calls(value: Fields, size: int) -> Iterator[RecordedCall]:
    for entry in map(fields, items(value.get("usage"))):
        index = entry.get("index")
        usage = usage_of(
            count(entry.get("prompt_tokens")),
            0 if value.get("harness") == _STREAM_START else count(entry.get("completion_tokens")),
            read=count(entry.get("cache_read_tokens")),
            written=count(entry.get("cache_write_tokens")),
        )
        if isinstance(index, int) and 0 <= index < size and usage is not None:
            yield RecordedCall(
                index=index,
                usage=usage,
                model=text(entry.get("model")) or text(value.get("model")) or None,
                context_start=count(entry.get("context_start")),
            )


def _compactions(value: Fields) -> Iterator[RecordedCompaction]:
    for entry in map(fields, items(value.get("compactions"))):
        index = entry.get("index")
        if isinstance(index, int):
            yield RecordedCompaction(
                index=index,
                tokens_before=count(entry.get("pre_tokens")) or None,
                trigger=text(entry.get("trigger")),
            )


def _probes(value: Fields) -> Iterator[Probe]:
    for entry in map(fields, items(value.get("probes"))):
        listed = items(entry.get("answer")) or [entry.get("answer")]
        answers = tuple(str(answer) for answer in listed if isinstance(answer, str | int | float))
        if answers:
            yield Probe(
                kind=text(entry.get("kind")) or "probe",
                question=text(entry.get("question")),
                answers=answers,
                evidence=tuple(index for index in items(entry.get("evidence")) if isinstance(index, int)),
            )


def _has_messages(value: Fields) -> bool:
    return any("role" in fields(message) for message in items(value.get("messages")))


def _name(file: SessionFile, line: Line) -> str:
    stem = file.path.name.partition(".")[0]
    return stem if len(file.lines) == 1 else f"{stem}:{line.number}"
