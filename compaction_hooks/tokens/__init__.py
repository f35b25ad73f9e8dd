"""Sizes in tokens: estimators, calibration, windows. Reading a provider's count is in `compaction_hooks.formats`."""

from typing import TYPE_CHECKING

from compaction_hooks.tokens.estimator import (
    CharacterEstimator,
    TokenEstimator,
    estimate_messages_tokens,
    message_tokens,
)

if TYPE_CHECKING:  # the formats are imported with the first call
    from compaction_hooks.formats.usage import context_tokens, is_usable, usage_from_anthropic, usage_from_openai

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


def __getattr__(name: str) -> object:
    """Import a public name of the formats when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from compaction_hooks.formats import usage

    return getattr(usage, name)
