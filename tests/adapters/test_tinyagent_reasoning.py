"""Agents on models that bind their thinking to the messages before it, behind tinyagent's own binding."""

import pytest
from compaction_adapters.tinyagent import compaction_hook
from tinyagent import extract_text
from tinyagent.agent_types import AgentMessage, AssistantMessage, ThinkingContent

from compaction_hooks.stores import MemoryStore
from compaction_hooks.testing import Script, Turn
from tests.adapters.signed_reasoning import BINDING, HIDDEN, RESULT, SETTINGS, STEPS, TURNS, WINDOW, Reading
from tests.adapters.tinyagent_stage import anthropic_model, made_agent, needs_binding
from tests.provider import LoopbackProvider

pytestmark = needs_binding


@pytest.mark.parametrize("model", [BINDING, HIDDEN])
async def test_no_run_ends_in_a_refusal(provider: LoopbackProvider, model: str) -> None:
    """The second run is that of another process, which has the messages and a store."""
    reading = Reading(
        provider.conversation(model, window=200_000), has_redacted=False
    )  # a stream of the binding has none
    store, messages = MemoryStore(), list[AgentMessage]()
    for turn in TURNS:
        hook = compaction_hook(context_window=WINDOW, settings=SETTINGS, store=store, session_id="reading")
        agent = made_agent(
            hook,
            anthropic_model(provider.anthropic_url, id=model),
            model,
            Script(turns=(Turn(turn, tuple(reading.answers[: STEPS + 1]), (RESULT,) * STEPS),)),
        )
        agent.replace_messages(messages)
        assert extract_text(await hook.prompt(agent, turn)) == "Done."
        messages = agent.state.messages
    reading.check(model)
    answers = [message for message in messages if isinstance(message, AssistantMessage)]
    assert len(answers) == len(reading.answers)
    assert all(isinstance(answer.content[0], ThinkingContent) for answer in answers)
