"""Sizes in tokens: estimators, calibration, windows. Reading a provider's count is in `compaction_hooks.formats`."""

from compaction_hooks.formats.answers import context_tokens, is_usable, usage_from_anthropic, usage_from_openai
from compaction_hooks.tokens.estimator import (
    CharacterEstimator,
    TokenEstimator,
    estimate_messages_tokens,
    message_tokens,
)
from compaction_hooks.tokens.windows import ModelWindow, find_window, names_of

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
