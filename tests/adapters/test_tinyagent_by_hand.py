"""`compact`, `undo`, `pin`, `forget` and `load` of `CompactionHook`."""

from pathlib import Path
from typing import Any

import pytest
from compaction_adapters.tinyagent import compaction_hook

from tests.adapters.by_hand_rows import ID, Process, awaited, check_rows
from tests.adapters.tinyagent_stage import SCRIPT, WINDOW, made_agent, openai_model, turns
from tests.provider import Answer, LoopbackProvider

MESSAGES = turns(8, 300)


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_rows_of_a_hook(provider: LoopbackProvider, tmp_path: Path, how: str) -> None:
    key = f"by hand {how}"
    side = provider.conversation(key, window=WINDOW, answers=[Answer("Yes.")])

    def new_process(**keywords: Any) -> Process:
        hook = compaction_hook(session_id=ID, context_window=WINDOW, **keywords)
        agent = made_agent(hook, openai_model(provider.openai_url), key, SCRIPT, tools=[])
        agent.replace_messages(MESSAGES)
        return Process(hook, awaited(lambda: hook.prompt(agent, "Go on.")), lambda: agent.state.messages, ())

    await check_rows(how, tmp_path, side, new_process, MESSAGES[0])
