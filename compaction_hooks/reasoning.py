"""Models that bind their reasoning to the messages before it, as data, and the refusals of such reasoning by providers."""

from __future__ import annotations

import re
from collections import deque
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from compaction_hooks.messages import Opaque, Part, Thinking

if TYPE_CHECKING:  # needed only when something is due
    from compaction_hooks.overflow.evidence import Evidence

BINDING_MODELS: Final = r"claude-(?:(?:fable|mythos)-5-[1-9]|(?:opus|sonnet|haiku)-5-[5-9]|[a-z]+-(?:[6-9]|\d\d))(?!\d)"
"""Models that refuse reasoning behind a changed beginning: Anthropic, "Preserved thinking", read 2026-11
(https://platform.claude.com/docs/en/build-with-claude/preserved-thinking). Later generations are announced to do the same."""

REFUSALS: Final = (
    "bound to a different conversation",
    "invalid signature in thinking block",
    "invalid data in redacted_thinking block",
    "thinking or redacted_thinking blocks in the latest assistant message cannot be modified",
)
"""Sentences of Anthropic's refusals that are cured by leaving the reasoning out; without their backticks: the same page and
https://platform.claude.com/docs/en/build-with-claude/thinking-troubleshooting, read 2026-11; Bedrock repeats them."""

_REFUSED: Final = 400
_FAMILY: Final = "claude-"
_VERSION_DOT: Final = r"(?<=\d)\.(?=\d)"
_SEALED_KINDS: Final = ("thinking", "redacted_thinking")
_ERRORS: Final = 32
"""The most errors of one chain to read, as for overflows."""


@lru_cache(maxsize=64)
def binds_reasoning(model: str | None) -> bool:
    """Return whether a model, under any provider's name for it, refuses reasoning that was made after other messages.

    >>> binds_reasoning("us.anthropic.claude-opus-5-5-20260401-v1:0"), binds_reasoning("openrouter/anthropic/claude-opus-5")
    (True, False)
    """
    _, family, version = (model or "").lower().rpartition(_FAMILY)
    return re.match(BINDING_MODELS, family + re.sub(_VERSION_DOT, "-", version)) is not None


def is_reasoning(part: Part) -> bool:
    """Return whether a part is reasoning, blocks that the format does not know included."""
    if isinstance(part, Opaque):
        return part.kind in _SEALED_KINDS or part.kind.startswith("reasoning")
    return isinstance(part, Thinking)


def is_reasoning_refusal(error: object) -> bool:
    """Return whether the provider's error refuses the reasoning in a request. Never raises.

    The same messages are accepted without their reasoning, and refused again with it.

    Args:
        error: An exception of any client, also wrapped or in a group, or its text.

    >>> is_reasoning_refusal("messages.1.content.0: The block is bound to a different conversation.")
    True
    """
    from compaction_hooks.overflow.evidence import read_evidence

    waiting, seen = deque([error]), set[int]()
    while waiting and len(seen) < _ERRORS:
        current = waiting.popleft()
        if id(current) in seen:
            continue
        seen.add(id(current))
        evidence = read_evidence(current)
        if _refuses(evidence):
            return True
        waiting.extend((*evidence.members, *evidence.wrapped))
    return False


def _refuses(evidence: Evidence) -> bool:
    if evidence.statuses and _REFUSED not in evidence.statuses:
        return False
    texts = (text.replace("`", "").lower() for text in evidence.texts)
    return any(refusal in text for text in texts for refusal in REFUSALS)
