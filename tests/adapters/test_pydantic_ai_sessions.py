"""A conversation between two runs: its status, a pin, a compaction by hand, an undo, its history."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("pydantic_ai.models.openai", exc_type=ImportError)

from compaction_adapters.pydantic_ai import Compaction
from pydantic_ai import RunContext
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter
from pydantic_ai.usage import RunUsage

from compaction_hooks.errors import ConfigurationError
from compaction_hooks.stores import SQLiteStore
from tests.adapters import pydantic_ai_stage
from tests.adapters.pydantic_ai_messages import SECRET, CountingSummarizer, reader, spoken, steps, texts
from tests.adapters.pydantic_ai_stage import WINDOW, Stage
from tests.provider import Answer

provider = pydantic_ai_stage.provider
stage = pydantic_ai_stage.stage

THREAD = "thread-1"


def stored(messages: list[ModelMessage]) -> list[ModelMessage]:
    """Messages as they come back from a database."""
    return ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(messages))


async def test_between_two_runs_a_conversation_is_compacted_by_hand(stage: Stage) -> None:
    """The model that answered writes the summary; the next run sends it in the place of what it covers."""
    side = stage.side(*steps(6), Answer("Gone on."), Answer("Undone."))
    compaction = Compaction[None](context_window=WINDOW)
    agent = reader(stage.openai(), compaction)
    run = await agent.run("Read six files.", conversation_id=THREAD)
    session = compaction.session(THREAD)
    before = session.state()
    assert before.context_tokens
    assert before.compaction_count == 0

    kept = await compaction.compact(run.all_messages())
    assert SECRET in texts(kept)
    assert len(kept) < len(run.all_messages())
    assert [record.reason for record in session.history()] == ["manual"]
    run = await agent.run("Go on.", message_history=run.all_messages(), conversation_id=THREAD)
    assert SECRET in texts(side.requests[-1].messages)
    assert session.state().compaction_count == 1

    assert session.undo() is not None
    await agent.run("Again.", message_history=run.all_messages(), conversation_id=THREAD)
    assert SECRET not in texts(side.requests[-1].messages)
    assert not side.rejections


async def test_pins_and_compactions_by_hand_survive_a_restart(stage: Stage, tmp_path: Path) -> None:
    side = stage.side(*steps(6), Answer("Gone on."))

    def process() -> Compaction[None]:
        return Compaction[None](context_window=WINDOW, store=SQLiteStore(tmp_path / "records.db"))

    first = process()
    run = await reader(stage.openai(), first).run("Read six files.", conversation_id=THREAD)
    messages = run.all_messages()
    first.session(THREAD).pin(messages[3])

    second = Compaction[None](
        context_window=WINDOW, store=SQLiteStore(tmp_path / "records.db"), summarizer=stage.openai()
    )
    kept = await second.compact(stored(messages))
    assert SECRET in texts(kept)
    assert messages[3].parts[0] in [part for message in kept for part in message.parts]

    third = process()
    await third.session(THREAD).load()
    assert third.session(THREAD).state().compaction_count == 1
    await reader(stage.openai(), third).run("Go on.", message_history=stored(messages), conversation_id=THREAD)
    assert SECRET in texts(side.requests[-1].messages)
    assert not side.rejections


async def test_messages_that_name_no_conversation_are_refused_between_runs() -> None:
    with pytest.raises(ConfigurationError, match=r"compaction\.session\(conversation_id\)"):
        await Compaction[None](context_window=WINDOW).compact(spoken(12))


async def test_a_focus_is_that_of_one_copy_only(stage: Stage) -> None:
    asked = CountingSummarizer()
    shared = Compaction[None](context_window=WINDOW, summarizer=asked)
    model = stage.openai()
    one, other = (RunContext[None](deps=None, model=model, usage=RunUsage(), conversation_id=id) for id in "ab")
    focused = shared.with_focus("the ledger")
    await asyncio.gather(shared.compact(spoken(12), one), focused.compact(spoken(12), other))
    assert sorted(request.focus or "" for request in asked.asked) == ["", "the ledger"]
