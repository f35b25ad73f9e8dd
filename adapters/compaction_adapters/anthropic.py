"""Anthropic: summaries by its own compaction on demand.

Behaviour: https://platform.claude.com/docs/en/build-with-claude/compaction-on-demand (read 2026-11).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from compaction_adapters.kit import NativeSummaries, address_of
from compaction_hooks import LiveCall, Summary, SummaryRequest, Usage
from compaction_hooks.errors import ConfigurationError, MissingExtraError
from compaction_hooks.native import Issuer, NativeItems

try:
    from anthropic import Anthropic, AsyncAnthropic
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "anthropic":
        raise
    raise MissingExtraError("compaction_adapters.anthropic", "Anthropic's client", "anthropic") from error

BETA: Final = "compact-2026-09-04"
"""The value of the `anthropic-beta` header for a request that asks for the item or has it in its messages."""
MAX_TOKENS: Final = 8_192
"""The most tokens of thinking and summary together; the documentation asks for several thousand."""
_FOCUSED: Final = (
    "Summarize this conversation for the agent that goes on with it: what the user wants, requires and rules out, in the user's "
    "words; what was done and decided, and why; exact names, paths, numbers and errors; what is open. Do not call tools."
)
"""The instructions for a summary with a focus, since instructions replace Anthropic's own."""


def native(
    client: Anthropic | AsyncAnthropic,
    *,
    sends_header: bool = False,
    instructions: str | None = None,
    max_tokens: int = MAX_TOKENS,
    betas: Sequence[str] = (),
) -> NativeSummaries:
    """Return a summarizer by which Anthropic compacts the conversation with the model of the call.

    The view then begins with Anthropic's signed block, as long as the client's address and the model are the same. Anybody else is
    sent its text. Sync methods of the controller need a sync client.

    Args:
        client: The client that your program asks with. Its own retries apply.
        sends_header: Whether each request of your program has the header `anthropic-beta: compact-2026-09-04` (`BETA`); Anthropic
            refuses a request that has the block and not the header.
        instructions: Say how the summary is written, in place of Anthropic's own; None: the settings' `summary_prompt`.
        max_tokens: The most tokens of thinking and summary together.
        betas: Other beta headers of your requests, such as that of a longer window.

    Raises:
        ConfigurationError: `sends_header` is not True.
    """
    if sends_header is not True:
        raise ConfigurationError(
            f"sends_header={sends_header!r} must be True: once Anthropic has compacted, it refuses requests without a header. Send "
            f'"anthropic-beta: {BETA}" with every request, as with betas=["{BETA}"] of client.beta.messages.create, and write '
            "native(client, sends_header=True)"
        )

    def build(live: LiveCall, request: SummaryRequest) -> Mapping[str, Any]:
        wording = instructions or request.form or (_FOCUSED if request.focus else None)
        focus = f"\n\nPay most attention to: {request.focus}" if request.focus else ""
        given = {"instructions": f"{wording}{focus}"} if wording else {}
        outside = {"system": live.system, "tools": live.tools}
        return {
            "model": live.model,
            "messages": live.messages,
            "max_tokens": max_tokens,
            "betas": [*betas, BETA],
            "compaction": {"type": "summarize", **given},
            **{name: value for name, value in outside.items() if value},
        }

    issuer = Issuer("anthropic", address_of(client.base_url))
    return NativeSummaries(issuer, client.beta.messages.create, build, _read)


def _read(reply: Any, issuer: Issuer) -> Summary:
    """Return the block as it came; an answer without one is a failure, whatever its stop reason."""
    usage = _usage(reply.usage)
    block = reply.content[0] if reply.content else None
    if reply.stop_reason != "compaction" or block is None or not block.content:
        return Summary(
            text="", usage=usage, fallback_reason=f"Anthropic gave no summary (stop reason {reply.stop_reason})"
        )
    # `model_dump` would add fields that the API refuses.
    return Summary(text=block.content, usage=usage, native=NativeItems(issuer, (block.to_dict(),)))


def _usage(usage: Any) -> Usage:
    """Return the cost: the counts of a compaction are outside the sums of the whole answer."""
    each = [usage, *(one for one in usage.iterations or () if one.type == "compaction")]
    read, written = (
        sum(getattr(one, f"cache_{name}_input_tokens") or 0 for one in each) for name in ("read", "creation")
    )
    return Usage(
        input_tokens=sum(one.input_tokens for one in each) + read + written,
        output_tokens=sum(one.output_tokens for one in each),
        cache_read_tokens=read,
        cache_write_tokens=written,
    )
