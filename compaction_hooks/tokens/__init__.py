"""Sizes in tokens: estimators, calibration, windows. Reading a provider's count is in `compaction_hooks.formats`."""

from typing import TYPE_CHECKING

from compaction_hooks.formats import answers
from compaction_hooks.tokens.estimator import (
    CharacterEstimator,
    TokenEstimator,
    estimate_messages_tokens,
    message_tokens,
)
from compaction_hooks.tokens.windows import ModelWindow, find_window, names_of

if TYPE_CHECKING:  # formats are slow to import, and no controller needs them before its first call
    from compaction_hooks.formats.answers import context_tokens, is_usable, usage_from_anthropic, usage_from_openai

__all__ = [
    "CharacterEstimator",
    "ModelWindow",
    "TokenEstimator",
    "context_tokens",
    "estimate_messages_tokens",
    "find_window",
    "is_usable",
    "message_tokens",
    "names_of",
    "usage_from_anthropic",
    "usage_from_openai",
]


def __getattr__(name: str) -> object:
    """Import a reader of usage when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    return getattr(answers, name)
