"""Summaries by a model that litellm calls."""

from __future__ import annotations

from typing import Any, Final

from compaction_adapters.kit import asker
from compaction_adapters.litellm.answers import summary_of
from compaction_adapters.litellm.calls import Arguments, Callee, as_mapping, model_entries, options_of
from compaction_adapters.litellm.imports import import_litellm
from compaction_hooks import CallOptions, Summarizer, Summary, SummaryRequest

MARK: Final = {"compaction_hooks": "summary"}
"""Part of the metadata of every call for a summary, so that a callback can tell it from the user's calls."""

_ABOUT_THE_ANSWER: Final = """
    messages functions function_call tools tool_choice parallel_tool_calls web_search_options stream stream_options
    complete_response response_format modalities audio prediction n stop max_tokens max_completion_tokens logprobs
    top_logprobs logit_bias seed temperature top_p presence_penalty frequency_penalty reasoning_effort thinking
    verbosity store prompt_cache_key extra_body prompt_id prompt_variables prompt_label prompt_version guardrails
    cache_control_injection_points litellm_system_prompt enable_json_schema_validation
"""
"""Arguments that shape the answer to the user's request. The others locate the model and identify the user."""
_ABOUT_THE_CALL: Final = """
    num_retries retry_policy fallbacks context_window_fallbacks context_window_fallback_dict callbacks success_callback
    failure_callback logger_fn litellm_call_id litellm_logging_obj original_function acompletion proxy_server_request
"""
"""Arguments that repeat, observe and identify the user's request."""
_LEFT_OUT: Final = frozenset(f"{_ABOUT_THE_ANSWER} {_ABOUT_THE_CALL}".split())


def summarizer(model: str, **connection: object) -> Summarizer:
    """Return a summarizer that asks this model through litellm.

    litellm is imported for the first summary. A failed call is not retried here: the controller handles it.

    Args:
        model: litellm's name of the model, such as "openai/gpt-4o-mini".
        **connection: Further arguments of `litellm.acompletion`: api_key, api_base, timeout, metadata ...
    """
    kept = {"model": model, **connection}

    def ask(request: SummaryRequest) -> object:
        return _ask(Callee(import_litellm().completion), kept, request)

    async def ask_async(request: SummaryRequest) -> object:
        return await _ask(Callee(import_litellm().acompletion), kept, request)

    return asker(ask, ask_async, summary_of)


def call_options(callee: Callee, arguments: Arguments) -> CallOptions:
    """Return a call's options for the session: its model, window, limit and tools, and a summarizer that asks its model.

    The summarizer makes the user's own call, with other messages and without the arguments that shape its answer.
    """
    kept = {name: value for name, value in arguments.items() if name not in _LEFT_OUT and not name.startswith("_")}

    async def ask(request: SummaryRequest) -> Summary:
        return summary_of(await _ask(callee, kept, request))

    def ask_sync(request: SummaryRequest) -> Summary:
        return summary_of(_ask(callee, kept, request))

    return {**options_of(arguments, callee.router), "summarizer": ask if callee.is_async else ask_sync}


def _ask(callee: Callee, kept: Arguments, request: SummaryRequest) -> Any:
    """Ask for a summary. A model that reasons gets no token limit, because it would limit the reasoning too."""
    extra: dict[str, object] = {}
    if callee.takes("max_tokens") and not _reasons(kept):
        extra["max_tokens"] = request.max_tokens
    if callee.is_litellms:
        extra |= {"num_retries": 0, "metadata": {**as_mapping(kept.get("metadata")), **MARK}}
    messages = [{"role": "system", "content": request.system}, {"role": "user", "content": request.prompt}]
    return callee.call({**kept, **extra, "messages": messages})


def _reasons(arguments: Arguments) -> bool:
    """Return whether a model reasons by default. Claude does not, and without a limit litellm would set its largest output."""
    can_reason = any(entry.get("supports_reasoning") is True for entry in model_entries(arguments))
    return can_reason and "claude" not in str(arguments.get("model")).lower()
