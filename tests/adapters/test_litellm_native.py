"""Calls whose provider compacts on its own side."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from compaction_adapters.litellm import with_compaction

from compaction_hooks.events import CompactionEvent
from tests.adapters import litellm_stage
from tests.adapters import native_run as native_runs
from tests.adapters.litellm_stage import IS_OLD, WITH_TOOLS, Stage, got, litellm, offered
from tests.adapters.native_run import KEYWORDS, MODEL, REQUEST, RESULT, NativeSide
from tests.adapters.server_compaction import (
    CLEARS,
    COMPACTS,
    NAMES,
    OPENAI_COMPACTS,
    READABLE,
    SETTINGS,
    WINDOW,
    check_left_to_server,
    three_requests,
)
from tests.conversations import Chat, assistant, system, talk, user

pytestmark = litellm_stage.QUIET
provider = litellm_stage.provider
LONG: list[Chat] = talk(12, tokens=1_000)


def compacting(function: Callable[..., Any], events: list[CompactionEvent]) -> Any:
    return with_compaction(
        function,
        context_window=WINDOW,
        settings=SETTINGS,
        summarizer=lambda request: request.previous_summary or "## Goal\n- all so far",
        session_id="thread",
        on_event=events.append,
    )


def router(**parameters: Any) -> Callable[..., Any]:
    """Return the method of a router with one deployment."""
    made = litellm.Router(model_list=[{"model_name": "group", "litellm_params": parameters}], num_retries=0)
    function: Callable[..., Any] = made.acompletion
    return function


OPTIONS: dict[str, Any] = {
    "context_management": lambda stage: (litellm.acompletion, stage.anthropic(context_management=COMPACTS)),
    "context_management of a router": lambda stage: (
        router(**stage.anthropic(context_management=COMPACTS)),
        {"model": "group"},
    ),
    "context_management in extra_body": lambda stage: (
        litellm.acompletion,
        stage.openai(extra_body={"context_management": OPENAI_COMPACTS}),
    ),
    "previous_response_id": lambda stage: (litellm.acompletion, stage.openai(previous_response_id="resp_0")),
}
"""By the option that is named: the function and the arguments."""


@pytest.mark.parametrize("case", OPTIONS)
async def test_a_server_that_compacts_is_left_to_do_so(stage: Stage, case: str) -> None:
    side, events = stage.side(), list[CompactionEvent]()
    function, arguments = OPTIONS[case](stage)
    complete, messages = compacting(function, events), [*LONG, user("And now?")]
    for _ in three_requests(side):
        await complete(messages=messages, **arguments)
        messages = [*messages, assistant("Done."), user("And now?")]
    check_left_to_server(side, events, case.partition(" ")[0])


async def test_a_server_that_only_clears_results_changes_nothing(stage: Stage) -> None:
    side = stage.side(window=200_000)
    arguments = stage.anthropic(context_management=CLEARS)
    await compacting(litellm.acompletion, [])(messages=[*LONG, user("And now?")], **arguments)
    assert len(side.requests[0].messages) < len(LONG)


@pytest.mark.skipif(IS_OLD, reason="this litellm sends no compaction blocks")
async def test_a_summary_of_the_providers_own_is_sent_back_until_ours_updates_it(stage: Stage) -> None:
    """litellm keeps it in a field of the message, and sends it in front of the content."""
    side = stage.side(window=200_000)
    answer = {**assistant("Going on."), "provider_specific_fields": {"compaction_blocks": [READABLE]}}
    complete = compacting(litellm.acompletion, [])
    for messages in ([user("Go on."), answer, user("And now?")], [user("Go on."), answer, *LONG, user("And now?")]):
        await complete(messages=messages, **stage.anthropic())
    first, second = (str(request.messages) for request in side.requests)
    assert READABLE in [block for one in side.requests[0].messages for block in one["content"]]
    assert "'compaction'" not in second
    assert [name for name in NAMES if name not in first or name not in second] == []


class Run:
    """An agent's run with `native=True`, whose calls are sync or async."""

    def __init__(self, stage: Stage, function: Callable[..., Any] = litellm.acompletion) -> None:
        self.native = NativeSide(stage)
        self.stage = stage
        self.messages: list[Any] = [system("Be brief."), user(REQUEST)]
        self.complete = with_compaction(function, native=True, session_id="run", on_event=self.native.note, **KEYWORDS)

    async def steps(self, count: int, model: str = MODEL, host: str = "127.0.0.1") -> None:
        for _ in range(count):
            url = self.stage.provider.anthropic_url.replace("127.0.0.1", host)
            arguments = self.stage.anthropic(model, api_base=url, tools=[offered("read")], max_tokens=500, **WITH_TOOLS)
            answer = await got(self.complete(messages=self.messages, **arguments))
            message = answer.choices[0].message
            self.messages.append(message)
            self.messages += [
                {"role": "tool", "tool_call_id": call.id, "content": RESULT} for call in message.tool_calls
            ]


by_anthropic = native_runs.by_anthropic(
    hasattr(import_module("litellm.types.llms.anthropic").ANTHROPIC_BETA_HEADER_VALUES, "COMPACT_2026_09_04")
)


@by_anthropic
@litellm_stage.EITHER
async def test_a_long_run_goes_on_behind_anthropics_block(stage: Stage, function: Callable[..., Any]) -> None:
    run = Run(stage, function)
    await native_runs.check_long_run(run.native, run.steps)


@by_anthropic
@native_runs.around_a_block
async def test_the_text_goes_on_without_the_block(stage: Stage, check: Any) -> None:
    run = Run(stage)
    await check(run.native, run.steps)


NOT_COMPACTING: dict[str, Any] = {
    "openai": lambda stage: (litellm.acompletion, stage.openai()),
    "an older Claude": lambda stage: (litellm.acompletion, stage.anthropic()),
    "a router": lambda stage: (router(**stage.anthropic(MODEL)), {"model": "group"}),
}
"""The functions and arguments of calls whose provider does not compact with `native=True`."""


@pytest.mark.parametrize("case", [pytest.param("openai", marks=pytest.mark.full), "an older Claude", "a router"])
async def test_a_model_that_does_not_compact_writes_a_text(stage: Stage, case: str) -> None:
    side = stage.side()
    function, arguments = NOT_COMPACTING[case](stage)
    complete = with_compaction(function, native=True, **KEYWORDS)
    await complete(messages=[*LONG, user("And now?")], **arguments)
    assert {request.is_compaction for request in side.requests if request.is_summary} == {False}
