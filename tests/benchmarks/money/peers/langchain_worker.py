"""LangChain's `SummarizationMiddleware`, `ContextEditingMiddleware` and `trim_messages`: `... langchain_worker <policy>`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from langchain.agents.middleware import ClearToolUsesEdit, SummarizationMiddleware
from langchain_core.messages import AnyMessage, BaseMessage, RemoveMessage, utils
from langchain_core.messages.utils import count_tokens_approximately

from tests.benchmarks.money.peers.langchain_messages import Conversation, fake_model
from tests.benchmarks.money.peers.serving import Chat, Notes, Policy, serve

_PREFIX: Final = "Here is a summary of the conversation to date:\n\n"
TRIGGER_RATIO: Final = 0.8
"""Share of the window, from the examples in LangChain's documentation; there is no default."""


def summarizer(
    conversation: Conversation, notes: Notes, prompt: Callable[[list[AnyMessage]], str]
) -> Callable[[list[AnyMessage]], str]:
    """Return the summarizer for `summarizer=`: given messages, it returns the text."""

    def summarize(messages: list[AnyMessage]) -> str:
        previous = None
        if messages and (text := messages[0].text).startswith(_PREFIX):
            previous, rest = text.removeprefix(_PREFIX), messages[1:]
        else:
            rest = messages
        return notes.summarize(conversation.chats(rest), previous=previous, prompt=prompt(messages))

    return summarize


def _prompt(middleware: Any, messages: list[AnyMessage]) -> str:
    """Return the prompt that the middleware would have sent to its own model."""
    prompt: str = middleware._format_summary_prompt(messages)
    return prompt


class Summarizing:
    """`SummarizationMiddleware`, whose state is its last return value."""

    def __init__(self, window: int, notes: Notes, **settings: Any) -> None:
        self._conversation = Conversation()
        self._messages: list[AnyMessage] = []
        self._middleware: SummarizationMiddleware[Any, Any] = SummarizationMiddleware(
            fake_model(window),
            trigger=("fraction", TRIGGER_RATIO),
            summarizer=summarizer(self._conversation, notes, lambda messages: _prompt(self._middleware, messages)),
            **settings,
        )

    def send(self, new: Sequence[Chat], usage: tuple[int, int] | None) -> Sequence[int | Chat]:
        self._messages += self._conversation.add(new, usage)
        update = self._middleware.before_model({"messages": self._messages}, None)  # type: ignore[arg-type]
        if update is not None:
            self._messages = [m for m in update["messages"] if not isinstance(m, RemoveMessage)]
        return self._conversation.reply(self._messages)


class Clearing:
    """`ContextEditingMiddleware` with `ClearToolUsesEdit`, which edits a copy of the whole history before each call."""

    def __init__(self, window: int) -> None:
        self._conversation = Conversation()
        self._messages: list[AnyMessage] = []
        # The default of 100,000 tokens is half of a 200k window.
        self._edit = ClearToolUsesEdit(trigger=window // 2)

    def send(self, new: Sequence[Chat], usage: tuple[int, int] | None) -> Sequence[int | Chat]:
        self._messages += self._conversation.add(new, usage)
        edited = list(self._messages)
        self._edit.apply(edited, count_tokens=count_tokens_approximately)
        return self._conversation.reply(edited)


class Trimming:
    """`trim_messages` before each call, with the arguments of LangGraph's guide to managing memory."""

    def __init__(self, window: int) -> None:
        self._conversation = Conversation()
        self._messages: list[AnyMessage] = []
        self._room = int(window * TRIGGER_RATIO)

    def send(self, new: Sequence[Chat], usage: tuple[int, int] | None) -> Sequence[int | Chat]:
        self._messages += self._conversation.add(new, usage)
        kept: list[BaseMessage] = cast("Any", utils).trim_messages(
            [*self._conversation.system_messages(), *self._messages],
            strategy="last",
            token_counter=count_tokens_approximately,
            max_tokens=self._room,
            start_on="human",
            end_on=("human", "tool"),
            include_system=True,
        )
        return self._conversation.reply([message for message in kept if message.type != "system"])


_POLICIES: Final[dict[str, Callable[[int, Notes], Policy]]] = {
    "summarization": Summarizing,
    "summarization-whole": lambda window, notes: Summarizing(
        window, notes, keep=("fraction", 0.1), trim_tokens_to_summarize=None
    ),
    "clear-tool-uses": lambda window, notes: Clearing(window),
    "trim": lambda window, notes: Trimming(window),
}

if __name__ == "__main__":
    serve(_POLICIES[sys.argv[1]])
