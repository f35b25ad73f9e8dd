"""Runs of a framework's agent whose provider compacts by itself: the provider's side, and checks that hold in every framework."""

import json
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any

import pytest

from compaction_hooks import Carried, CompactionFinished, CompactionSettings
from tests.adapters.stage import ProviderStage
from tests.host_facts import PLAN, has
from tests.provider import Answer, Call, Compactor, ItemCompactor, Rejection, Side, Signer
from tests.provider.validation import blocks
from tests.provider.wordings import anthropic_error

MODEL = "claude-opus-5-5"
OTHER = "claude-fable-5-1"
RESULT = "line of the file that was asked for\n" * 40
REQUEST = "Read all parts, one after the other."
SETTINGS = CompactionSettings(keep_recent_tokens=500, clear_tool_results=False)
KEYWORDS: dict[str, Any] = {"context_window": 5_500, "settings": SETTINGS, "carry": lambda _: [Carried("plan", PLAN)]}
"""The keywords of a controller, by which it compacts every few steps, with a text that comes back."""


def by_anthropic(has_option: bool) -> pytest.MarkDecorator:
    """Return the mark of tests for which Anthropic compacts on demand."""
    return pytest.mark.skipif(not has_option, reason="these versions do not know compaction on demand")


class NativeSide:
    """Anthropic's side of a run, which reads a part of a file in each step; or OpenAI's, by its `signer` and `compactor`.

    Attributes:
        events: The compactions so far.
    """

    def __init__(self, stage: ProviderStage, steps: int = 40) -> None:
        answers = [Answer(f"Step {step}.", (Call("read", {"part": step}),)) for step in range(steps)]
        self.side: Side = stage.side(*answers, window=200_000)
        self.side.signer = self.signer = Signer()
        self.compactor: Compactor | ItemCompactor = Compactor()
        self.side.compactor = self.compactor
        self.events: list[CompactionFinished] = []

    def note(self, event: object) -> None:
        if isinstance(event, CompactionFinished):
            self.events.append(event)

    @property
    def blocks(self) -> list[Any]:
        """The blocks in the records, oldest first."""
        return [event.record.native.items[-1] for event in self.events if event.record.native]

    @property
    def sealed(self) -> list[Any]:
        """The provider's own summaries in the newest model request."""
        return sealed_in(self.side.model_requests[-1].messages)

    @property
    def heads(self) -> list[Any]:
        """The first content of each accepted model request."""
        sent = [request.messages[0]["content"] for request in self.side.model_requests if request.status == 200]
        return [content[0] if isinstance(content, list) else content for content in sent]


Steps = Callable[[int], Awaitable[None]]
"""Makes model calls of a run, and runs their tool calls."""


def is_block(head: Any) -> bool:
    return isinstance(head, dict) and head["type"] == "compaction"


async def check_long_run(native: NativeSide, steps: Steps) -> None:
    """Check that a run goes on behind the newest block, word for word and with the header, and is never refused."""
    await steps(24)
    assert len(native.blocks) >= 3
    assert native.side.rejections == []
    heads = [head for head in native.heads if is_block(head)]
    assert [head for place, head in enumerate(heads) if head not in heads[:place]] == native.blocks
    asked = [request for request in native.side.requests if request.is_compaction]
    assert [request.messages[0]["content"][0] for request in asked[1:]] == native.blocks[:-1]
    tools = native.side.model_requests[0].tools
    assert all((request.system, request.tools) == (native.side.requests[0].system, tools) for request in asked)
    assert "Called read({'part': 0})" in native.events[-1].record.summary
    assert all(event.usage and event.usage.output_tokens > 50 for event in native.events)
    assert native.signer.reasoning_share > 0.2
    check_plan(native)


async def check_rotated_key(native: NativeSide, steps: Steps) -> None:
    """Check that a block of another account costs one refusal, and that the text goes on until the next compaction."""
    await until_compacted(native, steps)
    before = len(native.blocks)
    native.compactor.key = "second account"
    await steps(1)
    assert [request.status for request in native.side.rejections] == [400]
    check_text(native)
    await until_compacted(native, steps)
    assert len(native.side.rejections) == 1
    assert len(native.blocks) > before
    assert native.sealed == native.blocks[-1:]


OVERLOADED = Rejection(529, anthropic_error("overloaded_error", "compaction_unavailable"))


async def check_failure(native: NativeSide, steps: Steps, failure: str | Rejection, why: str = "") -> None:
    """Check that a compaction that fails is made by rule at once, and that the event tells why."""
    native.compactor.failures = deque([failure])
    await until_compacted(native, steps)
    (event,) = native.events
    assert event.used_fallback
    assert event.fallback_reason
    assert why in event.fallback_reason
    assert event.record.native is None
    assert "read" in event.record.summary
    check_text(native)


async def check_left_to_text(native: NativeSide, steps: Steps, *others: Steps) -> None:
    """Check that calls of another issuer are sent the text and no signature, and that the first one gets its block again."""
    await until_compacted(native, steps)
    block, first = native.blocks[-1], len(native.side.requests)
    for other in others:
        await other(1)
        check_text(native)
    sent = native.side.requests[first:]
    assert len(sent) == len(others)
    assert (block.get("signature") or block["encrypted_content"]) not in json.dumps([request.body for request in sent])
    assert native.side.rejections == []
    await steps(1)
    assert native.sealed == [block]


async def check_other_issuers(native: NativeSide, steps: Any) -> None:
    """Check that another model, and the same one at another address, are sent the text."""
    await check_left_to_text(native, steps, partial(steps, model=OTHER), partial(steps, host="localhost"))


around_a_block = pytest.mark.parametrize(
    "check",
    [
        pytest.param(check_rotated_key, id="a rotated key costs one refusal"),
        pytest.param(check_other_issuers, id="other issuers are sent the text"),
        pytest.param(partial(check_failure, failure="max_tokens"), id="no summary", marks=pytest.mark.full),
        pytest.param(partial(check_failure, failure=OVERLOADED), id="an error"),
    ],
)
"""Anthropic's block is refused, left to others, or not made: the text of the summary goes on."""


async def check_openai(native: NativeSide, steps: Steps) -> None:
    """Check that a run goes on behind OpenAI's newest item, word for word, until the key changes: then behind the text."""
    side = native.side
    side.signer = None
    side.compactor = native.compactor = ItemCompactor()
    for _ in range(2):
        await until_compacted(native, steps)
        assert native.sealed == native.blocks[-1:]
    first, second = (request for request in side.requests if request.is_compaction)
    assert sealed_in(second.messages) == native.blocks[:1]
    assert "Be brief." in first.body["instructions"]
    assert side.rejections == []
    check_plan(native)
    assert "Be brief." in side.model_requests[-1].system
    native.compactor.key = "second account"
    await steps(1)
    assert len(side.rejections) == 1
    check_text(native)


def check_plan(native: NativeSide) -> None:
    """Check that the host's text is in each request behind the first summary of the provider's own."""
    requests = native.side.requests
    first = next(number for number, request in enumerate(requests) if request.is_compaction)
    assert [number for number, one in enumerate(requests[first:]) if not one.is_summary and not has(one, PLAN)] == []


def check_text(native: NativeSide) -> None:
    """Check that the newest model request begins with the text of the summary."""
    assert native.sealed == []
    assert "[Conversation summary]" in str(native.side.model_requests[-1].messages[:2])


def sealed_in(messages: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Return the provider's own summaries in the messages of a request."""
    items = (item for message in messages for item in (message, *blocks(message.get("content"))))
    return [item for item in items if item.get("type") == "compaction"]


async def until_compacted(native: NativeSide, steps: Steps) -> None:
    """Make model calls until a compaction more is made."""
    before = len(native.events)
    while len(native.events) == before:
        await steps(1)
