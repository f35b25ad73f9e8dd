"""OpenAI: summaries by one of its models, or of a compatible server; and by its own compaction, for lists in the form of the
Responses API; xAI has the same endpoint.

Behaviour: https://developers.openai.com/api/docs/guides/compaction and
https://docs.x.ai/developers/advanced-api-usage/context-compaction (read 2026-11).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from compaction_adapters.kit import (
    REASONING_TOKENS,
    NativeSummaries,
    address_of,
    ask_client,
    ask_in_place,
    compact_arguments,
    read_items,
    repeat_options,
    summary_of,
)
from compaction_hooks import LiveCall, Summarizer, Summary, SummaryRequest
from compaction_hooks.errors import MissingExtraError
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.native import Issuer

try:
    from openai import AsyncOpenAI, OpenAI
    from openai.types.chat import ChatCompletion
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "openai":
        raise
    raise MissingExtraError("compaction_adapters.openai", "OpenAI's client", "openai") from error

__all__ = ["in_place", "native", "summarizer"]

_FORMAT: Final = OpenAIChatFormat()


def summarizer(client: OpenAI | AsyncOpenAI, model: str | None = None, **options: Any) -> Summarizer:
    """Return a summarizer that asks a model by chat completions, which all servers compatible with OpenAI's have.

    OpenAI is asked not to store the request, and for an answer of at most the summary and 8,192 tokens of reasoning. Other servers
    get neither option, because some refuse it.

    Args:
        client: A client of OpenAI, or of a compatible server. Its own retries apply.
        model: The name of the model, such as that of a cheaper one; None: the model of the call that is compacted.
        **options: Further arguments of `client.chat.completions.create`, which replace ours: `reasoning_effort="low"`,
            `max_tokens=4_096` for a compatible server, `store=False` for a gateway to OpenAI.
    """
    is_openai = client.base_url.host.endswith(".openai.com")

    def send(name: str, request: SummaryRequest) -> Any:
        create: Any = client.chat.completions.create
        limits = {"store": False, "max_completion_tokens": request.max_tokens + REASONING_TOKENS} if is_openai else {}
        messages = [{"role": "system", "content": request.system}, {"role": "user", "content": request.prompt}]
        return create(**{"model": name, "messages": messages, **limits, **options})

    return ask_client(model, send, _read)


def in_place(client: OpenAI | AsyncOpenAI) -> Summarizer:
    """Return a summarizer that asks the conversation's own model for the summary at the end of the conversation, as it is.

    The provider has most of that request in its cache. It is sent with the options of the last call, as the program tells them
    (`request=`, `system=` and `tools=` of `transform_context` or `call`), where that costs less than a transcript and fits;
    otherwise, and once if the answer is no summary, the model is asked as by `summarizer(client)`. Nothing is stored at OpenAI.

    Args:
        client: The client that your program asks with. Its own retries apply.
    """
    is_openai = client.base_url.host.endswith(".openai.com")

    def ask(live: LiveCall, request: SummaryRequest) -> Any:
        limits = [name for name in _LIMITS if name in (live.request or {})]
        options = repeat_options(live, {*_OF_THE_CALL, *_LIMITS})
        if live.tools:
            options["tools"] = live.tools
        if is_openai:
            options["store"] = False
        limit, is_responses = request.max_tokens + REASONING_TOKENS, live.provider == "openai_responses"
        if is_openai:
            limits = limits or ["max_output_tokens" if is_responses else "max_completion_tokens"]
        options.update(dict.fromkeys(limits, limit))

        api: Any = client.responses if is_responses else client.chat.completions
        if is_responses:
            told = {"input": live.messages, **({"instructions": live.system} if live.system else {})}
        else:
            system = [{"role": "system", "content": live.system}] if live.system else []
            told = {"messages": [*system, *live.messages]}
        return api.create(**{**options, **told})

    return ask_in_place(ask, _read_any, summarizer(client))


_OF_THE_CALL: Final = frozenset({"messages", "input", "stream", "stream_options", "background", "n"})
"""Options of a call that its messages replace, or that would shape the answer to the user."""
_LIMITS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def _read_any(answer: Any) -> Summary:
    if isinstance(answer, ChatCompletion):
        return _read(answer)
    calls = tuple({"name": item.type} for item in answer.output if item.type.endswith("_call"))
    return Summary(text=answer.output_text, usage=answer.usage, finish_reason=answer.status, tool_calls=calls)


def _read(answer: ChatCompletion) -> Summary:
    choice = answer.choices[0]
    ending = "refusal" if choice.message.refusal else choice.finish_reason
    message: Any = choice.message
    return replace(summary_of(_FORMAT.read(message)[0], ending), usage=answer.usage)


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
