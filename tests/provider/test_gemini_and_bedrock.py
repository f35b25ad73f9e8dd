"""Agents on google-genai and on boto3's Converse, over HTTP to a server with the rules of these APIs."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from compaction_hooks import CompactionController, CompactionFinished

genai: Any = pytest.importorskip("google.genai")
boto3: Any = pytest.importorskip("boto3")

WINDOW = 8_000
STEPS = 40
RESULT = "a line of the file that was read\n" * 60
SYSTEM = "You mend parsers. " * 20


class RefusedError(Exception):
    """A request that the API answers with status 400."""


class Server:
    """Google's and Amazon's APIs: they check the turns and the size of a request, then call a tool, at the end say "Done."."""

    def __init__(self) -> None:
        self.refusals: list[str] = []
        self.tokens: list[int] = []
        self.steps = 0

    async def gemini(self, request: Request) -> JSONResponse:
        body = await request.json()
        try:
            count = self._admit(body, "The input token count ({}) exceeds the maximum number of tokens allowed ({}).")
            check_contents(body["contents"])
        except RefusedError as refused:
            error = {"code": 400, "message": str(refused), "status": "INVALID_ARGUMENT"}
            return JSONResponse({"error": error}, 400)
        call = {"functionCall": {"id": f"c{self.steps}", "name": "read", "args": {"part": self.steps}}}
        parts = [{**call, "thoughtSignature": "c2ln"}, {"functionCall": {"name": "read", "args": {"part": 0}}}]
        content = {"role": "model", "parts": parts if self.steps <= STEPS else [{"text": "Done."}]}
        usage = {"promptTokenCount": count, "candidatesTokenCount": 10, "totalTokenCount": count + 10}
        return JSONResponse(
            {"candidates": [{"content": content, "finishReason": "STOP"}], "usageMetadata": usage, "modelVersion": "m"}
        )

    async def converse(self, request: Request) -> JSONResponse:
        body = await request.json()
        try:
            count = self._admit(body, "Input is too long for requested model.")
            check_converse(body["messages"])
        except RefusedError as refused:
            return JSONResponse({"message": str(refused)}, 400, {"x-amzn-ErrorType": "ValidationException"})
        call = {"toolUse": {"toolUseId": f"t{self.steps}", "name": "read", "input": {"part": self.steps}}}
        is_last = self.steps > STEPS
        return JSONResponse(
            {
                "output": {"message": {"role": "assistant", "content": [{"text": "Done."} if is_last else call]}},
                "stopReason": "end_turn" if is_last else "tool_use",
                "usage": {"inputTokens": count, "outputTokens": 10, "totalTokens": count + 10},
                "metrics": {"latencyMs": 1},
            }
        )

    def _admit(self, body: Mapping[str, Any], too_long: str) -> int:
        count = len(json.dumps(body)) // 4
        if count > WINDOW:
            self.refusals.append("too long")
            raise RefusedError(too_long.format(count, WINDOW))
        self.tokens.append(count)
        self.steps += 1
        return count


def check_contents(contents: Sequence[Any]) -> None:
    """Refuse calls without as many responses, and the present turn's first call of a step without its signature."""
    present = max(
        (n for n, one in enumerate(contents) if any("text" in part for part in one["parts"]) and one["role"] == "user")
    )
    for place, (one, following) in enumerate(pairwise([*contents, {"parts": []}])):
        calls = [part for part in one["parts"] if "functionCall" in part]
        responses = [part for part in following["parts"] if "functionResponse" in part]
        if len(calls) != len(responses):
            raise RefusedError(
                "Please ensure that the number of function response parts is equal to that of call parts"
            )
        if calls and place > present and "thoughtSignature" not in calls[0]:
            raise RefusedError("Function call is missing a thought_signature in functionCall parts.")


def check_converse(messages: Sequence[Any]) -> None:
    """Refuse roles that do not alternate, and calls without results."""
    for one, following in pairwise(messages):
        if one["role"] == following["role"]:
            raise RefusedError("A conversation must alternate between user and assistant roles.")
        called = {block["toolUse"]["toolUseId"] for block in one["content"] if "toolUse" in block}
        answered = {block["toolResult"]["toolUseId"] for block in following["content"] if "toolResult" in block}
        if called != answered:
            raise RefusedError("Expected toolResult blocks for the toolUse blocks of the previous turn.")


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def url(server: Server) -> Iterator[str]:
    routes = [
        Route("/{version}/models/{model:path}", server.gemini, methods=["POST"]),
        Route("/model/{model}/converse", server.converse, methods=["POST"]),
    ]
    config = uvicorn.Config(Starlette(routes=routes), log_config=None, lifespan="off", ws="none")
    running = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=lambda: asyncio.run(running.serve(sockets=[listening])))
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        running.should_exit = True
        thread.join()


def hooks_for(window: int, events: list[Any]) -> CompactionController[Any]:
    return CompactionController(context_window=window, on_event=events.append)


def compactions(events: Sequence[Any]) -> int:
    return sum(isinstance(event, CompactionFinished) for event in events)


@pytest.mark.parametrize("window", [WINDOW, 1_000_000], ids=["known", "believed-larger"])
def test_an_agent_on_google_genai(server: Server, url: str, window: int) -> None:
    """Its own objects are in the list, and a response has no id, as in Google's examples."""
    types, events = genai.types, list[Any]()
    hooks = hooks_for(window, events)
    contents: list[Any] = [types.Content(role="user", parts=[types.Part(text="Mend the parser.")])]
    config = types.GenerateContentConfig(system_instruction=SYSTEM)
    with genai.Client(api_key="key", http_options=types.HttpOptions(base_url=url)) as client:

        def send(view: list[Any]) -> Any:
            return client.models.generate_content(model="gemini-3-pro", contents=view, config=config)

        while True:
            before = list(contents)
            answer = hooks.call_sync(contents, send, system=SYSTEM)
            assert contents == before
            contents.append(answer.candidates[0].content)
            if not answer.function_calls:
                break
            results = [
                types.Part.from_function_response(name=call.name, response={"result": RESULT})
                for call in answer.function_calls
            ]
            contents.append(types.Content(role="user", parts=results))
    assert answer.text == "Done."
    assert compactions(events) > 1
    assert len(server.refusals) == (0 if window == WINDOW else 1)


@pytest.mark.parametrize("window", [WINDOW, 1_000_000], ids=["known", "believed-larger"])
def test_an_agent_on_boto3(server: Server, url: str, window: int) -> None:
    """The user writes something after each fifth result, in the same message: roles always alternate."""
    events = list[Any]()
    hooks = hooks_for(window, events)
    client = boto3.client(
        "bedrock-runtime",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
    )
    system = [{"text": SYSTEM}]
    messages: list[Any] = [{"role": "user", "content": [{"text": "Mend the parser."}]}]

    def send(view: list[Any]) -> Any:
        return client.converse(modelId="anthropic.claude-sonnet-4-5", messages=view, system=system)

    while True:
        answer = hooks.call_sync(messages, send, system=system)
        messages.append(answer["output"]["message"])
        calls = [block["toolUse"] for block in messages[-1]["content"] if "toolUse" in block]
        if not calls:
            break
        results = [{"toolResult": {"toolUseId": call["toolUseId"], "content": [{"text": RESULT}]}} for call in calls]
        asked = [{"text": f"Go on with part {len(messages)}."}] if len(messages) % 5 == 0 else []
        messages.append({"role": "user", "content": [*results, *asked]})
    client.close()
    assert messages[-1]["content"] == [{"text": "Done."}]
    assert compactions(events) > 1
    assert len(server.refusals) in ([0] if window == WINDOW else [1, 2])  # Bedrock does not say how large the window is
