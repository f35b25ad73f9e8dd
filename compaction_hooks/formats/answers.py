"""What a provider's answer says of the call: its usage and how it ended, read from dicts and SDK objects alike.

Known are OpenAI chat completions and Responses, and Anthropic messages, whole or as the chunks of a stream; LiteLLM, vLLM and other
OpenAI-compatible services answer in the first shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

from compaction_hooks.foreign import read_attribute
from compaction_hooks.formats._reading import STOP_REASONS
from compaction_hooks.formats.usage import read_usage, usage_fields
from compaction_hooks.messages import Message, Usage

FILLED_RATIO: Final = 0.99
"""An answer with this part of the tokens asked for has reached its own limit; a call with this part of the window has filled
it (pi). Providers count the last tokens differently."""


def read_report(usage: object, function: str) -> Usage | None:
    """Return a provider's count, whether a host read it already, or has it as a dict or a client's object; None without one.

    Args:
        function: The public function that was given the report, for the text of the error.

    Raises:
        TypeError: it is anything else.
    """
    return usage if isinstance(usage, Usage) else read_usage(usage_fields(usage, function))


def read_answer(response: object) -> Message | None:
    """Return an assistant message without parts, with usage, model and stop reason; None when the response tells none of them."""
    # A chunk of a stream holds what there is to tell one level deeper: Anthropic's first one, the last one of Responses.
    whole = _field(response, "message") if _field(response, "type") == "message_start" else _field(response, "response")
    source = response if whole is None else whole
    usage = read_usage(_field(source, "usage"))
    ending = _ending(source)
    if usage is None and ending is None:
        return None
    model = _field(source, "model")
    return Message(
        role="assistant",
        parts=(),
        usage=usage,
        model=model if isinstance(model, str) else None,
        stop_reason=STOP_REASONS.get(ending or ""),
    )


def is_cut_by_window(answer: Message, *, requested: int | None, window: int | None) -> bool:
    """Whether the context window ended an answer, and not the answer's own limit.

    The provider's own word decides. An answer that stopped for its length was cut by the window if it is shorter than asked for;
    where that is not known, if it is empty, or if input and output fill the window.

    Args:
        requested: The most the call asked for, in tokens, reasoning included; None: not known.
        window: The model's context window in tokens, as far as it is known.
    """
    usage = answer.usage
    if answer.stop_reason != "length" or usage is None:
        return answer.stop_reason == "window"
    if requested is not None:
        return usage.output_tokens < requested * FILLED_RATIO
    if usage.output_tokens == 0 and not answer.parts:
        return True
    return window is not None and usage.input_tokens + usage.output_tokens >= window * FILLED_RATIO


def _ending(source: object) -> str | None:
    """The provider's own word for how the answer ended."""
    choices = _field(source, "choices")
    if isinstance(choices, Sequence) and not isinstance(choices, str) and choices:
        ending = _field(cast("Sequence[object]", choices)[0], "finish_reason")
    else:
        cut = _field(_field(source, "incomplete_details"), "reason")
        delta = _field(_field(source, "delta"), "stop_reason")
        ending = cut or delta or _field(source, "stop_reason") or _field(source, "status")
    return ending if isinstance(ending, str) else None


def _field(value: object, name: str) -> object:
    """A key of a mapping or an attribute of an object; None without it, and where reading it fails."""
    if isinstance(value, Mapping):
        return cast("Mapping[str, object]", value).get(name)
    return read_attribute(value, name)
