"""What a chat completion says, as litellm's object or as a dict: the text, how it ended, what was counted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, cast

from compaction_hooks import Message, Summary, Usage
from compaction_hooks.formats import read_answer

_WINDOW_WORDS: Final = ("model_context_window_exceeded", "model_length")
"""Raw responses without them are not parsed once more."""


def answer_of(response: object, *, names_model: bool = False) -> Message | None:
    """Return an assistant message without parts, with usage and stop reason; None when the response, or the chunk, tells neither.

    Args:
        names_model: Whether to take the model's name from the response. Providers answer with another name than they were asked
            by (a deployment of Azure's is called as its owner likes), and the count would be taken for another model's.
    """
    answer = read_answer(response)
    return answer if answer is None or names_model else replace(answer, model=None)


class Ending:
    """Notes the provider's own word for how an answer ended: litellm tells "stop" for words it does not know.

    Given as the `logger_fn` of a call, in which litellm shows the raw response.

    Args:
        logger_fn: The user's own, which is called too.
    """

    def __init__(self, logger_fn: object) -> None:
        self._logger_fn = logger_fn
        self._is_window = False

    def __call__(self, details: Mapping[str, object]) -> None:
        """Take in what litellm logs of a request or a response."""
        text = details.get("original_response")
        if details.get("log_event_type") == "post_api_call" and isinstance(text, str):
            self._is_window = _says_window(text)
        if callable(self._logger_fn):
            self._logger_fn(details)

    def mended(self, answer: Message) -> Message:
        """Return what was read of an answer, with the provider's word."""
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
    answer = answer_of(response)
    return answer.usage if answer is not None else None


def summary_of(response: object) -> Summary:
    """Return the summary a response is; a function that returns the text alone is understood too."""
    if isinstance(response, str):
        return Summary(text=response)
    choice = _choice(response)
    message, ending = _field(choice, "message"), _field(choice, "finish_reason")
    return Summary(
        text=_text(_field(message, "content")),
        usage=usage_of(response),
        finish_reason=ending if isinstance(ending, str) else None,
        tool_calls=tuple({"id": _field(call, "id")} for call in _list(_field(message, "tool_calls"))),
    )


def _choice(response: object) -> object:
    return next(iter(_list(_field(response, "choices"))), None)


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = [_field(block, "text") for block in _list(content)]
    return "".join([text for text in blocks if isinstance(text, str)])


def _field(value: object, name: str) -> object:
    return cast("Mapping[str, object]", value).get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _list(value: object) -> Sequence[object]:
    return cast("Sequence[object]", value) if isinstance(value, list | tuple) else ()
