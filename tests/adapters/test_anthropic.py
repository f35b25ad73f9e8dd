"""Anthropic's compaction on demand as summarizer, with Anthropic's client over HTTP."""

import json
from collections import deque
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from compaction_adapters.anthropic import BETA, native

from compaction_hooks import CompactionController, CompactionFinished, CompactionSettings
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.formats import AnthropicFormat
from compaction_hooks.stores import MemoryStore
from tests.provider import Answer, Call, Compactor, LoopbackProvider, Rejection, Side, Signer
from tests.provider.counting import text_tokens
from tests.provider.wordings import anthropic_error

MODEL = "claude-opus-5-5"
OTHER = "claude-fable-5-1"
STEPS = 40
RESULT = "line of the file that was asked for\n" * 40
TOOLS: list[Any] = [{"name": "read", "description": "Reads a part.", "input_schema": {"type": "object"}}]
CALL: Any = {"system": "Be brief.", "tools": TOOLS}


class Run:
    """An agent's run; `restart` goes on with it in a new process."""

    def __init__(self, provider: LoopbackProvider, key: str) -> None:
        answers = [Answer(f"Step {step}.", (Call("read", {"part": step}),)) for step in range(STEPS)]
        self.side: Side = provider.conversation(key, window=200_000, answers=answers)
        self.signer = self.side.signer = Signer()
        self.compactor = self.side.compactor = Compactor()
        self.client = anthropic.Anthropic(base_url=provider.anthropic_url, api_key=key, max_retries=0)
        self.betas = [BETA]
        self.events: list[CompactionFinished] = []
        self.store = MemoryStore()
        self.messages: list[Any] = [{"role": "user", "content": "Read all parts, one after the other."}]
        self.restart()

    def restart(self, **keywords: Any) -> None:
        keywords = {"summarizer": native(self.client, sends_header=True), **keywords}
        self.session = CompactionController(
            format=AnthropicFormat(),
            model=MODEL,
            context_window=7_000,
            settings=CompactionSettings(keep_recent_tokens=1_500, clear_tool_results=False),
            store=self.store,
            on_event=self._note,
            **keywords,
        ).session("run")

    def _note(self, event: object) -> None:
        if isinstance(event, CompactionFinished):
            self.events.append(event)

    def steps(self, count: int, model: str = MODEL) -> None:
        """Make model calls, and run their tool calls."""

        def send(view: list[Any]) -> Any:
            return self.client.beta.messages.create(
                model=model, max_tokens=500, messages=view, betas=self.betas, **CALL
            )

        for _ in range(count):
            answer = self.session.call_sync(self.messages, send, model=model, **CALL)
            self.messages.append({"role": "assistant", "content": answer.content})
            calls = [block for block in answer.content if block.type == "tool_use"]
            results = [{"type": "tool_result", "tool_use_id": call.id, "content": RESULT} for call in calls]
            self.messages.append({"role": "user", "content": results})

    def until_compacted(self) -> None:
        """Make model calls until a compaction more is made."""
        before = len(self.events)
        while len(self.events) == before:
            self.steps(1)

    @property
    def heads(self) -> list[Any]:
        """The first block of each accepted model request."""
        sent = [request.messages[0]["content"] for request in self.side.model_requests if request.status == 200]
        return [content[0] if isinstance(content, list) else content for content in sent]

    @property
    def blocks(self) -> list[Any]:
        """The blocks in the records, oldest first."""
        return [event.record.native.items[0] for event in self.events if event.record.native]


def is_block(head: Any) -> bool:
    return isinstance(head, dict) and head["type"] == "compaction"


@pytest.fixture
def run(provider: LoopbackProvider, request: pytest.FixtureRequest) -> Iterator[Run]:
    made = Run(provider, request.node.name)
    with made.client:
        yield made


def test_a_long_run_goes_on_behind_the_newest_block_word_for_word_and_is_never_refused(run: Run) -> None:
    run.steps(36)
    assert len(run.blocks) >= 3
    assert run.side.rejections == []
    asked = [request for request in run.side.requests if request.is_compaction]
    assert [request.messages[0]["content"][0] for request in asked[1:]] == run.blocks[:-1]
    assert all(request.body["system"] == "Be brief." and request.tools == TOOLS for request in asked)
    heads = [head for head in run.heads if is_block(head)]
    assert [head for place, head in enumerate(heads) if head not in heads[:place]] == run.blocks
    assert is_block(run.heads[-1])
    assert run.signer.reasoning_share > 0.2
    assert "Called read({'part': 0})" in run.events[-1].record.summary
    assert all(event.usage and event.usage.output_tokens > 50 for event in run.events)


def test_the_block_is_counted_by_its_words_and_not_by_its_signature(run: Run) -> None:
    run.until_compacted()
    for event, block in zip(run.events, run.blocks, strict=True):
        assert event.record.native
        assert event.record.native.tokens == pytest.approx(text_tokens(block["content"]), rel=0.1)


def test_a_restart_goes_on_with_the_block(run: Run) -> None:
    run.until_compacted()
    block = run.blocks[-1]
    run.restart()
    run.steps(1)
    assert run.heads[-1] == block
    assert run.side.rejections == []


def test_a_restart_without_native_sends_no_reasoning_that_was_made_behind_the_block(run: Run) -> None:
    run.until_compacted()
    run.steps(3)
    run.restart(summarizer=None)
    run.steps(2)
    assert not is_block(run.heads[-1])
    assert run.side.rejections == []
    assert run.signer.sent[-1][0] > 0  # what it thought since the restart


def test_a_rotated_key_costs_one_refusal_then_the_text_goes_on_until_the_next_compaction(run: Run) -> None:
    run.until_compacted()
    before = len(run.blocks)
    run.compactor.key = "second account"
    run.steps(1)
    assert [request.status for request in run.side.rejections] == [400]
    assert not is_block(run.heads[-1])
    assert "[Conversation summary]" in str(run.heads[-1])
    run.restart()
    run.until_compacted()
    assert len(run.side.rejections) == 1
    assert len(run.blocks) > before
    assert run.heads[-1] == run.blocks[-1]


def test_another_model_and_another_address_are_sent_the_text_and_no_signature(run: Run) -> None:
    run.until_compacted()
    signature = run.blocks[-1]["signature"]
    first = len(run.side.requests)
    run.steps(2, model=OTHER)
    elsewhere = native(anthropic.Anthropic(base_url="https://gateway.example", api_key="k"), sends_header=True)
    for keywords in ({"summarizer": elsewhere}, {"summarizer": None}):
        run.restart(**keywords)
        run.steps(1)
    sent = run.side.requests[first:]
    assert len(sent) == 4
    assert signature not in json.dumps([request.body for request in sent])
    assert run.side.rejections == []
    run.restart()
    run.steps(1)
    assert run.heads[-1] == run.blocks[-1]


def test_a_program_without_the_header_goes_on_with_the_text(run: Run) -> None:
    run.betas = []
    run.steps(20)
    assert len(run.compactor.refusals) == len(run.blocks) > 0
    assert "not one of the expected content block types" in run.compactor.refusals[0]
    assert not any(map(is_block, run.heads))


OVERLOADED = Rejection(529, anthropic_error("overloaded_error", "compaction_unavailable"))
STOPS = ["max_tokens", "model_context_window_exceeded", "tool_use", "refusal", "end_turn"]
CODES = [
    "compaction_block_misplaced",
    "compaction_signature_invalid",
    "compaction_content_mismatch",
    "compaction_nothing_to_summarize",
]


@pytest.mark.parametrize(
    ("failure", "why"),
    [
        *((stop, f"stop reason {stop}") for stop in STOPS),
        (OVERLOADED, "compaction_unavailable"),
        *((Rejection(400, anthropic_error("invalid_request_error", code)), code) for code in CODES),
    ],
    ids=[*STOPS, "529", *CODES],
)
def test_a_failed_compaction_is_made_by_rule_at_once_and_the_event_tells_why(run: Run, failure: Any, why: str) -> None:
    run.compactor.failures = deque([failure])
    run.until_compacted()
    (event,) = run.events
    assert event.used_fallback
    assert why in event.fallback_reason
    assert event.record.native is None
    assert "read" in event.record.summary
    assert "[Conversation summary]" in str(run.heads[-1])


def test_the_host_must_say_that_it_sends_the_header(run: Run) -> None:
    with pytest.raises(ConfigurationError, match=r"anthropic-beta: compact-2026-09-04.*sends_header=True"):
        native(run.client)


@pytest.mark.parametrize(
    ("keywords", "settings", "expected"),
    [
        ({}, {}, None),
        ({"instructions": "In French."}, {}, "In French."),
        ({}, {"summary_prompt": "As a poem."}, "As a poem."),
    ],
)
def test_instructions_are_anthropics_own_or_those_of_the_program(
    run: Run, keywords: Any, settings: Any, expected: str | None
) -> None:
    hooks = CompactionController(
        format=AnthropicFormat(),
        model=MODEL,
        context_window=50_000,
        summarizer=native(run.client, sends_header=True, max_tokens=4_096, betas=["context-1m"], **keywords),
        settings=CompactionSettings(**settings),
    )
    run.steps(4)
    hooks.compact_sync(run.messages, keep_recent_tokens=100, **CALL)
    hooks.compact_sync([*run.messages, *run.messages[-2:]], keep_recent_tokens=10, focus="part 3", **CALL)
    plain, focused = [request.body for request in run.side.requests if request.is_compaction]
    assert plain["compaction"].get("instructions") == expected
    assert (plain["max_tokens"], plain["betas"]) == (4_096, ["context-1m", BETA])
    assert focused["compaction"]["instructions"].startswith(expected or "Summarize this conversation")
    assert focused["compaction"]["instructions"].endswith("Pay most attention to: part 3")


async def test_an_async_client_compacts_in_the_callers_loop(run: Run, provider: LoopbackProvider) -> None:
    run.steps(4)
    async with anthropic.AsyncAnthropic(
        base_url=provider.anthropic_url, api_key=run.client.api_key, max_retries=0
    ) as client:
        hooks = CompactionController(
            format=AnthropicFormat(),
            model=MODEL,
            context_window=50_000,
            summarizer=native(client, sends_header=True),
        )
        result = await hooks.compact(run.messages, keep_recent_tokens=100, **CALL)
        assert result.record
        assert result.record.native
        view = await hooks.transform_context(run.messages, **CALL)
    assert view[0] == {"role": "assistant", "content": [*result.record.native.items]}
