"""Providers' refusals of the reasoning in a request, as data: each sentence with its source, read in November 2026."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:  # needed only when a call failed
    from compaction_hooks.overflow.evidence import Evidence


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
_ANTHROPIC: Final = "https://platform.claude.com/docs/en/build-with-claude/"

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
    from compaction_hooks.overflow.evidence import read_chain

    return any(map(_refuses, read_chain(error)))


def _refuses(evidence: Evidence) -> bool:
    texts = [re.sub("[`'\"]", "", text).lower() for text in evidence.texts]
    return any(
        re.search(refusal.words, text)
        for refusal in REFUSALS
        if not evidence.statuses or refusal.status in evidence.statuses
        for text in texts
    )
