"""`compact`, `undo`, `pin`, `forget` and `load` of `Compaction`; the sync ones in the event loop of `run_sync`."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from compaction_adapters.kit import Twin
from compaction_adapters.pydantic_ai import Compaction
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from compaction_hooks import ConfigurationError
from compaction_hooks.events import CompactionEvent
from tests.adapters.by_hand_rows import ID, Process, check_rows
from tests.adapters.pydantic_ai_messages import SECRET, reader, spoken, steps, texts
from tests.adapters.pydantic_ai_stage import WINDOW, Stage, own_event_loop
from tests.provider import Answer


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_rows_of_a_capability(stage: Stage, tmp_path: Path, how: str) -> None:
    side, history = stage.side(Answer("Yes.")), spoken(5)
    said: list[ModelMessage] = []

    def new_process(**keywords: Any) -> Process:
        compaction = Compaction[None](context_window=WINDOW, **keywords)
        agent = Agent(stage.openai(), capabilities=[compaction])
        options: dict[str, Any] = {"message_history": history, "conversation_id": ID}

        async def run() -> None:
            said[:] = (await agent.run("Go on.", **options)).all_messages()

        def run_sync() -> None:
            said[:] = agent.run_sync("Go on.", **options).all_messages()

        adapter: Any = compaction
        return Process(_Named(adapter), Twin(run_sync, run), lambda: said, (ID,))

    await check_rows(how, tmp_path, side, new_process, history[0], own_event_loop)


class _Named:
    """The capability, whose `compact` finds the conversation's id in the messages."""

    def __init__(self, adapter: Compaction[None]) -> None:
        self._adapter = adapter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._adapter, name)

    def compact_sync(self, messages: list[ModelMessage], _: str) -> object:
        return self._adapter.compact_sync(messages)

    async def compact(self, messages: list[ModelMessage], _: str) -> object:
        return await self._adapter.compact(messages)


async def test_after_run_sync_a_sync_compaction_uses_the_clients_of_its_loop(stage: Stage) -> None:
    """A client keeps its connections, which belong to the loop of `run_sync`."""
    side, events = stage.side(*steps(6)), list[CompactionEvent]()

    def program() -> None:
        client = AsyncOpenAI(base_url=stage.provider.openai_url, api_key=stage.key, max_retries=0)
        model = OpenAIChatModel("scripted", provider=OpenAIProvider(openai_client=client))
        compaction = Compaction[None](context_window=WINDOW, on_event=events.append)
        with own_event_loop():
            run = reader(model, compaction).run_sync("Read six files.", conversation_id=ID)
            kept = compaction.compact_sync(run.all_messages())
            asyncio.get_event_loop().run_until_complete(client.close())
        assert SECRET in texts(kept)

    await asyncio.to_thread(program)
    assert [request.is_summary for request in side.requests] == [False] * 7 + [True]
    assert [type(event).__name__ for event in events] == ["CompactionStarted", "CompactionFinished"]


async def test_in_a_running_loop_the_async_method_is_named() -> None:
    compaction = Compaction[None](context_window=WINDOW)
    for call in (lambda: compaction.undo_sync(ID), lambda: compaction.compact_sync(spoken(2))):
        with pytest.raises(ConfigurationError, match="await the method of the same name without _sync"):
            call()
