"""Families of models by their rules for the reasoning in earlier answers, as data: each with its source, read in November 2026."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

Stale: TypeAlias = Literal["refused", "accepted", "withheld"]
"""The treatment of reasoning that was made after other messages: an error, no difference, or the provider leaves it out itself."""

Needed: TypeAlias = Literal["nowhere", "open turn", "tool calls", "first call", "item"]
"""The place in which reasoning must not be missing: nowhere; before the first tool call of the turn under way; in every message
with tool calls; as the signature of each step's first tool call in the turn under way; before the items that followed it, as
long as these have their ids."""


class Family(NamedTuple):
    """Models with the same rules for the reasoning in earlier answers.

    Attributes:
        models: A pattern, searched for in the name of a model: lower case, "-" for the dots of versions.
        unit: The reasoning that is left out or kept as a whole.
        source: The address of the documentation or of the error message.
    """

    name: str
    models: str
    stale: Stale
    needed: Needed
    unit: str
    source: str


_PRESERVED_THINKING: Final = "https://platform.claude.com/docs/en/build-with-claude/preserved-thinking"
_THINKING: Final = "https://platform.claude.com/docs/en/build-with-claude/thinking"

FAMILIES: Final[tuple[Family, ...]] = (
    Family(
        # The last pattern is of later generations: these are announced to do the same.
        name="Claude Fable and Mythos 5.1 on, Opus, Sonnet and Haiku 5.5 on, and all from 6 on",
        models=r"claude-(?:(?:fable|mythos)-5-[1-9]|(?:opus|sonnet|haiku)-5-[5-9]|[a-z]+-(?:[6-9]|\d\d))(?!\d)",
        stale="refused",
        needed="nowhere",
        unit="all reasoning of a message",
        source=_PRESERVED_THINKING,
    ),
    Family(
        name="Claude with manual thinking: 3.7 to 4.5",
        models=r"claude-(?:3-7|[a-z]+-4(?!-[678]))",
        stale="accepted",
        needed="open turn",
        unit="all reasoning of a message",
        source=_THINKING,
    ),
    Family(
        name="Claude 4.6 to 5",
        models=r"claude-",
        stale="accepted",
        needed="nowhere",
        unit="all reasoning of a message",
        source=_THINKING,
    ),
    Family(
        name="Gemini 3 on",
        models=r"gemini-(?:[3-9]|\d\d)(?!\d)",
        stale="accepted",
        needed="first call",
        unit="the signature of a tool call",
        source="https://ai.google.dev/gemini-api/docs/thought-signatures",
    ),
    Family(
        name="Gemini to 2.5",
        models=r"gemini-",
        stale="accepted",
        needed="nowhere",
        unit="a thought part",
        source="https://ai.google.dev/gemini-api/docs/thought-signatures",
    ),
    Family(
        name="DeepSeek",
        models=r"deepseek",
        stale="accepted",
        needed="tool calls",
        unit="`reasoning_content` of a message",
        source="https://api-docs.deepseek.com/guides/thinking_mode",
    ),
    Family(
        name="Kimi",
        models=r"kimi",
        stale="accepted",
        needed="tool calls",
        unit="`reasoning_content` of a message",
        source="https://github.com/Kilo-Org/kilocode/pull/5544",
    ),
    Family(
        name="Grok",
        models=r"grok",
        stale="accepted",
        needed="nowhere",
        unit="a reasoning item",
        source="https://docs.x.ai/developers/advanced-api-usage/context-compaction",
    ),
    Family(
        name="OpenAI, by Responses",
        models=r"\b(?:gpt-|o\d|codex-)",
        stale="withheld",
        needed="item",
        unit="a reasoning item, with the ids of the items that follow it",
        source="https://github.com/continuedev/continue/issues/8933",
    ),
)
"""The first match decides."""

_VERSION_DOT: Final = r"(?<=\d)\.(?=\d)"


@lru_cache(maxsize=64)
def find_family(model: str | None) -> Family | None:
    """Return the family of a model, under any provider's name for it; None if it is not known.

    >>> find_family("us.anthropic.claude-opus-5.5").stale, find_family("deepseek/deepseek-reasoner").needed
    ('refused', 'tool calls')
    """
    name = re.sub(_VERSION_DOT, "-", (model or "").lower())
    return next((family for family in FAMILIES if re.search(family.models, name)), None)


def binds_reasoning(model: str | None) -> bool:
    """Return whether a model, under any provider's name for it, refuses reasoning that was made after other messages.

    >>> binds_reasoning("us.anthropic.claude-opus-5-5-20260401-v1:0"), binds_reasoning("openrouter/anthropic/claude-opus-5")
    (True, False)
    """
    family = find_family(model)
    return family is not None and family.stale == "refused"
