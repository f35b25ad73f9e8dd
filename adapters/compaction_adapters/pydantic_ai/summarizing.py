"""Summaries by pydantic-ai's own models, whose usage counts in the run."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pydantic_ai import Agent, RunContext
from pydantic_ai.models import Model, parse_model_id
from pydantic_ai.providers import infer_provider_class
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import UsageLimits

from compaction_adapters.kit import summary_of
from compaction_adapters.pydantic_ai.messages import PydanticAIFormat
from compaction_adapters.pydantic_ai.requests import leaf_models
from compaction_hooks.errors import ConfigurationError

if TYPE_CHECKING:  # no quiet call has a summary
    from compaction_hooks import Summarizer, Summary, SummaryRequest

_RUN: Final[ContextVar[RunContext[Any] | None]] = ContextVar("compaction_run", default=None)
"""The run that a summary is for. A context variable, because a controller passes no run to its summarizer."""


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
        return await ask_model(model, request.system, request.prompt, request.max_tokens)

    return ask


def check_writer(model: Model[Any] | str) -> None:
    """Check that a model can write summaries. One that is named is made at the first summary, since it needs its provider's key.

    Raises:
        ConfigurationError: as `summarizer`.
    """
    if not isinstance(model, str):
        if not writes_text(model):
            raise ConfigurationError(
                f"{getattr(model, 'model_name', type(model).__name__)!r} cannot write a summary: give one of pydantic-ai's models "
                'that answer with text, or its name, such as "openai:gpt-5-mini"'
            )
        return
    try:
        infer_provider_class(parse_model_id(model)[0] or "")
    except ImportError:
        pass  # the provider is known and its client is not installed, as the first summary will say
    except ValueError as error:
        if model != "test":
            raise ConfigurationError(
                f'summarizer={model!r} names no provider that pydantic-ai knows: write it as "openai:gpt-5-mini", or give the model'
            ) from error


@contextmanager
def charge_to(ctx: RunContext[Any] | None) -> Generator[None]:
    """Count the usage of `summarizer` inside this context in the run, if there is one."""
    token = _RUN.set(ctx)
    try:
        yield
    finally:
        _RUN.reset(token)


async def ask_model(model: Model[Any] | str, system: str, prompt: str, max_tokens: int) -> Summary:
    """Ask a model once, in a separate run whose events do not reach the user's handlers; the usage counts as `charge_to` says."""
    run = _RUN.get()
    agent = Agent(model, name="compaction_summary", instructions=system, retries=0)
    result = await agent.run(
        prompt,
        model_settings=ModelSettings(max_tokens=max_tokens),
        usage=run.usage if run else None,
        usage_limits=_limits(run) if run else None,
        conversation_id=run.conversation_id if run else None,
    )
    return summary_of(PydanticAIFormat().read(result.response)[0], result.response.finish_reason)


def check_limits(run: RunContext[Any]) -> None:
    """Raise `UsageLimitExceeded` if the run may make no request for a summary."""
    limits = _limits(run)
    if limits is not None:
        limits.check_before_request(run.usage)


def _limits(run: RunContext[Any]) -> UsageLimits | None:
    """Return the limits for a summary in a run."""
    limits = run.usage_limits
    if limits is None or limits.request_limit is None:
        return limits
    # The framework has allowed the request that waits for the summary: it needs one of those that are left.
    return replace(limits, request_limit=max(0, limits.request_limit - 1))


def writes_text(model: object) -> bool:
    """Return whether a model can write a summary; realtime models and models without text output cannot."""
    first = next(leaf_models(model), None)
    return first is not None and bool(first.profile.get("supports_text_output", True))
