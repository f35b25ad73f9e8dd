"""Summaries by the provider's own compaction, which pydantic-ai's models ask for, and send back with its header."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic_ai import RunContext
from pydantic_ai.messages import CompactionPart, ModelResponse
from pydantic_ai.models import Model, ModelRequestContext
from pydantic_ai.settings import ModelSettings

import compaction_hooks
from compaction_adapters.kit import NATIVE_TOKENS, NativeSummaries, positive, read_block
from compaction_adapters.pydantic_ai.requests import leaf_models, request_model
from compaction_adapters.pydantic_ai.summarizing import check_limits
from compaction_hooks import Usage
from compaction_hooks.messages import Provider
from compaction_hooks.native import Issuer, NativeItems

if TYPE_CHECKING:  # no quiet call has a summary
    from compaction_hooks import LiveCall, Summary, SummaryRequest

_PROVIDERS: Final[Mapping[str, Provider]] = {"anthropic": "anthropic", "openai": "openai_responses"}
"""The APIs that compact, by the `system` of a model of theirs."""


def native_summaries(ctx: RunContext[Any], request: ModelRequestContext) -> NativeSummaries | None:
    """Return the summarizer by which the model of a request compacts; None if it cannot, or in a durable workflow.

    Its usage counts in the run.
    """
    model, leaves = request_model(request.model), [*leaf_models(request.model)]
    if model is None or len(leaves) != 1 or ctx.in_durable_context or not _compacts(leaves[0]):
        return None

    async def ask(live: LiveCall, asked: SummaryRequest) -> ModelResponse:
        check_limits(ctx)
        settings = request.model_settings or ModelSettings()
        limit = max(NATIVE_TOKENS, positive(settings.get("max_tokens")) or 0)
        whole = replace(request, messages=[*live.messages], model_settings={**settings, "max_tokens": limit})
        response = await model.compact_messages(whole, instructions=_instructions(issuer, live, asked))
        ctx.usage.requests += 1
        ctx.usage.incr(response.usage)
        return response

    issuer = Issuer(_PROVIDERS[leaves[0].system], str(leaves[0].base_url).rstrip("/"))
    return NativeSummaries(issuer, ask, _read, form="")


def _compacts(model: Model[Any]) -> bool:
    profile = cast("Mapping[str, object]", model.profile)
    can = model.system != "anthropic" or bool(profile.get("anthropic_supports_on_demand_compaction"))
    return can and model.system in _PROVIDERS and type(model).compact_messages is not Model.compact_messages


def _instructions(issuer: Issuer, live: LiveCall, asked: SummaryRequest) -> str | None:
    """Return the instructions of a compaction: a part of Anthropic's prompt; in place of the agent's own for OpenAI."""
    if issuer.provider == "anthropic":
        return "\n\n".join(filter(None, (asked.form, asked.focus))) or None
    focus = f"If you compact the conversation, pay most attention to: {asked.focus}" if asked.focus else ""
    return f"{live.system}\n\n{focus}" if focus else None


def _read(response: ModelResponse, issuer: Issuer) -> Summary:
    (part,) = (part for part in response.parts if isinstance(part, CompactionPart))
    details = part.provider_details or {}
    counted = response.usage
    usage = Usage(
        input_tokens=counted.input_tokens,
        output_tokens=counted.output_tokens,
        cache_read_tokens=counted.cache_read_tokens,
        cache_write_tokens=counted.cache_write_tokens,
    )
    if issuer.provider == "anthropic":
        block = {"type": "compaction", "content": part.content, "signature": details.get("signature")}
        return read_block(block, issuer, usage, response.finish_reason)
    item = {"type": "compaction", "id": part.id, "encrypted_content": details["encrypted_content"]}
    return compaction_hooks.Summary(text="", usage=usage, native=NativeItems(issuer, (item,), counted.output_tokens))
