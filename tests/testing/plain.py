"""A minimal agent loop around `session.call` and httpx, for the tests of the adapter kit."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import httpx

from compaction_hooks import CompactionSession, SummaryRequest
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.testing import HostConversation, Opening

Chat: TypeAlias = Mapping[str, object]
Body: TypeAlias = dict[str, Any]


class PlainConversation:
    """An agent loop over OpenAI's chat completions."""

    def __init__(self, opening: Opening, client: httpx.AsyncClient, sync_client: httpx.Client) -> None:
        self.opening = opening
        self.client = client
        self.sync_client = sync_client
        self.tools = {tool.name: tool for tool in opening.tools}
        self.messages: list[Chat] = [{"role": "system", "content": opening.system}]
        self.schemas = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
            }
            for tool in opening.tools
        ]

    @property
    def session_id(self) -> str:
        return self.opening.conversation_id

    async def history(self) -> list[Chat]:
        return self.messages

    # -- the three ways to send a prompt

    async def say(self, text: str, /) -> str:
        self.messages.append({"role": "user", "content": text})
        while True:
            answer = (await self.answer())["choices"][0]["message"]
            if not self.take(answer):
                return str(answer["content"])

    def say_sync(self, text: str, /) -> str:
        self.messages.append({"role": "user", "content": text})
        while True:
            answer = self.answer_sync()["choices"][0]["message"]
            if not self.take(answer):
                return str(answer["content"])

    async def say_streamed(self, text: str, /) -> list[str]:
        self.messages.append({"role": "user", "content": text})
        chunks: list[str] = []
        while True:
            answer: Body = {"role": "assistant", "content": "", "tool_calls": []}
            async for delta in await self.deltas():
                chunks += [delta["content"]] if delta.get("content") else []
                _add(answer, delta)
            if not self.take(answer if answer["tool_calls"] else {"role": "assistant", "content": answer["content"]}):
                return chunks

    def take(self, answer: Body) -> bool:
        """Store an answer and run its tools; return False if there were none."""
        self.messages.append(answer)
        for call in answer.get("tool_calls") or ():
            result = self.tools[call["function"]["name"]].run(json.loads(call["function"]["arguments"]))
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        return bool(answer.get("tool_calls"))

    # -- the adapter: one call of the model

    def session(self) -> CompactionSession[Chat] | None:
        controller = self.opening.controller
        return controller.session(self.session_id) if controller else None

    async def answer(self) -> Body:
        session = self.session()
        if session is None:
            return await self.send(self.messages)
        return await session.call(self.messages, self.send, tools=self.schemas, summarizer=self.summarize)

    def answer_sync(self) -> Body:
        session = self.session()
        if session is None:
            return self.send_sync(self.messages)
        return session.call_sync(self.messages, self.send_sync, tools=self.schemas, summarizer=self.summarize_sync)

    async def deltas(self) -> AsyncIterator[Body]:
        session = self.session()
        if session is None:
            return self.stream(self.messages)
        return await session.call(self.messages, self.open_stream, tools=self.schemas, summarizer=self.summarize)

    # -- the client

    async def send(self, view: list[Chat]) -> Body:
        return self.read(await self.client.post("/chat/completions", json=self.body(view)))

    def send_sync(self, view: list[Chat]) -> Body:
        return self.read(self.sync_client.post("/chat/completions", json=self.body(view)))

    async def open_stream(self, view: list[Chat]) -> AsyncIterator[Body]:
        return self.stream(view)

    async def stream(self, view: list[Chat]) -> AsyncIterator[Body]:
        async with self.client.stream(
            "POST", "/chat/completions", json={**self.body(view), "stream": True}
        ) as response:
            if response.is_error:
                await response.aread()
            self.raise_for_status(response)
            async for line in response.aiter_lines():
                if line.startswith("data: {"):
                    yield json.loads(line.removeprefix("data: "))["choices"][0]["delta"]

    async def summarize(self, request: SummaryRequest) -> str:
        response = await self.client.post("/chat/completions", json=self.summary_body(request))
        return str(self.read(response)["choices"][0]["message"]["content"])

    def summarize_sync(self, request: SummaryRequest) -> str:
        response = self.sync_client.post("/chat/completions", json=self.summary_body(request))
        return str(self.read(response)["choices"][0]["message"]["content"])

    def body(self, view: list[Chat]) -> Body:
        return {"model": self.opening.model, "messages": view, "tools": self.schemas}

    def summary_body(self, request: SummaryRequest) -> Body:
        messages = [{"role": "system", "content": request.system}, {"role": "user", "content": request.prompt}]
        return {"model": self.opening.model, "messages": messages, "max_tokens": request.max_tokens}

    def read(self, response: httpx.Response) -> Body:
        self.raise_for_status(response)
        read: Body = response.json()
        return read

    def raise_for_status(self, response: httpx.Response) -> None:
        if response.is_error:
            raise httpx.HTTPStatusError(response.text, request=response.request, response=response)


class PlainHarness:
    """Harness of the plain loop for `check_adapter`; a subclass names another conversation class."""

    name = "plain"
    format = OpenAIChatFormat()
    has_sync = True
    has_streaming = True
    keeps_history = True
    conversation: type[PlainConversation] = PlainConversation

    @asynccontextmanager
    async def open(self, opening: Opening, /) -> AsyncIterator[HostConversation[Chat]]:
        headers = {"Authorization": f"Bearer {opening.api_key}"}
        with httpx.Client(base_url=opening.openai_url, headers=headers) as sync_client:
            async with httpx.AsyncClient(base_url=opening.openai_url, headers=headers) as client:
                yield self.conversation(opening, client, sync_client)


def _add(answer: Body, delta: Body) -> None:
    """Add a chunk to its answer."""
    answer["content"] += delta.get("content") or ""
    for call in _new_calls(answer, delta):
        answer["tool_calls"].append({**call, "function": {**call["function"]}})
    for piece in delta.get("tool_calls") or ():
        if "id" not in piece:
            answer["tool_calls"][piece["index"]]["function"]["arguments"] += piece["function"]["arguments"]


def _new_calls(answer: Body, delta: Body) -> Iterator[Body]:
    return (
        {key: value for key, value in piece.items() if key != "index"}
        for piece in delta.get("tool_calls") or ()
        if "id" in piece
    )
