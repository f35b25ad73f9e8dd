"""OpenAI: summaries by its own compaction, for lists in the form of the Responses API; xAI has the same endpoint.

Behaviour: https://developers.openai.com/api/docs/guides/compaction and
https://docs.x.ai/developers/advanced-api-usage/context-compaction (read 2026-11).
"""

from __future__ import annotations

from typing import Any

from compaction_adapters.kit import NativeSummaries, address_of, compact_arguments, read_items
from compaction_hooks import LiveCall, SummaryRequest
from compaction_hooks.errors import MissingExtraError
from compaction_hooks.native import Issuer

try:
    from openai import AsyncOpenAI, OpenAI
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "openai":
        raise
    raise MissingExtraError("compaction_adapters.openai", "OpenAI's client", "openai") from error

__all__ = ["native"]


def native(client: OpenAI | AsyncOpenAI) -> NativeSummaries:
    """Return a summarizer by which OpenAI compacts the conversation with the model of the call.

    The view then begins with the items of OpenAI, as long as the client's address and the model are the same; system messages of
    the list follow them. Anybody else is sent a summary made by rule. Sync methods of the controller need a sync client.

    Args:
        client: The client that your program asks with; for xAI one with `base_url="https://api.x.ai/v1"`. Its own retries apply.
    """

    def ask(live: LiveCall, request: SummaryRequest) -> Any:
        return client.responses.compact(**compact_arguments(live.model, live.messages, request, live.system))

    return NativeSummaries(Issuer("openai_responses", address_of(client.base_url)), ask, read_items)
