"""What the host's functions are asked at a compaction, and what they answer: `carry`, `before_compact`.

1. A function is asked once for a compaction, also for the attempts that repeat it (`engine/host_answers.py`).
2. Its answer is checked where it is asked (`runtime/tellers.py`): here all is of the right type.
3. A further function is a field of `Tellers`; its question and its answer are types here. What a summary needs of the answer is in
   `Told`.
4. Texts that come back are behind the summary in its message, also in the record: without an answer they are read from there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from compaction_hooks.messages import Value
from compaction_hooks.text.escaping import neutralize, remove_noise
from compaction_hooks.text.shortening import shorten_to
from compaction_hooks.view import CompactionReason

__all__ = ["Advice", "AdviceFunction", "Carried", "CarryFunction", "CarryRequest", "CompactionPlan"]

FACTS_TOKENS = 500
"""The most tokens of all facts of the host in one summary, with their heading."""
FOCUS_TOKENS = 500
"""The most tokens of the host's focus: a larger one would take the summarizer's window."""
FACTS_HEADING = "## Told by the application"
"""The heading above them: the words are not the user's."""


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
        tokens_after: Its size behind the compaction, by estimate, with the largest summary allowed; without texts that `carry` and
            facts that `before_compact` add. A provider's own summary may be larger.
        compacted_messages: Messages of the host that the summary will cover, those of the summary before too; 0 without a summary.
        steps: What will be done: "clear results" (lines take the place of old tool results), "summarize" (a summary takes the place
            of older messages), "drop oldest" (an extract by rule does; no summarizer is asked), "shorten parts" (long texts lose
            their middle), "leave out media". Empty if nothing would change.
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
        veto: Why it shall not be made now; None or "": it may be. It holds until the user's next message: no call compacts
            at the threshold, and the function is not asked again. Above the input limit and after an overflow it does not count.
            Of a compaction by hand it is the outcome, and holds for no other one.
        focus: The subject that the summary should pay attention to, as `compact(focus=...)`, which goes before it; 500 tokens of it
            at most.
        facts: Facts that the summary shall have as the host's, a line for each, 500 tokens of them at most.
    """

    veto: str | None = None
    focus: str | None = None
    facts: Sequence[str] = ()


CarryFunction: TypeAlias = Callable[[CarryRequest], Iterable[Carried] | Awaitable[Iterable[Carried] | None] | None]
"""A function for `carry=`, sync or async."""
AdviceFunction: TypeAlias = Callable[[CompactionPlan], Advice | Awaitable[Advice | None] | None]
"""A function for `before_compact=`, sync or async."""


class Told(NamedTuple):
    """All that a summary has besides the conversation: texts and facts of the host, the model's note, the results kept by a rule.

    Attributes:
        carried: The texts that come back, by name.
        keeps_last: Whether texts of the last record stay under the names that `carried` has not: no function was asked, or one
            failed.
        sections: Sections at the end of the summary, whoever writes that: see `write_section`.
        kept_tools: The tools whose rule is "keep": their newest results come back too.
    """

    carried: tuple[Carried, ...] = ()
    keeps_last: bool = True
    sections: tuple[str, ...] = ()
    kept_tools: frozenset[str] = frozenset()


def write_facts(facts: Iterable[str], size: Callable[[str], int]) -> str:
    """Return the section of a summary with the facts of the host; empty without facts."""
    return write_section(FACTS_HEADING, facts, FACTS_TOKENS, size)


def write_section(heading: str, texts: Iterable[str], most_tokens: int, size: Callable[[str], int]) -> str:
    """Return a section with texts, each on one line, shortened in its middle; empty without texts.

    Later summaries read it as a part of the one before.

    Args:
        most_tokens: The most tokens of the section.
        size: Returns the tokens of a text.
    """

    def under_heading(lines: str) -> str:
        return neutralize("\n".join([heading, *(f"- {line}" for line in lines.splitlines() if line)]))

    lines = filter(None, (" ".join(remove_noise(text).split()) for text in texts))
    short = shorten_to("\n".join(lines), most_tokens, lambda text: size(under_heading(text)))
    return under_heading(short) if short else ""
