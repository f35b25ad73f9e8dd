"""What a user of LangChain catches when a conversation cannot be made to fit."""

from __future__ import annotations

from langchain_core.exceptions import ContextOverflowError as LangChainContextOverflowError

from compaction_hooks import ContextOverflowError


class ModelContextOverflowError(ContextOverflowError, LangChainContextOverflowError):
    """The conversation cannot be made to fit: this package's error and LangChain's in one, with the provider's as its cause.

    As LangChain's it is not retryable: what cannot succeed is not repeated, and fallbacks go on to the next model.
    """

    @classmethod
    def of(cls, error: ContextOverflowError) -> ModelContextOverflowError:
        """Return the same error in both families."""
        return cls(str(error), tokens=error.tokens, window=error.window, part=error.part)
