"""Summaries by Anthropic's own compaction, which litellm asks for, and sends back with its header."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, cast

from compaction_adapters.kit import NATIVE_TOKENS, NativeSummaries, compaction_option, compacts, positive, read_block
from compaction_adapters.litellm.calls import Arguments, Callee, as_mapping, import_litellm
from compaction_adapters.litellm.conversations import FORMAT
from compaction_hooks.native import Issuer

if TYPE_CHECKING:  # no quiet call has a summary
    from compaction_hooks import LiveCall, Summary, SummaryRequest

_ADDRESS: Final = "https://api.anthropic.com"
_FORBIDDEN: Final = frozenset(
    {"context_management", "response_format", "stop", "tool_choice", "stream", "stream_options"}
)
"""Arguments that Anthropic refuses in a request to compact, and those of streams."""


def native_summaries(callee: Callee, arguments: Arguments, mark: Arguments) -> NativeSummaries | None:
    """Return the summarizer by which the model of a call compacts; None if it cannot, or if litellm does not call Anthropic itself.

    Args:
        mark: Arguments that tell the request from the user's.
    """
    model, provider = str(arguments.get("model")), arguments.get("custom_llm_provider")
    is_anthropics = provider in (None, "anthropic") and model.startswith(("anthropic/", "claude-"))
    if not (callee.is_sdk and is_anthropics and compacts(model)):
        return None
    kept = {name: value for name, value in arguments.items() if name not in _FORBIDDEN}
    limit = positive(arguments.get("max_completion_tokens") or arguments.get("max_tokens")) or 0

    def ask(live: LiveCall, request: SummaryRequest) -> Any:
        asked = {"compaction": compaction_option(request), "max_tokens": max(NATIVE_TOKENS, limit)}
        return callee.call({**kept, **mark, **asked, "messages": [*live.messages]})

    return NativeSummaries(Issuer("anthropic", _address_of(arguments)), ask, _read, form=FORMAT.provider)


def _address_of(arguments: Arguments) -> str:
    """Return the base address that litellm sends a call to."""
    given = arguments.get("api_base") or arguments.get("base_url") or import_litellm().api_base
    named = given or os.environ.get("ANTHROPIC_API_BASE") or os.environ.get("ANTHROPIC_BASE_URL") or _ADDRESS
    return str(named).rstrip("/")


def _read(response: Any, issuer: Issuer) -> Summary:
    choice = response.choices[0]
    fields = as_mapping(getattr(choice.message, "provider_specific_fields", None))
    blocks = cast("list[Arguments]", fields.get("compaction_blocks") or [None])
    return read_block(blocks[0], issuer, response.usage, choice.finish_reason)
