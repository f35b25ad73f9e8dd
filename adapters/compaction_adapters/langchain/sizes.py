"""The sizes `trigger=` and `keep=` of LangChain as the settings of a controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from langchain.agents.middleware.summarization import ContextSize
from langchain_core.language_models import BaseChatModel

from compaction_adapters.kit import ControllerKeywords, PolicyKeywords, with_changes
from compaction_adapters.langchain_core import summarizer
from compaction_hooks import CompactionSettings, Summarizer
from compaction_hooks.arguments import format_value
from compaction_hooks.errors import ConfigurationError

if TYPE_CHECKING:  # older versions have no TriggerClause
    from langchain.agents.middleware.summarization import TriggerClause

Trigger: TypeAlias = "ContextSize | TriggerClause | list[ContextSize | TriggerClause]"

_SETTINGS: Final[Mapping[str, Mapping[object, str]]] = {
    "trigger": {"fraction": "trigger_ratio", "tokens": "trigger_tokens"},
    "keep": {"tokens": "keep_recent_tokens"},
}
"""By argument: the kinds of sizes, and the setting for each."""
_KINDS: Final = ("fraction", "tokens", "messages")
"""The kinds of sizes that LangChain has."""
_FORMS: Final = {
    "trigger": '("fraction", part of the window) or ("tokens", n), or a list for any of them: a number of messages says nothing '
    "about a context window (call session.compact() where the number matters), and to wait for all of several is not supported",
    "keep": '("tokens", n)',
}


def controller_keywords(
    model: str | BaseChatModel | None,
    trigger: Trigger | None,
    keep: ContextSize | None,
    keywords: PolicyKeywords,
) -> ControllerKeywords:
    """Return the controller's keywords for LangChain's arguments; empty without arguments.

    Raises:
        ConfigurationError: a size is malformed, has no matching setting of the controller, or contradicts `settings`; no summarizer
            can be made of `model`; or both `model` and `summarizer` are given.
    """
    translated = cast("ControllerKeywords", {**keywords})  # some of its keys
    for argument, given in (("trigger", trigger), ("keep", keep)):
        if given is not None:
            change = partial(_change, argument=argument, sizes=_read_sizes(argument, given))
            translated["settings"] = with_changes(translated.get("settings"), change)
    if model is not None:
        if keywords.get("summarizer") is not None:
            raise ConfigurationError("model and summarizer exclude one another: give one")
        translated["summarizer"] = _writer(model)
    return translated


def _writer(model: str | BaseChatModel) -> Summarizer:
    try:
        return summarizer(model)
    except Exception as error:
        why = str(error).partition("\n")[0]
        raise ConfigurationError(
            f"model= must be a chat model that writes the summaries, or the name of one ({why}). The window needs no name: it is "
            "that of the model that the agent calls, or context_window="
        ) from error


def _change(settings: CompactionSettings, argument: str, sizes: Mapping[str, Any]) -> CompactionSettings:
    fields = ["trigger", *_SETTINGS["trigger"].values()] if argument == "trigger" else [*sizes]
    if taken := [name for name in fields if getattr(settings, name) is not None]:
        raise ConfigurationError(f"{argument} and settings.{taken[0]} exclude one another: give one")
    if argument == "trigger":
        return replace(settings, **{"trigger_cap_tokens": None, **sizes})  # the cap is for the default trigger
    return replace(settings, **sizes)


def _read_sizes(argument: str, given: object) -> dict[str, float]:
    """Return the settings for sizes in any of LangChain's forms; of several sizes, the smallest of each kind.

    Raises:
        ConfigurationError: a size is not a pair of a kind and a number, or has no setting.
    """
    found: dict[str, float] = {}
    for size in _list_sizes(given):
        match _list_pairs(size):
            case [(kind, int() | float() as value)] if kind in _SETTINGS[argument] and not isinstance(value, bool):
                name = _SETTINGS[argument][kind]
                found[name] = min(value, found.get(name, value))
            case _:
                raise ConfigurationError(f"{argument}={format_value(size, _KINDS)} must be {_FORMS[argument]}")

    if not found:
        raise ConfigurationError(
            f"{argument}={format_value(given, _KINDS)} holds no size: it must be {_FORMS[argument]}"
        )
    return found


def _list_sizes(given: object) -> list[object]:
    return cast("list[object]", given) if isinstance(given, list) else [given]


def _list_pairs(size: object) -> list[Any]:
    """Return the pairs of a size: LangChain's clause is a dict of sizes that must all be reached."""
    return [*cast("Mapping[str, object]", size).items()] if isinstance(size, Mapping) else [size]
