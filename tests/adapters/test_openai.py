"""The compaction of OpenAI and xAI as summarizer, with OpenAI's client over HTTP."""

import json
from collections import deque
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from compaction_adapters.openai import native

from compaction_hooks import CompactionController, CompactionFinished, CompactionSettings
from compaction_hooks.formats import AnthropicFormat, OpenAIResponsesFormat
from compaction_hooks.stores import MemoryStore
from tests.provider import Answer, Call, ItemCompactor, ItemSigner, LoopbackProvider, Rejection, Side
from tests.provider.counting import text_tokens
from tests.provider.item_compacting import unseal
from tests.provider.wordings import openai_error

MODEL = "gpt-5.6-sol"
STEPS = 40
RESULT = "line of the file that was asked for\n" * 40
SYSTEM = {"role": "developer", "content": "Be brief."}


class Run:
    """An agent's run; `restart` goes on with it in a new process."""

    def __init__(self, provider: LoopbackProvider, key: str) -> None:
        answers = [Answer("", (Call("read", {"part": step}),)) for step in range(STEPS)]
        self.side: Side = provider.conversation(key, window=200_000, answers=answers)
        self.side.signer = ItemSigner()
        self.compactor = self.side.compactor = ItemCompactor()
        self.client = openai.OpenAI(base_url=provider.openai_url, api_key=key, max_retries=0)
        self.events: list[CompactionFinished] = []
        self.store = MemoryStore()
        self.messages: list[Any] = [SYSTEM, {"role": "user", "content": "Read all parts, one after the other."}]
        self.restart()

    def restart(self, **keywords: Any) -> None:
        keywords = {"summarizer": native(self.client), **keywords}
        self.session = CompactionController(
            format=OpenAIResponsesFormat(),
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
        for _ in range(count):
            answer = self.session.call_sync(
                self.messages,
                lambda view: self.client.responses.create(
                    model=model, input=view, store=False, include=["reasoning.encrypted_content"]
                ),
                model=model,
            )
            calls = [item for item in answer.output if item.type == "function_call"]
            self.messages += answer.output
            self.messages += [
                {"type": "function_call_output", "call_id": call.call_id, "output": RESULT} for call in calls
            ]

    def until_compacted(self) -> None:
        """Make model calls until a compaction more is made."""
        before = len(self.events)
        while len(self.events) == before:
            self.steps(1)

    @property
    def sent(self) -> list[Any]:
        """The input of each accepted model request."""
        return [request.body["input"] for request in self.side.model_requests if request.status == 200]

    @property
    def windows(self) -> list[list[Any]]:
        """The items in the records, oldest first."""
        return [[*event.record.native.items] for event in self.events if event.record.native]


@pytest.fixture
def run(provider: LoopbackProvider, request: pytest.FixtureRequest) -> Iterator[Run]:
    made = Run(provider, request.node.name)
    with made.client:
        yield made


def is_sealed(view: list[Any]) -> bool:
    return any(item.get("type") == "compaction" for item in view)


@pytest.mark.parametrize("mode", ["billed", "dropped", "xai"])
def test_a_long_run_goes_on_behind_the_newest_items_word_for_word_and_is_never_refused(run: Run, mode: Any) -> None:
    run.compactor.mode = mode
    run.steps(36)
    assert len(run.windows) >= 3
    assert run.side.rejections == []
    newest = run.windows[-1]
    assert [item["type"] for item in newest] == (["compaction"] if mode == "xai" else ["message", "compaction"])
    assert run.sent[-1][: len(newest) + 1] == [*newest, SYSTEM]
    asked = [request.body for request in run.side.requests if request.is_compaction]
    assert [body["input"][: len(window)] for body, window in zip(asked[1:], run.windows, strict=False)] == run.windows[
        :-1
    ]
    assert all(SYSTEM not in body["input"] and body["instructions"] == "Be brief." for body in asked)
    assert "read" in run.events[-1].record.summary


def test_the_items_are_counted_by_the_tokens_of_their_summary_and_have_the_address_of_the_client(run: Run) -> None:
    run.until_compacted()
    for event, window in zip(run.events, run.windows, strict=True):
        assert event.record.native
        assert event.record.native.tokens == text_tokens(unseal(window[-1]))
        assert event.record.native.issuer == ("openai_responses", str(run.client.base_url).rstrip("/"), MODEL)


def test_a_restart_goes_on_with_the_items(run: Run) -> None:
    run.until_compacted()
    window = run.windows[-1]
    run.restart()
    run.steps(1)
    assert run.sent[-1][: len(window)] == window
    assert run.side.rejections == []


def test_a_rotated_key_costs_one_refusal_then_the_text_goes_on_until_the_next_compaction(run: Run) -> None:
    run.side.signer = None  # reasoning of another account is refused too
    run.until_compacted()
    before = len(run.windows)
    run.compactor.key = "second account"
    run.steps(1)
    assert len(run.side.rejections) == 1
    assert not is_sealed(run.sent[-1])
    assert "[Conversation summary]" in str(run.sent[-1][1])
    run.restart()
    run.until_compacted()
    assert len(run.side.rejections) == 1
    assert len(run.windows) > before
    assert is_sealed(run.sent[-1])


def test_another_model_another_address_and_another_provider_are_sent_the_text(run: Run) -> None:
    run.until_compacted()
    first = len(run.side.requests)
    run.steps(2, model="gpt-5.5")
    elsewhere = native(openai.OpenAI(base_url="https://api.x.ai/v1", api_key="k"))
    for keywords in ({"summarizer": elsewhere}, {"summarizer": None}):
        run.restart(**keywords)
        run.steps(1)
    sent = [request.body for request in run.side.requests[first:]]
    assert len(sent) == 4
    assert "gAAAA" not in json.dumps([body["input"][:3] for body in sent])
    assert not any(is_sealed(body["input"]) for body in sent)
    assert run.side.rejections == []


@pytest.mark.parametrize(
    ("failure", "why"),
    [
        (Rejection(500, openai_error("The server had an error")), "server had an error"),
        (Rejection(400, openai_error("Unknown model", "model")), "Unknown model"),
        ("none", "gave no compaction item"),
    ],
    ids=["500", "400", "no item"],
)
def test_a_failed_compaction_is_made_by_rule_at_once_and_the_event_tells_why(run: Run, failure: Any, why: str) -> None:
    run.compactor.failures = deque([failure])
    run.until_compacted()
    (event,) = run.events
    assert event.used_fallback
    assert why in event.fallback_reason
    assert event.record.native is None
    assert "read" in event.record.summary


def test_the_focus_and_a_prompt_beside_the_list_are_instructions(run: Run) -> None:
    run.steps(4)
    run.session.compact_sync(run.messages, keep_recent_tokens=100, focus="part 3", model=MODEL, system="Be kind.")
    (body,) = [request.body for request in run.side.requests if request.is_compaction]
    assert body["instructions"].split("\n\n") == [
        "Be kind.",
        "Be brief.",
        "If you compact the conversation, pay most attention to: part 3",
    ]


def test_messages_of_another_provider_are_summarized_by_rule(run: Run) -> None:
    hooks: Any = CompactionController(
        format=AnthropicFormat(), model=MODEL, context_window=8_000, summarizer=native(run.client), on_event=run._note
    )
    hooks.compact_sync([{"role": role, "content": RESULT} for role in ("user", "assistant") * 8])
    assert run.side.requests == []
    assert run.events[-1].fallback_reason.startswith(
        "SummaryRefusedError: the messages are not in the form of openai_responses"
    )
