"""Read a chat completion, as litellm's object or as a dict: its text, its finish reason, its usage."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from compaction_adapters import kit
from compaction_adapters.litellm.conversations import FORMAT
from compaction_hooks import Message, Summary, Usage
from compaction_hooks.formats import read_answer

_WINDOW_WORDS: Final = ("model_context_window_exceeded", "model_length")
"""Raw responses without them are not parsed once more."""


class AnswerReader:
    """Reads the answers of one call: usage, and the provider's own finish reason.

    litellm turns finish reasons that it does not know into "stop". As the `logger_fn` of the call this object gets raw responses.

    Args:
        logger_fn: The user's own, which is called too.
        names_model: Whether to take the model's name from the answer: a router may have fallen back to another model. For direct
            calls leave it out: providers answer with other names than the request's, and the usage would count for another model.
    """

    def __init__(self, logger_fn: object, *, names_model: bool) -> None:
        self._logger_fn = logger_fn
        self._names_model = names_model
        self._is_window = False

    def __call__(self, details: Mapping[str, object]) -> None:
        """Record litellm's log entry of a request or a response."""
        text = details.get("original_response")
        if details.get("log_event_type") == "post_api_call" and isinstance(text, str):
            self._is_window = _says_window(text)
        if callable(self._logger_fn):
            self._logger_fn(details)

    def read(self, response: object) -> Message | None:
        """Return an assistant message without parts; None if the response or chunk has neither usage nor finish reason."""
        answer = read_answer(response)
        if answer is None:
            return None
        answer = answer if self._names_model else replace(answer, model=None)
        return replace(answer, stop_reason="window") if self._is_window else answer


def _says_window(text: str) -> bool:
    if not any(word in text for word in _WINDOW_WORDS):
        return False
    try:
        answer = read_answer(json.loads(text))
    except ValueError:
        return False
    return answer is not None and answer.stop_reason == "window"


def usage_of(response: object) -> Usage | None:
    """Return the usage of a call; None if the response has none."""
    answer = read_answer(response)
    return answer.usage if answer is not None else None


def summary_of(response: object) -> Summary:
    """Return a response as a summary; a plain text is taken as the summary's.

    Raises:
        FormatError: the response is no chat completion.
    """
    if isinstance(response, str):
        return Summary(text=response)
    choice = cast("Sequence[object]", _field(response, "choices") or (None,))[0]
    answer = FORMAT.read(cast("Any", _field(choice, "message")))[0]
    return kit.summary_of(
        replace(answer, usage=usage_of(response)), cast("str | None", _field(choice, "finish_reason"))
    )


def _field(value: object, name: str) -> object:
    return cast("Mapping[str, object]", value).get(name) if isinstance(value, Mapping) else getattr(value, name, None)
