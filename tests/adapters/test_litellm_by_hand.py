"""`compact`, `undo`, `pin`, `forget` and `load` of what `with_compaction` returns, and of `CompactionCallback`."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from compaction_adapters.kit import Twin
from compaction_adapters.litellm import CompactionCallback, with_compaction

from compaction_hooks import ConfigurationError
from tests.adapters import litellm_stage
from tests.adapters.by_hand_rows import ID, Process, check_rows
from tests.adapters.litellm_stage import WINDOW, Stage, litellm
from tests.conversations import system, talk

pytestmark = litellm_stage.QUIET
provider = litellm_stage.provider

MESSAGES = [system(), *talk(10)]


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_rows_of_a_wrapped_function(stage: Stage, tmp_path: Path, how: str) -> None:
    side, call = stage.side(), {"messages": MESSAGES, "metadata": {"session_id": ID}, **stage.openai()}

    def new_process(**keywords: Any) -> Process:
        function = litellm.completion if how == "sync" else litellm.acompletion
        completion: Any = with_compaction(function, context_window=WINDOW, **keywords)
        return Process(completion, Twin(completion, completion, **call), lambda: MESSAGES, (ID,))

    await check_rows(how, tmp_path, side, new_process, MESSAGES[1])


# litellm 1.81 leaves a coroutine of its own log unawaited if the loop of `asyncio.run` ends first.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore:coroutine:RuntimeWarning")
@pytest.mark.parametrize("how", ["sync", "async"])
async def test_rows_of_a_callback(stage: Stage, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    side, call = stage.side(), {"messages": MESSAGES, **stage.openai()}

    async def run() -> object:
        return await litellm.acompletion(**call)

    def new_process(**keywords: Any) -> Process:
        callback = CompactionCallback(session_id=ID, context_window=WINDOW, **keywords)
        monkeypatch.setattr(litellm, "callbacks", [callback])
        return Process(callback, Twin(lambda: asyncio.run(run()), run), lambda: MESSAGES, ())

    await check_rows(how, tmp_path, side, new_process, MESSAGES[1])


def test_without_an_id_the_cure_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r'forget\("thread-1"\)'):
        with_compaction(litellm.completion, context_window=WINDOW).forget_sync()
