"""What the host's functions are asked at a compaction, and what they answer: `carry`, `before_compact`.

1. A function is asked once for a compaction, also for the attempts that repeat it; its answers are one value, `Told`.
2. What it answers is checked where it is asked (`runtime/tellers.py`): here all is of the right type.
3. A further function is a field of `Tellers`, its question and its answer are types here, and what it told is a field of `Told`.
4. Texts that come back are behind the summary in its message, also in the record: without an answer they are read from there.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from compaction_hooks.messages import Value
from compaction_hooks.text.escaping import neutralize
from compaction_hooks.view import CompactionReason
from compaction_hooks.view.texts import HEAD_RATIO, SUMMARY_MARKER, shorten_text

__all__ = ["Advice", "AdviceFunction", "Carried", "CarryFunction", "CarryRequest", "CompactionPlan"]

CARRIED_RATIO: Final = 0.15
"""The most that all carried texts take of the target: with the summary, at most a quarter, more than half is left for messages."""
LEAST_CARRIED_CHARS: Final = 200
"""A text of which less would be left is left out: it has room for a heading and a last line."""
MOST_CHARS_PER_TOKEN: Final = 40
"""No text has more: of a longer one, only so much is looked at."""
_BLOCK: Final = re.compile(
    r"""(?:\n\n)?<carried (name="[^"\n]*"|call='[^\n]{0,99}?')(?: handle="([^"\n]*)")?>\n"""
    r"""((?:(?!\n</carried>|<carried ).)*+)\n</carried>""",
    re.DOTALL,
)
"""A text in its tags. No text has an opening tag that is not escaped: so each character is looked at once."""

logger = logging.getLogger("compaction_hooks")


@dataclass(frozen=True, eq=False, repr=False)
class Carried(Value):
    """A text of the host that comes back after each compaction.

    Attributes:
        name: Its name: a later text of the same name takes its place.
        text: The text.
        max_tokens: The most tokens that it may take, by estimate; a longer one is shortened in its middle. None: what all carried
            texts together may take.
    """

    name: str
    text: str
    max_tokens: int | None = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CarryRequest(Value):
    """The compaction that asks which texts come back.

    Attributes:
        session_id: The conversation.
        reason: The occasion.
        model: The model of the call, or None.
        messages: All messages of the call, in a tuple of their own: they are the host's own objects.
    """

    session_id: str
    reason: CompactionReason
    model: str | None
    messages: Sequence[Any]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CompactionPlan(Value):
    """A compaction that is about to be made, before anything is paid for.

    Attributes:
        reason: The occasion.
        tokens_before: Size of the view in tokens.
        tokens_after: Its size behind the compaction, by estimate, with the largest summary allowed.
        compacted_messages: Messages of the host that the summary will cover; 0 without a summary.
        steps: What will be done, in order: names of the strategies.
    """

    reason: CompactionReason
    tokens_before: int
    tokens_after: int
    compacted_messages: int
    steps: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Advice(Value):
    """What the host says to a compaction that is about to be made.

    Attributes:
        veto: Why it shall not be made now; None: it may.
        focus: The subject that the summary should pay attention to, as `compact(focus=...)`.
        facts: Facts that the summary shall have as the host's, 500 tokens of them at most.
    """

    veto: str | None = None
    focus: str | None = None
    facts: Sequence[str] = ()


CarryFunction: TypeAlias = Callable[[CarryRequest], Iterable[Carried] | Awaitable[Iterable[Carried] | None] | None]
"""A function for `carry=`, sync or async."""
AdviceFunction: TypeAlias = Callable[[CompactionPlan], Advice | Awaitable[Advice | None] | None]
"""A function for `before_compact=`, sync or async."""


class Told(NamedTuple):
    """The answers of the host for one compaction.

    Attributes:
        carried: The texts that come back, by name.
        keeps_last: Whether texts of the last record stay under the names that `carried` has not: no function was asked, or one
            failed.
        facts: Facts that the summary shall have.
        kept_tools: The tools whose rule is "keep": their newest results come back too.
    """

    carried: tuple[Carried, ...] = ()
    keeps_last: bool = True
    facts: tuple[str, ...] = ()
    kept_tools: frozenset[str] = frozenset()

    def render_carried(
        self, last: str, results: Iterable[Block], most_tokens: int, estimate: Callable[[str], int]
    ) -> str:
        """Return all that comes back, each text in its tags; "" for nothing.

        The host's texts have the room first, in the order of their names; then the results, the newest first. A text that does not
        fit is shortened in its middle, or left out if too little of it would be left.

        Args:
            last: The text of the summary's message before: its texts stay under the names that have no new text.
            results: The results that come back, oldest first; the last of several with one name.
            most_tokens: The room of all.
            estimate: Size of a text in tokens.
        """
        told = {block.head: block for block in map(_block_of, self.carried)}
        kept: dict[str, Block] = {}
        for block in (*_parse(last), *results):
            if block.is_result:
                kept.pop(block.head, None)  # the newer one takes its place among the newest
                kept[block.head] = block
            elif self.keeps_last:
                told.setdefault(block.head, block)

        shown: dict[str, str] = {}
        for block in (*told.values(), *reversed(kept.values())):
            if shown_text := block.fit(most_tokens, estimate):
                shown[block.head] = shown_text
                most_tokens -= estimate(shown_text)
            elif block.text.strip():
                logger.debug("there is no room to carry <%s>", block.head)
        return "\n\n".join(shown[head] for head in (*told, *kept) if head in shown)


class Block(NamedTuple):
    """A text that comes back, as it is in the message of a summary.

    Attributes:
        head: The name in its tag: the host's name of it, or the call whose result it is.
        handle: Names a result for the recall tool; "" without that tool.
        max_tokens: The most tokens that it may take; None: all that is left.
    """

    head: str
    text: str
    handle: str = ""
    max_tokens: int | None = None

    @property
    def is_result(self) -> bool:
        """Whether it is the result of a call."""
        return self.head.startswith("call=")

    def fit(self, room: int, estimate: Callable[[str], int]) -> str:
        """Return the text in its tags, shortened to a room in tokens; "" if too little of it would be left."""
        room = room if self.max_tokens is None else min(room, self.max_tokens)
        kept, handle = min(len(self.text), room * MOST_CHARS_PER_TOKEN), f' handle="{self.handle}"' * bool(self.handle)
        while self.text.strip() and room > 0:
            head_chars = int(kept * HEAD_RATIO)
            text = (
                self.text
                if kept == len(self.text)
                else shorten_text(self.text, head_chars, kept - head_chars, self.handle)
            )
            shown = f"<carried {self.head}{handle}>\n{neutralize(text)}\n</carried>"
            tokens = estimate(shown)
            if tokens <= room:
                return shown
            kept = min(kept - 1, int(kept * room / tokens))
            if kept < LEAST_CARRIED_CHARS:
                break
        return ""


def result_block(call: str, text: str, handle: str) -> Block:
    """Return the result of a call, in one line, that comes back."""
    return Block(f"call='{call}'", text, handle)


def _block_of(carried: Carried) -> Block:
    name = neutralize(" ".join(carried.name.split())).replace('"', "&quot;")
    return Block(f'name="{name}"', carried.text, max_tokens=carried.max_tokens)


def _parse(rendered: str) -> Iterator[Block]:
    """Yield the texts that come back in the message of a summary; they stay escaped."""
    for head, handle, text in _BLOCK.findall(rendered):
        yield Block(head, text, handle)


def find_carried(rendered: str) -> str:
    """Return the part of a summary's message with the texts that come back; "" without any."""
    return "\n\n".join(match[0].strip("\n") for match in _BLOCK.finditer(rendered))


def has_carried(text: str) -> bool:
    """Return whether a text is a message of ours with texts that come back: not one that only quotes their tags."""
    return "<carried " in text and text.startswith((SUMMARY_MARKER, "<carried "))


def without_carried(rendered: str) -> str:
    """Return the message of a summary without the texts that come back."""
    return _BLOCK.sub("", rendered)
