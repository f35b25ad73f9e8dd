"""Requests that are made once more, in another form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar, cast

from compaction_hooks import parse_overflow
from compaction_hooks.validity import is_reasoning_refusal

R = TypeVar("R")


def is_curable(error: Exception, patterns: Sequence[str]) -> bool:
    """Return whether a request failed for its tokens, its bytes or its reasoning: the very same one would fail again.

    Whether another one could succeed is the controller's decision.

    Args:
        patterns: Texts of the user's that mark an overflow (`settings.overflow_patterns`).
    """
    info = parse_overflow(error, patterns=patterns)
    is_too_large = info is not None and (info.kind == "context_overflow" or info.is_bytes)
    return is_too_large or is_reasoning_refusal(error)


class FirstAttempt(Generic[R]):
    """The outcome of a request that the framework has made already, as the first attempt of `session.call`.

    Args:
        response: What it gave.
        error: What it raised instead.
    """

    def __init__(self, response: R | None = None, error: Exception | None = None) -> None:
        self._response = response
        self._error = error

    def outcome(self) -> R:
        """Return what the request gave, or raise what it raised."""
        if self._error is not None:
            raise self._error
        return cast("R", self._response)
