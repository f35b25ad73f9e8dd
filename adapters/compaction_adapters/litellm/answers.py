"""What a chat completion says, as litellm's object or as a dict: the text, how it ended, what was counted."""

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
    """Reads the answers of one call: usage, and the provider's own word for how they ended.

    litellm tells "stop" for words it does not know. As the `logger_fn` of the call this object is shown the raw responses.

    Args:
        logger_fn: The user's own, which is called too.
        names_model: Whether to take the model's name from the answer, which may be that of another model a router fell back to.
            Else providers answer with other names than they were asked by, and the count would be taken for another model's.
    """

    def __init__(self, logger_fn: object, *, names_model: bool) -> None:
        self._logger_fn = logger_fn
        self._names_model = names_model
        self._is_window = False

    def __call__(self, details: Mapping[str, object]) -> None:
        """Take in what litellm logs of a request or a response."""
        text = details.get("original_response")
        if details.get("log_event_type") == "post_api_call" and isinstance(text, str):
            self._is_window = _says_window(text)
        if callable(self._logger_fn):
            self._logger_fn(details)

    def read(self, response: object) -> Message | None:
        """Return an assistant message without parts; None when the response, or the chunk, tells neither usage nor end."""
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
    """Return what was counted for a call; None when the response does not say."""
    answer = read_answer(response)
    return answer.usage if answer is not None else None


def summary_of(response: object) -> Summary:
    """Return the summary a response is; a function that returns the text alone is understood too.

    Raises:
        FormatError: it is no chat completion.
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
