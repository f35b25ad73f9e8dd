"""Agents on models that bind their thinking to the messages before it, behind pydantic-ai's own models."""

from dataclasses import replace
from typing import Any

import pytest
from compaction_adapters.pydantic_ai import Compaction, PydanticAIFormat
from pydantic_ai import Agent, UsageLimits
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.models.fallback import FallbackModel

from compaction_hooks import CompactionFinished
from compaction_hooks.events import CompactionEvent
from compaction_hooks.stores import MemoryStore
from tests.adapters.pydantic_ai_stage import Stage
from tests.adapters.signed_reasoning import BINDING, HIDDEN, RESULT, SETTINGS, STEPS, TURNS, WINDOW, Reading
from tests.adapters.test_pydantic_ai_recovery import by_iter_streaming, by_run, by_run_with_a_handler
from tests.cases import crossed, sampled
from tests.provider import CallSigner, ItemSigner

SEARCH: dict[str, Any] = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "parser"},
}
"""The item of a hosted tool in each answer."""


def read_file(path: str) -> str:
    """Read a file."""
    return f"{path}\n{RESULT}"


async def read_on(
    model: Any, way: Any, turn: str, messages: list[ModelMessage], store: MemoryStore | None, **options: Any
) -> list[ModelMessage]:
    """Return the messages after a run in a new process, which has those of before and a store."""
    options = {"context_window": WINDOW, "settings": SETTINGS, "store": store, **options}
    agent: Agent[None, str] = Agent(model, capabilities=[Compaction[None](**options)], tools=[read_file])
    limits = UsageLimits(request_limit=None)
    output, messages = await way(agent, turn, message_history=messages, usage_limits=limits, conversation_id="reading")
    assert output == "Done."
    return messages


@crossed(model=[BINDING, HIDDEN], persist=[False, True])
@pytest.mark.parametrize("way", sampled([by_run_with_a_handler, by_run, by_iter_streaming], 1))
async def test_no_run_ends_in_a_refusal(stage: Stage, model: str, way: Any, persist: bool) -> None:
    reading, store, messages = Reading(stage.side()), MemoryStore(), list[ModelMessage]()
    events: list[CompactionEvent] = []
    for turn in TURNS:
        options: dict[str, Any] = {"persist": persist, "on_event": events.append}
        messages = await read_on(stage.anthropic(model=model), way, turn, messages, store, **options)
    reading.check(model)
    assert sum(isinstance(event, CompactionFinished) for event in events) >= 3
    whole = [message for message in messages if any(isinstance(part, ThinkingPart) for part in message.parts)]
    assert (len(whole) == len(reading.answers)) is not persist


@pytest.mark.parametrize("way", [by_run, pytest.param(by_run_with_a_handler, marks=pytest.mark.full)])
async def test_a_hidden_binding_model_in_front_of_a_fallback_is_refused_once(stage: Stage, way: Any) -> None:
    """Its reasoning is left out and it is asked again, before the framework goes on to the next model."""
    reading, other = Reading(stage.side()), stage.side(key="other")
    store, messages = MemoryStore(), list[ModelMessage]()
    for turn in TURNS:
        model = FallbackModel(stage.anthropic(model=HIDDEN), stage.openai("other"))
        messages = await read_on(model, way, turn, messages, store)
    reading.check(HIDDEN)
    assert not other.requests


@pytest.mark.filterwarnings("ignore:.* rejected a replayed thinking block")
async def test_the_frameworks_own_retry_is_left_to_work(stage: Stage) -> None:
    """Instructions that change make all reasoning stale. If views keep it, pydantic-ai lets the provider drop it."""
    reading = Reading(stage.side())
    keep = replace(SETTINGS, sealed_reasoning="keep")
    compaction = Compaction[None](context_window=WINDOW, settings=keep)
    agent: Agent[None, str] = Agent(stage.anthropic(model=BINDING), capabilities=[compaction], tools=[read_file])
    agent.instructions(lambda: f"Answer number {len(reading.side.model_requests)}.")
    assert (await agent.run(TURNS[0], usage_limits=UsageLimits(request_limit=None))).output == "Done."
    requests = reading.side.model_requests
    assert [request.status for request in requests] == [200, 400, *[200] * STEPS]
    assert all("block_binding" in request.body["thinking"] for request in requests[2:])
    assert sum("signature" in str(request.messages) for request in requests) > STEPS / 2


async def test_reasoning_is_dropped_though_overflows_are_not_recovered(stage: Stage) -> None:
    reading = Reading(stage.side())
    await read_on(
        stage.anthropic(model=HIDDEN), by_run, TURNS[0], [], None, settings=replace(SETTINGS, compact_on_overflow=False)
    )
    assert len(reading.side.rejections) == 1


@pytest.mark.full
@pytest.mark.parametrize("model", [BINDING, HIDDEN])
async def test_no_run_on_bedrock_ends_in_a_refusal(stage: Stage, model: str) -> None:
    reading, store, messages = Reading(stage.side()), MemoryStore(), list[ModelMessage]()
    for turn in TURNS:
        messages = await read_on(stage.bedrock(f"anthropic.{model}"), by_run, turn, messages, store)
    reading.check(model)


@pytest.mark.parametrize("way", sampled([by_run_with_a_handler, by_run], 1))
@pytest.mark.parametrize("client", sampled(["hosted tools", "responses", "google"], 1))
async def test_reasoning_of_another_account_is_dropped_with_its_ids_and_signatures(
    stage: Stage, client: str, way: Any
) -> None:
    """The account changes between three runs."""
    reading, store, messages = Reading(stage.side()), MemoryStore(), list[ModelMessage]()
    signer = reading.side.signer = CallSigner() if client == "google" else ItemSigner()
    reading.side.blocks = [SEARCH] if client == "hosted tools" else []
    for turn, account in zip((*TURNS, "Go on."), ("first", "second", "second"), strict=True):
        signer.account = account
        model = stage.google("gemini-3-pro") if client == "google" else stage.responses(model="gpt-5")
        messages = await read_on(model, way, turn, messages, store)
    assert len(signer.refusals) == len(reading.side.rejections) == 1
    assert signer.sent[-1] > 1


def test_google_signatures_are_left_out_with_the_reasoning() -> None:
    """pydantic-ai sends Google's placeholder for a missing one."""
    details = {"thought_signature": "c2ln", "other": 1}
    said, call = TextPart("Step.", provider_details=details), ToolCallPart("read", {}, "1", provider_details=details)
    untied = PydanticAIFormat().untie(ModelResponse(parts=[said, call]))
    assert [getattr(part, "provider_details") for part in untied.parts] == [{"other": 1}] * 2  # noqa: B009
    assert PydanticAIFormat().untie(untied) is untied
