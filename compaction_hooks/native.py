"""The compaction that a provider makes on its own side: the items it leaves, and the options of a request that ask for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, cast

from compaction_hooks.foreign import read_attribute
from compaction_hooks.messages import Provider
from compaction_hooks.overflow.evidence import read_chain

__all__ = ["Issuer", "NativeItems", "NativeSummarizer", "is_native_refusal"]

REFUSALS: Final = re.compile(r"compaction|compact-20|encrypted.content|\bcmp_", re.IGNORECASE)
"""Words of the refusals of native items: Anthropic's `compaction_signature_invalid` and its like, and a missing beta header
(https://platform.claude.com/docs/en/build-with-claude/compaction-on-demand); OpenAI's `invalid_encrypted_content` and "Item with
id 'cmp_...' not found"; read 2026-11."""
_NAMES_REASONING: Final = re.compile(r"\brs_\w")
"""The id of a reasoning item: an error that names it has accepted the native items, which are in front."""


class Issuer(NamedTuple):
    """The API and the model that made a native item; no other one can read it.

    Attributes:
        provider: The API, by the name that `MessageFormat`s give it.
        address: Base address of the API, such as "https://api.anthropic.com".
        model: Name of the model as the host writes it; "" if it is that of the call.
    """

    provider: Provider
    address: str
    model: str = ""


class NativeItems(NamedTuple):
    """A provider's own summary of the oldest messages.

    Attributes:
        issuer: The API and the model that can read it.
        items: The content blocks or input items, as plain JSON, to be sent back exactly as they came.
        tokens: Size of the summary in them, as the provider counted it; None: the size of `Summary.text`.
    """

    issuer: Issuer
    items: tuple[Mapping[str, object], ...]
    tokens: int | None = None


class NativeSummarizer(Protocol):
    """A callable that answers a `SummaryRequest`, perhaps with native items. Views show these to its issuer.

    It takes messages in the form of its issuer. If a client library translates the messages, an attribute `form` names the provider
    of their format, or is "" if their format has none.
    """

    @property
    def issuer(self) -> Issuer:
        """The API that it asks, and to which the host sends its views; without a model."""
        ...


def issuer_of(summarizer: object, find_form: Callable[[], Provider | None]) -> Issuer | None:
    """Return the issuer of a `NativeSummarizer` that takes messages of this form; None for any other summarizer.

    Args:
        find_form: Returns the provider of the messages' format.
    """
    issuer = None if summarizer is None else read_attribute(summarizer, "issuer")
    if not isinstance(issuer, Issuer):
        return None
    form = read_attribute(summarizer, "form")
    return issuer if (find_form() or "") == (issuer.provider if form is None else form) else None


def is_native_refusal(error: object) -> bool:
    """Return whether the provider's error may refuse the native items of a request that had such. Never raises.

    >>> is_native_refusal("Error code: 400 - `compaction` is not one of the expected content block types")
    True
    """
    texts = [
        text
        for evidence in read_chain(error)
        if not evidence.statuses or evidence.statuses & {400, 404}
        for text in (*evidence.texts, *evidence.codes)
    ]
    return any(map(REFUSALS.search, texts)) and not any(map(_NAMES_REASONING.search, texts))


_SWITCHES: Final = frozenset(
    {
        "compaction",
        "compaction_trigger",
        "previous_response_id",
        "use_previous_response_id",
        "conversation",
        "conversation_id",
        "events_compaction_config",
        "compaction_strategy",
        "CompactionProvider",
        "stateful",
    }
)
"""Options that ask for it with any value, those that make the server keep the history included: Anthropic's `compaction`, and
OpenAI's and LangChain's names, as of November 2026. The last four are of frameworks: Google ADK (`EventsCompactionConfig`, 2.13),
Agent Framework (`CompactionStrategy`, `CompactionProvider`, 1.23) and the `OpenAIResponsesModel` of Strands (1.62)."""
NESTED: Final = frozenset({"extra_body", "model_kwargs", "extra_args"})
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
        if _asks(_bare(name), value):
            return name
        inner = find_server_compaction(_mapping(value)) if name in NESTED else None
        if inner is not None:
            return inner
    return None


def lets_shorten(options: Mapping[str, object]) -> bool:
    """Return whether an option of a request lets the server shorten it: by a compaction, or by clearing results or thinking.

    >>> lets_shorten({"extra_body": {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}})
    True
    """
    return find_server_compaction(options) is not None or any(
        (_bare(name) == "context_management" and bool(value)) or (name in NESTED and lets_shorten(_mapping(value)))
        for name, value in options.items()
    )


def _bare(option: str) -> str:
    """Return the name of an option without that of the provider, which pydantic-ai puts in front."""
    return option.removeprefix("anthropic_").removeprefix("openai_")


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


def _types(items: object) -> list[str]:
    listed = cast("Sequence[object]", items) if isinstance(items, list | tuple) else ()
    return [str(_mapping(item).get("type")) for item in listed]


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}
