"""The HTTP endpoints of the loopback provider, in an ASGI server for a thread. Needs starlette and uvicorn."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.provider import anthropic_wire, converse_wire, gemini_wire, openai_wire, responses_wire
from tests.provider.sides import Reply, Side
from tests.provider.validation import anthropic_fault, openai_fault
from tests.provider.wordings import Rejection


@dataclass(frozen=True, slots=True)
class _Wire:
    """One API: its functions that read a request and write a reply.

    Attributes:
        read: Returns a request, given its path, in the form of another API.
        error: Returns the body of an error, if the API's is not that of the rejection.
    """

    path: str
    wording: str
    system_of: Callable[[Mapping[str, Any]], str]
    fault: Callable[[Mapping[str, Any]], Rejection | None]
    whole: Callable[[Reply, Mapping[str, Any]], dict[str, Any]]
    events: Callable[[Reply, Mapping[str, Any]], Iterator[str | bytes]]
    auth_error: Callable[[], dict[str, Any]]
    messages_of: Callable[[Mapping[str, Any]], Sequence[Mapping[str, Any]]] = lambda body: body.get("messages") or ()
    read: Callable[[dict[str, Any], str], dict[str, Any]] = lambda body, _: body
    error: Callable[[str], dict[str, Any]] | None = None
    stream_type: str = "text/event-stream"


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
_GEMINI = _Wire(
    path="/{version}/models/{model:path}",
    wording="gemini",
    system_of=anthropic_wire.system_of,
    fault=gemini_wire.fault,
    whole=gemini_wire.whole,
    events=gemini_wire.events,
    auth_error=lambda: gemini_wire.error("API key not valid."),
    read=gemini_wire.read,
    error=gemini_wire.error,
)
_CONVERSE = _Wire(
    path="/model/{model}/{method}",
    wording="bedrock",
    system_of=anthropic_wire.system_of,
    fault=converse_wire.fault,
    whole=converse_wire.whole,
    events=converse_wire.events,
    auth_error=lambda: converse_wire.error("The security token included in the request is invalid."),
    read=converse_wire.read,
    stream_type="application/vnd.amazon.eventstream",
    error=converse_wire.error,
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
            for wire in (_OPENAI, _ANTHROPIC, _RESPONSES, _COMPACT, _GEMINI, _CONVERSE)
        ]
        config = uvicorn.Config(
            Starlette(routes=routes),
            log_config=None,
            access_log=False,
            proxy_headers=False,
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
        body = wire.read(await request.json(), request.url.path)
        if betas := request.headers.get("anthropic-beta"):
            body["betas"] = betas.split(",")
        reply = side.answer(
            request.url.path, body, wire.system_of(body), wire.wording, wire.fault, wire.messages_of(body)
        )
        if isinstance(reply, Rejection):
            return _error(wire, reply)
        await side.hold_back(request.is_disconnected)
        if body.get("stream"):
            return StreamingResponse(_without_threads(wire.events(reply, body)), media_type=wire.stream_type)
        return JSONResponse(wire.whole(reply, body))

    return endpoint


async def _without_threads(events: Iterator[str | bytes]) -> AsyncIterator[str | bytes]:
    """Yield the same: starlette takes each item of a plain iterator in a thread."""
    for event in events:
        yield event


def _error(wire: _Wire, rejection: Rejection) -> Response:
    body: Any = rejection.body
    if body is None:
        return Response(status_code=rejection.status)
    if wire.error is not None:
        (body,) = body if isinstance(body, list) else [body]
        body = wire.error(body["error"]["message"])
    return JSONResponse(body, rejection.status, {"x-amzn-ErrorType": "ValidationException"})


def _key(request: Request) -> str:
    headers = request.headers
    given: str = headers.get("x-api-key") or headers.get("x-goog-api-key") or headers.get("authorization", "")
    amazon = re.search("Credential=([^/]*)/", given)
    return amazon[1] if amazon else given.removeprefix("Bearer ")
