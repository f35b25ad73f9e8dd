"""Hypothesis strategies for conversations, realistic and hostile, and for choices; and the number of examples."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hypothesis import settings
from hypothesis import strategies as st

from compaction_hooks.messages import Message
from compaction_hooks.testing.generated import MOST_BEATS, MOST_TURNS, hostile_history, realistic_history
from compaction_hooks.testing.hosts import as_openai_chat
from compaction_hooks.testing.texts import Choose
from tests.conftest import FULL_EXAMPLES

MOST_CHOICES: Final = 12
"""Number of choices drawn for one step; later choices are the simplest."""


@st.composite
def histories(draw: st.DrawFn, *, most_turns: int = MOST_TURNS) -> list[Message]:
    """Draw a realistic conversation as neutral messages: valid for every provider, with at least one user message."""
    return realistic_history(_choose(draw), most_turns=most_turns)


@st.composite
def hostile_histories(draw: st.DrawFn, *, most_beats: int = MOST_BEATS) -> list[Message]:
    """Draw a conversation that went wrong, as neutral messages: it may break any rule of any provider, and may be empty."""
    return hostile_history(_choose(draw), most_beats=most_beats)


def openai_chats(
    messages: st.SearchStrategy[list[Message]] | None = None,
) -> st.SearchStrategy[list[Mapping[str, object]]]:
    """Return a strategy for conversations as OpenAI chat messages; realistic and hostile ones by default."""
    chosen = st.one_of(histories(), hostile_histories()) if messages is None else messages
    return chosen.map(lambda neutral: [as_openai_chat(message) for message in neutral])


def choices() -> st.SearchStrategy[list[int]]:
    """Return a strategy for recipes of `chosen_by`, which are short to print and to shrink."""
    return st.lists(st.integers(0, 999), max_size=MOST_CHOICES)


def chosen_by(recipe: Sequence[int]) -> Choose:
    """Return a `Choose` that follows a recipe, and makes the simplest choice after its end."""
    numbers: Iterator[int] = iter(recipe)
    return lambda bound: next(numbers, 0) % bound


def _choose(draw: st.DrawFn) -> Choose:
    return lambda bound: draw(st.integers(0, bound - 1))


def examples(full: int) -> settings:
    """Return settings with `full` examples in the full suite, and the usual share of them in the fast suite."""
    return settings(max_examples=max(1, full * settings().max_examples // FULL_EXAMPLES))
