"""Session files of pi (~/.pi/agent/sessions/*/*.jsonl).

Version 1 has no "version" and is a list; later ones are a tree by `id` and `parentId`, of which the path to the last entry is the
conversation. Real files hold lines with two objects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from compaction_hooks import Usage
from compaction_hooks.formats import AnthropicFormat
from compaction_hooks.replay.readers.builder import ConversationBuilder
from compaction_hooks.replay.readers.lines import Line, SessionFile
from compaction_hooks.replay.readers.values import blocks, count, fields, text
from compaction_hooks.replay.recorded import Fields, RecordedSession

FORMAT_NAME: Final = "pi session"

_FAILED: Final = ("error", "aborted")
"""Stop reasons of calls that broke off: what they say they counted is never used."""


def recognises(lines: Sequence[Line]) -> bool:
    """Whether pi's session header comes first, or a message in pi's own wrapping comes at all."""
    first = lines[0].value
    return (first.get("type") == "session" and "cwd" in first) or any(_is_message(line.value) for line in lines)


def read(file: SessionFile) -> Iterator[RecordedSession]:
    """The conversation on the path to the last entry."""
    entries, notes = _path(file.lines)
    builder = ConversationBuilder()
    sizes: list[int] = []
    others: Counter[str] = Counter()
    for line in entries:
        sizes.append(len(builder))
        if line.value.get("type") == "compaction":
            _add_compaction(builder, line.value, entries, sizes)
        elif not _add_entry(builder, line):
            others.update(_name(line.value))
    if not builder.has_answer:
        return
    if others:
        notes.append("lines without messages: " + ", ".join(f"{kind} {times}" for kind, times in others.most_common()))
    conversation = builder.finish()
    header = file.lines[0].value
    yield RecordedSession(
        id=(text(header.get("id")) if header.get("type") == "session" else "") or file.path.stem,
        format_name=FORMAT_NAME,
        format=AnthropicFormat(),
        messages=conversation.messages,
        model=conversation.model,
        calls=conversation.calls,
        compactions=conversation.compactions,
        skipped=(*notes, *conversation.notes),
    )


def _add_entry(builder: ConversationBuilder, line: Line) -> bool:
    """Give one entry to the builder; whether it held anything for it."""
    if not _is_message(line.value):
        told = _TOLD.get(text(line.value.get("type")))
        content = told(line.value) if told else None
        if content:
            builder.prompt(content)
        return bool(content)
    message = fields(line.value.get("message"))
    role = message.get("role")
    if role == "toolResult":
        builder.result(_result(message), line=line.number)
        return True
    if role == "assistant":
        return _add_answer(builder, message)
    told = _TOLD.get(text(role))
    content = told(message) if told else None
    if content:
        builder.prompt(content)
    return bool(content)


def _add_answer(builder: ConversationBuilder, message: Fields) -> bool:
    content = _blocks(message.get("content"))
    if not content:
        return False
    failed = message.get("stopReason") in _FAILED
    usage = None if failed else _usage(fields(message.get("usage")))
    builder.answer(content, usage=usage, model=text(message.get("model")) or None)
    return True


def _add_compaction(builder: ConversationBuilder, value: Fields, entries: Sequence[Line], sizes: Sequence[int]) -> None:
    """Version 1 names the first entry that was kept by its index in the file, later versions by its id."""
    kept_id, kept_index = value.get("firstKeptEntryId"), value.get("firstKeptEntryIndex")
    place = next(
        (index for index, line in enumerate(entries) if kept_id and line.value.get("id") == kept_id), kept_index
    )
    builder.compaction(
        tokens_before=count(value.get("tokensBefore")) or None,
        summary=text(value.get("summary")),
        first_kept_index=sizes[place] if isinstance(place, int) and place < len(sizes) else None,
    )


def _path(lines: Sequence[Line]) -> tuple[list[Line], list[str]]:
    """The entries that lead to the last one, oldest first, and notes on the others."""
    tree = {index for index, line in enumerate(lines) if "parentId" in line.value}
    if not tree:
        return list(lines), []
    places = {text(lines[index].value.get("id")): index for index in sorted(tree)}
    # An entry that lost its id is nobody's parent: an entry without a parent would lead to it.
    places.pop("", None)
    notes: list[str] = []
    path: list[int] = []
    place: int | None = max(tree)
    while place is not None:
        path.append(place)
        value = lines[place].value
        parent = text(value.get("parentId"))
        above = places.get(parent)
        damage = "" if parent or text(value.get("id")) else "it has neither an id nor a parent"
        if parent and (above is None or above >= place):
            damage = "its parent is missing"
        if damage:
            notes.append(f"line {lines[place].number}: {damage}, the entry before it is taken")
            above = place - 1 if place - 1 in tree else None
        place = above
    left = len(tree) - len(path)
    if left:
        notes.append(f"{left} entries on branches the user went back from")
    return [lines[place] for place in reversed(path)], notes


def _usage(usage: Fields) -> Usage | None:
    """pi counts the cached part beside the input; None when nothing was counted."""
    read, written = count(usage.get("cacheRead")), count(usage.get("cacheWrite"))
    whole = count(usage.get("input")) + read + written
    if not whole:
        return None
    return Usage(
        input_tokens=whole,
        output_tokens=count(usage.get("output")),
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


def _result(message: Fields) -> Fields:
    result = {
        "type": "tool_result",
        "tool_use_id": text(message.get("toolCallId")),
        "content": _blocks(message.get("content")),
    }
    return {**result, "is_error": True} if message.get("isError") is True else result


def _blocks(content: object) -> list[Fields]:
    return [_BLOCKS.get(text(block.get("type")), dict)(block) for block in blocks(content)]


def _thinking(block: Fields) -> Fields:
    signature = text(block.get("thinkingSignature"))
    if block.get("redacted") is True:
        return {"type": "redacted_thinking", "data": signature}
    return {"type": "thinking", "thinking": text(block.get("thinking")), "signature": signature}


def _call(block: Fields) -> Fields:
    return {
        "type": "tool_use",
        "id": block.get("id"),
        "name": block.get("name"),
        "input": fields(block.get("arguments")),
    }


def _image(block: Fields) -> Fields:
    source = {"type": "base64", "media_type": block.get("mimeType"), "data": block.get("data")}
    return {"type": "image", "source": source}


_BLOCKS: Final[dict[str, Callable[[Fields], Fields]]] = {"thinking": _thinking, "toolCall": _call, "image": _image}


def _said(message: Fields) -> object:
    content = message.get("content")
    return content if isinstance(content, str) else _blocks(content)


def _command(message: Fields) -> object:
    """What the user ran in the shell, unless it was meant to stay out of the context."""
    if message.get("excludeFromContext") is True:
        return None
    return f"Ran `{text(message.get('command'))}`\n\n{text(message.get('output'))}"


def _branch_summary(value: Fields) -> object:
    summary = text(value.get("summary"))
    return f"Summary of a branch this conversation came back from:\n\n{summary}" if summary else None


_TOLD: Final[dict[str, Callable[[Fields], object]]] = {
    "user": _said,
    "custom": _said,
    "hookMessage": _said,
    "custom_message": _said,
    "bashExecution": _command,
    "branchSummary": _branch_summary,
    "branch_summary": _branch_summary,
}
"""By role or kind of entry: what the model was told as the user. None or nothing: it was told nothing."""


def _is_message(value: Fields) -> bool:
    return value.get("type") == "message" and isinstance(value.get("message"), dict)


def _name(value: Fields) -> Iterator[str]:
    """What an entry that gave nothing is called in a note; the header is not worth one."""
    if _is_message(value):
        yield f"empty {text(fields(value.get('message')).get('role')) or 'message'}"
    elif value.get("type") != "session":
        yield text(value.get("type")) or "unknown"
