"""Providers' own clients, when another account, model or route made the reasoning in the history: one refusal, then none."""

from __future__ import annotations

import asyncio
import base64
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from compaction_hooks import CompactionController
from compaction_hooks.formats import OpenAIResponsesFormat
from compaction_hooks.stores import MemoryStore

genai: Any = pytest.importorskip("google.genai")
boto3: Any = pytest.importorskip("boto3")
openai: Any = pytest.importorskip("openai")

RAW_PLACEHOLDER = "skip_thought_signature_validator"
PLACEHOLDER = base64.urlsafe_b64encode(RAW_PLACEHOLDER.encode()).decode()
DEEPSEEK = "The `reasoning_content` in the thinking mode must be passed back to the API."


class RefusedError(Exception):
    """A refused request: the provider's message, code and status."""

    def __init__(self, message: str, code: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


class Provider:
    """APIs whose reasoning only the account that asked for it may send back.

    Attributes:
        account: The present account; tests change it.
        place: The field of chat messages with Google's signature: that of Google's own endpoint, of LiteLLM or OpenRouter.
        stores: Whether Responses items are stored, so that reasoning has no encrypted content.
        refusals: The refused requests' messages.
    """

    def __init__(self) -> None:
        self.account = "first"
        self.place = ""
        self.stores = False
        self.refusals: list[str] = []
        self.calls = 0
        self._reasoning_of: dict[str, str] = {}

    async def responses(self, request: Request) -> JSONResponse:
        body = await request.json()
        return self._reply(
            lambda: self._check_items(body["input"]),
            self._response,
            lambda refused: {
                "error": {
                    "message": str(refused),
                    "type": "invalid_request_error",
                    "param": "input",
                    "code": refused.code,
                }
            },
        )

    def _check_items(self, items: Sequence[Mapping[str, Any]]) -> None:
        ids = {item.get("id") for item in items}
        for place, item in enumerate(items):
            id_ = item.get("id", "")
            if item.get("type") == "reasoning":
                if self.stores and not id_.endswith(self.account):
                    raise RefusedError(
                        f"Item with id '{id_}' not found. Items are not persisted when `store` is set to false.",
                        status=404,
                    )
                if not self.stores and item.get("encrypted_content") != self.account:
                    raise RefusedError(
                        f"The encrypted content for item {id_} could not be verified. Reason: Encrypted content could not be "
                        "decrypted or parsed.",
                        "invalid_encrypted_content",
                    )
                if place + 1 == len(items) or self._reasoning_of.get(items[place + 1].get("id", "")) != id_:
                    raise RefusedError(
                        f"Item '{id_}' of type 'reasoning' was provided without its required following item."
                    )
            elif self._reasoning_of.get(id_, id_) not in ids | {""}:
                raise RefusedError(
                    f"Item '{id_}' of type '{item['type']}' was provided without its required 'reasoning' item: "
                    f"'{self._reasoning_of[id_]}'."
                )

    def _response(self) -> dict[str, Any]:
        reasoning, call = f"rs_{self.calls}_{self.account}", f"fc_{self.calls}"
        self._reasoning_of[call] = reasoning
        thought: dict[str, Any] = {"type": "reasoning", "id": reasoning, "summary": []}
        if not self.stores:
            thought["encrypted_content"] = self.account
        function = {"type": "function_call", "id": call, "call_id": f"call_{self.calls}", "name": "read"}
        return {
            "id": f"resp_{self.calls}",
            "object": "response",
            "created_at": 0,
            "model": "m",
            "status": "completed",
            "output": [thought, {**function, "arguments": "{}", "status": "completed"}],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }

    async def gemini(self, request: Request) -> JSONResponse:
        body = await request.json()
        return self._reply(
            lambda: self._check_contents(body["contents"]),
            self._candidate,
            lambda refused: {"error": {"code": 400, "message": str(refused), "status": "INVALID_ARGUMENT"}},
        )

    def _check_contents(self, contents: Sequence[Any]) -> None:
        for content in contents:
            for part in content["parts"]:
                if "functionCall" in part and "thoughtSignature" not in part:
                    raise RefusedError("Function call is missing a thought_signature in functionCall parts.")
                if part.get("thoughtSignature", PLACEHOLDER) not in (PLACEHOLDER, self._signature):
                    raise RefusedError("Corrupted thought signature.")

    @property
    def _signature(self) -> str:
        return base64.urlsafe_b64encode(self.account.encode()).decode()

    def _candidate(self) -> dict[str, Any]:
        call = {"functionCall": {"name": "read", "args": {}}, "thoughtSignature": self._signature}
        return {"candidates": [{"content": {"role": "model", "parts": [call]}, "finishReason": "STOP"}]}

    async def converse(self, request: Request) -> JSONResponse:
        body = await request.json()
        answer = self._reply(
            lambda: self._check_blocks(body["messages"]), self._message, lambda refused: {"message": str(refused)}
        )
        if answer.status_code != 200:
            answer.headers["x-amzn-ErrorType"] = "ValidationException"
        return answer

    def _check_blocks(self, messages: Sequence[Any]) -> None:
        for place, message in enumerate(messages):
            for block in message["content"]:
                seal = block.get("reasoningContent", {}).get("reasoningText", {}).get("signature", self.account)
                if seal != self.account:
                    raise RefusedError(f"messages.{place}.content.0: Invalid `signature` in `thinking` block.")

    def _message(self) -> dict[str, Any]:
        thought = {"reasoningContent": {"reasoningText": {"text": "Next.", "signature": self.account}}}
        call = {"toolUse": {"toolUseId": f"t{self.calls}", "name": "read", "input": {}}}
        return {
            "output": {"message": {"role": "assistant", "content": [thought, call]}},
            "stopReason": "tool_use",
            "usage": {"inputTokens": 10, "outputTokens": 10, "totalTokens": 20},
            "metrics": {"latencyMs": 1},
        }

    async def chat(self, request: Request) -> JSONResponse:
        body = await request.json()
        return self._reply(
            lambda: self._check_chat(body),
            self._completion,
            lambda refused: {"error": {"message": str(refused), "type": "invalid_request_error"}},
        )

    def _check_chat(self, body: Mapping[str, Any]) -> None:
        if body["model"].startswith("deepseek"):
            raise RefusedError(DEEPSEEK)
        for message in body["messages"]:
            for call in message.get("tool_calls") or ():
                if _signature_of(call, message) not in (RAW_PLACEHOLDER, self._signature):
                    raise RefusedError("Corrupted thought signature.")

    def _completion(self) -> dict[str, Any]:
        id_, extra = f"c{self.calls}", {"thought_signature": self._signature}
        shapes: dict[str, dict[str, Any]] = {
            "extra_content": {"extra_content": {"google": extra}},
            "provider_specific_fields": {"provider_specific_fields": extra},
            "id": {"id": f"{id_}__thought__{self._signature}"},
            "reasoning_details": {},
        }
        thought = {"type": "reasoning.text", "text": "Next.", "format": "google-gemini-v1"}
        sealed = {**thought, "type": "reasoning.encrypted", "data": self._signature, "id": id_}
        details = {"reasoning": "Next.", "reasoning_details": [thought, sealed]}
        call = {"id": id_, "type": "function", "function": {"name": "read", "arguments": "{}"}, **shapes[self.place]}
        message: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [call]}
        message |= details if self.place == "reasoning_details" else {}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        return {"id": id_, "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}

    def _reply(
        self,
        check: Callable[[], None],
        answer: Callable[[], dict[str, Any]],
        error: Callable[[RefusedError], dict[str, Any]],
    ) -> JSONResponse:
        try:
            check()
        except RefusedError as refused:
            self.refusals.append(str(refused))
            return JSONResponse(error(refused), refused.status)
        self.calls += 1
        return JSONResponse(answer())


def _signature_of(call: Mapping[str, Any], message: Mapping[str, Any]) -> Any:
    """Return Google's signature of a chat message's tool call as OpenRouter and LiteLLM find it."""
    if "reasoning_details" in message:
        return message["reasoning_details"][-1].get("data")
    fields = call.get("extra_content", {}).get("google") or call.get("provider_specific_fields") or {}
    return fields.get("thought_signature") or call["id"].partition("__thought__")[2]


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
def url(provider: Provider) -> Iterator[str]:
    routes = [
        Route("/v1/responses", provider.responses, methods=["POST"]),
        Route("/v1/chat/completions", provider.chat, methods=["POST"]),
        Route("/{version}/models/{model:path}", provider.gemini, methods=["POST"]),
        Route("/model/{model}/converse", provider.converse, methods=["POST"]),
    ]
    running = uvicorn.Server(
        uvicorn.Config(
            Starlette(routes=routes), log_config=None, lifespan="off", ws="none", timeout_graceful_shutdown=1
        )
    )
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=lambda: asyncio.run(running.serve(sockets=[listening])))
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        running.should_exit = True
        thread.join()


class Run:
    """An agent of three steps for each account, in a new process after each step."""

    def __init__(
        self, provider: Provider, request: Any, send: Callable[[list[Any]], Any], add: Callable[[Any], list[Any]]
    ):
        self.messages: list[Any] = [request]
        self.provider, self.send, self.add = provider, send, add
        self.store = MemoryStore()

    def steps(self, **options: Any) -> None:
        for _ in range(3):
            hooks: Any = CompactionController(context_window=100_000, store=self.store, **options)
            answer = hooks.session("run").call_sync(self.messages, self.send, model="alias")
            self.messages += self.add(answer)

    def change_account(self, **options: Any) -> None:
        self.steps(**options)
        assert self.provider.refusals == []
        self.provider.account = "second"
        self.steps(**options)


@pytest.mark.parametrize("stores", [False, True], ids=["encrypted", "stored"])
def test_openai_refuses_items_of_another_account_once(provider: Provider, url: str, stores: bool) -> None:
    provider.stores = stores

    def add(answer: Any) -> list[Any]:
        output = {"type": "function_call_output", "call_id": answer.output[-1].call_id, "output": "read"}
        return [*answer.output, output]

    with openai.OpenAI(base_url=f"{url}/v1", api_key="key", max_retries=0) as client:
        send = lambda view: client.responses.create(model="m", input=view, store=stores)  # noqa: E731
        run = Run(provider, {"role": "user", "content": "Read all."}, send, add)
        run.change_account(format=OpenAIResponsesFormat())
    assert len(provider.refusals) == 1
    assert ("not found" if stores else "could not be verified") in provider.refusals[0]


def test_google_refuses_signatures_of_another_route_once(provider: Provider, url: str) -> None:
    types = genai.types

    def add(answer: Any) -> list[Any]:
        result = types.Part.from_function_response(name="read", response={"result": "read"})
        return [answer.candidates[0].content, types.Content(role="user", parts=[result])]

    with genai.Client(api_key="key", http_options=types.HttpOptions(base_url=url)) as client:
        send = lambda view: client.models.generate_content(model="gemini-3-pro", contents=view)  # noqa: E731
        Run(provider, types.Content(role="user", parts=[types.Part(text="Read all.")]), send, add).change_account()
    assert provider.refusals == ["Corrupted thought signature."]


@pytest.mark.parametrize("place", ["extra_content", "provider_specific_fields", "id", "reasoning_details"])
def test_google_refuses_signatures_in_chat_messages_once(provider: Provider, url: str, place: str) -> None:
    provider.place = place

    def add(answer: Any) -> list[Any]:
        said = answer.choices[0].message
        return [said, {"role": "tool", "tool_call_id": said.tool_calls[0].id, "content": "read"}]

    with openai.OpenAI(base_url=f"{url}/v1", api_key="key", max_retries=0) as client:
        send = lambda view: client.chat.completions.create(model="m", messages=view)  # noqa: E731
        Run(provider, {"role": "user", "content": "Read all."}, send, add).change_account()
    assert provider.refusals == ["Corrupted thought signature."]


def test_bedrock_refuses_signatures_of_another_account_once(provider: Provider, url: str) -> None:
    def add(answer: Any) -> list[Any]:
        said = answer["output"]["message"]
        result = {"toolUseId": said["content"][-1]["toolUse"]["toolUseId"], "content": [{"text": "read"}]}
        return [said, {"role": "user", "content": [{"toolResult": result}]}]

    keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}
    with closing(boto3.client("bedrock-runtime", endpoint_url=url, region_name="us-east-1", **keys)) as client:
        send = lambda view: client.converse(modelId="m", messages=view)  # noqa: E731
        Run(provider, {"role": "user", "content": [{"text": "Read all."}]}, send, add).change_account()
    assert len(provider.refusals) == 1


def test_deepseeks_demand_for_reasoning_leaves_none_out(provider: Provider, url: str) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    messages: list[Any] = [
        {"role": "user", "content": "Read it."},
        {"role": "assistant", "content": None, "reasoning_content": "First this.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "read"},
    ]
    hooks: Any = CompactionController(context_window=100_000)
    with openai.OpenAI(base_url=f"{url}/v1", api_key="key", max_retries=0) as client:
        send = lambda view: client.chat.completions.create(model="deepseek-reasoner", messages=view)  # noqa: E731
        with pytest.raises(openai.BadRequestError, match="must be passed back"):
            hooks.call_sync(messages, send, model="deepseek-reasoner")
    assert provider.refusals == [DEEPSEEK]
