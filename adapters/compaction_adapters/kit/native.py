"""Summaries by a provider's own compaction."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from compaction_hooks import LiveCall, Summary, SummaryRequest
from compaction_hooks.errors import SummaryRefusedError, describe_error
from compaction_hooks.native import Issuer


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
        send: The client's method, sync or async.
        build: Returns the arguments of that method for a call.
        read: Reads the answer for the issuer with the call's model.
    """

    def __init__(
        self,
        issuer: Issuer,
        send: Callable[..., Any],
        build: Callable[[LiveCall, SummaryRequest], Mapping[str, Any]],
        read: Callable[[Any, Issuer], Summary],
    ) -> None:
        self.issuer = issuer
        self._send = send
        self._build = build
        self._read = read

    def __call__(self, request: SummaryRequest, /) -> Summary | Awaitable[Summary]:
        """Return the provider's summary; with an async client, an awaitable of it."""
        try:
            live = self._find_call(request)
            answer = self._send(**self._build(live, request))
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
        if live is None or live.provider != self.issuer.provider:
            raise SummaryRefusedError(f"the messages are not in the form of {self.issuer.provider}")
        if live.model is None:
            raise SummaryRefusedError("the model is unknown: give the controller model=")
        return live


def refused(error: Exception) -> Summary:
    """Return the answer without a summary, for which the core makes one by rule."""
    return Summary(text="", fallback_reason=describe_error(error))


def address_of(url: _Url) -> str:
    """Return the base address of a client, without a name or a password in it."""
    return f"{url.scheme}://{url.netloc.decode()}{url.path}".rstrip("/")
