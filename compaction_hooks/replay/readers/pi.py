"""Session files of pi (~/.pi/agent/sessions/*/*.jsonl).

Version 1 has no "version" and is a list. Later versions are a tree by `id` and `parentId`; the path to the last entry is the
conversation. Real files have lines with two objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from compaction_hooks import Usage
from compaction_hooks.replay.readers.builder import ConversationBuilder
from compaction_hooks.replay.readers.lines import Line, SessionFile
from compaction_hooks.replay.readers.values import (
    blocks,
    call,
    count,
    fields,
    is_content,
    is_whole,
    result,
    text,
    usage_of,
)
from compaction_hooks.replay.recorded import Fields, RecordedSession, Unread

FORMAT_NAME: Final = "pi session"

_FAILED: Final = ("error", "aborted")
"""Stop reasons of calls that broke off; their token counts are not used."""


def recognises(lines: Sequence[Line]) -> bool:
    """Whether the first line is pi's session header, or any line is a message in pi's wrapping."""
    first = lines[0].value
    return (first.get("type") == "session" and "cwd" in first) or any(_is_message(line.value) for line in lines)


def read(file: SessionFile) -> Iterator[RecordedSession]:
    """Yield the conversation on the path to the last entry."""
    entries, notes = _path(file.lines)
    builder = ConversationBuilder()
    sizes: list[int] = []
    for line in _of_no_kind(file.lines):
        builder.skipped.add_kind("", line.number)

    for line in entries:
        sizes.append(len(builder))
        if line.value.get("type") == "compaction":
            _add_compaction(builder, line.value, entries, sizes)
        elif not _add_entry(builder, line):
            for name in _names(line.value):
                builder.skipped.add_kind(name, line.number)

    if not builder.has_answer:
        return

    header = file.lines[0].value
    own_id = text(header.get("id")) if header.get("type") == "session" else ""
    yield builder.session(own_id or file.path.stem, FORMAT_NAME, notes=notes)


def _add_entry(builder: ConversationBuilder, line: Line) -> bool:
    """Add one entry to the builder; return False if there was nothing to add."""
    message: Fields = fields(line.value.get("message")) if _is_message(line.value) else {}
    role = message.get("role")
    if role == "toolResult":
        builder.add_result(_result(message), line=line.number)
        return True
    if role == "assistant":
        return _add_answer(builder, message)

    read_prompt = _PROMPTS.get(text(role if message else line.value.get("type")))
    content = read_prompt(message or line.value) if read_prompt else None
    if content:
        builder.add_prompt(content)
    return bool(content)


def _add_answer(builder: ConversationBuilder, message: Fields) -> bool:
    content = _blocks(message.get("content"))
    if not content:
        return False
    failed = message.get("stopReason") in _FAILED
    usage = None if failed else _usage(fields(message.get("usage")))
    builder.add_answer(content, usage=usage, model=text(message.get("model")) or None)
    return True


def _add_compaction(builder: ConversationBuilder, value: Fields, entries: Sequence[Line], sizes: Sequence[int]) -> None:
    """Add a compaction. Version 1 names the first kept entry by its index in the file, later versions by its id."""
    kept_id, kept_index = value.get("firstKeptEntryId"), value.get("firstKeptEntryIndex")
    place = next(
        (index for index, line in enumerate(entries) if kept_id and line.value.get("id") == kept_id), kept_index
    )
    if not isinstance(place, int) or isinstance(place, bool) or not 0 <= place < len(sizes):
        place = None

    builder.add_compaction(
        tokens_before=count(value.get("tokensBefore")) or None,
        summary=text(value.get("summary")),
        first_kept_index=None if place is None else sizes[place],
    )


def _path(lines: Sequence[Line]) -> tuple[list[Line], list[str]]:
    """Return the entries that lead to the last one, oldest first, and notes on the others."""
    tree = {index for index, line in enumerate(lines) if "parentId" in line.value}
    if not tree:
        return list(lines), []

    places = {text(lines[index].value.get("id")): index for index in sorted(tree)}
    # An entry without an id is no parent, or an entry without a parent would lead to it.
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
            notes.append(Unread(f"line {lines[place].number}: {damage}, the entry before it is taken"))
            above = place - 1 if place - 1 in tree else None
        place = above

    left = len(tree) - len(path)
    if left:
        notes.append(f"{left} entries on branches the user went back from")
    return [lines[place] for place in reversed(path)], notes


def _usage(usage: Fields) -> Usage | None:
    """Return the usage; pi does not count the cached part in the input. None if nothing was counted."""
    read, written = count(usage.get("cacheRead")), count(usage.get("cacheWrite"))
    whole = count(usage.get("input")) + read + written
    return usage_of(
        whole,
        count(usage.get("output")),
        read=read,
        written=written,
    )


def _result(message: Fields) -> Fields:
    return result(message.get("toolCallId"), _blocks(message.get("content")), is_error=message.get("isError") is True)


def _blocks(content: object) -> list[Fields]:
    return [_BLOCKS.get(text(block.get("type")), dict)(block) for block in blocks(content)]


def _thinking(block: Fields) -> Fields:
    signature = text(block.get("thinkingSignature"))
    if block.get("redacted") is True:
        return {"type": "redacted_thinking", "data": signature}
    return {"type": "thinking", "thinking": text(block.get("thinking")), "signature": signature}


def _call(block: Fields) -> Fields:
    return call(block.get("id"), block.get("name"), block.get("arguments"))


def _image(block: Fields) -> Fields:
    source = {"type": "base64", "media_type": block.get("mimeType"), "data": block.get("data")}
    return {"type": "image", "source": source}


_BLOCKS: Final[dict[str, Callable[[Fields], Fields]]] = {"thinking": _thinking, "toolCall": _call, "image": _image}


def _prompt_content(message: Fields) -> object:
    content = message.get("content")
    return content if isinstance(content, str) else _blocks(content)


def _command_output(message: Fields) -> object:
    """Return a shell command of the user with its output; None if it was excluded from the context."""
    if message.get("excludeFromContext") is True:
        return None
    return f"Ran `{text(message.get('command'))}`\n\n{text(message.get('output'))}"


def _branch_summary(value: Fields) -> object:
    summary = text(value.get("summary"))
    return f"Summary of a branch this conversation came back from:\n\n{summary}" if summary else None


_PROMPTS: Final[dict[str, Callable[[Fields], object]]] = {
    "user": _prompt_content,
    "custom": _prompt_content,
    "hookMessage": _prompt_content,
    "custom_message": _prompt_content,
    "bashExecution": _command_output,
    "branchSummary": _branch_summary,
    "branch_summary": _branch_summary,
}
"""By role or kind of entry: the content of the user message that pi sent for it; none if empty."""


def _is_message(value: Fields) -> bool:
    return value.get("type") == "message" and isinstance(value.get("message"), dict)


def _of_no_kind(lines: Sequence[Line]) -> Iterator[Line]:
    """Yield the lines that name no type, also outside the tree, and messages that are none or whose content is none."""
    for line in lines:
        kind, content = text(line.value.get("type")), fields(line.value.get("message")).get("content", "")
        is_bare = kind == "message" and not _is_message(line.value)
        if not kind or is_bare or not is_content(content) or not is_whole(content):
            yield line


def _names(value: Fields) -> Iterator[str]:
    """Yield the name of an unused entry in a note; the header has none."""
    if _is_message(value):
        role = text(fields(value.get("message")).get("role"))
        yield f"empty {role}" if role else ""
    elif value.get("type") != "session":
        yield text(value.get("type"))
