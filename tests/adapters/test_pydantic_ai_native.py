"""Agents whose provider compacts on its own side."""

from typing import Any

import pytest
from compaction_adapters.pydantic_ai import Compaction
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.messages import (
    CompactionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicCompaction, AnthropicModel
from pydantic_ai.models.openai import OpenAICompaction
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import ExternalToolset

from compaction_hooks.errors import ConfigurationError
from compaction_hooks.events import CompactionEvent
from tests.adapters import native_run
from tests.adapters.native_run import KEYWORDS, MODEL, REQUEST, RESULT, NativeSide
from tests.adapters.pydantic_ai_messages import spoken
from tests.adapters.pydantic_ai_stage import Stage
from tests.adapters.server_compaction import (
    CLEARS,
    COMPACTS,
    NAMES,
    OPENAI_COMPACTS,
    READABLE,
    SEALED,
    SETTINGS,
    WINDOW,
    check_left_to_server,
    three_requests,
)
from tests.adapters.stage import CountingSummarizer

OPTIONS: dict[str, tuple[str, dict[str, Any], list[Any]]] = {
    "anthropic_context_management": ("anthropic", {"anthropic_context_management": COMPACTS}, []),
    "anthropic_context_management of AnthropicCompaction": ("anthropic", {}, [AnthropicCompaction()]),
    "openai_context_management": ("responses", {"openai_context_management": OPENAI_COMPACTS}, []),
    "openai_context_management of OpenAICompaction": ("responses", {}, [OpenAICompaction()]),
    "compaction of OpenAICompaction": ("responses", {}, [OpenAICompaction(message_count_threshold=1_000)]),
    "openai_previous_response_id": ("responses", {"openai_previous_response_id": "auto"}, []),
    "openai_conversation_id": ("responses", {"openai_conversation_id": "conv_1"}, []),
    "openai_truncation": ("responses", {"openai_truncation": "auto"}, []),
    "context_management in extra_body": ("openai", {"extra_body": {"context_management": COMPACTS}}, []),
}
"""By the option that is named: the client, the settings of its model, and other capabilities."""
DIFFERENT = {
    "anthropic_context_management of AnthropicCompaction",
    "compaction of OpenAICompaction",
    "openai_conversation_id",
}
"""The cases that the fast suite has."""


def make_agent(model: Any, events: list[CompactionEvent], *others: Any) -> Agent[None, str]:
    compaction = Compaction[None](
        context_window=WINDOW, settings=SETTINGS, summarizer=CountingSummarizer(), on_event=events.append
    )
    return Agent(model, capabilities=[compaction, *others])


@pytest.mark.parametrize(
    "case", [case if case in DIFFERENT else pytest.param(case, marks=pytest.mark.full) for case in OPTIONS]
)
async def test_a_server_that_compacts_is_left_to_do_so(stage: Stage, case: str) -> None:
    side, events = stage.side(), list[CompactionEvent]()
    client, settings, others = OPTIONS[case]
    agent = make_agent(getattr(stage, client)(settings=settings), events, *others)
    messages: list[ModelMessage] = spoken(12)
    for _ in three_requests(side):
        messages = (await agent.run("And now?", message_history=messages, conversation_id="thread")).all_messages()
    check_left_to_server(side, events, case.partition(" ")[0])


async def test_a_server_that_only_clears_results_changes_nothing(stage: Stage) -> None:
    side = stage.side(window=200_000)
    agent = make_agent(stage.anthropic(settings={"anthropic_context_management": CLEARS}), [])
    await agent.run("And now?", message_history=spoken(12))
    assert len(side.requests[0].messages) < len(spoken(12))


def compacted(part: CompactionPart) -> list[ModelMessage]:
    """Return a conversation that the provider has compacted."""
    answer = ModelResponse(parts=[part, TextPart("Going on.")], model_name="gpt-5", provider_name=part.provider_name)
    return [*spoken(4), ModelRequest(parts=[UserPromptPart("Go on.")]), answer]


async def test_a_readable_summary_reaches_a_model_of_another_provider(stage: Stage) -> None:
    side = stage.side(window=200_000)
    part = CompactionPart(str(READABLE["content"]), provider_name="anthropic")
    await make_agent(stage.openai(model="gpt-5"), []).run("And now?", message_history=[*compacted(part), *spoken(2)])
    assert [name for name in NAMES if name not in str(side.requests[0].messages)] == []


async def test_a_sealed_summary_is_sent_to_its_provider_alone_first_and_word_for_word(stage: Stage) -> None:
    own, other = stage.side(window=200_000, key="a"), stage.side(window=200_000, key="b")
    details = {name: SEALED[name] for name in ("type", "encrypted_content")}
    part = CompactionPart(None, id=str(SEALED["id"]), provider_name="openai", provider_details=details)
    for model in (stage.responses("a", model="gpt-5"), stage.anthropic("b")):
        await make_agent(model, []).run("And now?", message_history=compacted(part), conversation_id="thread")
    (sent,), (elsewhere,) = own.requests, other.requests
    assert sent.messages[0] == SEALED
    assert str(sent.messages).count("gAAAA") == 1
    assert "Going on." in str(sent.messages)
    assert "Question 3." not in str(sent.messages)
    assert "gAAAA" not in str(elsewhere.body)
    assert "Question 3." in str(elsewhere.messages)


by_anthropic = native_run.by_anthropic(AnthropicModel.compact_messages is not Model.compact_messages)


LINES = "List each ticket."


class Run:
    """An agent with `native=True` whose tool is run outside; each step is a run that continues the conversation.

    Args:
        prompts: The agent's `system_prompt` or `instructions`.
    """

    def __init__(self, stage: Stage, **prompts: str) -> None:
        self.native, self.stage, self.messages = NativeSide(stage), stage, list[ModelMessage]()
        self.compaction = Compaction[None](
            native=True, on_event=self.native.note, **KEYWORDS, summary_instructions=LINES
        )
        self.prompts: dict[str, Any] = prompts or {"instructions": "Be brief."}
        self.requests = 0

    async def steps(self, count: int, model: str = MODEL, host: str = "127.0.0.1") -> None:
        is_claude = model.startswith("claude")
        agent = Agent(
            self.stage.anthropic(model=model, host=host) if is_claude else self.stage.responses(model=model),
            capabilities=[self.compaction],
            output_type=[str, DeferredToolRequests],
            toolsets=[ExternalToolset([ToolDefinition(name="read")])],
            **self.prompts,
        )
        for _ in range(count):
            asked = None if self.messages else REQUEST
            result = await agent.run(asked, message_history=self.messages, conversation_id="run")
            calls = [part for part in result.response.parts if isinstance(part, ToolCallPart)]
            returned = [ToolReturnPart(call.tool_name, RESULT, call.tool_call_id) for call in calls]
            self.messages = [*result.all_messages(), ModelRequest(parts=returned)]
            self.requests += result.usage.requests


@by_anthropic
@pytest.mark.parametrize("prompt", ["system_prompt", pytest.param("instructions", marks=pytest.mark.full)])
async def test_a_long_run_goes_on_behind_anthropics_block(stage: Stage, prompt: str) -> None:
    agent = Run(stage, **{prompt: "Be brief."})
    await native_run.check_long_run(agent.native, agent.steps)
    assert agent.requests == len(agent.native.side.requests)
    asked = [request.body["compaction"] for request in agent.native.side.requests if request.is_compaction]
    assert all(LINES in each["instructions"] for each in asked)


@by_anthropic
@native_run.around_a_block
async def test_the_text_goes_on_without_the_block(stage: Stage, check: Any) -> None:
    agent = Run(stage)
    await check(agent.native, agent.steps)


def test_a_run_whose_messages_are_replaced_takes_no_part() -> None:
    with pytest.raises(ConfigurationError, match="native=True and persist=True"):
        Compaction[None](native=True, persist=True)


async def test_a_long_run_goes_on_behind_openais_item_until_the_key_changes(stage: Stage) -> None:
    agent = Run(stage)
    await native_run.check_openai(agent.native, lambda count: agent.steps(count, "gpt-5.6-sol"))
    asked = [request.body for request in agent.native.side.requests if request.is_compaction]
    assert all(body["instructions"].endswith(f"If you compact the conversation: {LINES}") for body in asked)
