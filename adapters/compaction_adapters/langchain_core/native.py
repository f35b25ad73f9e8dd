"""Summaries by Anthropic's own compaction through `ChatAnthropic`, and the header that its block needs in every request."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig

from compaction_adapters.kit import (
    ANTHROPIC_BETA,
    NATIVE_TOKENS,
    NativeSummaries,
    asker,
    compaction_option,
    compaction_usage,
    compacts,
    read_block,
)
from compaction_adapters.langchain_core.blocks import Block, blocks_of
from compaction_adapters.langchain_core.models import bound_arguments, max_output_tokens, model_of_run, summary_config
from compaction_adapters.langchain_core.usage import finish_reason
from compaction_hooks import Summary, SummaryRequest
from compaction_hooks.native import Issuer

_FORBIDDEN: Final = ("context_management", "response_format", "stop", "stop_sequences", "tool_choice")
"""Arguments that Anthropic refuses in a request to compact."""


def native_summarizer(
    model: Any, prefix: Sequence[BaseMessage], settings: Mapping[str, object], tools: Sequence[object] = ()
) -> NativeSummaries | None:
    """Return the summarizer by which the model of a call compacts; None unless it is a `ChatAnthropic` of a model that can.

    Args:
        model: The model, with arguments bound or not.
        prefix: The messages that the call sends before those of the conversation, such as a system prompt.
        settings: The other arguments of the call.
        tools: The tools of the call that are not bound.
    """
    inner = _chat_anthropic(model)
    if inner is None or not compacts(inner.model):
        return None

    def arguments(request: SummaryRequest) -> dict[str, Any]:
        given = _arguments(model.bind_tools(tools) if tools else model, settings)
        return {
            **{name: value for name, value in given.items() if name not in _FORBIDDEN},
            # Fields of the model count if the call does not override them.
            **dict.fromkeys(("context_management", "stop_sequences")),
            "stream": False,  # streamed, LangChain would lose the block
            "betas": _betas(inner, given),
            "max_tokens": max(NATIVE_TOKENS, max_output_tokens(model, settings) or 0),
            "compaction": compaction_option(request),
            "input": [*prefix, *(request.live.messages if request.live else ())],
            "config": summary_config(),
        }

    ask = asker(
        lambda request: inner.invoke(**arguments(request)), lambda request: inner.ainvoke(**arguments(request)), _as_is
    )
    issuer = Issuer("anthropic", str(inner.anthropic_api_url).rstrip("/"))
    return NativeSummaries(issuer, lambda _, request: ask(request), _read, form="")


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
    if not any(isinstance(block, Mapping) and _is_signed(cast(Block, block)) for block in blocks):
        return {}
    model = model_of_run(model, config)
    inner = _chat_anthropic(model)
    return {} if inner is None else {"betas": _betas(inner, _arguments(model, settings))}


def _is_signed(block: Block) -> bool:
    return block.get("type") == "compaction" and bool(block.get("signature"))


def _chat_anthropic(model: object) -> Any:
    """Return the chat model if it is a `ChatAnthropic`, with bound arguments or not; else None.

    Behind fallbacks the call might reach another model.
    """
    while (bound := getattr(model, "bound", None)) is not None:
        model = bound
    module = sys.modules.get("langchain_anthropic.chat_models")  # imported if there is such a model
    return model if isinstance(model, getattr(module, "ChatAnthropic", ())) else None


def _arguments(model: object, settings: Mapping[str, object]) -> dict[str, Any]:
    return {**bound_arguments(model), **settings}


def _betas(inner: Any, arguments: Mapping[str, Any]) -> list[str]:
    """Return the beta headers of a call, with the one for the block."""
    given = arguments.get("betas") or inner.model_kwargs.get("betas") or inner.betas or ()
    return [*(beta for beta in given if beta != ANTHROPIC_BETA), ANTHROPIC_BETA]


def _as_is(answer: AIMessage) -> AIMessage:
    return answer


def _read(answer: AIMessage, issuer: Issuer) -> Summary:
    blocks = [cast(Block, block) for block in blocks_of(answer.content) if isinstance(block, Mapping)]
    usage = compaction_usage(answer.response_metadata.get("usage") or {})
    return read_block(blocks[0] if blocks else None, issuer, usage, finish_reason(answer))
