"""A recorded session, whatever file it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from compaction_hooks import MessageFormat, Usage

Fields: TypeAlias = Mapping[str, object]
"""One JSON object: a message, a content block, a line of a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """What the provider counted for one model call of the recording.

    Attributes:
        index: The assistant message the call produced.
        usage: `output_tokens` is 0 where the recording holds the value from the start of the stream (Claude Code).
        context_start: The first message that was in the request: 0 until the recorded agent itself compacted.
    """

    index: int
    usage: Usage
    model: str | None = None
    context_start: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCompaction:
    """Where the recorded agent itself compacted.

    Attributes:
        index: The first message after it.
        tokens_before: What the agent measured before it, in tokens; None when it is not recorded.
        trigger: The recording's own word, such as "auto" or "manual"; empty when there is none.
        summary: The agent's summary; empty when it is not recorded. It is not among the messages, except where the
            recording is a plain list of messages that holds it.
    """

    index: int
    tokens_before: int | None = None
    trigger: str = ""
    summary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A question about the session, to be answered from the context alone.

    Attributes:
        answers: The texts that must be found; all of them.
        evidence: Indexes of the messages that hold them.
    """

    kind: str
    question: str
    answers: tuple[str, ...]
    evidence: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSession:
    """One conversation as it can be replayed call by call.

    Attributes:
        id: The recording's own id, else the name of the file.
        format_name: What kind of file it came from, for people.
        format: How the messages are read.
        messages: The whole conversation, oldest first, without anything an agent's own compaction took away or put in.
        system: A system prompt that stands beside the messages, not in them.
        tools: Tool schemas, as the provider is given them.
        model: The model that answered last, when known.
        calls: What the provider counted, oldest first; empty when it is not recorded.
        skipped: What was left out or mended while reading, one line each.
    """

    id: str
    format_name: str
    format: MessageFormat[Fields]
    messages: tuple[Fields, ...]
    system: str | None = None
    tools: tuple[Fields, ...] = ()
    model: str | None = None
    calls: tuple[RecordedCall, ...] = ()
    compactions: tuple[RecordedCompaction, ...] = ()
    probes: tuple[Probe, ...] = ()
    skipped: tuple[str, ...] = ()
