"""`carry=` and the rule "keep" of `tool_rules`: texts that come back behind each summary. `host_timeout_seconds`, `HostCallFailed`."""

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction_hooks import (
    Carried,
    CarryRequest,
    CompactionController,
    CompactionOutcome,
    CompactionReason,
    CompactionRecord,
    CompactionSettings,
    HostCallFailed,
    Message,
    Summary,
    SummaryRequest,
)
from compaction_hooks.events import CompactionEvent
from compaction_hooks.formats import AnthropicFormat, OpenAIResponsesFormat
from compaction_hooks.messages import Text, ToolCall, ToolResult, as_format
from compaction_hooks.native import Issuer, NativeItems
from compaction_hooks.recall import find_facts, loss_of
from compaction_hooks.stores import MemoryStore
from compaction_hooks.testing import check_view
from compaction_hooks.tokens import CharacterEstimator
from tests.cases import crossed
from tests.conversations import (
    PLAIN,
    Chat,
    Numbered,
    assistant,
    call,
    controller,
    prose,
    steps,
    system,
    talk,
    texts,
    tool,
    user,
)
from tests.dialects import ANTHROPIC, BEDROCK, GEMINI, OPENAI_CHAT, RESPONSES, Dialect

SKILL = """How to read a PDF.

1. Open it with `read("a.pdf", page=1)`; {"json": [1, 2]} and 'quotes' stay.
2. Umlauts äöü, 漢字 and 🔧 stay too, as does \\n, and a tab\there.

""" + "\n".join(f"Rule {number}: look at table {number * 17} twice." for number in range(12))
HANDLE = re.compile(r'<carried call=\'skill\("pdf"\)\' handle="(r\d+-[0-9a-f]+)">')


def carry(_: CarryRequest) -> list[Carried]:
    return [Carried("pdf", SKILL)]


async def carry_later(_: CarryRequest) -> Iterator[Carried]:
    await asyncio.sleep(0)
    return iter([Carried("pdf", SKILL)])


def carried_in(text: str) -> list[tuple[str, str]]:
    """Return the names, or calls, and the texts that a message carries."""
    return re.findall(r"<carried ([^\n]*)>\n(.*?)\n</carried>", text, re.DOTALL)


# -- in all formats and ways to compact


class Native(Numbered):
    """A summarizer that answers with its provider's own items."""

    def __init__(self, provider: Any) -> None:
        super().__init__()
        self.issuer = Issuer(provider, "https://api.example")

    def __call__(self, request: SummaryRequest) -> Summary:  # type: ignore[override]
        assert request.live is not None
        block = {"type": "compaction", "content": super().__call__(request), "signature": "EuYB"}
        item = {"type": "compaction", "id": f"cmp_{len(self.requests)}", "encrypted_content": "gAAA"}
        items = (block if self.issuer.provider == "anthropic" else item,)
        return Summary("The user reads.", native=NativeItems(self.issuer._replace(model=request.live.model or ""), items))


class Life:
    """A conversation in one dialect that is compacted again and again."""

    def __init__(self, dialect: Dialect, asked: Numbered | None) -> None:
        self.dialect, self.asked, self.store, self.turns = dialect, asked, MemoryStore(), 0
        self.messages: list[Any] = []
        self.view: list[Any] = []
        self.read = as_format(dialect.format).read
        self.open(carry)

    def open(self, function: Any, settings: CompactionSettings = PLAIN) -> None:
        """Go on in another worker."""
        hooks: CompactionController[Any] = CompactionController(
            model="gpt-5.6",
            context_window=8_192,
            format=self.dialect.apart,
            summarizer=self.asked,
            settings=settings,
            store=self.store,
            carry=function,
        )
        self.session = hooks.session("a")

    def grow(self, turns: int = 1) -> None:
        for _ in range(turns):
            self.turns += 1
            asked = ToolCall(f"c{self.turns}", "read_file", json.dumps({"path": f"src/{self.turns}.py"}))
            said = [
                Message(role="user", parts=(Text(f"Question {self.turns}?"),)),
                Message(role="assistant", parts=(Text("Reading."), asked)),
                Message(role="tool", parts=(ToolResult(asked.id, prose(250), "read_file"),)),
                Message(role="assistant", parts=(Text(f"Answer {self.turns}: {prose(100)}"),)),
            ]
            self.messages = [*self.messages, *self.dialect.write(said)]

    def go_on(self) -> list[Any]:
        """Return the first view behind the next compaction; until then, views only grow at their end."""
        count = self.session.state().compaction_count
        while True:
            self.grow()
            view = self.session.transform_context_sync(self.messages)
            if self.session.state().compaction_count > count:
                break
            assert view[: len(self.view)] == self.view
            self.view = view
        self.view = view
        return view

    def texts_of(self, view: Sequence[Any]) -> list[str]:
        return [message.text for each in view for message in self.read(each)]


def by_hand(life: Life) -> list[Any]:
    life.grow(4)
    result = asyncio.run(life.session.compact(life.messages, keep_recent_tokens=500))
    assert result.outcome is CompactionOutcome.COMPACTED
    life.view = life.session.transform_context_sync(life.messages)
    return life.view


def overflow(life: Life) -> list[Any]:
    """The provider refuses what is too long, and nothing is compacted before."""
    life.open(carry, replace(PLAIN, auto_compact=False))
    refused: list[int] = []

    def send(view: Sequence[Any]) -> None:
        shown = [message for each in view for message in life.read(each)]
        tokens = sum(map(CharacterEstimator().estimate_message_tokens, shown))
        if tokens > 8_192:
            refused.append(tokens)
            raise OverflowError(f"prompt is too long: {tokens} tokens > 8192 maximum")
        life.view = [*view]

    while not refused:
        life.grow()
        life.session.call_sync(life.messages, send)
    return life.view


def restarted(life: Life) -> list[Any]:
    """Every other compaction is made by a worker that has no function."""
    view = life.go_on()
    life.open(None if life.turns % 2 else carry_later)
    assert life.session.transform_context_sync(life.messages) == view
    return view


def undone(life: Life) -> list[Any]:
    life.go_on()
    assert life.session.undo() is not None
    return by_hand(life)


def forked(life: Life) -> list[Any]:
    view, trunk = life.go_on(), life.messages
    life.grow()
    life.session.transform_context_sync(life.messages)
    life.messages = trunk
    assert life.session.transform_context_sync(trunk) == view
    return view


def stored(life: Life) -> list[Any]:
    view = life.go_on()
    life.messages = life.view = life.session.to_store(view)
    return view


WAYS: dict[str, Callable[[Life], list[Any]]] = {
    each.__name__: each for each in (Life.go_on, by_hand, overflow, restarted, undone, forked, stored)
}
DIALECTS = {"chat": OPENAI_CHAT, "responses": RESPONSES, "anthropic": ANTHROPIC, "bedrock": BEDROCK, "gemini": GEMINI}
WRITERS: dict[str, Callable[[Dialect], Numbered | None]] = {
    "rule": lambda _: None,
    "model": lambda _: Numbered(),
    "items": lambda dialect: Native(as_format(dialect.format).provider) if dialect in (ANTHROPIC, RESPONSES) else Numbered(),
}


@crossed(way=WAYS, dialect=DIALECTS, writer=WRITERS)
def test_a_text_is_word_for_word_in_the_view_behind_each_of_ten_compactions(way: str, dialect: str, writer: str) -> None:
    life = Life(DIALECTS[dialect], WRITERS[writer](DIALECTS[dialect]))
    for _ in range(10):
        view = WAYS[way](life)
        carrying = [text for text in life.texts_of(view) if SKILL in text]
        assert [text.count(SKILL) for text in carrying] == [1]
        if writer != "items":
            check_view(life.messages, view, format=DIALECTS[dialect].apart, summaries=carrying)
    assert life.session.state().compaction_count >= 1
    prompts = [request.prompt for request in life.asked.requests] if life.asked else []
    assert not [prompt for prompt in prompts if SKILL in prompt or "<carried" in prompt]
