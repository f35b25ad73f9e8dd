"""What a chat completion says, as litellm's object or as a dict: the text, how it ended, what was counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from compaction_adapters.litellm.conversations import FORMAT
from compaction_hooks import Message, Summary, Usage


def answer_of(response: object) -> Message | None:
    """Return an assistant message without parts, with usage and stop reason; None when the response, or the chunk, tells neither.

    It names no model: providers answer with another name than they were asked by (a deployment of Azure's is called as its owner
    likes), and what was counted would be taken for another model's.
    """
    ending, usage = _field(_choice(response), "finish_reason"), _field(response, "usage")
    if ending is None and usage is None:
        return None
    return FORMAT.read({"role": "assistant", "finish_reason": ending, "usage": usage})[0]


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
