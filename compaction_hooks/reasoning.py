"""The reasoning in earlier answers: the rules of each family of models, and the refusals of providers."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

from compaction_hooks.messages import Message, Opaque, Part, Thinking
from compaction_hooks.overflow.evidence import Evidence, read_chain

Stale: TypeAlias = Literal["refused", "accepted", "withheld"]
"""The treatment of reasoning that was made after other messages: an error, no difference, or the provider leaves it out itself."""

Needed: TypeAlias = Literal["nowhere", "open turn", "tool calls", "first call", "item"]
"""The place in which reasoning must not be missing: nowhere; before the first tool call of the turn under way; in every message
with tool calls; as the signature of each step's first tool call in the turn under way; before the items that followed it, as
long as these have their ids."""


Earlier: TypeAlias = Literal["read", "ignored", "ignored without calls"]
"""The treatment of reasoning in earlier turns, after a compaction: the model reads it, or the provider leaves it out of the context
itself; or only that of messages without tool calls."""


class Family(NamedTuple):
    """Models with the same rules for the reasoning in earlier answers.

    Attributes:
        models: A pattern, searched for in the name of a model: lower case, "-" for the dots of versions.
        unit: The reasoning that is left out or kept as a whole.
        source: The address of the documentation or of the error message.
        takes_empty: Whether an empty text is accepted in the place of missing reasoning (https://github.com/vercel/ai/issues/13203).
    """

    name: str
    models: str
    stale: Stale
    needed: Needed
    unit: str
    source: str
    earlier: Earlier = "read"
    takes_empty: bool = False


_ANTHROPIC: Final = "https://platform.claude.com/docs/en/build-with-claude/"

FAMILIES: Final[tuple[Family, ...]] = (
    Family(
        # The last pattern is of later generations: these are announced to do the same.
        name="Claude Fable and Mythos 5.1 on, Opus, Sonnet and Haiku 5.5 on, and all from 6 on",
        models=r"claude-(?:(?:fable|mythos)-5-[1-9]|(?:opus|sonnet|haiku)-5-[5-9]|[a-z]+-(?:[6-9]|\d\d))(?!\d)",
        stale="refused",
        needed="nowhere",
        unit="all reasoning of a message",
        source=_ANTHROPIC + "preserved-thinking",
    ),
    Family(
        name="Claude Opus 4.5",
        models=r"claude-opus-4-5",
        stale="accepted",
        needed="open turn",
        unit="all reasoning of a message",
        source=_ANTHROPIC + "thinking",
    ),
    Family(
        name="Claude with manual thinking: 3.7 to 4.5",
        models=r"claude-(?:3-7|[a-z]+-4(?!-[678]))",
        stale="accepted",
        needed="open turn",
        unit="all reasoning of a message",
        source=_ANTHROPIC + "thinking",
        earlier="ignored",
    ),
    Family(
        name="Claude 4.6 to 5",
        models=r"claude-",
        stale="accepted",
        needed="nowhere",
        unit="all reasoning of a message",
        source=_ANTHROPIC + "thinking",
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
        earlier="ignored without calls",
        takes_empty=True,
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
        earlier="ignored",
    ),
)
"""The first match decides."""


@lru_cache(maxsize=64)
def find_family(model: str | None) -> Family | None:
    """Return the family of a model, under any provider's name for it; None if it is not known.

    >>> find_family("us.anthropic.claude-opus-5.5").stale, find_family("deepseek/deepseek-reasoner").needed
    ('refused', 'tool calls')
    """
    name = re.sub(r"(?<=\d)\.(?=\d)", "-", (model or "").lower())
    return next((family for family in FAMILIES if re.search(family.models, name)), None)


def find_earlier(model: str | None) -> Earlier:
    """Return the treatment of reasoning in earlier turns by a model, under any provider's name for it; "read" if it is not known.

    >>> find_earlier("gpt-5.6-sol"), find_earlier("claude-sonnet-4-5"), find_earlier("claude-opus-4-5")
    ('ignored', 'ignored', 'read')
    """
    family = find_family(model)
    return family.earlier if family is not None else "read"


def binds_reasoning(model: str | None) -> bool:
    """Return whether a model, under any provider's name for it, refuses reasoning that was made after other messages.

    >>> binds_reasoning("us.anthropic.claude-opus-5-5-20260401-v1:0"), binds_reasoning("openrouter/anthropic/claude-opus-5")
    (True, False)
    """
    family = find_family(model)
    return family is not None and family.stale == "refused"


class Refusal(NamedTuple):
    """A sentence of a provider's error. The same request without reasoning is accepted.

    Attributes:
        words: A pattern, searched for in the text of an error: lower case, without backticks and quotes.
        source: The address of the documentation, or of a report with the whole error.
        status: The HTTP status of the error.
    """

    words: str
    source: str
    status: int = 400


_GITHUB: Final = "https://github.com/"

REFUSALS: Final[tuple[Refusal, ...]] = (
    # Anthropic, and Bedrock's ValidationException with the same words.
    Refusal(r"bound to a different conversation", _ANTHROPIC + "preserved-thinking"),
    Refusal(r"invalid signature in thinking block", _ANTHROPIC + "preserved-thinking"),
    Refusal(r"invalid data in redacted_thinking block", _ANTHROPIC + "thinking-troubleshooting"),
    Refusal(
        r"thinking or redacted_thinking blocks in the latest assistant message cannot be modified",
        _GITHUB + "anthropics/claude-code/issues/63314",
    ),
    Refusal(r"each thinking block must contain thinking", _ANTHROPIC + "thinking-troubleshooting"),
    Refusal(r"thinking\.signature(?:\.str)?: ", _GITHUB + "agentscope-ai/agentscope/pull/1668"),
    # OpenAI Responses: another account or model, or items without their partners.
    Refusal(
        r"encrypted content (?!for item (?!rs_))(?:(?!encrypted content ).)*could not be verified",
        _GITHUB + "openai/codex/issues/8145",
    ),
    Refusal(r"without its required (?:following item|reasoning item)", _GITHUB + "continuedev/continue/issues/8933"),
    Refusal(r"item with id (?:rs|fc|msg)_\w* not found", _GITHUB + "vercel/ai/issues/7543", status=404),
    # Azure: the reasoning of a separate call for a summary.
    Refusal(r"conflicting authenticated continuation identities", _GITHUB + "anomalyco/opencode/issues/48942"),
    # Gemini, and Vertex AI: another model or route.
    Refusal(r"(?:invalid|corrupted) thought signature", _GITHUB + "google-gemini/gemini-cli/issues/13467"),
    Refusal(r"thought signature is not valid", _GITHUB + "decolua/9router/issues/301"),
)
"""Not here are errors that ask for more reasoning, not less: DeepSeek's "must be passed back", Kimi's "reasoning_content is
missing", Gemini's "missing a thought_signature", and the "Expected thinking, but found tool_use" of Anthropic's manual thinking."""


def is_reasoning_refusal(error: object) -> bool:
    """Return whether the provider's error refuses the reasoning in a request. Never raises.

    The same messages are accepted without their reasoning, and refused again with it.

    Args:
        error: An exception of any client, also wrapped or in a group, or its text.

    >>> is_reasoning_refusal("messages.1.content.0: The block is bound to a different conversation.")
    True
    """
    return any(map(_refuses, read_chain(error)))


def _refuses(evidence: Evidence) -> bool:
    texts = [re.sub("[`'\"]", "", text).lower() for text in evidence.texts]
    return any(
        re.search(refusal.words, text)
        for refusal in REFUSALS
        if not evidence.statuses or refusal.status in evidence.statuses
        for text in texts
    )


def is_reasoning(part: Part) -> bool:
    """Return whether a part is reasoning, blocks that the format does not know included."""
    if isinstance(part, Opaque):
        return part.kind in ("thinking", "redacted_thinking") or part.kind.startswith("reasoning")
    return isinstance(part, Thinking)


def has_reasoning(message: Message) -> bool:
    """Return whether a message has reasoning."""
    return any(map(is_reasoning, message.parts))
