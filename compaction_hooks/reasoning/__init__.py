"""The reasoning in earlier answers: the rules of each family of models, and the refusals of providers."""

from compaction_hooks.messages import Opaque, Part, Thinking
from compaction_hooks.reasoning.families import FAMILIES, Family, Needed, Stale, binds_reasoning, find_family
from compaction_hooks.reasoning.refusals import REFUSALS, Refusal, is_reasoning_refusal

__all__ = [
    "FAMILIES",
    "REFUSALS",
    "Family",
    "Needed",
    "Refusal",
    "Stale",
    "binds_reasoning",
    "find_family",
    "is_reasoning",
    "is_reasoning_refusal",
]

_SEALED_KINDS = ("thinking", "redacted_thinking")


def is_reasoning(part: Part) -> bool:
    """Return whether a part is reasoning, blocks that the format does not know included."""
    if isinstance(part, Opaque):
        return part.kind in _SEALED_KINDS or part.kind.startswith("reasoning")
    return isinstance(part, Thinking)
