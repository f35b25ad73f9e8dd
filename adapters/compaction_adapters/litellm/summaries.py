"""Summaries by a model that litellm calls, or by Anthropic's own compaction.

litellm asks Anthropic for its block, and sends it back, with the header that this needs.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any, Final, NamedTuple, cast

import compaction_hooks
from compaction_adapters.kit import (
    NATIVE_TOKENS,
    REASONING_TOKENS,
    NativeSummaries,
    ask_in_place,
    asker,
    compaction_option,
    compacts,
    read_block,
    summary_of,
    with_reasoning_room,
)
from compaction_adapters.litellm.calls import (
    FORMAT,
    Arguments,
    Callee,
    as_mapping,
    import_litellm,
    options_of,
)
from compaction_hooks import CallOptions, LiveCall, Summarizer, Summary, SummaryRequest
from compaction_hooks.formats import read_answer
from compaction_hooks.native import Issuer

_SHAPING: Final = """
    messages functions function_call tools tool_choice parallel_tool_calls web_search_options stream stream_options
    complete_response response_format modalities audio prediction n stop max_tokens max_completion_tokens logprobs
    top_logprobs logit_bias seed temperature top_p presence_penalty frequency_penalty reasoning_effort thinking
    verbosity store prompt_cache_key extra_body prompt_id prompt_variables prompt_label prompt_version guardrails
    cache_control_injection_points litellm_system_prompt enable_json_schema_validation
"""
_REPEATING: Final = """
    num_retries retry_policy fallbacks context_window_fallbacks context_window_fallback_dict callbacks success_callback
    failure_callback logger_fn litellm_call_id litellm_logging_obj original_function acompletion proxy_server_request
"""
_LEFT_OUT: Final = frozenset(f"{_SHAPING} {_REPEATING}".split())
"""Arguments that shape the answer to the user's request, and those that repeat, observe and identify the request. The others
locate the model and identify the user."""
_OF_THE_CALL: Final = frozenset(f"messages stream stream_options complete_response n store {_REPEATING}".split())
"""Arguments of a call that a summary in place does not have."""
_LIMITS: Final = ("max_tokens", "max_completion_tokens")
_SENT: Final = "litellm_sent"
"""The option of a call that holds its `_Sent`."""
_FORBIDDEN: Final = frozenset(
    {"context_management", "response_format", "stop", "tool_choice", "stream", "stream_options"}
)
"""Arguments that Anthropic refuses in a request to compact, and those of streams."""


def summarizer(model: str, **connection: object) -> Summarizer:
    """Return a summarizer that asks this model through litellm.

    litellm is imported for the first summary. A failed call is not retried here: the controller handles it.

    Args:
        model: litellm's name of the model, such as "openai/gpt-5.4-mini".
        **connection: Further arguments of `litellm.acompletion`: api_key, api_base, timeout, metadata ... A `max_tokens` replaces
            ours, which is that of the summary and 8,192 tokens of reasoning.
    """
    is_limited = not connection.keys() & _LIMITS

    def ask(request: SummaryRequest, limit: int) -> Summary | Awaitable[Summary]:
        ours = limit if is_limited else None

        def ask_by(function: str) -> Any:
            return _ask(Callee(getattr(import_litellm(), function)), {"model": model, **connection}, request, ours)

        return asker(
            lambda _: ask_by("completion"), lambda _: ask_by("acompletion"), lambda answer: _read(answer, ours)
        )(request)

    return with_reasoning_room(ask)


class _Sent(NamedTuple):
    """A call: the function, and its arguments."""

    callee: Callee
    arguments: Arguments


def in_place(model: str, **connection: object) -> Summarizer:
    """Return a summarizer that asks the conversation's own model for the summary at the end of the conversation, as it is.

    The provider has most of that request in its cache. The last call is made again with the longer list, where that costs less than
    a transcript and fits; otherwise, and once if the answer is no summary, a model is asked as by `summarizer`.

    Args:
        model, **connection: As in `summarizer`: for the summaries by a transcript.
    """
    return _in_place(summarizer(model, **connection))


def _in_place(by_transcript: Summarizer) -> Summarizer:
    """Return a summarizer that asks in place by the last call, and otherwise as the given one."""

    def ask(live: LiveCall, request: SummaryRequest) -> Any:
        sent = cast("_Sent", (live.request or {})[_SENT])
        kept = {name: value for name, value in sent.arguments.items() if name not in _OF_THE_CALL and name[:1] != "_"}
        limits = [name for name in _LIMITS if name in kept] or [name for name in _LIMITS[:1] if sent.callee.takes(name)]
        mark: Arguments = _mark(kept) if sent.callee.is_litellms else {}
        limit: Arguments = dict.fromkeys(limits, request.max_tokens + REASONING_TOKENS)
        return sent.callee.call({**kept, **limit, **mark, "messages": [*live.messages]})

    return ask_in_place(ask, _read, by_transcript)


def call_options(callee: Callee, arguments: Arguments, *, native: bool = False) -> CallOptions:
    """Return the options of a call: its model, window, limit and tools, and a summarizer that asks its model.

    Args:
        native: Whether the model's provider compacts if it can.
    """
    options = options_of(arguments, callee.router)
    kept = {name: value for name, value in arguments.items() if name not in _LEFT_OUT and not name.startswith("_")}

    is_limited = callee.takes("max_tokens")

    async def finish(answer: Awaitable[object], limit: int | None) -> Summary:
        return _read(await answer, limit)

    def ask(request: SummaryRequest, limit: int) -> Summary | Awaitable[Summary]:
        ours = limit if is_limited else None
        answer = _ask(callee, kept, request, ours)
        return finish(answer, ours) if callee.is_async else _read(answer, ours)

    by_provider = _native_summaries(callee, arguments, options) if native else None
    told = {**(options.get("request") or {}), _SENT: _Sent(callee, arguments)}
    return {**options, "request": told, "summarizer": by_provider or _in_place(with_reasoning_room(ask))}


def _mark(arguments: Arguments) -> Arguments:
    """Return arguments by which a callback can tell a call for a summary from the user's; a failed one is not retried."""
    return {"num_retries": 0, "metadata": {**as_mapping(arguments.get("metadata")), "compaction_hooks": "summary"}}


# -- by a model


def _ask(callee: Callee, kept: Arguments, request: SummaryRequest, limit: int | None) -> Any:
    """Ask for a summary of at most so many tokens: without a limit litellm would set the largest output of Claude."""
    limits: Arguments = {} if limit is None else {"max_tokens": limit}
    mark: Arguments = _mark(kept) if callee.is_litellms else {}
    messages = [{"role": "system", "content": request.system}, {"role": "user", "content": request.prompt}]
    return callee.call({**kept, **limits, **mark, "messages": messages})


def _read(response: object, limit: int | None = None) -> Summary:
    """Read a chat completion as a summary; a plain text is taken as the summary's."""
    if isinstance(response, str):
        return compaction_hooks.Summary(text=response)
    choice = (_field(response, "choices") or (None,))[0]
    answer = read_answer(response)
    told = replace(FORMAT.read(_field(choice, "message"))[0], usage=answer.usage if answer else None)
    return replace(summary_of(told, _field(choice, "finish_reason"), limit=limit), usage=_field(response, "usage"))


def _field(value: Any, name: str) -> Any:
    return as_mapping(value).get(name, getattr(value, name, None))


# -- by Anthropic


def _native_summaries(callee: Callee, arguments: Arguments, options: CallOptions) -> NativeSummaries | None:
    """Return the summarizer by which the model of a call compacts; None if it cannot, or if litellm does not call Anthropic."""
    model, provider = str(arguments.get("model")), arguments.get("custom_llm_provider")
    is_anthropics = provider in (None, "anthropic") and model.startswith(("anthropic/", "claude-"))
    if not (callee.is_sdk and is_anthropics and compacts(model)):
        return None
    kept = {name: value for name, value in arguments.items() if name not in _FORBIDDEN}

    def ask(live: LiveCall, request: SummaryRequest) -> Any:
        asked = {
            "compaction": compaction_option(request),
            "max_tokens": max(NATIVE_TOKENS, options.get("max_output_tokens") or 0),
            "messages": [*live.messages],
        }
        return callee.call({**kept, **_mark(arguments), **asked})

    return NativeSummaries(Issuer("anthropic", _address_of(arguments)), ask, _read_block, form=FORMAT.provider)


def _address_of(arguments: Arguments) -> str:
    """Return the base address that litellm sends a call to."""
    given = arguments.get("api_base") or arguments.get("base_url") or import_litellm().api_base
    named = given or os.environ.get("ANTHROPIC_API_BASE") or os.environ.get("ANTHROPIC_BASE_URL")
    return str(named or "https://api.anthropic.com").rstrip("/")


def _read_block(response: Any, issuer: Issuer) -> Summary:
    choice = response.choices[0]
    fields = as_mapping(getattr(choice.message, "provider_specific_fields", None))
    blocks = cast("list[Arguments]", fields.get("compaction_blocks") or [None])
    return read_block(blocks[0], issuer, response.usage, choice.finish_reason)
