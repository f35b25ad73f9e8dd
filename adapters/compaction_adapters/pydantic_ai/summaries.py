"""Summaries by pydantic-ai's own models, as texts or by the provider's own compaction. Their usage counts in the run."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Final, cast

from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import CompactionPart, ModelResponse
from pydantic_ai.models import Model, ModelRequestContext, parse_model_id
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.providers import infer_provider_class
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RunUsage, UsageLimits

from compaction_adapters.kit import NATIVE_TOKENS, NativeSummaries, positive, read_block, summary_of
from compaction_adapters.pydantic_ai.messages import PydanticAIFormat, counts_of
from compaction_hooks import LiveCall, Summarizer, Summary, SummaryRequest
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.messages import Provider
from compaction_hooks.native import Issuer, NativeItems

_RUN: Final[ContextVar[RunContext[Any] | None]] = ContextVar("compaction_run", default=None)
"""The run that a summary is for. A context variable, because a controller passes no run to its summarizer."""
_PROVIDERS: Final[Mapping[str, Provider]] = {"anthropic": "anthropic", "openai": "openai_responses"}
"""The APIs that compact, by the `system` of a model of theirs."""


def summarizer(model: Model[Any] | str) -> Summarizer:
    """Return a summarizer that asks this model, for a controller that several frameworks or agents share.

    Inside a run of an agent with `Compaction`, its usage counts in that run, within the run's limits.

    Args:
        model: One of pydantic-ai's models, or the name of one, such as "openai:gpt-5-mini", which is looked up at each summary.

    Raises:
        ConfigurationError: the model cannot write text, or pydantic-ai does not know the provider in the name.
    """
    check_writer(model)

    async def ask(request: SummaryRequest) -> Summary:
        return await ask_model(model, current_run(model), request.system, request.prompt, request.max_tokens)

    return ask


def check_writer(model: Model[Any] | str) -> None:
    """Check that a model can write summaries. One that is named is made at the first summary, since it needs its provider's key.

    Raises:
        ConfigurationError: as `summarizer`.
    """
    if isinstance(model, str) and model != "test":
        try:
            infer_provider_class(parse_model_id(model)[0] or "")
        except ImportError:
            pass  # the provider is known and its client is not installed, as the first summary will say
        except ValueError as error:
            raise ConfigurationError(
                f'summarizer={model!r} names no provider that pydantic-ai knows: write it as "openai:gpt-5-mini", or give the model'
            ) from error
    elif not isinstance(model, str) and not writes_text(model):
        raise ConfigurationError(
            f"{getattr(model, 'model_name', type(model).__name__)!r} cannot write a summary: give one of pydantic-ai's models "
            'that answer with text, or its name, such as "openai:gpt-5-mini"'
        )


@contextmanager
def charge_to(ctx: RunContext[Any] | None) -> Generator[None]:
    """Count the usage of summaries inside this context in the run, if there is one."""
    token = _RUN.set(ctx)
    try:
        yield
    finally:
        _RUN.reset(token)


def current_run(model: object) -> RunContext[Any]:
    """Return the run that a summary is for, with the model that writes it; outside a run, a context of its own."""
    writer = cast("Model[Any]", model)
    return replace(_RUN.get() or RunContext[Any](deps=None, model=writer, usage=RunUsage()), model=writer)


async def ask_model(
    model: Model[Any] | str, run: RunContext[Any], system: str, prompt: str, max_tokens: int
) -> Summary:
    """Ask a model once, in a separate run whose events do not reach the user's handlers; the usage counts in `run`."""
    agent = Agent(model, name="compaction_summary", instructions=system, retries=0)
    settings = ModelSettings(max_tokens=max_tokens)
    result = await agent.run(
        prompt,
        model_settings=settings,
        usage=run.usage,
        usage_limits=_limits(run),
        conversation_id=run.conversation_id,
    )
    return summary_of(PydanticAIFormat().read(result.response)[0], result.response.finish_reason)


def _limits(run: RunContext[Any]) -> UsageLimits:
    limits = run.usage_limits or UsageLimits(request_limit=None)
    if limits.request_limit is None:
        return limits
    # The framework has allowed the request that waits for the summary: it needs one of those that are left.
    return replace(limits, request_limit=max(0, limits.request_limit - 1))


# -- models


def leaf_models(model: object) -> list[Model[Any]]:
    """Return the models that a request may reach behind wrappers and fallbacks, the first choice first.

    There are none behind a model that answers no requests, such as a realtime model.
    """
    if isinstance(model, WrapperModel):
        return leaf_models(model.wrapped)
    if isinstance(model, FallbackModel):
        return [leaf for candidate in model.models for leaf in leaf_models(candidate)]
    return [model] if isinstance(model, Model) else []  # pyright: ignore[reportUnknownVariableType] - of any client


def writes_text(model: object) -> bool:
    """Return whether a model can write a summary; realtime models and models without text output cannot."""
    return any(leaf.profile.get("supports_text_output", True) for leaf in leaf_models(model)[:1])


# -- the provider's own compaction, which pydantic-ai's models ask for, and send back with its header


def native_summaries(request: ModelRequestContext) -> NativeSummaries | None:
    """Return the summarizer by which the model of a request compacts; None if it cannot."""
    leaves = leaf_models(request.model)
    if len(leaves) != 1 or not _compacts(leaves[0]):
        return None

    async def ask(live: LiveCall, asked: SummaryRequest) -> ModelResponse:
        run, settings = current_run(request.model), request.model_settings or ModelSettings()
        _limits(run).check_before_request(run.usage)
        limit = max(NATIVE_TOKENS, positive(settings.get("max_tokens")) or 0)
        whole = replace(request, messages=[*live.messages], model_settings={**settings, "max_tokens": limit})
        response = await request.model.compact_messages(whole, instructions=_instructions(issuer, live, asked))
        run.usage.requests += 1
        run.usage.incr(response.usage)
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
    focus = f"{live.system}\n\nIf you compact the conversation, pay most attention to: {asked.focus}"
    return focus if asked.focus else None


def _read(response: ModelResponse, issuer: Issuer) -> Summary:
    (part,) = (part for part in response.parts if isinstance(part, CompactionPart))
    details, usage = part.provider_details or {}, counts_of(response.usage.input_tokens, response)
    if issuer.provider == "anthropic":
        block = {"type": "compaction", "content": part.content, "signature": details.get("signature")}
        return read_block(block, issuer, usage, response.finish_reason)
    item = {"type": "compaction", "id": part.id, "encrypted_content": details["encrypted_content"]}
    return Summary(text="", usage=usage, native=NativeItems(issuer, (item,), response.usage.output_tokens))
