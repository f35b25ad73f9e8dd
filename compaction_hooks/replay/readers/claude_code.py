"""Session files of Claude Code (~/.claude/projects/*/*.jsonl).

Differences from a list of messages:

- an answer is logged block by block, each on a line of its own with the same `message.id`, with results in between;
- `parentUuid` makes a tree: results have several parents, and going back leaves an abandoned branch;
- sub-agents (`isSidechain`), hooks, snapshots and reminders are logged among the messages;
- a compaction is a `compact_boundary` line and a user message with `isCompactSummary`, after which the context starts anew;
- `/clear` starts a new conversation in the same file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from compaction_hooks import Usage
from compaction_hooks.replay.readers.builder import ConversationBuilder
from compaction_hooks.replay.readers.lines import Line, SessionFile
from compaction_hooks.replay.readers.notes import Skipped, at
from compaction_hooks.replay.readers.values import blocks, count, fields, is_content, is_whole, text, usage_of
from compaction_hooks.replay.recorded import Fields, RecordedSession, Unread

FORMAT_NAME: Final = "Claude Code session"

_SPEAKERS: Final = ("user", "assistant")
_CLEAR: Final = "<command-name>/clear</command-name>"
_SYNTHETIC: Final = "<synthetic>"
"""The model name of answers written by Claude Code itself, such as a provider's error."""


def recognises(lines: Sequence[Line]) -> bool:
    """Whether any line is a message with Claude Code's ids."""
    return any(_is_message(line.value) and ("uuid" in line.value or "sessionId" in line.value) for line in lines)


def read(file: SessionFile) -> Iterator[RecordedSession]:
    """Yield the conversations of a file, oldest first; more than one if the user cleared the context."""
    lines, notes = _main_chain(file.lines)
    session_id = next(
        (text(line.value.get("sessionId")) for line in lines if line.value.get("sessionId")), file.path.stem
    )

    answered = 0
    for conversation in _split_at_clears(lines):
        builder = ConversationBuilder()
        notes.extend(note for line in conversation for note in _add(builder, line))
        if builder.has_answer:
            answered += 1
            name = session_id if answered == 1 else f"{session_id}#{answered}"
            yield builder.session(name, FORMAT_NAME, notes=notes)
            notes = []


def _split_at_clears(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """Yield the lines of each conversation; a new one starts when the user clears the context."""
    current: list[Line] = []
    for line in lines:
        if _is_clear(line.value):
            yield current
            current = []
        else:
            current.append(line)
    yield current


def _add(builder: ConversationBuilder, line: Line) -> Iterator[str]:
    """Add one line to the builder; yield a note if something was skipped."""
    value = line.value
    if _is_boundary(value):
        metadata = fields(value.get("compactMetadata"))
        builder.add_compaction(
            tokens_before=count(metadata.get("preTokens")) or None, trigger=text(metadata.get("trigger"))
        )
    elif value.get("type") == "attachment":
        builder.add_prompt(fields(value.get("attachment")).get("prompt"))
    elif value.get("type") == "assistant":
        yield from _add_answer(builder, line)
    else:
        yield from _add_user(builder, line)


def _add_answer(builder: ConversationBuilder, line: Line) -> Iterator[str]:
    message = fields(line.value.get("message"))
    content = blocks(message.get("content"))
    yield from _note_on_content(line)
    if not content:
        yield f"line {line.number}: an answer without content"
    else:
        builder.add_answer(
            content,
            key=text(message.get("id")),
            usage=_usage(fields(message.get("usage"))),
            model=text(message.get("model")) or None,
        )


def _add_user(builder: ConversationBuilder, line: Line) -> Iterator[str]:
    content = fields(line.value.get("message")).get("content")
    if line.value.get("isCompactSummary") is True:
        builder.set_summary("".join(text(block.get("text")) for block in blocks(content)))
        return

    prompt: list[Fields] = []
    for block in blocks(content):
        if block.get("type") == "tool_result":
            builder.add_result(block, line=line.number)
        else:
            prompt.append(block)

    if prompt:
        builder.add_prompt(content if isinstance(content, str) else prompt, is_meta=line.value.get("isMeta") is True)
    yield from _note_on_content(line)


def _note_on_content(line: Line) -> Iterator[str]:
    content = fields(line.value.get("message")).get("content")
    if not is_content(content) or not is_whole(content):
        yield Unread(f"line {line.number}: content that is neither text nor blocks")


def _usage(usage: Fields) -> Usage | None:
    """Return the usage; None if nothing was counted. The output count is from the start of the stream, so it is left out."""
    read, written = count(usage.get("cache_read_input_tokens")), count(usage.get("cache_creation_input_tokens"))
    whole = count(usage.get("input_tokens")) + read + written
    return usage_of(whole, 0, read=read, written=written)


def _main_chain(lines: Sequence[Line]) -> tuple[list[Line], list[str]]:
    """Return the lines that belong to the conversation, in the order of the file, and notes on the others."""
    speaking = [line for line in lines if _belongs(line.value)]
    notes = _describe_skipped(lines)

    main = [line for line in speaking if line.value.get("isSidechain") is not True]
    if any(_is_message(line.value) for line in main) and len(main) < len(speaking):
        notes.append(f"{len(speaking) - len(main)} lines of sub-agents")
        speaking = main

    abandoned = _find_abandoned(lines, speaking)
    if abandoned:
        first = min(line.number for line in abandoned.values())
        notes.append(f"{len(abandoned)} lines on branches the user went back from, the first in line {first}")

    kept = [line for line in speaking if id(line) not in abandoned]
    return _without_repeats(kept), notes


def _describe_skipped(lines: Sequence[Line]) -> list[str]:
    """Return notes on the lines that say nothing: damaged ones, then the kinds of the others."""
    notes = [at(f"line {line.number}", problem) for line in lines if (problem := _problem(line.value))]

    skipped = Skipped()
    for line in lines:
        if not _belongs(line.value) and not _problem(line.value):
            skipped.add_kind(text(line.value.get("type")), line.number)
    return [*notes, *skipped.notes()]


def _without_repeats(lines: Sequence[Line]) -> list[Line]:
    """Return each line once: a resumed session repeats its first lines."""
    seen: dict[str, Fields] = {}
    once: list[Line] = []
    for line in lines:
        uuid = text(line.value.get("uuid"))
        if not uuid or seen.get(uuid) != line.value:
            once.append(line)
        seen[uuid] = line.value
    return once


def _find_abandoned(lines: Sequence[Line], speaking: Sequence[Line]) -> dict[int, Line]:
    """Return the lines on abandoned branches: of several prompts or answers after one message, only the last counts.

    Lines are identified by `id()`, here and below: two objects may share one line number.
    """
    parents = _speaking_parents(lines, speaking)
    children: dict[str, list[Line]] = {}
    for line in speaking:
        children.setdefault(parents.get(id(line), ""), []).append(line)
    by_uuid = {text(line.value.get("uuid")): line for line in speaking}

    left: dict[int, Line] = {}
    for parent, branch in children.items():
        starts = [line for line in branch if parent and _starts_a_branch(line.value, by_uuid[parent].value)]
        answers = {_branch_key(line) for line in starts}
        for line in starts:
            if len(answers) > 1 and _branch_key(line) != _branch_key(starts[-1]):
                _collect(line, children, left)

    return left


def _collect(line: Line, children: dict[str, list[Line]], into: dict[int, Line]) -> None:
    waiting = [line]
    while waiting:
        each = waiting.pop()
        if id(each) not in into:
            into[id(each)] = each
            waiting.extend(children.get(text(each.value.get("uuid")), ()))


def _starts_a_branch(value: Fields, parent: Fields) -> bool:
    """Whether only one line of this kind can follow `parent`: a prompt, or the first line of another answer."""
    message = fields(value.get("message"))
    if value.get("type") == "assistant":
        return message.get("id") != fields(parent.get("message")).get("id")
    if value.get("type") != "user" or value.get("isMeta") is True:
        return False
    return not any(block.get("type") == "tool_result" for block in blocks(message.get("content")))


def _branch_key(line: Line) -> str:
    """Return the same key for all lines of an answer: they are one branch."""
    return text(fields(line.value.get("message")).get("id")) or str(id(line))


def _speaking_parents(lines: Sequence[Line], speaking: Sequence[Line]) -> dict[int, str]:
    """Return, for each line of the conversation, the uuid of its nearest ancestor in the conversation."""
    above = {text(line.value.get("uuid")): _parent(line.value) for line in lines}
    speaking_ids = {text(line.value.get("uuid")) for line in speaking}

    found: dict[int, str] = {}
    for line in speaking:
        uuid = _parent(line.value)
        passed: set[str] = {text(line.value.get("uuid"))}
        while uuid and uuid not in speaking_ids and uuid not in passed:
            passed.add(uuid)
            uuid = above.get(uuid, "")
        if uuid in speaking_ids and uuid not in passed:
            found[id(line)] = uuid

    return found


def _parent(value: Fields) -> str:
    """Return the parent; a compaction cuts the tree and names the parent in a field of its own."""
    return text(value.get("parentUuid")) or text(value.get("logicalParentUuid"))


def _is_message(value: Fields) -> bool:
    return value.get("type") in _SPEAKERS and not _problem(value)


def _problem(value: Fields) -> str:
    """Return the reason why a message cannot be used; empty if it can."""
    if value.get("type") not in _SPEAKERS:
        return ""
    if not isinstance(value.get("message"), dict):
        return Unread("its message is no object")
    if value.get("isApiErrorMessage") is True or fields(value.get("message")).get("model") == _SYNTHETIC:
        return "an answer that no model gave"
    return ""


def _is_boundary(value: Fields) -> bool:
    return value.get("type") == "system" and value.get("subtype") == "compact_boundary"


def _is_queued_prompt(value: Fields) -> bool:
    """Whether this is a prompt that the user typed while the agent worked."""
    attachment = fields(value.get("attachment"))
    return (
        value.get("type") == "attachment"
        and attachment.get("type") == "queued_command"
        and bool(attachment.get("prompt"))
    )


def _belongs(value: Fields) -> bool:
    return _is_message(value) or _is_boundary(value) or _is_queued_prompt(value)


def _is_clear(value: Fields) -> bool:
    content = fields(value.get("message")).get("content")
    return value.get("type") == "user" and any(_CLEAR in text(block.get("text")) for block in blocks(content))
