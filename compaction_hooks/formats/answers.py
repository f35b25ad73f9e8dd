"""Usage, stop reason and sealed summaries of a provider's answer, read from dicts and SDK objects alike.

Supported are OpenAI chat completions and Responses, Anthropic messages, Gemini contents and Bedrock Converse, whole or as the
chunks of a stream; LiteLLM, vLLM and other OpenAI-compatible services answer in the first shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

from compaction_hooks.foreign import read_attribute
from compaction_hooks.formats._reading import STOP_REASONS
from compaction_hooks.formats.usage import read_usage, usage_fields
from compaction_hooks.messages import Message, Usage

FILLED_RATIO: Final = 0.99
"""An answer with this part of the requested tokens has reached its own limit; a call with this part of the window has filled it.
Below 1, as in pi, because providers count the last tokens differently."""


def read_report(usage: object, function: str) -> Usage | None:
    """Return the usage in a report: a `Usage`, a provider's dict or a client's object; None for None.

    Args:
        function: The public function that received the report, for the text of the error.

    Raises:
        TypeError: the report is of another type.
    """
    return usage if isinstance(usage, Usage) else read_usage(usage_fields(usage, function))


def read_answer(response: object) -> Message | None:
    """Return an assistant message without parts, with usage, model and stop reason; None if the response has none of them."""
    # Chunks of a stream hold these fields one level deeper: Anthropic's first one, the last ones of Responses and Converse.
    starts = _field(response, "type") == "message_start"
    deeper = [_field(response, name) for name in (*(["message"] if starts else []), *_DEEPER)]
    source = next((chunk for chunk in deeper if chunk is not None), response)

    usage = next(filter(None, (read_usage(_field(source, name)) for name in _USAGES)), None)
    ending = _find_ending(source)
    if usage is None and ending is None:
        return None

    model = _field(source, "model") or _field(source, "model_version") or _field(source, "modelVersion")
    return Message(
        role="assistant",
        parts=(),
        usage=usage,
        model=model if isinstance(model, str) else None,
        stop_reason=STOP_REASONS.get((ending or "").lower()),
    )


_DEEPER: Final = ("response", "messageStop", "metadata")
_USAGES: Final = ("usage", "usage_metadata", "usageMetadata")


def sealed_items(response: object) -> list[object]:
    """Return the summaries in an answer that only the provider can read, as they came: items of OpenAI's or xAI's Responses."""
    output = _field(response, "output")
    items = cast("Sequence[object]", output) if isinstance(output, list | tuple) else ()
    return [item for item in items if _field(item, "type") == "compaction"]


def is_cut_by_window(answer: Message, *, requested: int | None, window: int | None) -> bool:
    """Return whether the context window ended an answer, and not the answer's own limit.

    The provider's stop reason decides if it names the window. An answer that stopped for its length was cut by the window if it
    is shorter than requested; if the requested length is not known: if it is empty, or if input and output fill the window.

    Args:
        requested: The most output tokens that the call requested, reasoning included; None: not known.
        window: The model's context window in tokens; None: not known.
    """
    usage = answer.usage
    if answer.stop_reason != "length" or usage is None:
        return answer.stop_reason == "window"
    if requested is not None:
        return usage.output_tokens < requested * FILLED_RATIO
    if usage.output_tokens == 0 and not answer.parts:
        return True
    return window is not None and usage.input_tokens + usage.output_tokens >= window * FILLED_RATIO


def _find_ending(source: object) -> str | None:
    choices = _field(source, "choices") or _field(source, "candidates")
    if isinstance(choices, Sequence) and not isinstance(choices, str) and choices:
        first = cast("Sequence[object]", choices)[0]
        ending = _field(first, "finish_reason") or _field(first, "finishReason")
    else:
        cut = _field(_field(source, "incomplete_details"), "reason")
        delta = _field(_field(source, "delta"), "stop_reason")
        ending = (
            cut or delta or _field(source, "stop_reason") or _field(source, "stopReason") or _field(source, "status")
        )
    return ending if isinstance(ending, str) else None


def _field(value: object, name: str) -> object:
    """Return the value of a mapping's key or an object's attribute; None without it, and if reading it fails."""
    if isinstance(value, Mapping):
        return cast("Mapping[str, object]", value).get(name)
    return read_attribute(value, name)
