"""A recorded session, independent of the kind of its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from compaction_hooks import MessageFormat, Usage
from compaction_hooks.replay.numbers import pluralize

Fields: TypeAlias = Mapping[str, object]
"""One JSON object: a message, a content block, a line of a file."""


class Unread(str):
    """A note on a part of a file that could not be read. Other notes tell of parts that were left out or repaired on purpose."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """The provider's token count of one model call of the recording.

    Attributes:
        index: Index of the assistant message that the call produced.
        usage: `output_tokens` is 0 if the recording only has the value from the start of the stream (Claude Code).
        context_start: Index of the first message in the request: 0 until the recorded agent itself compacted.
    """

    index: int
    usage: Usage
    model: str | None = None
    context_start: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCompaction:
    """A compaction by the recorded agent itself.

    Attributes:
        index: Index of the first message after it.
        tokens_before: Size of the context before it as recorded, in tokens; None if not recorded.
        trigger: The recording's own word, such as "auto" or "manual"; empty if not recorded.
        summary: The agent's summary; empty if not recorded. It is not among the messages, unless the recording is a plain
            list of messages that contains it.
    """

    index: int
    tokens_before: int | None = None
    trigger: str = ""
    summary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A question about the session, to be answered from the context alone.

    Attributes:
        answers: Texts that must all be found.
        evidence: Indexes of the messages that contain them.
    """

    kind: str
    question: str
    answers: tuple[str, ...]
    evidence: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSession:
    """One conversation that can be replayed call by call.

    Attributes:
        id: The recording's own id, else the name of the file.
        format_name: The kind of its file, for display.
        format: Reads the messages.
        messages: The whole conversation, oldest first, as if the agent had never compacted.
        system: A system prompt that is not among the messages.
        tools: Tool schemas, as sent to the provider.
        model: The model of the last answer; None if not recorded.
        window: The context window that the agent worked with, in tokens; None if not recorded.
        calls: The provider's token counts, oldest first; empty if not recorded. Counts that contradict one another are left out.
        skipped: Notes on parts that the reader left out or repaired, one line each.
    """

    id: str
    format_name: str
    format: MessageFormat[Fields]
    messages: tuple[Fields, ...]
    system: str | None = None
    tools: tuple[Fields, ...] = ()
    model: str | None = None
    window: int | None = None
    calls: tuple[RecordedCall, ...] = ()
    compactions: tuple[RecordedCompaction, ...] = ()
    probes: tuple[Probe, ...] = ()
    skipped: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        sane = tuple(call for call in self.calls if _is_sane(call.usage))
        if len(sane) < len(self.calls):
            counts = pluralize(len(self.calls) - len(sane), "token count")
            note = f"{counts} with more cached than input: left out"
            object.__setattr__(self, "calls", sane)
            object.__setattr__(self, "skipped", (*self.skipped, note))

    @property
    def unread(self) -> tuple[str, ...]:
        """The notes on parts of its file that could not be read: a cut, broken lines, messages and sessions of an unknown form."""
        return tuple(note for note in self.skipped if isinstance(note, Unread))


def _is_sane(usage: Usage) -> bool:
    """Return whether the parts of the input are no more than the whole: prices are asked for with these numbers."""
    cached = (usage.cache_read_tokens, usage.cache_write_tokens)
    return min(usage.output_tokens, *cached) >= 0 and usage.input_tokens >= max(sum(cached), 1)
