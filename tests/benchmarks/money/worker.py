"""A peer of `tests.benchmarks.peers` in its own environment, with summaries written by the default summarizer.

    python -m tests.benchmarks.money.worker langchain_middleware

Input: `{"window": n}` begins a conversation; `{"new": [messages], "usage": [input, output] | null}` is a call, with the messages
since the last one and the usage of the previous request. Output of a call: `{"sent": [index | message], "summaries": [[prompt,
summary]]}`, with messages of the history by index and those made by the peer in full; or `{"overflow": text}` if the peer gives up.
"""

import asyncio
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

from compaction_hooks import ContextOverflowError, ExtractiveSummarizer, SummaryRequest
from compaction_hooks.formats import OpenAIChatFormat
from tests.benchmarks.money.transcripts import read
from tests.benchmarks.peers.peer import Asked, Chat, Reported
from tests.benchmarks.peers.worker import load, serve

FORMAT = OpenAIChatFormat()
SUMMARIZER = ExtractiveSummarizer()
PREVIOUS = (
    re.compile(r"<previous-summary>\n(.*?)\n</previous-summary>", re.DOTALL),
    re.compile(r"^Previous summary:\n(.*?)\n\nNew transcript:\n", re.DOTALL | re.MULTILINE),
    re.compile(
        r"^User: Summary of previous conversation:\n\n(.*?)(?=^(?:User|Assistant|Tool Call \[|Tool \[))",
        re.DOTALL | re.MULTILINE,
    ),
)
"""The places of the previous summary in the prompts of pydantic-ai-harness, tunacode and summarization-pydantic-ai."""


class Conversation:
    """One conversation of a peer. The host's messages in its requests are recognized by object identity."""

    def __init__(self, module: str, window: int) -> None:
        self.summaries: list[tuple[str, str]] = []
        self._max_tokens = min(4_096, window // 10)
        self._peer = load(module)(window, self._summarize)
        self._count = 0
        self._indexes: dict[int, tuple[object, list[int]]] = {}

    def send(self, new: Sequence[Chat], usage: tuple[int, int] | None) -> list[int | Chat]:
        """Return the list to send now.

        Raises:
            ContextOverflowError: the peer gives up.
        """
        reported = Reported(*usage) if usage else None
        indexes = iter(range(self._count, self._count + len(new)))
        for message in self._peer.convert([{**chat, "content": _text(chat)} for chat in new]):
            self._indexes[id(message)] = (message, [next(indexes) for _ in self._peer.chats(message)])
            is_answer = self._peer.is_answer(message)
            self._peer.append(message, reported if is_answer else None)
            reported = None if is_answer else reported
        self._count += len(new)
        view = asyncio.run(self._view())
        return [item for message in [*self._peer.head, *view] for item in self._reply(message)]

    async def _view(self) -> Sequence[object]:
        view: Sequence[object] = await self._peer.view()
        return view

    def _reply(self, message: object) -> Sequence[int | Chat]:
        known = self._indexes.get(id(message))
        return known[1] if known else self._peer.chats(message)

    def _summarize(self, request: Callable[[], Asked]) -> str:
        """Summarize the messages that a model would be shown, or those that are in its prompt."""
        prompt, messages, previous = request()
        if messages is None:
            found = next((match for pattern in PREVIOUS if (match := pattern.search(prompt))), None)
            previous = found and found[1]
            messages = read(prompt if found is None else prompt[: found.start()] + "\n" + prompt[found.end() :])
        asked = SummaryRequest(
            system="",
            prompt=prompt,
            transcript="",
            previous_summary=previous,
            focus=None,
            kind="update" if previous else "history",
            max_tokens=self._max_tokens,
            messages=tuple(piece for message in messages for piece in FORMAT.read(message)),
        )
        text = SUMMARIZER(asked).text or "(none)"
        self.summaries.append((prompt, text))
        return text


def _text(chat: Chat) -> str:
    content = chat.get("content")
    if isinstance(content, str) or not content:
        return content or ""
    return "\n".join(part.get("text", "<image>") for part in content)


def answers(module: str) -> Callable[[dict[str, Any]], object]:
    """Return the function that answers a line."""
    conversation: Conversation

    def answer(line: dict[str, Any]) -> object:
        nonlocal conversation
        if "window" in line:
            conversation = Conversation(module, line["window"])
            return None
        conversation.summaries.clear()
        try:
            return {"sent": conversation.send(line["new"], line["usage"]), "summaries": conversation.summaries}
        except ContextOverflowError as error:
            return {"overflow": str(error), "summaries": conversation.summaries}

    return answer


if __name__ == "__main__":
    serve(answers(sys.argv[1]))
