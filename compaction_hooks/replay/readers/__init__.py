"""Readers of recorded sessions of several kinds.

A new kind is a module with `read` and with `recognises` (for all lines) or `holds` (for one), and a line in `_READERS`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from compaction_hooks.replay.errors import NothingToReplayError, ReplayError
from compaction_hooks.replay.readers import (
    claude_code,
    codex,
    conversations,
    copilot,
    gemini,
    langchain,
    message_lines,
    mini_swe_agent,
    opencode,
    openhands,
    pi,
    pydantic_ai,
    qwen_code,
)
from compaction_hooks.replay.readers.folders import load_folder
from compaction_hooks.replay.readers.lines import Line, SessionFile, access_error, load
from compaction_hooks.replay.readers.notes import Skipped
from compaction_hooks.replay.recorded import Fields, RecordedSession, Unread


class _Reader(NamedTuple):
    """Reader of one kind of file. `recognises` gets at least one line.

    `holds` tells whether a line is a session or part of one; None if a line is never a session of its own.
    """

    name: str
    recognises: Callable[[Sequence[Line]], bool]
    read: Callable[[SessionFile], Iterator[RecordedSession]]
    holds: Callable[[Fields], bool] | None = None


def _of_objects(
    name: str, holds: Callable[[Fields], bool], read: Callable[[SessionFile], Iterator[RecordedSession]]
) -> _Reader:
    def recognises(lines: Sequence[Line]) -> bool:
        return any(holds(line.value) for line in lines)

    return _Reader(name, recognises, read, holds)


_READERS: Final = (
    _Reader("Codex", codex.recognises, codex.read),
    _Reader("Copilot CLI", copilot.recognises, copilot.read),
    _Reader("Gemini CLI", gemini.recognises, gemini.read),
    _Reader("Qwen Code", qwen_code.recognises, qwen_code.read),
    _of_objects("OpenCode", opencode.holds, opencode.read),
    _of_objects("OpenHands", openhands.holds, openhands.read),
    _of_objects("mini-swe-agent and SWE-agent", mini_swe_agent.holds, mini_swe_agent.read),
    _of_objects("LangChain", langchain.holds, langchain.read),
    _of_objects("pydantic-ai", pydantic_ai.holds, pydantic_ai.read),
    _Reader("OpenAI or Anthropic messages", conversations.recognises, conversations.read),
    _Reader("Claude Code", claude_code.recognises, claude_code.read),
    _Reader("pi", pi.recognises, pi.read),
    _Reader("message lines", message_lines.recognises, message_lines.read),
)
"""The first reader that recognizes a file reads it. Narrow rules come first, since wider ones would match the same files."""

_READABLE: Final = (
    f"give a session of one of these kinds: {', '.join(sorted((each.name for each in _READERS), key=str.lower))}"
)


def read_sessions(path: str | os.PathLike[str]) -> Iterator[RecordedSession]:
    """Yield the sessions of one file, in its order; at least one, each with at least one answer of a model.

    A folder is read if it is a session: the events of OpenHands, the storage of OpenCode, a session of Copilot CLI. Notes on the
    whole file are in its first session.

    Raises:
        ReplayError: there is nothing to replay in the file; or a line that should be a session of its own is broken, raised
            after all other sessions were yielded. The text names file, line and fix.
    """
    given = Path(path)
    try:
        files = load_folder(given) if given.is_dir() else []
    except OSError as problem:
        raise access_error(given, problem) from None
    if len(files) > 1:
        yield from _folder_sessions(files, given)
    else:
        yield from _sessions(files[0] if files else load(given))


def _folder_sessions(files: Sequence[SessionFile], folder: Path) -> Iterator[RecordedSession]:
    """Yield the sessions of a folder's files; some files may be empty."""
    sessions: list[RecordedSession] = []
    empty = 0
    for file in files:
        try:
            sessions += _sessions(file)
        except ReplayError:
            empty += 1

    if not sessions:
        raise NothingToReplayError(
            folder, "no model has answered in any of its sessions", "give one with at least one answer"
        )

    first, *others = sessions
    notes = [Unread(f"{empty} sessions that cannot be read or in which no model answers")] if empty else []
    yield replace(first, skipped=(*notes, *first.skipped))
    yield from others


def _sessions(file: SessionFile) -> Iterator[RecordedSession]:
    reader = next((each for each in _READERS if each.recognises(file.lines)), None)
    if reader is None:
        raise NothingToReplayError(
            file.path, "not a session of a kind this command knows", _READABLE, line=file.lines[0].number
        )

    sessions = list(reader.read(file))
    if not sessions:
        raise NothingToReplayError(
            file.path, f"no model has answered in it ({reader.name})", "give a session with at least one answer"
        )

    first, *others = sessions
    yield replace(first, skipped=(*file.skipped, *_note_on_other_lines(reader, file), *first.skipped))
    yield from others

    if file.broken is not None and (reader.read is conversations.read or (others and reader.holds)):
        # In a log a broken line is one lost message; here it is a whole session.
        number, problem = file.broken
        raise ReplayError(file.path, problem, "mend the line or remove it", line=number)


def _note_on_other_lines(reader: _Reader, file: SessionFile) -> tuple[str, ...]:
    """Return a note on lines that are not part of a session."""
    skipped = Skipped()
    for line in file.lines:
        if reader.holds is not None and not reader.holds(line.value):
            skipped.add(Unread("holds no messages"), line.number)
    return skipped.notes()
