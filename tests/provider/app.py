"""The HTTP endpoints of the loopback provider, in an ASGI server for a thread. Needs starlette and uvicorn."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.provider import anthropic_wire, openai_wire, responses_wire
from tests.provider.sides import Reply, Side
from tests.provider.validation import anthropic_fault, openai_fault
from tests.provider.wordings import Rejection


@dataclass(frozen=True, slots=True)
class _Wire:
    """One API: its functions that read a request and write a reply."""

    path: str
    wording: str
    system_of: Callable[[Mapping[str, Any]], str]
    fault: Callable[[Mapping[str, Any]], Rejection | None]
    whole: Callable[[Reply, Mapping[str, Any]], dict[str, Any]]
    events: Callable[[Reply, Mapping[str, Any]], Iterator[str]]
    auth_error: Callable[[], dict[str, Any]]
    messages_of: Callable[[Mapping[str, Any]], Sequence[Mapping[str, Any]]] = lambda body: body.get("messages") or ()


_OPENAI = _Wire(
    path="/v1/chat/completions",
    wording="openai",
    system_of=openai_wire.system_of,
    fault=openai_fault,
    whole=openai_wire.completion,
    events=openai_wire.events,
    auth_error=openai_wire.auth_error,
)
_ANTHROPIC = _Wire(
    path="/v1/messages",
    wording="anthropic",
    system_of=anthropic_wire.system_of,
    fault=anthropic_fault,
    whole=anthropic_wire.message,
    events=anthropic_wire.events,
    auth_error=anthropic_wire.auth_error,
)
_RESPONSES = _Wire(
    path="/v1/responses",
    wording="openai",
    system_of=responses_wire.system_of,
    fault=responses_wire.fault,
    whole=responses_wire.whole,
    events=responses_wire.events,
    auth_error=responses_wire.auth_error,
    messages_of=responses_wire.messages_of,
)
_COMPACT = replace(_RESPONSES, path="/v1/responses/compact", whole=responses_wire.compacted)


class HttpServer:
    """Server for the requests of these conversations, selected by API key.

    Args:
        sides: May grow while the server runs.
    """

    def __init__(self, sides: Mapping[str, Side]) -> None:
        routes = [
            Route(wire.path, _endpoint(wire, sides), methods=["POST"])
            for wire in (_OPENAI, _ANTHROPIC, _RESPONSES, _COMPACT)
        ]
        config = uvicorn.Config(
            Starlette(routes=routes),
            log_config=None,
            lifespan="off",
            ws="none",
            loop="asyncio",
            http="h11",
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)

    def run(self, listening: socket.socket) -> None:
        """Serve until `stop` is called."""
        asyncio.run(self._server.serve(sockets=[listening]))

    def stop(self) -> None:
        """Let `run` return soon."""
        self._server.should_exit = True


def _endpoint(wire: _Wire, sides: Mapping[str, Side]) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        side = sides.get(_key(request))
        if side is None:
            return JSONResponse(wire.auth_error(), 401)
        body = await request.json()
        if betas := request.headers.get("anthropic-beta"):
            body["betas"] = betas.split(",")
        reply = side.answer(
            request.url.path, body, wire.system_of(body), wire.wording, wire.fault, wire.messages_of(body)
        )
        if isinstance(reply, Rejection):
            return Response(status_code=reply.status) if reply.body is None else JSONResponse(reply.body, reply.status)
        if body.get("stream"):
            return StreamingResponse(wire.events(reply, body), media_type="text/event-stream")
        return JSONResponse(wire.whole(reply, body))

    return endpoint


def _key(request: Request) -> str:
    given: str = request.headers.get("x-api-key") or request.headers.get("authorization", "")
    return given.removeprefix("Bearer ")
