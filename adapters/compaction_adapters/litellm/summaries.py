"""Summaries by a model that litellm calls."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import compaction_hooks
from compaction_adapters.kit import asker, summary_of
from compaction_adapters.litellm.calls import Arguments, Callee, as_mapping, import_litellm, model_entries, options_of
from compaction_adapters.litellm.conversations import FORMAT
from compaction_adapters.litellm.native import native_summaries
from compaction_hooks import CallOptions

if TYPE_CHECKING:  # no quiet call has a summary
    from compaction_hooks import Summarizer, Summary, SummaryRequest

MARK: Final = {"compaction_hooks": "summary"}
"""Part of the metadata of every call for a summary, so that a callback can tell it from the user's calls."""
_NAMES: Final = """
    messages functions function_call tools tool_choice parallel_tool_calls web_search_options stream stream_options
    complete_response response_format modalities audio prediction n stop max_tokens max_completion_tokens logprobs
    top_logprobs logit_bias seed temperature top_p presence_penalty frequency_penalty reasoning_effort thinking
    verbosity store prompt_cache_key extra_body prompt_id prompt_variables prompt_label prompt_version guardrails
    cache_control_injection_points litellm_system_prompt enable_json_schema_validation

    num_retries retry_policy fallbacks context_window_fallbacks context_window_fallback_dict callbacks success_callback
    failure_callback logger_fn litellm_call_id litellm_logging_obj original_function acompletion proxy_server_request
"""
_LEFT_OUT: Final = frozenset(_NAMES.split())
"""Arguments that shape the answer to the user's request, and those that repeat, observe and identify the request. The others
locate the model and identify the user."""


def summarizer(model: str, **connection: object) -> Summarizer:
    """Return a summarizer that asks this model through litellm.

    litellm is imported for the first summary. A failed call is not retried here: the controller handles it.

    Args:
        model: litellm's name of the model, such as "openai/gpt-4o-mini".
        **connection: Further arguments of `litellm.acompletion`: api_key, api_base, timeout, metadata ...
    """

    def ask(request: SummaryRequest, function: str = "completion") -> Any:
        return _ask(Callee(getattr(import_litellm(), function)), {"model": model, **connection}, request)

    return asker(ask, partial(ask, function="acompletion"), _summary_of)


def call_options(callee: Callee, arguments: Arguments, *, native: bool = False) -> CallOptions:
    """Return a call's options for the session: its model, window, limit and tools, and a summarizer that asks its model.

    Args:
        native: Whether the model's provider compacts if it can.
    """
    options = options_of(arguments, callee.router)
    by_provider = native_summaries(callee, arguments, _mark(arguments)) if native else None
    if by_provider is not None:
        return {**options, "summarizer": by_provider}
    kept = {name: value for name, value in arguments.items() if name not in _LEFT_OUT and not name.startswith("_")}

    async def ask(request: SummaryRequest) -> Summary:
        return _summary_of(await _ask(callee, kept, request))

    def ask_sync(request: SummaryRequest) -> Summary:
        return _summary_of(_ask(callee, kept, request))

    return {**options, "summarizer": ask if callee.is_async else ask_sync}


def _mark(arguments: Arguments) -> Arguments:
    """Return arguments for litellm that tell a call for a summary from the user's; a failed one is not retried."""
    return {"num_retries": 0, "metadata": {**as_mapping(arguments.get("metadata")), **MARK}}


def _ask(callee: Callee, kept: Arguments, request: SummaryRequest) -> Any:
    """Ask for a summary. A model that reasons gets no token limit, because it would limit the reasoning too."""
    extra: dict[str, object] = {}
    # Claude does not reason by default, and without a limit litellm would set its largest output.
    reasons = any(entry.get("supports_reasoning") is True for entry in model_entries(kept))
    if callee.takes("max_tokens") and (not reasons or "claude" in str(kept.get("model")).lower()):
        extra["max_tokens"] = request.max_tokens
    if callee.is_litellms:
        extra |= _mark(kept)
    messages = [{"role": "system", "content": request.system}, {"role": "user", "content": request.prompt}]
    return callee.call({**kept, **extra, "messages": messages})


def _summary_of(response: object) -> Summary:
    """Return a chat completion as a summary; a plain text is taken as the summary's."""
    if isinstance(response, str):
        return compaction_hooks.Summary(text=response)
    choice = (_field(response, "choices") or (None,))[0]
    summary = summary_of(FORMAT.read(_field(choice, "message"))[0], _field(choice, "finish_reason"))
    return replace(summary, usage=_field(response, "usage"))


def _field(value: Any, name: str) -> Any:
    return as_mapping(value).get(name, getattr(value, name, None))
