"""Reads recorded sessions of several kinds. A new kind is a module with `recognises` and `read`, and a line in `_READERS`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from compaction_hooks.replay.errors import ReplayError
from compaction_hooks.replay.readers import claude_code, conversations, message_lines, pi
from compaction_hooks.replay.readers.lines import Line, SessionFile, load
from compaction_hooks.replay.recorded import RecordedSession


class _Reader(NamedTuple):
    """One kind of file. `recognises` gets at least one line."""

    recognises: Callable[[Sequence[Line]], bool]
    read: Callable[[SessionFile], Iterator[RecordedSession]]


_READERS: Final = (
    _Reader(conversations.recognises, conversations.read),
    _Reader(claude_code.recognises, claude_code.read),
    _Reader(pi.recognises, pi.read),
    _Reader(message_lines.recognises, message_lines.read),
)
"""Asked in this order; the first that recognises a file reads it."""

_READABLE: Final = "OpenAI or Anthropic messages, normalised JSON Lines, Claude Code and pi sessions can be replayed"


def read_sessions(path: str | os.PathLike[str]) -> Iterator[RecordedSession]:
    """Yield the sessions of one file, in its order; at least one, each with at least one answer of a model.

    What the whole file had to skip is noted in its first session.

    Raises:
        ReplayError: there is nothing to replay in the file; or, after all that can be read was yielded, a line that should
            hold a session of its own is broken. The text names file, line and fix.
    """
    file = load(Path(path))
    reader = next((each for each in _READERS if each.recognises(file.lines)), None)
    if reader is None:
        raise ReplayError(file.path, "not a session of a kind this command knows", _READABLE, line=file.lines[0].number)
    sessions = list(reader.read(file))
    if not sessions:
        raise ReplayError(file.path, "no model has answered in it", "give a session with at least one answer")
    first, *others = sessions
    yield replace(first, skipped=(*file.skipped, *first.skipped))
    yield from others
    if reader.read is conversations.read and file.broken is not None:
        # In a log the line lost is one message; here it is a whole session.
        number, problem = file.broken
        raise ReplayError(file.path, problem, "mend the line or remove it", line=number)
