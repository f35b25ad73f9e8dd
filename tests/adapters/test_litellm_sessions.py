"""A conversation between two calls: its status, a pin, a compaction by hand, an undo, its history."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("litellm")

from compaction_adapters.litellm import CompactionCallback, summarizer, with_compaction

from compaction_hooks.stores import SQLiteStore
from tests.adapters import litellm_stage
from tests.adapters.litellm_stage import SECRET, WINDOW, Stage, litellm, task
from tests.conversations import texts
from tests.provider import Answer

pytestmark = litellm_stage.QUIET
provider = litellm_stage.provider
stage = litellm_stage.stage

THREAD: dict[str, Any] = {"metadata": {"session_id": "thread-1"}}
MESSAGES = task(8)


async def test_between_two_calls_a_conversation_is_compacted_by_hand(stage: Stage) -> None:
    side = stage.side(*(Answer("Gone on.") for _ in range(3)))
    acompletion = with_compaction(litellm.acompletion, context_window=WINDOW)
    await acompletion(**stage.openai(), messages=MESSAGES, **THREAD)
    session = acompletion.session("thread-1")
    assert session.state().context_tokens
    session.pin(MESSAGES[4])

    model = stage.openai()
    written_by = summarizer(model.pop("model"), **model)
    result = await session.compact(MESSAGES, keep_recent_tokens=500, summarizer=written_by)
    assert SECRET in texts(result.messages)
    assert any(message is MESSAGES[4] for message in result.messages)
    assert [record.reason for record in session.history()] == ["manual"]
    await acompletion(**stage.openai(), messages=MESSAGES, **THREAD)
    assert SECRET in json.dumps(side.requests[-1].messages)

    assert session.undo() is not None
    await acompletion(**stage.openai(), messages=MESSAGES, **THREAD)
    assert SECRET not in json.dumps(side.requests[-1].messages)
    assert not side.rejections


def test_pins_and_compactions_by_hand_survive_a_restart(stage: Stage, tmp_path: Path) -> None:
    side = stage.side(Answer("Gone on."))

    def process() -> Any:
        store = SQLiteStore(tmp_path / "records.db")
        return with_compaction(litellm.completion, context_window=WINDOW, store=store, summarizer=lambda _: SECRET)

    process().session("thread-1").pin(MESSAGES[4])
    process().session("thread-1").compact_sync(MESSAGES, keep_recent_tokens=500)
    completion = process()
    completion.session("thread-1").load_sync()
    assert completion.session("thread-1").state().compaction_count == 1
    completion(**stage.openai(), messages=MESSAGES, **THREAD)
    sent = json.dumps(side.requests[-1].messages)
    assert SECRET in sent
    assert json.dumps(MESSAGES[4]["content"]) in sent


async def test_the_sessions_of_a_callback_are_those_of_its_calls(monkeypatch: pytest.MonkeyPatch, stage: Stage) -> None:
    stage.side(Answer("Gone on."))
    callback = CompactionCallback(context_window=WINDOW)
    monkeypatch.setattr(litellm, "callbacks", [callback])
    await litellm.acompletion(**stage.openai(), messages=MESSAGES, **THREAD)
    assert callback.session("thread-1").state().context_tokens
    assert callback.session("thread-1", "another key").state().context_tokens is None
