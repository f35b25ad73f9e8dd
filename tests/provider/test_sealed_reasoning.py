"""Providers' own clients, when another account, model or route made the reasoning in the history: one refusal, then none."""

import asyncio
import base64
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
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
from tests.cases import sampled
from tests.provider import Answer, Call, CallSigner, ItemSigner, LoopbackProvider, Side, Signer

genai: Any = pytest.importorskip("google.genai")
boto3: Any = pytest.importorskip("boto3")
openai: Any = pytest.importorskip("openai")

PLACEHOLDER = "skip_thought_signature_validator"
DEEPSEEK = "The `reasoning_content` in the thinking mode must be passed back to the API."


class ChatServer:
    """Chat completions of Gemini 3 behind Google's endpoint or a gateway, and of DeepSeek.

    Attributes:
        account: The account and route that ask; signatures of others are refused.
        place: The field of chat messages with Google's signature: that of Google's own endpoint, of LiteLLM or OpenRouter.
        refusals: The refused requests' messages.
        sent: How many calls of each accepted request had the account's signature.
    """

    def __init__(self) -> None:
        self.account = "first"
        self.place = ""
        self.refusals: list[str] = []
        self.sent: list[int] = []
        self._calls = 0

    async def answer(self, request: Request) -> JSONResponse:
        refusal = self._refusal(await request.json())
        if refusal:
            self.refusals.append(refusal)
            return JSONResponse({"error": {"message": refusal, "type": "invalid_request_error"}}, 400)
        self._calls += 1
        return JSONResponse(self._completion())

    def _refusal(self, body: Mapping[str, Any]) -> str:
        if body["model"].startswith("deepseek"):
            return DEEPSEEK
        sent = [
            _signature_of(call, message) for message in body["messages"] for call in message.get("tool_calls") or ()
        ]
        if not {PLACEHOLDER, self._signature}.issuperset(sent):
            return "Corrupted thought signature."
        self.sent.append(sent.count(self._signature))
        return ""

    @property
    def _signature(self) -> str:
        return base64.urlsafe_b64encode(self.account.encode()).decode()

    def _completion(self) -> dict[str, Any]:
        id_, extra = f"c{self._calls}", {"thought_signature": self._signature}
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


def _signature_of(call: Mapping[str, Any], message: Mapping[str, Any]) -> Any:
    """Return Google's signature of a chat message's tool call as OpenRouter and LiteLLM find it."""
    if "reasoning_details" in message:
        return message["reasoning_details"][-1].get("data")
    fields = call.get("extra_content", {}).get("google") or call.get("provider_specific_fields") or {}
    return fields.get("thought_signature") or call["id"].partition("__thought__")[2]


@pytest.fixture
def chat() -> ChatServer:
    return ChatServer()


@pytest.fixture
def url(chat: ChatServer) -> Iterator[str]:
    routes = [Route("/v1/chat/completions", chat.answer, methods=["POST"])]
    running = uvicorn.Server(
        uvicorn.Config(
            Starlette(routes=routes), log_config=None, lifespan="off", ws="none", timeout_graceful_shutdown=1
        )
    )
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=lambda: asyncio.run(running.serve(sockets=[listening])))
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        running.should_exit = True
        thread.join()


class Run:
    """An agent of three steps for each account, in a new process after each step.

    Args:
        provider: Has the present account, and the texts of its refusals.
    """

    def __init__(self, provider: Any, request: Any, send: Callable[[list[Any]], Any], add: Callable[[Any], list[Any]]):
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
        assert len(self.provider.refusals) == 1


@pytest.fixture
def side(provider: LoopbackProvider) -> Side:
    return provider.conversation("key", window=100_000, answers=[Answer("", (Call("read", {}),))] * 6)


@pytest.mark.parametrize("stores", [False, True], ids=["encrypted", "stored"])
def test_openai_refuses_items_of_another_account_once(provider: LoopbackProvider, side: Side, stores: bool) -> None:
    signer = side.signer = ItemSigner(stores=stores)

    def add(answer: Any) -> list[Any]:
        output = {"type": "function_call_output", "call_id": answer.output[-1].call_id, "output": "read"}
        return [*answer.output, output]

    with openai.OpenAI(base_url=provider.openai_url, api_key="key", max_retries=0) as client:
        send = lambda view: client.responses.create(model="m", input=view, store=stores)  # noqa: E731
        run = Run(signer, {"role": "user", "content": "Read all."}, send, add)
        run.change_account(format=OpenAIResponsesFormat())
    assert ("not found" if stores else "could not be verified") in signer.refusals[0]
    assert signer.sent[-1] == 2


def test_google_refuses_signatures_of_another_route_once(provider: LoopbackProvider, side: Side) -> None:
    types, signer = genai.types, CallSigner()
    side.signer = signer

    def add(answer: Any) -> list[Any]:
        result = types.Part.from_function_response(name="read", response={"result": "read"})
        return [answer.candidates[0].content, types.Content(role="user", parts=[result])]

    with genai.Client(api_key="key", http_options=types.HttpOptions(base_url=provider.anthropic_url)) as client:
        send = lambda view: client.models.generate_content(model="gemini-3-pro", contents=view)  # noqa: E731
        Run(signer, types.Content(role="user", parts=[types.Part(text="Read all.")]), send, add).change_account()
    assert signer.sent[-1] == 2


def test_bedrock_refuses_signatures_of_another_account_once(provider: LoopbackProvider, side: Side) -> None:
    signer = side.signer = Signer()

    def add(answer: Any) -> list[Any]:
        said = answer["output"]["message"]
        result = {"toolUseId": said["content"][-1]["toolUse"]["toolUseId"], "content": [{"text": "read"}]}
        return [said, {"role": "user", "content": [{"toolResult": result}]}]

    keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "region_name": "us-east-1"}
    with closing(boto3.client("bedrock-runtime", endpoint_url=provider.anthropic_url, **keys)) as client:
        send = lambda view: client.converse(modelId="m", messages=view)  # noqa: E731
        Run(signer, {"role": "user", "content": [{"text": "Read all."}]}, send, add).change_account()
    assert signer.sent[-1] == (2, 5)


@pytest.mark.parametrize("place", sampled(["id", "extra_content", "reasoning_details", "provider_specific_fields"], 2))
def test_google_refuses_signatures_in_chat_messages_once(chat: ChatServer, url: str, place: str) -> None:
    chat.place = place

    def add(answer: Any) -> list[Any]:
        said = answer.choices[0].message
        return [said, {"role": "tool", "tool_call_id": said.tool_calls[0].id, "content": "read"}]

    with openai.OpenAI(base_url=url, api_key="key", max_retries=0) as client:
        send = lambda view: client.chat.completions.create(model="m", messages=view)  # noqa: E731
        Run(chat, {"role": "user", "content": "Read all."}, send, add).change_account()
    assert chat.sent == [0, 1, 2, 0, 1, 2]


def test_deepseeks_demand_for_reasoning_leaves_none_out(chat: ChatServer, url: str) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    messages: list[Any] = [
        {"role": "user", "content": "Read it."},
        {"role": "assistant", "content": None, "reasoning_content": "First this.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "read"},
    ]
    hooks: Any = CompactionController(context_window=100_000)
    with openai.OpenAI(base_url=url, api_key="key", max_retries=0) as client:
        send = lambda view: client.chat.completions.create(model="deepseek-reasoner", messages=view)  # noqa: E731
        with pytest.raises(openai.BadRequestError, match="must be passed back"):
            hooks.call_sync(messages, send, model="deepseek-reasoner")
    assert chat.refusals == [DEEPSEEK]
