"""Anthropic: summaries by one of its models, or by its own compaction on demand.

Behaviour: https://platform.claude.com/docs/en/build-with-claude/compaction-on-demand (read 2026-11).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from compaction_adapters.kit import (
    ANTHROPIC_BETA,
    NATIVE_TOKENS,
    REASONING_TOKENS,
    NativeSummaries,
    address_of,
    ask_client,
    ask_in_place,
    compaction_option,
    compaction_usage,
    read_block,
    repeat_options,
    summary_of,
)
from compaction_hooks import LiveCall, Summarizer, Summary, SummaryRequest
from compaction_hooks.arguments import format_value
from compaction_hooks.errors import ConfigurationError, MissingExtraError
from compaction_hooks.formats import AnthropicFormat
from compaction_hooks.native import Issuer

try:
    from anthropic import Anthropic, AsyncAnthropic
    from anthropic.types import Message
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "anthropic":
        raise
    raise MissingExtraError("compaction_adapters.anthropic", "Anthropic's client", "anthropic") from error

__all__ = ["BETA", "in_place", "native", "summarizer"]

_FORMAT: Final = AnthropicFormat()
BETA: Final = ANTHROPIC_BETA
"""The value of the `anthropic-beta` header for a request that asks for the item or has it in its messages."""


def summarizer(client: Anthropic | AsyncAnthropic, model: str | None = None, **options: Any) -> Summarizer:
    """Return a summarizer that asks a model for an answer of at most the summary and 8,192 tokens of thinking.

    Args:
        client: A client of Anthropic. Its own retries and time limit apply.
        model: The name of the model, such as that of a cheaper one; None: the model of the call that is compacted.
        **options: Further arguments of `client.messages.create`, which replace ours: `thinking={"type": "disabled"}`.
    """

    def send(name: str, request: SummaryRequest) -> Any:
        create: Any = client.messages.create
        ours = {
            "model": name,
            "max_tokens": request.max_tokens + REASONING_TOKENS,
            "system": request.system,
            "messages": [{"role": "user", "content": request.prompt}],
            # Named, or the client refuses larger limits, and for some models this one, unless the answer is streamed.
            "timeout": client.timeout,
        }
        return create(**{**ours, **options})

    return ask_client(model, send, _read_message)


def in_place(client: Anthropic | AsyncAnthropic) -> Summarizer:
    """Return a summarizer that asks the conversation's own model for the summary at the end of the conversation, as it is.

    Anthropic has most of that request in its cache if your requests have cache marks. It is sent with the options of the last call,
    as the program tells them (`request=`, `system=` and `tools=` of `transform_context` or `call`), where that costs less than a
    transcript and fits; otherwise, and once if the answer is no summary, the model is asked as by `summarizer(client)`.

    Args:
        client: The client that your program asks with. Its own retries and time limit apply.
    """

    def ask(live: LiveCall, request: SummaryRequest) -> Any:
        options = repeat_options(live, _OF_THE_CALL)
        thinking: Any = options.get("thinking") or {}
        outside = {"system": live.system, "tools": live.tools}
        create: Any = (client.beta.messages if "betas" in options else client.messages).create
        options |= {name: value for name, value in outside.items() if value}
        limit = request.max_tokens + max(REASONING_TOKENS, thinking.get("budget_tokens") or 0)
        return create(**options, messages=live.messages, max_tokens=limit, timeout=client.timeout)

    return ask_in_place(ask, _read_message, summarizer(client))


_OF_THE_CALL: Final = frozenset({"messages", "max_tokens", "stream", "timeout"})
"""Options of a call that its messages or its summary replace."""


def _read_message(answer: Message) -> Summary:
    message: Any = answer
    return replace(summary_of(_FORMAT.read(message)[0], answer.stop_reason), usage=answer.usage)


def native(
    client: Anthropic | AsyncAnthropic,
    *,
    sends_header: bool = False,
    instructions: str | None = None,
    max_tokens: int = NATIVE_TOKENS,
    betas: Sequence[str] = (),
) -> NativeSummaries:
    """Return a summarizer by which Anthropic compacts the conversation with the model of the call.

    The view then begins with Anthropic's signed block, as long as the client's address and the model are the same. Anybody else is
    sent its text. Sync methods of the controller need a sync client.

    Args:
        client: The client that your program asks with. Its own retries apply.
        sends_header: Whether each request of your program has the header `anthropic-beta: compact-2026-09-04` (`BETA`); Anthropic
            refuses a request that has the block and not the header.
        instructions: Say how the summary is written, in place of Anthropic's own; None: the settings' `summary_prompt`. The
            settings' `summary_instructions` follow.
        max_tokens: The most tokens of thinking and summary together.
        betas: Other beta headers of your requests, such as that of a longer window.

    Raises:
        ConfigurationError: `sends_header` is not True.
    """
    if sends_header is not True:
        raise ConfigurationError(
            f"sends_header={format_value(sends_header)} must be True: once Anthropic has compacted, it refuses requests without a "
            f'header. Send "anthropic-beta: {BETA}" with every request, as with betas=["{BETA}"] of client.beta.messages.create, '
            "and write native(client, sends_header=True)"
        )

    def ask(live: LiveCall, request: SummaryRequest) -> Any:
        messages: Any = client.beta.messages
        outside = {"system": live.system, "tools": live.tools}
        return messages.create(
            model=live.model,
            messages=live.messages,
            max_tokens=max_tokens,
            betas=[*betas, BETA],
            compaction=compaction_option(request, instructions),
            **{name: value for name, value in outside.items() if value},
        )

    return NativeSummaries(Issuer("anthropic", address_of(client.base_url)), ask, _read)


def _read(reply: Any, issuer: Issuer) -> Summary:
    block = reply.content[0] if reply.stop_reason == "compaction" and reply.content else None
    return read_block(block and block.to_dict(), issuer, compaction_usage(reply.usage.to_dict()), reply.stop_reason)
