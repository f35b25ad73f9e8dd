"""Peers as `tests.benchmarks.peers` sets them up, with the summarizer of this benchmark: `... shared_worker <module>`."""

from __future__ import annotations

import asyncio
import importlib
import logging
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final

from tests.benchmarks.money.peers.serving import Chat, Notes, serve
from tests.benchmarks.money.peers.transcripts import read
from tests.benchmarks.peers.peer import Reported

_PREVIOUS: Final = (
    re.compile(r"<previous-summary>\n(.*?)\n</previous-summary>", re.DOTALL),
    re.compile(r"^Previous summary:\n(.*?)\n\nNew transcript:\n", re.DOTALL | re.MULTILINE),
    re.compile(
        r"^User: Summary of previous conversation:\n\n(.*?)(?=^(?:User|Assistant|Tool Call \[|Tool \[))",
        re.DOTALL | re.MULTILINE,
    ),
)
"""The places of the previous summary in the prompts of pydantic-ai-harness, tunacode and summarization-pydantic-ai."""


def of_prompt(notes: Notes, prompt: str) -> str:
    """Summarize the conversation in a prompt."""
    found = next((match for pattern in _PREVIOUS if (match := pattern.search(prompt))), None)
    transcript = prompt if found is None else prompt[: found.start()] + "\n" + prompt[found.end() :]
    return notes.summarize(read(transcript), previous=found and found[1], prompt=prompt)


def _pydantic_ai(module: Any, notes: Notes) -> None:
    """Replace the model of both pydantic-ai peers by a function."""
    messages = importlib.import_module("pydantic_ai.messages")
    usage = importlib.import_module("pydantic_ai.usage")

    async def answer(asked: list[Any], _: object) -> Any:
        prompt = "".join(str(part.content) for message in asked for part in message.parts)
        text = messages.TextPart(of_prompt(notes, prompt))
        return messages.ModelResponse(parts=[text], usage=usage.RequestUsage(input_tokens=1, output_tokens=1))

    module.SUMMARIZER.function = answer


def _tunacode(module: Any, notes: Notes) -> None:
    async def answer(prompt: str, signal: object) -> str:
        return of_prompt(notes, prompt)

    module._summarize = answer


def _langmem(module: Any, notes: Notes) -> None:
    """Replace langmem's model, which gets the messages themselves and then an instruction."""
    core = importlib.import_module("langchain_core.messages")

    async def answer(asked: list[Any]) -> Any:
        *told, instruction = asked
        before = re.search(
            r"^This is summary of the conversation so far: (.*)\n\nExtend this", instruction.text, re.DOTALL
        )
        prompt = core.get_buffer_string(asked)
        chats: list[Chat] = core.convert_to_openai_messages(told)
        return core.AIMessage(notes.summarize(chats, previous=before and before[1], prompt=prompt))

    module._summarize = answer


_INSTALL: Final[dict[str, Callable[[Any, Notes], None]]] = {
    "pydantic_ai_harness_compaction": _pydantic_ai,
    "summarization_pydantic_ai": _pydantic_ai,
    "tunacode_controller": _tunacode,
    "langmem_node": _langmem,
}


class Shared:
    """One of those peers. The host's messages in its requests are recognized by object identity."""

    def __init__(self, name: str, window: int, notes: Notes) -> None:
        module = importlib.import_module(f"tests.benchmarks.peers.{name}")
        _INSTALL[name](module, notes)
        self._peer: Any = module.PEER
        self._conversation: Any = self._peer.open(window)
        self._count = 0
        self._indexes: dict[int, tuple[object, list[int]]] = {}

    def send(self, new: Sequence[Chat], usage: tuple[int, int] | None) -> Sequence[int | Chat]:
        reported = Reported(*usage) if usage else None
        indexes = iter(range(self._count, self._count + len(new)))
        for message in self._peer.convert([{**chat, "content": _text(chat)} for chat in new]):
            held = [next(indexes) for _ in self._peer.chats(message)]
            if hasattr(message, "tool_calls") or hasattr(message, "tool_call_id"):
                message.id = f"m{held[0]}"  # LangChain's, numbered anew in each conversion
            elif type(message).__name__ in ("HumanMessage", "SystemMessage"):
                message.id = f"m{held[0]}"
            self._indexes[id(message)] = (message, held)
            self._conversation.append(message, reported if self._peer.is_answer(message) else None)
            reported = None if self._peer.is_answer(message) else reported
        self._count += len(new)
        view = asyncio.run(self._view())
        return [item for message in [*self._conversation.head, *view] for item in self._reply(message)]

    async def _view(self) -> Sequence[object]:
        view: Sequence[object] = await self._conversation.view()
        return view

    def _reply(self, message: object) -> Sequence[int | Chat]:
        known = self._indexes.get(id(message))
        if known is not None and known[0] is message:
            return known[1]
        chats: Sequence[Chat] = self._peer.chats(message)
        return chats


def _text(chat: Chat) -> str:
    content = chat.get("content")
    if isinstance(content, str) or not content:
        return content or ""
    return "\n".join(part.get("text", "<image>") for part in content)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    name = sys.argv[1]
    serve(lambda window, notes: Shared(name, window, notes))
