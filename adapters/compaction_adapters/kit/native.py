"""Summaries by a provider's own compaction."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import compaction_hooks
from compaction_hooks import LiveCall, Summary, SummaryRequest, Usage
from compaction_hooks.errors import SummaryRefusedError
from compaction_hooks.formats import OpenAIResponsesFormat
from compaction_hooks.native import Issuer, NativeItems

ANTHROPIC_BETA: Final = "compact-2026-09-04"
"""The value of the `anthropic-beta` header for a request that asks Anthropic for its block or has it in its messages
(https://platform.claude.com/docs/en/build-with-claude/compaction-on-demand, read 2026-11)."""
NATIVE_TOKENS: Final = 8_192
"""The most tokens of thinking and summary together; Anthropic's documentation asks for several thousand."""
_WORDING: Final = (
    "Summarize this conversation for the agent that goes on with it: what the user wants, requires and rules out, in the user's "
    "words; what was done and decided, and why; exact names, paths, numbers and errors; what is open. Do not call tools."
)
"""The instructions in front of a focus or of the host's own lines, since instructions replace Anthropic's own."""
_TOO_OLD: Final = re.compile(r"claude-(?:instant|[23]|(?:opus|sonnet)-4(?!-[6-9](?!\d))|haiku-4)")
"""The Claude models that do not compact: those before Opus 4.6, Sonnet 4.6 and Haiku 5.5 (same page)."""
_RESPONSES: Final = OpenAIResponsesFormat()


class _Url(Protocol):
    """An address as httpx has it."""

    @property
    def scheme(self) -> str: ...
    @property
    def netloc(self) -> bytes: ...
    @property
    def path(self) -> str: ...


class NativeSummaries:
    """A summarizer that lets a provider compact. If that fails, the core makes the summary by rule, and its event tells why.

    Args:
        issuer: The API, without a model.
        ask: Asks the provider, sync or async, to summarize the messages of a call.
        read: Reads the answer for the issuer with the call's model.
        form: The provider of the messages' format, "" if the format has none; None: that of the issuer. An adapter whose client
            library translates the messages gives its own form, with each call: views in this form then carry the items.
    """

    def __init__(
        self,
        issuer: Issuer,
        ask: Callable[[LiveCall, SummaryRequest], Any],
        read: Callable[[Any, Issuer], Summary],
        *,
        form: str | None = None,
    ) -> None:
        self.issuer = issuer
        self.form = issuer.provider if form is None else form
        self._ask = ask
        self._read = read

    def __call__(self, request: SummaryRequest, /) -> Summary | Awaitable[Summary]:
        """Return the provider's summary; with an async client, an awaitable of it."""
        try:
            live = self._find_call(request)
            answer = self._ask(live, request)
            issuer = self.issuer._replace(model=live.model or "")
            return self._finish(answer, issuer) if inspect.isawaitable(answer) else self._read(answer, issuer)
        except Exception as error:  # noqa: BLE001 - any failure of the provider has the same cure
            return refused(error)

    async def _finish(self, answer: Awaitable[Any], issuer: Issuer) -> Summary:
        try:
            return self._read(await answer, issuer)
        except Exception as error:  # noqa: BLE001 - as above
            return refused(error)

    def _find_call(self, request: SummaryRequest) -> LiveCall:
        live = request.live
        if live is None or (live.provider or "") != self.form:
            where = f"the messages are not in the form of {self.form or self.issuer.provider}"
            raise SummaryRefusedError(
                f"{where}: in a framework give the adapter native=True in place of native(client), if it has this option"
            )
        if live.model is None:
            raise SummaryRefusedError("the model is unknown: give the controller model=")
        return live


def refused(error: Exception) -> Summary:
    """Return the answer without a summary, for which the core makes one by rule; it tells the error in at most 300 characters."""
    return compaction_hooks.Summary(text="", fallback_reason=f"{type(error).__name__}: {error}"[:300])


def address_of(url: _Url) -> str:
    """Return the base address of a client, without a name or a password in it."""
    return f"{url.scheme}://{url.netloc.decode()}{url.path}".rstrip("/")


def compacts(model: str) -> bool:
    """Return whether Anthropic may compact with this model; a model that is newer than this list does.

    >>> compacts("anthropic/claude-opus-4-6"), compacts("claude-opus-4-5-20251101"), compacts("claude-haiku-6")
    (True, False, True)
    """
    return _TOO_OLD.search(model) is None


def compaction_option(request: SummaryRequest, instructions: str | None = None) -> Mapping[str, str]:
    """Return the option `compaction` of a request to Anthropic.

    Args:
        instructions: Say how the summary is written; None: the settings' `summary_prompt`, else Anthropic's own.
            The settings' `summary_instructions` follow, and a focus.
    """
    focus = f"Pay most attention to: {request.focus}" if request.focus else None
    added = [text for text in (request.instructions, focus) if text]
    wording = instructions or request.form or (_WORDING if added else None)
    return {"type": "summarize", **({"instructions": "\n\n".join([wording, *added])} if wording else {})}


def read_block(block: Mapping[str, Any] | None, issuer: Issuer, usage: Usage | None, stop_reason: object) -> Summary:
    """Return Anthropic's block, as it came, as a summary; an answer without one is a failure, whatever its stop reason."""
    if block is None or not block.get("content") or not block.get("signature"):
        return compaction_hooks.Summary(
            text="", usage=usage, fallback_reason=f"Anthropic gave no summary (stop reason {stop_reason})"
        )
    # Fields that client libraries add, with None in them, are refused by the API.
    sent = {name: value for name, value in block.items() if value is not None}
    return compaction_hooks.Summary(text=block["content"], usage=usage, native=NativeItems(issuer, (sent,)))


def compaction_usage(usage: Mapping[str, Any]) -> Usage:
    """Return the cost of a compaction by Anthropic: its counts are outside the sums of the whole answer."""
    each = [usage, *(one for one in usage.get("iterations") or () if one.get("type") == "compaction")]
    inputs, outputs, read, written = (
        sum(one.get(f"{name}_tokens") or 0 for one in each)
        for name in ("input", "output", "cache_read_input", "cache_creation_input")
    )
    return Usage(
        input_tokens=inputs + read + written, output_tokens=outputs, cache_read_tokens=read, cache_write_tokens=written
    )


def compact_arguments(
    model: str | None, messages: Sequence[Any], request: SummaryRequest, system: object = None
) -> Mapping[str, Any]:
    """Return the arguments of OpenAI's request to compact the items of a call.

    The view has system messages behind OpenAI's items, so these must not keep them, and pins once.
    """
    texts = [system] if isinstance(system, str) else []
    items: list[Any] = []
    said = set[object]()
    for message in messages:
        (read,) = _RESPONSES.read(message)
        if read.role == "system":
            texts.append(read.text)
        elif read.role != "user" or read.parts not in said:
            items.append(message)
            said.add(read.parts)

    if request.instructions:
        texts.append(f"If you compact the conversation: {request.instructions}")
    if request.focus:
        texts.append(f"If you compact the conversation, pay most attention to: {request.focus}")

    instructions = {"instructions": "\n\n".join(texts)} if texts else {}
    return {"model": model, "input": items, **instructions}


def read_items(reply: Any, issuer: Issuer) -> Summary:
    """Return all items of OpenAI as they came, as a summary: the retained ones belong to the sealed one at their end."""
    # Retained messages of the user are none of the types that the client expects in an output: it would warn.
    items = tuple(item.to_dict(warnings=False) for item in reply.output)
    if not items or items[-1].get("type") != "compaction":
        return compaction_hooks.Summary(text="", usage=reply.usage, fallback_reason="OpenAI gave no compaction item")
    return compaction_hooks.Summary(
        text="", usage=reply.usage, native=NativeItems(issuer, items, reply.usage.output_tokens)
    )
