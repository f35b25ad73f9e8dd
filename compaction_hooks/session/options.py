"""The options of one call: checked, and as a call, an order and a caller for the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, Final, TypedDict, TypeVar, cast

from compaction_hooks import arguments
from compaction_hooks.engine.call import Call, Order
from compaction_hooks.engine.engine import Engine
from compaction_hooks.engine.result import CompactionOutcome, CompactionResult
from compaction_hooks.events import EventHandler
from compaction_hooks.formats.answers import read_answer
from compaction_hooks.messages import Message
from compaction_hooks.native import find_server_compaction, issuer_of, lets_shorten
from compaction_hooks.runtime.drivers import CallContext
from compaction_hooks.runtime.effects import Flow
from compaction_hooks.runtime.guards import GuardedSignal, Signal, guard_reader
from compaction_hooks.settings import CompactionSettings
from compaction_hooks.summary.request import Summarizer
from compaction_hooks.tokens.budget import MANUAL_KEEP_RATIO
from compaction_hooks.view import CompactionReason


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
            A summary asked in place is asked with the options of the last call.
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


_KINDS: Final = {**arguments.KINDS, "on_event": arguments.HANDLER}

_OTHERS: Final = {
    **{field.name: f"CompactionSettings({field.name}=...)" for field in fields(CompactionSettings)},
    "store": "CompactionController(store=...)",
    "settings": "CompactionController(settings=...)",
    "keep_recent_tokens": "keep_recent_tokens of compact()",
    "focus": "focus of compact()",
    "signal": "signal",
    "answer": "answer of call()",
}
"""Arguments of some calls that are not options; an error suggests them for a misspelled name, and for their own in another call."""


R = TypeVar("R")
T = TypeVar("T")
"""The type of the messages in one list: the host's, a client's or a framework's."""


def check_call(
    engine: Engine[Any], messages: list[T], options: CallOptions, seconds_since_last_call: float | None = None
) -> Call[T]:
    """Check the messages and options of a call, and return it.

    Raises:
        ConfigurationError: the messages are no list, or an option is of the wrong kind.
        TypeError: the name of an option is unknown.
    """
    arguments.check_messages(messages)
    if options:
        arguments.check_names("the call", options, CallOptions.__optional_keys__, _OTHERS)
        arguments.check(_KINDS, options, options)

    with engine.conversation.lock:
        engine.conversation.detect_format(messages)

    settings = engine.shared.find_settings(options.get("model") or engine.shared.model)
    tokens, ratio = options.get("trigger_tokens"), options.get("trigger_ratio")
    if tokens is not None or ratio is not None:  # the call's own trigger
        settings = replace(settings, trigger=None, trigger_tokens=tokens, trigger_ratio=ratio, trigger_cap_tokens=None)

    return Call(
        messages=messages,
        settings=settings,
        shared=engine.shared,
        model=options.get("model"),
        context_window=options.get("context_window"),
        max_output_tokens=options.get("max_output_tokens"),
        system=options.get("system"),
        tools=options.get("tools"),
        request=options.get("request"),
        repair=options.get("repair"),
        server_compaction=find_server_compaction(options.get("request") or {}),
        may_be_shortened=lets_shorten(options.get("request") or {}),
        seconds_since_last_call=seconds_since_last_call,
        issuer=issuer_of(
            engine.services.summarizer or options.get("summarizer"), lambda: engine.conversation.format.provider
        ),
    )


def build_send(
    engine: Engine[Any],
    messages: list[T],
    options: CallOptions,
    send: object,
    answer: Callable[[R], Message | None] | None,
) -> Flow[object]:
    """Return the flow of a model call.

    Args:
        answer: Reads a response of `send`; None: `read_answer`.

    Raises:
        ConfigurationError: `send` or `answer` is no function.
    """
    arguments.check(arguments.KINDS, {"send": send, "answer": answer}, ["answer"])
    call = check_call(engine, messages, options, engine.begin_call())
    # `answer` reads the responses of `send`.
    reader = cast("Callable[[object], object]", answer or read_answer)
    return engine.send(call, guard_reader(reader, engine.conversation.id))


def build_order(
    keep_recent_tokens: int | None,
    focus: str | None,
    preview: CompactionResult[Any] | None = None,
    *,
    is_preview: bool = False,
) -> Order:
    """Return the order of a compaction by hand.

    Raises:
        ConfigurationError, TypeError: an argument is invalid.
    """
    given = {"keep_recent_tokens": keep_recent_tokens, "focus": focus, "preview": preview}
    arguments.check(
        {
            "keep_recent_tokens": arguments.whole("tokens", least=0),
            "focus": arguments.KINDS["focus"],
            "preview": arguments.instance_of(CompactionResult),
        },
        given,
        given,
    )

    previewed = preview.record if preview and preview.outcome is CompactionOutcome.PREVIEWED else None
    return Order(
        CompactionReason.MANUAL,
        keep_recent_tokens,
        keep_ratio=MANUAL_KEEP_RATIO,
        needs_summary=True,
        focus=focus,
        must_fit=True,
        is_preview=is_preview,
        previewed=previewed,
    )


def build_caller(
    signal: Signal | None, options: CallOptions, send: Callable[[Any], object] | None = None
) -> CallContext:
    """Return what the caller of this call gave: signal, summarizer and event handler, and the function that sends.

    Raises:
        TypeError: the signal is none.
    """
    arguments.check(arguments.KINDS, {"signal": signal}, ["signal"])
    return CallContext(
        signal=GuardedSignal(signal) if signal is not None else None,
        send=send,
        summarizer=options.get("summarizer"),
        on_event=options.get("on_event"),
    )
