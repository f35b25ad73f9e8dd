"""Faults that end in an overflow, over real HTTP: an agent loop on a client, a provider that counts with a real tokenizer."""

import asyncio
from typing import Any

import pytest

pytest.importorskip("httpx")

from compaction_hooks import CompactionController, CompactionFinished
from compaction_hooks.events import CompactionEvent
from compaction_hooks.testing import Opening, long_script, tools_of
from tests.faults.harness import SIDES, Chat, Side
from tests.faults.test_estimator_faults import Lying
from tests.provider import LoopbackProvider, Overflow
from tests.testing.plain import PlainConversation, PlainHarness

SCRIPT = long_script(6, steps=4, text_chars=6_000, topic="ledger")
WINDOW = 16_384


def run(provider: LoopbackProvider, key: str, side: Side, overflow: Overflow = "reject", **keywords: Any) -> Any:
    there = provider.conversation(key, window=WINDOW, answers=SCRIPT.answers, overflow=overflow)
    events: list[CompactionEvent] = []
    controller: CompactionController[Chat] = CompactionController(
        context_window=WINDOW, on_event=events.append, **keywords
    )
    opening = Opening(
        controller=controller,
        conversation_id=key,
        openai_url=provider.openai_url,
        anthropic_url=provider.anthropic_url,
        api_key=key,
        model="gpt-5",
        system=SCRIPT.system,
        tools=tools_of(SCRIPT),
    )

    async def play() -> None:
        async with PlainHarness().open(opening) as conversation:
            assert isinstance(conversation, PlainConversation)
            for turn in SCRIPT.turns:
                if side == "sync":
                    await asyncio.to_thread(conversation.say_sync, turn.user)
                else:
                    await conversation.say(turn.user)

    asyncio.run(play())
    assert not there.remaining, "the run did not come to its end"
    return there, events


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("overflow", ["truncate", "length"])
def test_a_session_ends_well_where_an_overflow_is_silent(
    overflow: Overflow, side: Side, provider: LoopbackProvider
) -> None:
    """The provider drops the oldest messages without a word, or leaves the answer no room."""
    _, events = run(provider, f"silent-{overflow}-{side}", side, overflow, estimator=Lying(0.3))
    assert any(isinstance(event, CompactionFinished) for event in events)
