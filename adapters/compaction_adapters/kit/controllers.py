"""The arguments of every adapter's constructor: a controller, or the keywords of one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeAlias, TypedDict

from compaction_hooks import CompactionController, CompactionSettings, MessageFormat, Summarizer, TokenEstimator
from compaction_hooks.arguments import check_names
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.events import EventHandler
from compaction_hooks.stores import RecordStore
from compaction_hooks.telling import AdviceFunction, CarryFunction
from compaction_hooks.triggers import RatioTrigger

Settings: TypeAlias = CompactionSettings | Mapping[str, CompactionSettings]
"""The policy of a controller: one for all models, or one for each model."""


class CommonKeywords(TypedDict, total=False):
    """The keywords of `CompactionController`, for adapters whose own `model=` and `summarizer=` mean something else.

    `format` is set by the adapter. `summary_prompt` and `summary_instructions` are short for the settings of these names.
    """

    context_window: int | None
    settings: Settings | None
    store: RecordStore | None
    on_event: EventHandler | Sequence[EventHandler]
    estimator: TokenEstimator | None
    carry: CarryFunction | None
    before_compact: AdviceFunction | None
    summary_prompt: str | None
    summary_instructions: str | None
    notice: bool | str
    background: bool


class PolicyKeywords(CommonKeywords, total=False):
    """The same with the summarizer, for adapters whose own `model=` means something else."""

    summarizer: Summarizer | None


class ControllerKeywords(PolicyKeywords, total=False):
    """The keywords of `CompactionController` that a user of an adapter may give instead of a controller.

    `model` names the model whose context window applies.
    """

    model: str | None


_NAMES = ControllerKeywords.__optional_keys__
_OF_SETTINGS = {field.name: f"settings=CompactionSettings({field.name}=...)" for field in fields(CompactionSettings)}


def controller_from(
    controller: CompactionController[Any] | None,
    keywords: ControllerKeywords,
    format: MessageFormat[Any],
    *,
    taker: Callable[..., object],
    sees_model: bool,
) -> CompactionController[Any]:
    """Return the controller given, or a new one made from the keywords.

    Args:
        controller: A controller, shared or not, of any format: sessions are opened in the adapter's format.
        format: The framework's message format.
        taker: The function or class that the user called; its own keywords are named in the error for an unknown one.
        sees_model: Whether the adapter learns which model each call is for, and so its window.

    Raises:
        TypeError: a keyword is unknown.
        ConfigurationError: both a controller and keywords are given; `model` is no name; or a trigger is a ratio of a window that
            cannot become known.
    """
    if not keywords.keys() <= _NAMES:
        own = inspect.signature(taker).parameters.values()
        known = _NAMES | {one.name for one in own if one.kind is not one.VAR_KEYWORD}
        check_names(taker.__name__, keywords, known, _OF_SETTINGS)
    if controller is not None and keywords:
        raise ConfigurationError(f"{', '.join(sorted(keywords))}: give a controller or its keywords, not both")
    if controller is not None and not isinstance(controller, CompactionController):  # pyright: ignore[reportUnnecessaryIsInstance]
        fix = "its settings go into keywords such as context_window=..."
        if isinstance(controller, str):
            fix = "a model's name goes into model=..."
        raise ConfigurationError(
            f"the first argument must be a CompactionController, not {type(controller).__name__}; {fix}"
        )

    model: Any = keywords.get("model")
    if model is not None and not isinstance(model, str):
        raise ConfigurationError(
            f"model= must be the name of the model whose context window applies, not {type(model).__name__}; a model that writes "
            "the summaries goes into summarizer=, as summarizer(...) of this adapter makes one"
        )

    chosen = _make_controller(format, **keywords) if controller is None else controller
    ratios = [name for name, trigger in chosen.settings.triggers.items() if isinstance(trigger, RatioTrigger)]
    if ratios and not sees_model and chosen.state().context_window is None:
        raise ConfigurationError(
            f"{ratios[0]} is a part of a context window that is not known here: "
            "set context_window=... (tokens), or default_context_window in the settings"
        )
    return chosen


def _make_controller(
    format: MessageFormat[Any],
    *,
    settings: Settings | None = None,
    summary_prompt: str | None = None,
    summary_instructions: str | None = None,
    **keywords: Any,
) -> CompactionController[Any]:
    """Return a new controller; the two texts for the summarizer replace those of the settings."""
    texts = {"summary_prompt": summary_prompt, "summary_instructions": summary_instructions}
    given: dict[str, Any] = {name: text for name, text in texts.items() if text is not None}
    if given:
        settings = with_changes(settings, lambda policy: replace(policy, **given))
    return CompactionController(format=format, settings=settings, **keywords)


def with_changes(settings: Settings | None, change: Callable[[CompactionSettings], CompactionSettings]) -> Settings:
    """Return changed settings; if they are by model, each of them and the default "*"."""
    if not isinstance(settings, Mapping):
        return change(settings or CompactionSettings())
    every = {**settings, "*": settings.get("*", CompactionSettings())}
    return {pattern: change(policy) for pattern, policy in every.items()}


def settings_from(fields: Mapping[str, Any]) -> Settings:
    """Read settings from JSON: the fields of one policy, or such fields by model.

    Raises:
        ConfigurationError: fields of a policy and names of models are mixed, or a value is invalid.
        TypeError: a field is unknown.
    """
    models = [name for name, value in fields.items() if isinstance(value, Mapping)]
    if not models:
        return CompactionSettings(**fields)
    others = sorted(fields.keys() - models)
    if others:
        raise ConfigurationError(
            f"settings: {', '.join(others)} is for all models, and {models[0]!r} for one: give fields for each model, "
            'and for all others under "*"'
        )
    return {model: CompactionSettings(**policy) for model, policy in fields.items()}
