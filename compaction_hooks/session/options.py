"""The options of one call, in addition to the messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypedDict

from compaction_hooks import arguments

if TYPE_CHECKING:  # needed only when something is due
    from compaction_hooks.events import EventHandler
    from compaction_hooks.summary.request import Summarizer
else:
    EventHandler = Summarizer = Any  # for `typing.get_type_hints`


class CallOptions(TypedDict, total=False):
    """Keywords of `transform_context`, `call`, `compact`, `recover` and their sync twins.

    Attributes:
        model: The model of this call, for its window; None: the controller's.
        context_window: The window of that model in tokens, if the host knows it; the controller's own window takes precedence.
        max_output_tokens: The longest answer that this call asks for, in tokens; None: as in the settings.
        trigger_tokens: Compact this call above this many tokens. It and `trigger_ratio` replace both settings.
        trigger_ratio: Compact this call above this part of the window; the lower of the two limits counts.
        system: A system prompt that is not in the list but counts: text or JSON.
        tools: Tool schemas that count, as JSON.
        repair: Whether to repair a broken history in the view; None: as in the settings.
        request: The other options of the model call, by its client's or framework's names. If one of them makes the server compact
            (`context_management`, `previous_response_id`, `conversation`, `truncation="auto"`), only overflows are recovered from.
        summarizer: The summarizer of this call, if the controller has none; None: the extractive one, which needs no model.
        on_event: One more event handler, for this call.
    """

    model: str | None
    context_window: int | None
    max_output_tokens: int | None
    trigger_tokens: int | None
    trigger_ratio: float | None
    system: object
    tools: object
    repair: bool | None
    request: Mapping[str, object] | None
    summarizer: Summarizer | None
    on_event: EventHandler | None


OPTION_NAMES: Final = CallOptions.__optional_keys__

_KINDS: Final = {
    "model": arguments.MODEL_NAME.or_none(),
    "context_window": arguments.WINDOW.or_none(),
    "max_output_tokens": arguments.TOKENS.or_none(),
    "trigger_tokens": arguments.TOKENS.or_none(),
    "trigger_ratio": arguments.RATIO.or_none(),
    "repair": arguments.SWITCH.or_none(),
    "request": arguments.Kind(
        lambda value: isinstance(value, Mapping), "be a dict of the model call's options"
    ).or_none(),
    "summarizer": arguments.SUMMARIZER.or_none(),
    "on_event": arguments.HANDLER.or_none(),
}

_OTHERS: Final = {
    "keep_recent_tokens": "keep_recent_tokens of compact()",
    "focus": "focus of compact()",
    "signal": "signal",
    "answer": "answer of call()",
}
"""Arguments of some calls that are not options; an error suggests them for a misspelled name, and for their own in another call."""


def check_options(options: CallOptions) -> None:
    """Refuse unknown options, and values of the wrong kind.

    Raises:
        TypeError: a name is unknown.
        ConfigurationError: a value is of the wrong kind.
    """
    arguments.check_names("the call", options, OPTION_NAMES, _OTHERS)
    arguments.check(_KINDS, options)
