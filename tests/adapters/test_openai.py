"""OpenAI's models, and the compaction of OpenAI and xAI, as summarizers, with OpenAI's client over HTTP."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import openai
import pytest
from compaction_adapters.openai import native, summarizer

from compaction_hooks import CompactionController, CompactionSettings
from compaction_hooks.formats import AnthropicFormat, OpenAIResponsesFormat
from compaction_hooks.stores import MemoryStore
from tests.adapters import client_summaries, native_run
from tests.adapters.native_run import KEYWORDS, REQUEST, RESULT, NativeSide
from tests.adapters.stage import ProviderStage
from tests.cases import sampled
from tests.provider import ItemCompactor, ItemSigner, LoopbackProvider, Rejection
from tests.provider.counting import text_tokens
from tests.provider.item_compacting import unseal
from tests.provider.wordings import openai_error

MODEL = "gpt-5.6-sol"
SYSTEM = {"role": "developer", "content": "Be brief."}


class Run:
    """An agent's run; `restart` goes on with it in a new process."""

    def __init__(self, provider: LoopbackProvider, key: str) -> None:
        self.native = NativeSide(ProviderStage(provider, key))
        self.compactor = self.native.compactor = self.native.side.compactor = ItemCompactor()
        self.native.side.signer = ItemSigner()
        self.client = openai.OpenAI(base_url=provider.openai_url, api_key=key, max_retries=0)
        self.store = MemoryStore()
        self.messages: list[Any] = [SYSTEM, {"role": "user", "content": REQUEST}]
        self.restart()

    def restart(self, **keywords: Any) -> None:
        keywords = {"summarizer": native(self.client), **KEYWORDS, **keywords}
        self.session = CompactionController(
            format=OpenAIResponsesFormat(), model=MODEL, store=self.store, on_event=self.native.note, **keywords
        ).session("run")

    async def steps(self, count: int, model: str = MODEL) -> None:
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

    async def restarted(self, count: int, **keywords: Any) -> None:
        """Make model calls in a new process."""
        self.restart(**keywords)
        await self.steps(count)

    @property
    def windows(self) -> list[list[Any]]:
        """The items in the records, oldest first."""
        return [[*event.record.native.items] for event in self.native.events if event.record.native]


@pytest.fixture
def run(provider: LoopbackProvider, request: pytest.FixtureRequest) -> Iterator[Run]:
    made = Run(provider, request.node.name)
    with made.client:
        yield made


@pytest.mark.parametrize("mode", sampled(["dropped", "xai", "billed"], 2))
async def test_a_long_run_goes_on_behind_the_newest_items_word_for_word_and_is_never_refused(
    run: Run, mode: Any
) -> None:
    run.compactor.mode = mode
    await run.steps(24)
    assert len(run.windows) >= 3
    assert run.native.side.rejections == []
    newest = run.windows[-1]
    assert [item["type"] for item in newest] == (["compaction"] if mode == "xai" else ["message", "compaction"])
    sent = run.native.side.model_requests[-1].body["input"]
    assert sent[: len(newest) + 1] == [*newest, SYSTEM]
    asked = [request.body for request in run.native.side.requests if request.is_compaction]
    before = run.windows[:-1]
    assert [body["input"][: len(window)] for body, window in zip(asked[1:], before, strict=True)] == before
    assert all(SYSTEM not in body["input"] and body["instructions"] == "Be brief." for body in asked)
    assert "read" in run.native.events[-1].record.summary


async def test_the_items_are_counted_by_the_tokens_of_their_summary_and_have_the_address_of_the_client(
    run: Run,
) -> None:
    await native_run.until_compacted(run.native, run.steps)
    for event, window in zip(run.native.events, run.windows, strict=True):
        assert event.record.native
        assert event.record.native.tokens == text_tokens(unseal(window[-1]))
        assert event.record.native.issuer == ("openai_responses", str(run.client.base_url).rstrip("/"), MODEL)


async def test_a_rotated_key_costs_one_refusal_then_the_text_goes_on_until_the_next_compaction(run: Run) -> None:
    run.native.side.signer = None  # reasoning of another account is refused too
    await native_run.check_rotated_key(run.native, run.restarted)


async def test_another_model_another_address_and_another_provider_are_sent_the_text(run: Run) -> None:
    other = partial(run.steps, model="gpt-5.5")
    elsewhere = native(openai.OpenAI(base_url="https://api.x.ai/v1", api_key="k"))
    restarts = (partial(run.restarted, summarizer=summarizer) for summarizer in (elsewhere, None))
    await native_run.check_left_to_text(run.native, run.restarted, other, other, *restarts)


@pytest.mark.parametrize(
    ("failure", "why"),
    [
        (Rejection(500, openai_error("The server had an error")), "server had an error"),
        (Rejection(400, openai_error("Unknown model", "model")), "Unknown model"),
        ("none", "gave no compaction item"),
    ],
    ids=["500", "400", "no item"],
)
async def test_a_failed_compaction_is_made_by_rule_at_once_and_the_event_tells_why(
    run: Run, failure: Any, why: str
) -> None:
    await native_run.check_failure(run.native, run.steps, failure, why)


async def test_the_focus_the_settings_lines_and_a_prompt_outside_the_list_are_instructions(run: Run) -> None:
    run.restart(settings=CompactionSettings(summary_instructions="List each ticket."))
    await run.steps(4)
    run.session.compact_sync(run.messages, keep_recent_tokens=100, focus="part 3", model=MODEL, system="Be kind.")
    (body,) = [request.body for request in run.native.side.requests if request.is_compaction]
    assert body["instructions"].split("\n\n") == [
        "Be kind.",
        "Be brief.",
        "If you compact the conversation: List each ticket.",
        "If you compact the conversation, pay most attention to: part 3",
    ]


def test_messages_of_another_provider_are_summarized_by_rule(run: Run) -> None:
    hooks: Any = CompactionController(
        format=AnthropicFormat(),
        model=MODEL,
        context_window=8_000,
        summarizer=native(run.client),
        on_event=run.native.note,
    )
    hooks.compact_sync([{"role": role, "content": RESULT} for role in ("user", "assistant") * 8])
    assert run.native.side.requests == []
    assert run.native.events[-1].fallback_reason.startswith(
        "SummaryRefusedError: the messages are not in the form of openai_responses"
    )


# -- by a model


class Office:
    """OpenAI's clients, sync and async, whose requests to OpenAI go to the loopback provider."""

    def __init__(self, provider: LoopbackProvider, key: str) -> None:
        self.side = provider.conversation(key)
        self.compatible = openai.OpenAI(base_url=provider.openai_url, api_key=key, max_retries=0)

    def client(self, host: str = "api.openai.com", *, is_async: bool = False) -> Any:
        """Return a client of a host, by default OpenAI's own, whose requests come here."""

        def redirect(request: Any) -> None:
            loopback = self.compatible.base_url
            request.url = request.url.copy_with(scheme="http", host=loopback.host, port=loopback.port)

        async def redirect_async(request: Any) -> None:
            redirect(request)

        options: Any = {
            "base_url": f"https://{host}/v1",
            "api_key": self.compatible.api_key,
            "max_retries": 0,
        }
        if is_async:
            http = openai.DefaultAsyncHttpxClient(event_hooks={"request": [redirect_async]})
            return openai.AsyncOpenAI(http_client=http, **options)
        return openai.OpenAI(http_client=openai.DefaultHttpxClient(event_hooks={"request": [redirect]}), **options)


@pytest.fixture
def office(provider: LoopbackProvider, request: pytest.FixtureRequest) -> Iterator[Office]:
    made = Office(provider, request.node.name)
    with made.compatible:
        yield made


@client_summaries.by_client_and_call
async def test_a_model_of_openai_writes_the_summary_and_openai_is_asked_not_to_store_it(
    office: Office, is_async: bool, is_sync_call: bool
) -> None:
    client = office.client(is_async=is_async)
    sent = await client_summaries.check_summary(office.side, summarizer(client), is_sync_call=is_sync_call)
    assert sent == {"store": False, "max_completion_tokens": client_summaries.LIMIT}
    await client_summaries.close(client, is_sync_call=is_sync_call)


async def test_an_option_that_is_given_replaces_ours(office: Office) -> None:
    client = office.client()
    sent = await client_summaries.check_summary(office.side, summarizer(client, store=True), is_sync_call=True)
    assert sent == {"store": True, "max_completion_tokens": client_summaries.LIMIT}
    await client_summaries.close(client, is_sync_call=True)


@pytest.mark.parametrize(
    ("host", "is_openai"), [("eu.api.openai.com", True), ("notopenai.com", False), ("127.0.0.1", False)]
)
async def test_only_openai_gets_options_that_a_compatible_server_may_refuse(
    office: Office, host: str, is_openai: bool
) -> None:
    client = office.client(host)
    sent = await client_summaries.check_summary(office.side, summarizer(client), is_sync_call=True)
    assert {*sent} == ({"store", "max_completion_tokens"} if is_openai else set())
    await client_summaries.close(client, is_sync_call=True)


async def test_an_answer_that_is_no_summary_fails_the_compaction(office: Office) -> None:
    await client_summaries.check_failures(office.side, summarizer(office.compatible))


async def test_the_model_of_the_summaries_and_more_options_can_be_chosen(office: Office) -> None:
    await client_summaries.check_model(office.side, partial(summarizer, office.compatible))
