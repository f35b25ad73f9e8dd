"""Parley, the framework that docs/write-an-adapter.md invents, and the harness by which the kit of checks runs its agents."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import httpx

from compaction_hooks import CompactionController
from compaction_hooks.messages import Format
from compaction_hooks.testing import HostConversation, Opening


@dataclass
class Call:
    id: str
    tool: str
    input: dict[str, Any]


@dataclass
class Said:
    who: str  # "user" or "agent"
    text: str
    calls: list[Call] = field(default_factory=list)
    stopped: str = ""
    tokens_in: int = 0
    tokens_out: int = 0


@dataclass
class Returned:
    call_id: str
    text: str
    failed: bool = False


Entry: TypeAlias = Said | Returned
Send: TypeAlias = Callable[[list[Entry]], Awaitable[Said]]


@dataclass
class Model:
    name: str
    client: httpx.AsyncClient

    async def ask(self, rules: str, entries: list[Entry], tools: list[Any], max_tokens: int | None = None) -> Said:
        messages = [{"role": "system", "content": rules}, *map(_written, entries)]
        body = {"model": self.name, "messages": messages, "tools": tools or None, "max_tokens": max_tokens}
        response = await self.client.post("/chat/completions", json={k: v for k, v in body.items() if v is not None})
        if response.is_error:
            raise RuntimeError(f"HTTP {response.status_code}: {response.text}")
        answer, usage = response.json()["choices"][0], response.json().get("usage", {})
        calls = [
            Call(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
            for call in answer["message"].get("tool_calls") or ()
        ]
        sizes = usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)
        return Said("agent", answer["message"].get("content") or "", calls, answer["finish_reason"], *sizes)


def _written(entry: Entry) -> dict[str, Any]:
    if isinstance(entry, Returned):
        return {"role": "tool", "tool_call_id": entry.call_id, "content": entry.text}
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": json.dumps(call.input)}}
        for call in entry.calls
    ]
    role = "user" if entry.who == "user" else "assistant"
    return {"role": role, "content": entry.text} | ({"tool_calls": calls} if calls else {})


@dataclass
class Agent:
    id: str
    model: Model
    rules: str
    tools: dict[str, Callable[[dict[str, Any]], str]]
    schemas: list[Any]
    around: Callable[[Agent, Send], Awaitable[Said]] | None = None
    history: list[Entry] = field(default_factory=list)

    async def run(self, text: str) -> str:
        self.history.append(Said("user", text))
        while True:
            answer = await (self.around(self, self._send) if self.around else self._send(self.history))
            self.history.append(answer)
            if not answer.calls:
                return answer.text
            self.history += [Returned(call.id, self.tools[call.tool](call.input)) for call in answer.calls]

    async def _send(self, entries: list[Entry]) -> Said:
        return await self.model.ask(self.rules, entries, self.schemas)


SAMPLES: list[Entry] = [
    Said("user", "What is in the sky?"),
    Said("agent", "Yes.", [Call("1", "look", {"at": "sky"}), Call("2", "look", {"at": "sea"})], "tool_calls", 90, 20),
    Returned("1", "A cloud."),
    Returned("2", "No sea here.", failed=True),
    Said("agent", "A cloud.", stopped="stop"),
]


class Conversation(HostConversation[Entry]):
    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    @property
    def session_id(self) -> str:
        return self.agent.id

    async def say(self, text: str, /) -> str:
        return await self.agent.run(text)

    async def history(self) -> Sequence[Entry]:
        return self.agent.history


class Harness:
    name = "parley"
    has_sync = has_streaming = False
    keeps_history = True

    def __init__(self, format: Format[Entry], attach: Callable[[CompactionController[Any], Agent], None]) -> None:
        self.format, self.attach = format, attach

    @asynccontextmanager
    async def open(self, opening: Opening, /) -> AsyncIterator[Conversation]:
        headers = {"Authorization": f"Bearer {opening.api_key}"}
        async with httpx.AsyncClient(base_url=opening.openai_url, headers=headers) as client:
            agent = Agent(
                id=opening.conversation_id,
                model=Model(opening.model, client),
                rules=opening.system,
                tools={tool.name: tool.run for tool in opening.tools},
                schemas=[tool.openai_schema for tool in opening.tools],
            )
            if opening.controller is not None:  # None: Parley alone, to compare with
                self.attach(opening.controller, agent)
            yield Conversation(agent)
