"""The checked messages and options of one call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from compaction_hooks import arguments
from compaction_hooks.engine.call import Call, SharedState
from compaction_hooks.engine.engine import Engine
from compaction_hooks.native import find_server_compaction, issuer_of
from compaction_hooks.session.options import CallOptions, check_options
from compaction_hooks.settings import CompactionSettings

T = TypeVar("T")


def check_call(
    engine: Engine[Any], messages: list[T], options: CallOptions, seconds_since_last_call: float | None = None
) -> Call[T]:
    """Check the messages and options of a call, and return it.

    Raises:
        ConfigurationError, TypeError: the messages or the options are invalid.
    """
    arguments.check_messages(messages)
    if options:
        check_options(options)
    with engine.conversation.lock:
        engine.conversation.detect_format(messages)
    return Call(
        messages=messages,
        settings=find_settings(engine.shared, options),
        shared=engine.shared,
        model=options.get("model"),
        context_window=options.get("context_window"),
        max_output_tokens=options.get("max_output_tokens"),
        system=options.get("system"),
        tools=options.get("tools"),
        repair=options.get("repair"),
        server_compaction=find_server_compaction(options.get("request") or {}),
        seconds_since_last_call=seconds_since_last_call,
        issuer=issuer_of(
            engine.services.summarizer or options.get("summarizer"), lambda: engine.conversation.format.provider
        ),
    )


def find_settings(shared: SharedState, options: CallOptions) -> CompactionSettings:
    """Return the policy of a call: that of its model, with the call's own trigger if it has one."""
    settings = shared.find_settings(options.get("model") or shared.model)
    tokens = options.get("trigger_tokens")
    ratio = options.get("trigger_ratio")
    if tokens is None and ratio is None:
        return settings
    return replace(settings, trigger=None, trigger_tokens=tokens, trigger_ratio=ratio)
