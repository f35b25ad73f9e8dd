"""Anthropic's models, and its compaction on demand, as summarizers, with Anthropic's client over HTTP."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import anthropic
import pytest
from compaction_adapters.anthropic import BETA, native, summarizer

from compaction_hooks import CompactionController, CompactionSettings
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.formats import AnthropicFormat
from compaction_hooks.stores import MemoryStore
from compaction_hooks.summary.prompts import SYSTEM_PROMPT
from tests.adapters import client_summaries, native_run
from tests.adapters.native_run import KEYWORDS, MODEL, OTHER, OVERLOADED, REQUEST, RESULT, NativeSide, is_block
from tests.adapters.stage import ProviderStage
from tests.provider import LoopbackProvider, Rejection
from tests.provider.counting import text_tokens
from tests.provider.wordings import anthropic_error

TOOLS: list[Any] = [{"name": "read", "description": "Reads a part.", "input_schema": {"type": "object"}}]
CALL: Any = {"system": "Be brief.", "tools": TOOLS}


class Run:
    """An agent's run; `restart` goes on with it in a new process."""

    def __init__(self, provider: LoopbackProvider, key: str) -> None:
        self.native = NativeSide(ProviderStage(provider, key))
        self.client = anthropic.Anthropic(base_url=provider.anthropic_url, api_key=key, max_retries=0)
        self.betas = [BETA]
        self.store = MemoryStore()
        self.messages: list[Any] = [{"role": "user", "content": REQUEST}]
        self.restart()

    def restart(self, **keywords: Any) -> None:
        keywords = {"summarizer": native(self.client, sends_header=True), **KEYWORDS, **keywords}
        self.session = CompactionController(
            format=AnthropicFormat(), model=MODEL, store=self.store, on_event=self.native.note, **keywords
        ).session("run")

    async def steps(self, count: int, model: str = MODEL) -> None:
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

    async def restarted(self, count: int, **keywords: Any) -> None:
        """Make model calls in a new process."""
        self.restart(**keywords)
        await self.steps(count)


@pytest.fixture
def run(provider: LoopbackProvider, request: pytest.FixtureRequest) -> Iterator[Run]:
    made = Run(provider, request.node.name)
    with made.client:
        yield made


async def test_a_long_run_goes_on_behind_the_newest_block_word_for_word_and_is_never_refused(run: Run) -> None:
    await native_run.check_long_run(run.native, run.steps)
    first = run.native.side.requests[0]
    assert (first.body["system"], first.tools) == ("Be brief.", TOOLS)


async def test_the_block_is_counted_by_its_words_and_not_by_its_signature(run: Run) -> None:
    await native_run.until_compacted(run.native, run.steps)
    for event, block in zip(run.native.events, run.native.blocks, strict=True):
        assert event.record.native
        assert event.record.native.tokens == pytest.approx(text_tokens(block["content"]), rel=0.1)


async def test_a_restart_without_native_sends_no_reasoning_that_was_made_behind_the_block(run: Run) -> None:
    await native_run.until_compacted(run.native, run.steps)
    await run.steps(3)
    await run.restarted(2, summarizer=None)
    native_run.check_text(run.native)
    assert run.native.side.rejections == []
    assert run.native.signer.sent[-1][0] > 0  # what it thought since the restart


async def test_a_rotated_key_costs_one_refusal_then_the_text_goes_on_until_the_next_compaction(run: Run) -> None:
    await native_run.check_rotated_key(run.native, run.restarted)


async def test_another_model_and_another_address_are_sent_the_text_and_no_signature(run: Run) -> None:
    other = partial(run.steps, model=OTHER)
    elsewhere = native(anthropic.Anthropic(base_url="https://gateway.example", api_key="k"), sends_header=True)
    restarts = (partial(run.restarted, summarizer=summarizer) for summarizer in (elsewhere, None))
    await native_run.check_left_to_text(run.native, run.restarted, other, other, *restarts)


async def test_a_program_without_the_header_goes_on_with_the_text(run: Run) -> None:
    run.betas = []
    await run.steps(20)
    assert len(run.native.compactor.refusals) == len(run.native.blocks) > 0
    assert "not one of the expected content block types" in run.native.compactor.refusals[0]
    assert not any(map(is_block, run.native.heads))


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
async def test_a_failed_compaction_is_made_by_rule_at_once_and_the_event_tells_why(
    run: Run, failure: Any, why: str
) -> None:
    await native_run.check_failure(run.native, run.steps, failure, why)


def test_the_host_must_say_that_it_sends_the_header(run: Run) -> None:
    with pytest.raises(ConfigurationError, match=r"anthropic-beta: compact-2026-09-04.*sends_header=True"):
        native(run.client)


@pytest.mark.parametrize(
    ("keywords", "settings", "expected"),
    [
        ({}, {}, None),
        ({"instructions": "In French."}, {}, "In French."),
        ({}, {"summary_prompt": "As a poem."}, "As a poem."),
        ({"instructions": "In French."}, {"summary_instructions": "List tickets."}, "In French.\n\nList tickets."),
    ],
)
async def test_instructions_are_anthropics_own_or_those_of_the_program(
    run: Run, keywords: Any, settings: Any, expected: str | None
) -> None:
    hooks = CompactionController(
        format=AnthropicFormat(),
        model=MODEL,
        context_window=50_000,
        summarizer=native(run.client, sends_header=True, max_tokens=4_096, betas=["context-1m"], **keywords),
        settings=CompactionSettings(**settings),
    )
    await run.steps(4)
    hooks.compact_sync(run.messages, keep_recent_tokens=100, **CALL)
    hooks.compact_sync([*run.messages, *run.messages[-2:]], keep_recent_tokens=10, focus="part 3", **CALL)
    plain, focused = [request.body for request in run.native.side.requests if request.is_compaction]
    assert plain["compaction"].get("instructions") == expected
    assert (plain["max_tokens"], plain["betas"]) == (4_096, ["context-1m", BETA])
    assert focused["compaction"]["instructions"].startswith(expected or "Summarize this conversation")
    assert focused["compaction"]["instructions"].endswith("Pay most attention to: part 3")


async def test_an_async_client_compacts_in_the_callers_loop(run: Run, provider: LoopbackProvider) -> None:
    await run.steps(4)
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


# -- by a model


@pytest.fixture
def client(provider: LoopbackProvider, request: pytest.FixtureRequest) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=provider.anthropic_url, api_key=request.node.name, max_retries=0) as made:
        yield made


@client_summaries.by_client_and_call
async def test_a_model_of_anthropic_writes_the_summary(
    provider: LoopbackProvider, request: pytest.FixtureRequest, is_async: bool, is_sync_call: bool
) -> None:
    side = provider.conversation(request.node.name)
    side.blocks = [{"type": "thinking", "thinking": "They ask about numbers.", "signature": "EuYB"}]
    kind: Any = anthropic.AsyncAnthropic if is_async else anthropic.Anthropic
    made = kind(base_url=provider.anthropic_url, api_key=request.node.name, max_retries=0)
    sent = await client_summaries.check_summary(side, summarizer(made), is_sync_call=is_sync_call)
    assert sent.pop("system") == SYSTEM_PROMPT
    assert sent == {"max_tokens": client_summaries.LIMIT}
    await client_summaries.close(made, is_sync_call=is_sync_call)


@pytest.mark.parametrize(("model", "most"), [("claude-opus-4-20250514", 4_096), ("claude-sonnet-4-5", 14_000)])
async def test_the_client_does_not_refuse_the_limit_of_an_answer(
    provider: LoopbackProvider, client: anthropic.Anthropic, model: str, most: int
) -> None:
    """It wants a stream of what may take ten minutes; a summary has a time limit of its own."""
    provider.conversation(str(client.api_key))
    desk = client_summaries.Desk(summarizer(client), settings=CompactionSettings(max_summary_tokens=most))
    assert (await desk.compact(model=model)).outcome == "compacted"


async def test_an_option_that_is_given_replaces_ours(provider: LoopbackProvider, client: anthropic.Anthropic) -> None:
    side = provider.conversation(str(client.api_key))
    sent = await client_summaries.check_summary(side, summarizer(client, max_tokens=900), is_sync_call=True)
    assert sent["max_tokens"] == 900


async def test_an_answer_that_is_no_summary_fails_the_compaction(
    provider: LoopbackProvider, client: anthropic.Anthropic
) -> None:
    await client_summaries.check_failures(provider.conversation(str(client.api_key)), summarizer(client))


async def test_the_model_of_the_summaries_and_more_options_can_be_chosen(
    provider: LoopbackProvider, client: anthropic.Anthropic
) -> None:
    side = provider.conversation(str(client.api_key))
    await client_summaries.check_model(
        side, lambda *model, user=None: summarizer(client, *model, extra_body={"user": user})
    )
