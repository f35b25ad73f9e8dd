"""Errors, by the caller's next action.

All have one root:

    CompactionError
    ├── ConfigurationError        (also ValueError) wrong arguments: correct the call
    ├── MissingExtraError         (also ModuleNotFoundError) an optional package is absent: install the extra
    ├── FormatError               (also ValueError) a message does not follow its format: correct the message or the format
    ├── RecordError               (also ValueError) a stored record is damaged or from a newer version
    ├── ContextOverflowError      the request cannot be made to fit: shorten the part that the error names
    └── SummaryRefusedError       a summarizer's answer is not usable (never leaves the controller; reported in events)
"""

from __future__ import annotations


class CompactionError(Exception):
    """The root of every error this package raises."""


class ConfigurationError(CompactionError, ValueError):
    """Arguments contradict one another or lie outside their bounds; the text names the field and the fix."""


class MissingExtraError(CompactionError, ModuleNotFoundError):
    """An optional package is not installed; the text holds the pip command."""

    def __init__(self, needed_by: str, package: str, extra: str) -> None:
        super().__init__(f"{needed_by} needs {package}: pip install 'compaction-hooks[{extra}]'")
        self.extra = extra


class FormatError(CompactionError, ValueError):
    """A message cannot be read by the format in use; the text names the field and the expected value."""


class RecordError(CompactionError, ValueError):
    """A stored compaction record cannot be read, or a store refuses a request; the text names the field, or the remedy."""


class SummaryRefusedError(CompactionError):
    """A summarizer's answer must not be used; `args[0]` is the reason."""


class ContextOverflowError(CompactionError):
    """The conversation cannot be made to fit the model's context window.

    Attributes:
        tokens: Estimated size of the smallest valid request, in tokens; None if unknown.
        window: The model's context window in tokens; None if unknown.
        part: The part that cannot shrink: "system prompt", "tools", "current request", "pins", "last step", or
            "hidden prefix" (tokens that the provider counts in addition to the list: a system prompt and tools that were not
            passed); or "strategies" if each part could fit, but the strategies of the settings shorten none.
    """

    def __init__(
        self, message: str, *, tokens: int | None = None, window: int | None = None, part: str | None = None
    ) -> None:
        super().__init__(message)
        self.tokens = tokens
        self.window = window
        self.part = part
