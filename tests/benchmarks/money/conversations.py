"""The recorded conversations to play, with their calls and the names used again long after their last mention."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.replay import Probe, RecordedSession, read_sessions
from tests.benchmarks.money.names import names, spoken_text, visible_text
from tests.benchmarks.money.wire import Chat, Reader

FORMAT = OpenAIChatFormat()
LONG_AGO_RATIO = 0.10
"""Share of the window: a name not mentioned within this many tokens before its use may be lost by compaction."""


@dataclass(frozen=True)
class Conversation:
    """A recording, with the data for every strategy.

    Attributes:
        messages: The whole conversation; a system prompt comes first.
        calls: Indexes of the answers; each is one call, and its request is all messages before it.
        sizes: Tokens of each message.
    """

    id: str
    messages: Sequence[Chat]
    calls: Sequence[int]
    sizes: Sequence[int]
    probes: Sequence[Probe]

    @cached_property
    def tokens(self) -> int:
        """The size of the whole conversation, in tokens."""
        return sum(self.sizes)

    @cached_property
    def names(self) -> Sequence[frozenset[str]]:
        """The names in each message."""
        return [frozenset(names(visible_text(FORMAT.read(message)))) for message in self.messages]

    @cached_property
    def spoken(self) -> Sequence[frozenset[str]]:
        """The names in the assistant's own text in each message."""
        return [frozenset(names(spoken_text(FORMAT.read(message)))) for message in self.messages]

    def find_reused(self, window: int) -> dict[int, frozenset[str]]:
        """Return, for each call past half the window, the names in its answer that were last mentioned long before."""
        mentioned: dict[str, int] = {}
        found: dict[int, frozenset[str]] = {}
        size, is_call = 0, set(self.calls)
        for index in range(len(self.messages)):
            if index in is_call and size > window / 2:
                horizon = size - window * LONG_AGO_RATIO
                found[index] = frozenset(name for name in self.spoken[index] if mentioned.get(name, size) < horizon)
            size += self.sizes[index]
            mentioned.update(dict.fromkeys(self.names[index], size))
        return found


def conversations(folder: Path, least_tokens: int) -> Iterator[Conversation]:
    """Yield the recorded conversations of a folder of more than `least_tokens`, in a stable order."""
    reader = Reader()
    for path in sorted(folder.glob("*.jsonl.gz")):
        for session in read_sessions(path):
            conversation = _conversation(session, reader)
            if conversation.tokens > least_tokens:
                yield conversation


def _conversation(session: RecordedSession, reader: Reader) -> Conversation:
    system: list[Chat] = [{"role": "system", "content": session.system}] if session.system else []
    messages = [*system, *session.messages]
    return Conversation(
        id=session.id,
        messages=messages,
        calls=[i for i, message in enumerate(messages) if i and message["role"] == "assistant"],
        sizes=[reader.tokens([message]) for message in messages],
        probes=session.probes,
    )
