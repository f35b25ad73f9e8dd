"""LiteLLM: summaries asked in place, at the end of the caller's own list, and in the background."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from compaction_adapters.litellm import CompactionCallback, in_place, summarizer, with_compaction

from tests.adapters.litellm_stage import QUIET, WITH_TOOLS, Stage, got, litellm, offered, provider
from tests.background_scene import check_background
from tests.cases import sampled, sampled_rows
from tests.in_place_scene import REQUEST, SETTINGS, WINDOW, check_in_place, read_page

__all__ = ["provider"]
pytestmark = QUIET


async def run_loop(complete: Any, **arguments: Any) -> object:
    """Run a host's loop with the tool; return the final answer."""
    messages: list[Any] = [{"role": "system", "content": "You read."}, {"role": "user", "content": REQUEST}]
    tools = [offered("read_page", page={"type": "integer"})]
    while True:
        answered = await got(complete(messages=messages, tools=tools, **arguments, **WITH_TOOLS))
        answer = answered.choices[0].message
        messages.append(answer)
        if not answer.tool_calls:
            return answer.content
        for call in answer.tool_calls:
            result = read_page(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


@pytest.mark.parametrize(
    ("api", "name"),
    sampled_rows([("openai", "acompletion"), ("openai", "completion"), ("anthropic", "acompletion")], 1),
)
async def test_a_summary_is_asked_by_the_list_of_the_call(stage: Stage, api: str, name: str) -> None:
    place = getattr(stage, api)()
    complete = with_compaction(
        getattr(litellm, name), context_window=WINDOW, settings=SETTINGS, summarizer=in_place(**place)
    )
    options = {"temperature": 0.5, "max_tokens": 1_000, "metadata": {"session_id": "thread"}}
    await check_in_place(stage.side(), lambda: run_loop(complete, **options, **place))


@pytest.mark.full
async def test_a_router_is_asked_in_place(stage: Stage) -> None:
    router = litellm.Router(model_list=[stage.deployment("group")])
    written = in_place(**stage.openai())
    complete = with_compaction(router.acompletion, context_window=WINDOW, settings=SETTINGS, summarizer=written)
    await check_in_place(stage.side(), lambda: run_loop(complete, model="group", temperature=0.5))


class Told(CompactionCallback):
    """Waits until litellm has told it about an answer to the user."""

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.answered = asyncio.Event()

    async def async_log_success_event(self, kwargs: Any, *told: object, **others: object) -> None:
        await super().async_log_success_event(kwargs, *told, **others)
        if "compaction_hooks" not in (kwargs["litellm_params"]["metadata"] or {}):
            self.answered.set()


@pytest.fixture
def callbacks() -> Iterator[list[Any]]:
    """litellm's callbacks, empty again afterwards."""
    yield litellm.callbacks
    litellm.logging_callback_manager._reset_all_callbacks()


async def test_calls_of_a_callback_are_asked_in_place(stage: Stage, callbacks: list[Any]) -> None:
    place = stage.openai()
    callback = Told(context_window=WINDOW, settings=SETTINGS, summarizer=in_place(**place), session_id="thread")
    callbacks.append(callback)

    async def complete(**arguments: Any) -> Any:
        answered = await litellm.acompletion(**place, **arguments)
        await callback.answered.wait()
        callback.answered.clear()
        return answered

    await check_in_place(stage.side(), lambda: run_loop(complete, temperature=0.5))


@pytest.mark.parametrize("name", sampled(["completion", "acompletion"], 1))
async def test_no_call_waits_for_a_summary_in_the_background(stage: Stage, name: str) -> None:
    place = stage.openai()
    complete = with_compaction(
        getattr(litellm, name),
        context_window=WINDOW,
        settings=SETTINGS,
        summarizer=summarizer(**place),
        background=True,
    )

    async def call(**arguments: Any) -> Any:
        return await got(await asyncio.to_thread(complete, **arguments))  # no sync caller has a loop in its thread

    options = {"metadata": {"session_id": "thread"}}
    await check_background(stage.side(), lambda: run_loop(call, **options, **place))
