"""Summaries by the provider's own compaction: of Anthropic through `ChatAnthropic`, with the header that its block needs in every
request, and of OpenAI's Responses API through the client of `ChatOpenAI`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig

from compaction_adapters.kit import (
    ANTHROPIC_BETA,
    NATIVE_TOKENS,
    NativeSummaries,
    address_of,
    asker,
    compact_arguments,
    compaction_option,
    compaction_usage,
    compacts,
    read_block,
    read_items,
)
from compaction_adapters.langchain_core.assistants import finish_reason
from compaction_adapters.langchain_core.blocks import Block, blocks_of
from compaction_adapters.langchain_core.models import (
    is_instance,
    max_output_tokens,
    model_of_run,
    summary_config,
    unbind,
)
from compaction_hooks import Summary, SummaryRequest
from compaction_hooks.native import Issuer

_ANTHROPIC: Final = ("langchain_anthropic.chat_models", "ChatAnthropic")
_OPENAI: Final = ("langchain_openai.chat_models", "ChatOpenAI")
_FORBIDDEN: Final = ("context_management", "response_format", "stop", "stop_sequences", "tool_choice")
"""Arguments that Anthropic refuses in a request to compact."""


def native_summarizer(
    model: Any, prefix: Sequence[BaseMessage], settings: Mapping[str, object], tools: Sequence[object] = ()
) -> NativeSummaries | None:
    """Return the summarizer by which the model of a call compacts.

    None unless it is a `ChatAnthropic` of a model that can, or a `ChatOpenAI` that uses the Responses API.

    Args:
        model: The model, with arguments bound or not.
        prefix: The messages that the call sends before those of the conversation, such as a system prompt.
        settings: The other arguments of the call.
        tools: The tools of the call that are not bound.
    """
    inner, bound = unbind(model)  # behind fallbacks the call might reach another model
    given = {**bound, **settings}
    chat_model: Any = inner
    if is_instance(inner, *_ANTHROPIC) and compacts(chat_model.model):
        return _by_anthropic(
            chat_model, prefix, lambda: {**unbind(model.bind_tools(tools) if tools else model)[1], **settings}
        )
    if is_instance(inner, *_OPENAI) and _uses_responses(chat_model, given):
        return _by_openai(chat_model, prefix, given)
    return None


def _by_anthropic(
    inner: Any, prefix: Sequence[BaseMessage], find_arguments: Callable[[], dict[str, Any]]
) -> NativeSummaries:
    def arguments(request: SummaryRequest) -> dict[str, Any]:
        given = find_arguments()
        return {
            **{name: value for name, value in given.items() if name not in _FORBIDDEN},
            # Fields of the model count if the call does not override them.
            **dict.fromkeys(("context_management", "stop_sequences")),
            "stream": False,  # streamed, LangChain would lose the block
            "betas": _betas(inner, given),
            "max_tokens": max(NATIVE_TOKENS, max_output_tokens(inner, given) or 0),
            "compaction": compaction_option(request),
            "input": [*prefix, *(request.live.messages if request.live else ())],
            "config": summary_config(),
        }

    ask = asker(
        lambda request: inner.invoke(**arguments(request)),
        lambda request: inner.ainvoke(**arguments(request)),
        lambda answer: answer,
    )
    issuer = Issuer("anthropic", str(inner.anthropic_api_url).rstrip("/"))
    return NativeSummaries(issuer, lambda _, request: ask(request), _read, form="")


def _by_openai(inner: Any, prefix: Sequence[BaseMessage], given: Mapping[str, Any]) -> NativeSummaries:
    def arguments(request: SummaryRequest) -> Mapping[str, Any]:
        messages = [*prefix, *(request.live.messages if request.live else ())]
        sent = inner._get_request_payload(messages, **given)  # as LangChain itself translates them
        return compact_arguments(sent["model"], sent["input"], request)

    ask = asker(
        lambda request: inner.root_client.responses.compact(**arguments(request)),
        lambda request: inner.root_async_client.responses.compact(**arguments(request)),
        lambda answer: answer,
    )
    issuer = Issuer("openai_responses", address_of(inner.root_async_client.base_url))
    return NativeSummaries(issuer, lambda _, request: ask(request), read_items, form="")


def _uses_responses(inner: Any, given: Mapping[str, Any]) -> bool:
    """Return whether a `ChatOpenAI` calls the Responses API, and its version knows compaction items: others leave them out."""
    knows_items = hasattr(inner, "context_management")
    return knows_items and bool(inner._use_responses_api({**given, **inner.model_kwargs}))


def native_arguments(
    model: object, config: RunnableConfig, view: Sequence[BaseMessage], settings: Mapping[str, object]
) -> Mapping[str, Any]:
    """Return the arguments of a call with which Anthropic takes the block that a view begins with; none without a block.

    Args:
        config: The configuration of the run, which may select the model.
        settings: The other arguments of the call.
    """
    first = next((message for message in view if message.type != "system"), None)
    blocks = blocks_of(first.content)[:1] if isinstance(first, AIMessage) else ()
    fields = [cast(Block, block) for block in blocks if isinstance(block, Mapping)]
    if not any(block.get("type") == "compaction" and block.get("signature") for block in fields):
        return {}
    inner, bound = unbind(model_of_run(model, config))
    return {"betas": _betas(inner, {**bound, **settings})} if is_instance(inner, *_ANTHROPIC) else {}


def _betas(inner: Any, arguments: Mapping[str, Any]) -> list[str]:
    """Return the beta headers of a call, with the one for the block."""
    given = arguments.get("betas") or inner.model_kwargs.get("betas") or inner.betas or ()
    return [*(beta for beta in given if beta != ANTHROPIC_BETA), ANTHROPIC_BETA]


def _read(answer: AIMessage, issuer: Issuer) -> Summary:
    blocks = [cast(Block, block) for block in blocks_of(answer.content) if isinstance(block, Mapping)]
    usage = compaction_usage(answer.response_metadata.get("usage") or {})
    return read_block(blocks[0] if blocks else None, issuer, usage, finish_reason(answer))
