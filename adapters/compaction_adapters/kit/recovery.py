"""Requests that are made once more, in another form."""

from __future__ import annotations

from typing import Generic, TypeVar, cast

R = TypeVar("R")


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
