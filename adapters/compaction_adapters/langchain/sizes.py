"""The sizes `trigger=` and `keep=` of LangChain as the settings of a controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from langchain_core.language_models import BaseChatModel

from compaction_adapters.kit import ControllerKeywords, PolicyKeywords, with_changes
from compaction_adapters.langchain_core import summarizer
from compaction_hooks import CompactionSettings
from compaction_hooks.errors import ConfigurationError

if TYPE_CHECKING:  # older versions have no TriggerClause
    from langchain.agents.middleware.summarization import ContextSize, TriggerClause

    Trigger: TypeAlias = ContextSize | TriggerClause | list[ContextSize | TriggerClause]

_KINDS = ("fraction", "tokens", "messages")


def controller_keywords(
    model: str | BaseChatModel | None,
    trigger: Trigger | None,
    keep: ContextSize | None,
    keywords: PolicyKeywords,
) -> ControllerKeywords:
    """Return the controller's keywords for LangChain's arguments; empty without arguments.

    Raises:
        ConfigurationError: a size is malformed, has no matching setting of the controller, or contradicts `settings`; or both
            `model` and `summarizer` are given.
    """
    translated = cast("ControllerKeywords", {**keywords})  # some of its keys
    if trigger is not None or keep is not None:
        translated["settings"] = with_changes(keywords.get("settings"), lambda policy: _settings(policy, trigger, keep))
    if model is not None:
        if keywords.get("summarizer") is not None:
            raise ConfigurationError("model and summarizer exclude one another: give one")
        translated["summarizer"] = summarizer(model)
    return translated


def _settings(settings: CompactionSettings, trigger: Trigger | None, keep: ContextSize | None) -> CompactionSettings:
    changes: dict[str, Any] = {}
    if trigger is not None:
        if (settings.trigger, settings.trigger_ratio, settings.trigger_tokens) != (None, None, None):
            raise ConfigurationError(f"trigger={trigger!r} and the trigger in settings exclude one another: give one")
        changes |= _triggers(trigger)
    if keep is not None:
        if settings.keep_recent_tokens != CompactionSettings().keep_recent_tokens:
            raise ConfigurationError(f"keep={keep!r} and settings.keep_recent_tokens exclude one another: give one")
        changes["keep_recent_tokens"] = _keep_tokens(keep)
    return replace(settings, **changes)


def _triggers(trigger: object) -> dict[str, float]:
    """Return the settings for a trigger in any of LangChain's forms; of several sizes, the smallest of each kind."""
    alternatives = cast("list[object]", trigger) if isinstance(trigger, list) else [trigger]
    if not alternatives:
        raise ConfigurationError(
            f'trigger={trigger!r} holds no size: give ("tokens", n), or None for the window less a reserve'
        )
    settings: dict[str, float] = {}
    for alternative in alternatives:
        kind, value = _read_size("trigger", _only_size(alternative))
        if kind == "messages":
            raise ConfigurationError(
                f"trigger={trigger!r}: a number of messages says nothing about a context window: use "
                '("fraction", part of the window) or ("tokens", n), or call session.compact() where the number matters'
            )
        name = "trigger_ratio" if kind == "fraction" else "trigger_tokens"
        settings[name] = min(value, settings.get(name, value))
    return settings


def _only_size(alternative: object) -> object:
    """Return a size as a pair; LangChain's clause is a dict of sizes that must all be reached."""
    if not isinstance(alternative, Mapping):
        return alternative
    sizes = list(cast("Mapping[str, object]", alternative).items())
    if len(sizes) != 1:
        raise ConfigurationError(
            f"trigger={alternative!r} must name one size: to wait for all of several is not supported. Give the largest, or "
            'a list for any of them, [("tokens", n), ("fraction", part of the window)]'
        )
    return sizes[0]


def _keep_tokens(keep: object) -> int:
    kind, value = _read_size("keep", keep)
    if kind != "tokens":
        raise ConfigurationError(f'keep={keep!r}: how much is kept is a number of tokens: use ("tokens", n)')
    return int(value)


def _read_size(name: str, size: object) -> tuple[str, float]:
    """Return the kind and the value of one size.

    Raises:
        ConfigurationError: the size is not a pair of a kind and a number in the kind's bounds.
    """
    pair = cast("tuple[object, ...]", size) if isinstance(size, tuple) else ()
    if len(pair) != 2 or pair[0] not in _KINDS:
        raise ConfigurationError(f'{name}={size!r} must be a pair like ("tokens", 20_000)')
    kind, value = cast("tuple[str, object]", pair)
    wanted = "a number above 0 and at most 1" if kind == "fraction" else "a whole number above 0"
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise ConfigurationError(f"{name}={size!r}: {value!r} must be {wanted}")
    if value > 1 if kind == "fraction" else isinstance(value, float):
        raise ConfigurationError(f"{name}={size!r}: {value!r} must be {wanted}")
    return kind, value
