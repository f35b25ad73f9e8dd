"""OpenAI: summaries by its own compaction, for lists in the form of the Responses API; xAI has the same endpoint.

Behaviour: https://developers.openai.com/api/docs/guides/compaction and
https://docs.x.ai/developers/advanced-api-usage/context-compaction (read 2026-11).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compaction_adapters.kit import NativeSummaries, address_of
from compaction_hooks import LiveCall, Summary, SummaryRequest
from compaction_hooks.errors import MissingExtraError
from compaction_hooks.formats import OpenAIResponsesFormat
from compaction_hooks.native import Issuer, NativeItems

try:
    from openai import AsyncOpenAI, OpenAI
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "openai":
        raise
    raise MissingExtraError("compaction_adapters.openai", "OpenAI's client", "openai") from error

_FORMAT = OpenAIResponsesFormat()


def native(client: OpenAI | AsyncOpenAI) -> NativeSummaries:
    """Return a summarizer by which OpenAI compacts the conversation with the model of the call.

    The view then begins with the items of OpenAI, as long as the client's address and the model are the same; system messages of
    the list follow them. Anybody else is sent a summary made by rule. Sync methods of the controller need a sync client.

    Args:
        client: The client that your program asks with; for xAI one with `base_url="https://api.x.ai/v1"`. Its own retries apply.
    """

    def ask(live: LiveCall, request: SummaryRequest) -> Any:
        return client.responses.compact(**_build(live, request))

    return NativeSummaries(Issuer("openai_responses", address_of(client.base_url)), ask, _read)


def _build(live: LiveCall, request: SummaryRequest) -> Mapping[str, Any]:
    """Return the arguments. The view has system messages behind the items, so these must not keep them, and pins once."""
    texts = [live.system] if isinstance(live.system, str) else []
    items: list[Any] = []
    said = set[object]()
    for message in live.messages:
        (read,) = _FORMAT.read(message)
        if read.role == "system":
            texts.append(read.text)
        elif read.role != "user" or read.parts not in said:
            items.append(message)
            said.add(read.parts)
    if request.focus:
        texts.append(f"If you compact the conversation, pay most attention to: {request.focus}")
    instructions = {"instructions": "\n\n".join(texts)} if texts else {}
    return {"model": live.model, "input": items, **instructions}


def _read(reply: Any, issuer: Issuer) -> Summary:
    """Return all items as they came: the retained ones belong to the sealed one at their end."""
    # Retained messages of the user are none of the types that the client expects in an output: it would warn.
    items = tuple(item.to_dict(warnings=False) for item in reply.output)
    if not items or items[-1].get("type") != "compaction":
        return Summary(text="", usage=reply.usage, fallback_reason="OpenAI gave no compaction item")
    return Summary(text="", usage=reply.usage, native=NativeItems(issuer, items, reply.usage.output_tokens))
