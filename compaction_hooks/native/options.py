"""The options of a request that make the provider compact on its own side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

_PREFIXES: Final = ("anthropic_", "openai_")
"""pydantic-ai puts the name of the provider in front of its options."""
_SWITCHES: Final = frozenset(
    {
        "compaction",
        "compaction_trigger",
        "previous_response_id",
        "use_previous_response_id",
        "conversation",
        "conversation_id",
    }
)
"""Options that ask for it with any value, those that make the server keep the history included: Anthropic's `compaction`, and
OpenAI's and LangChain's names, as of November 2026."""
_NESTED: Final = frozenset({"extra_body", "model_kwargs", "extra_args"})
"""Options that hold further options: of the providers' clients, of LangChain and of openai-agents."""


def find_server_compaction(options: Mapping[str, object]) -> str | None:
    """Return the option of a request that makes the server compact or keep the history; None without one.

    Options that only clear tool results or thinking (`clear_*` of Anthropic's `context_management`) are none.

    Args:
        options: The keywords or settings of a model call, as named by a provider's client, LangChain, LiteLLM or pydantic-ai.

    >>> find_server_compaction({"extra_body": {"context_management": {"edits": [{"type": "compact_20260112"}]}}})
    'context_management'
    >>> find_server_compaction({"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}})
    """
    for name, value in options.items():
        if _asks(_without_prefix(name), value):
            return name
        inner = find_server_compaction(_mapping(value)) if name in _NESTED else None
        if inner is not None:
            return inner
    return None


def _asks(option: str, value: object) -> bool:
    match option:
        case "context_management":
            return any(kind.startswith("compact") for kind in _types(_mapping(value).get("edits", value)))
        case "input":
            return "compaction_trigger" in _types(value)[-1:]
        case "truncation":
            return value == "auto"
        case _:
            return option in _SWITCHES and bool(value)


def _without_prefix(name: str) -> str:
    return next((name.removeprefix(prefix) for prefix in _PREFIXES if name.startswith(prefix)), name)


def _types(items: object) -> list[str]:
    listed = cast("Sequence[object]", items) if isinstance(items, list | tuple) else ()
    return [str(_mapping(item).get("type")) for item in listed]


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}
