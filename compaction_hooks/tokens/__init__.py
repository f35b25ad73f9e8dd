"""Sizes in tokens: estimators, calibration, windows. Reading a provider's count is in `compaction_hooks.formats`."""

from compaction_hooks.formats.answers import context_tokens, is_usable, usage_from_anthropic, usage_from_openai
from compaction_hooks.tokens.estimator import (
    CharacterEstimator,
    TokenEstimator,
    estimate_messages_tokens,
    message_tokens,
)

__all__ = [
    "CharacterEstimator",
    "TokenEstimator",
    "context_tokens",
    "estimate_messages_tokens",
    "is_usable",
    "message_tokens",
    "usage_from_anthropic",
    "usage_from_openai",
]
