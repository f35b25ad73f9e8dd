"""`CompactionCallback` among litellm's callbacks: async calls of the SDK and of a router."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import openai
import pytest

pytest.importorskip("litellm")

from compaction_adapters.litellm import CompactionCallback, with_compaction
from litellm.integrations.custom_logger import CustomLogger

from compaction_hooks import CompactionController
from compaction_hooks.errors import ConfigurationError
from tests.adapters import litellm_stage
from tests.adapters.litellm_stage import SECRET, WINDOW, Events, Stage, litellm, said, statuses, task
from tests.conversations import Scripted, steps
from tests.provider import Answer

pytestmark = litellm_stage.QUIET
provider, stage = litellm_stage.provider, litellm_stage.stage


@pytest.fixture(autouse=True)
def callbacks() -> Iterator[list[Any]]:
    """litellm's callbacks, empty again afterwards."""
    yield litellm.callbacks
    litellm.logging_callback_manager._reset_all_callbacks()


def installed(callbacks: list[Any], controller: CompactionController[Any] | None = None, **keywords: Any) -> Events:
    """A callback among litellm's own, with a summarizer that costs no request."""
    events = Events()
    if controller is None:
        keywords = {"context_window": WINDOW, "summarizer": Scripted(f"- {SECRET}"), "on_event": events, **keywords}
    callbacks.append(CompactionCallback(controller, **keywords))
    return events


class Logged(CustomLogger):
    """Knows when litellm has told its callbacks of an answer."""

    def __init__(self) -> None:
        super().__init__()
        self.answered = asyncio.Event()

    async def async_log_success_event(
        self, kwargs: object, response_obj: object, start_time: object, end_time: object
    ) -> None:
        self.answered.set()


async def test_async_calls_are_compacted(stage: Stage, callbacks: list[Any]) -> None:
    side, messages = stage.side(), task(60)
    before = list(messages)
    events = installed(callbacks)
    answer = await litellm.acompletion(messages=messages, metadata={"thread_id": "t"}, **stage.openai())
    assert said(answer) == "Done."
    assert statuses(side) == [200]
    assert SECRET in json.dumps(side.requests[0].body)
    assert events.sessions == {"t"}
    assert messages == before


async def test_streams_are_compacted(stage: Stage, callbacks: list[Any]) -> None:
    side = stage.side(Answer("word by word"))
    installed(callbacks)
    stream = await litellm.acompletion(messages=task(60), stream=True, **stage.openai())
    assert said(litellm.stream_chunk_builder([chunk async for chunk in stream])) == "word by word"
    assert SECRET in json.dumps(side.requests[0].body)


async def test_a_routers_deployment_says_how_much_fits(stage: Stage, callbacks: list[Any]) -> None:
    side = stage.side()
    hooks = CompactionController(summarizer=Scripted(f"- {SECRET}"))
    installed(callbacks, hooks)
    router = litellm.Router(model_list=[stage.deployment("agent", model="behind-callback", max_input_tokens=WINDOW)])
    assert said(await router.acompletion("agent", task(60), metadata={"thread_id": "t"})) == "Done."
    assert statuses(side) == [200]
    assert SECRET in json.dumps(side.requests[0].body)
    assert hooks.session("t").state().context_window == WINDOW


async def test_below_the_threshold_nothing_changes(stage: Stage, callbacks: list[Any]) -> None:
    side = stage.side(Answer("bare"), Answer("with it"))
    await litellm.acompletion(messages=task(3), **stage.openai())
    events = installed(callbacks)
    await litellm.acompletion(messages=task(3), **stage.openai())
    assert side.requests[0].body == side.requests[1].body
    assert not events.all


async def test_the_model_of_the_call_is_asked_and_the_call_is_marked(stage: Stage, callbacks: list[Any]) -> None:
    """The call for the summary does not come back to the callback; others see that it is not the user's."""
    side = stage.side()
    seen: list[object] = []

    class Observer(CustomLogger):
        def log_pre_api_call(self, model: object, messages: object, kwargs: dict[str, Any]) -> None:
            seen.append((kwargs["litellm_params"]["metadata"] or {}).get("compaction_hooks"))

    callbacks.append(Observer())
    installed(callbacks, summarizer=None)
    await litellm.acompletion(messages=task(60), metadata={"thread_id": "t"}, stream=True, **stage.openai())
    assert [request.is_summary for request in side.requests] == [True, False]
    assert not side.requests[0].is_stream
    assert seen == ["summary", None]


@pytest.mark.parametrize(
    ("options", "is_counted"),
    [
        pytest.param({}, True, id="whole"),
        pytest.param({"stream": True, "stream_options": {"include_usage": True}}, True, id="stream that tells"),
        pytest.param({"stream": True}, False, id="stream that does not"),
    ],
)
async def test_usage_is_learned_where_the_provider_tells_it(
    stage: Stage, callbacks: list[Any], options: dict[str, Any], is_counted: bool
) -> None:
    side = stage.side()
    hooks = CompactionController(context_window=WINDOW)
    installed(callbacks, hooks, session_id="one")
    callbacks.append(logged := Logged())
    answer = await litellm.acompletion(messages=task(5), **options, **stage.openai())
    if options:
        assert [chunk async for chunk in answer]
    await asyncio.wait_for(logged.answered.wait(), 5)
    state = hooks.session("one").state()
    assert state.is_estimate is not is_counted
    assert (state.context_tokens == side.requests[0].input_tokens) is is_counted


async def test_the_call_after_an_overflow_is_compacted(stage: Stage, callbacks: list[Any]) -> None:
    """It can only learn from an overflow; the limit the error states is the window from then on."""
    side, messages = stage.side(), task(40)
    installed(callbacks, context_window=4 * WINDOW)
    with pytest.raises(litellm.ContextWindowExceededError):
        await litellm.acompletion(messages=messages, **stage.openai())
    messages = [*messages, *steps(1, first=40)]
    assert said(await litellm.acompletion(messages=messages, **stage.openai())) == "Done."
    assert statuses(side) == [400, 200]
    assert SECRET in json.dumps(side.requests[1].body)
    await litellm.acompletion(messages=[*messages, *steps(1, first=41)], **stage.openai())
    assert statuses(side) == [400, 200, 200]


async def test_a_callback_in_the_place_of_another_learns_too(stage: Stage, callbacks: list[Any]) -> None:
    """litellm keeps the earlier one among those that it tells of answers and errors."""
    side, messages = stage.side(), task(40)
    installed(callbacks, context_window=WINDOW)
    await litellm.acompletion(messages=task(1), **stage.openai())
    callbacks.clear()
    installed(callbacks, context_window=4 * WINDOW)
    with pytest.raises(litellm.ContextWindowExceededError):
        await litellm.acompletion(messages=messages, **stage.openai())
    await litellm.acompletion(messages=[*messages, *steps(1, first=40)], **stage.openai())
    assert statuses(side) == [200, 400, 200]


async def test_two_conversations_do_not_mix(stage: Stage, callbacks: list[Any]) -> None:
    sides = {topic: stage.side(key=topic) for topic in ("ledger", "garden")}
    events = installed(callbacks, summarizer=None)

    async def talk(topic: str) -> None:
        messages: list[Any] = [{"role": "user", "content": f"Work on the {topic}."}]
        for first in range(0, 60, 15):
            new = [{**message, "content": f"{topic} {message['content']}"} for message in steps(15, first=first)]
            messages = [*messages, *new]
            await litellm.acompletion(messages=messages, **stage.openai(key=topic))

    await asyncio.gather(*map(talk, sides))
    assert len(events.sessions) == 2
    for topic, side in sides.items():
        foreign = "garden" if topic == "ledger" else "ledger"
        assert [request.is_summary for request in side.requests].count(True) >= 1
        assert foreign not in json.dumps([request.body for request in side.requests])
        assert set(statuses(side)) == {200}


async def asked_by_proxy(callback: CompactionCallback, key: str | None, **data: Any) -> dict[str, Any]:
    """What the proxy does with a request of this API key; see test_litellm_proxy.py for a real one."""
    given: Any = SimpleNamespace(api_key=key)
    changed = await callback.async_pre_call_hook(given, None, {"model": "m", **data}, "acompletion")
    assert changed is not None
    return changed


async def test_conversations_of_two_api_keys_are_kept_apart() -> None:
    events = Events()
    callback = CompactionCallback(context_window=WINDOW, summarizer=Scripted("- facts"), on_event=events)
    for key in ("one", "two", None):
        data = await asked_by_proxy(callback, key, messages=task(60), metadata={"session_id": "s"})
        assert len(data["messages"]) < len(task(60))
    assert events.sessions == {"one:s", "two:s", "s"}


async def test_the_id_of_somebody_elses_call_opens_nothing() -> None:
    """Clients may choose the id of a call: what counts is that the messages are those handed out for it."""
    callback = CompactionCallback(context_window=WINDOW, summarizer=Scripted("- facts"))
    theirs = await asked_by_proxy(callback, "one", messages=task(60), litellm_call_id="x")
    mine = {"model": "m", "messages": task(2), "litellm_call_id": "x"}
    assert await callback.async_pre_call_deployment_hook(mine, "acompletion") is None
    again = await asked_by_proxy(callback, "one", messages=task(60), litellm_call_id="x")
    passed_on = await callback.async_pre_call_deployment_hook(
        {**again, "messages": [*again["messages"]]}, "acompletion"
    )
    assert passed_on is not None
    assert passed_on["messages"] == theirs["messages"]
    await callback.async_post_call_failure_hook(again, RuntimeError(), SimpleNamespace(api_key="one"))
    assert await callback.async_pre_call_deployment_hook(again, "acompletion") is None


@pytest.mark.parametrize("call_type", ["aembedding", "text_completion", "anthropic_messages", None])
async def test_only_chat_is_touched(call_type: str | None) -> None:
    callback = CompactionCallback(context_window=WINDOW, summarizer=Scripted("- facts"))
    data = {"model": "m", "messages": task(60)}
    key: Any = SimpleNamespace(api_key=None)
    assert await callback.async_pre_call_deployment_hook(data, call_type) is None
    assert await callback.async_pre_call_hook(key, None, data, call_type) is None


async def test_what_the_wrapper_sends_is_left_alone(stage: Stage, callbacks: list[Any]) -> None:
    side = stage.side()
    events = installed(callbacks)
    made = with_compaction(litellm.acompletion, context_window=100_000)
    await made(messages=task(60), **stage.openai())
    assert len(side.requests[0].messages) == len(task(60))
    assert not events.all


async def test_messages_it_cannot_read_go_on_as_they_are(
    stage: Stage, callbacks: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    stage.side()
    installed(callbacks)
    odd: list[Any] = [{"role": "user", "content": 7}]
    with contextlib.suppress(openai.APIError):  # some versions send it, some refuse
        await litellm.acompletion(messages=odd, **stage.openai())
    assert "the messages go on as they are (FormatError)" in caplog.messages


def test_a_controller_or_its_keywords() -> None:
    with pytest.raises(ConfigurationError, match="not both"):
        CompactionCallback(CompactionController(), context_window=9)


# -- importing


def run(program: str, **environment: str) -> str:
    """What a program of its own prints; network access is printed, too."""
    watch = (
        "import sys\n"
        "def hook(event, args):\n"
        "    if event in ('socket.connect', 'socket.getaddrinfo', 'urllib.Request'): print('NETWORK', event, args)\n"
        "sys.addaudithook(hook)\n"
    )
    known = {name: value for name, value in os.environ.items() if name != "LITELLM_LOCAL_MODEL_COST_MAP"}
    done = subprocess.run(
        [sys.executable, "-c", watch + program],
        capture_output=True,
        text=True,
        env={**known, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_wrapper_imports_no_litellm() -> None:
    program = "import compaction_adapters.litellm as adapter; print('litellm' in sys.modules, adapter.with_compaction.__name__)"
    assert run(program) == "False with_compaction"


def test_importing_the_callback_opens_no_connection_and_leaves_the_environment_alone() -> None:
    program = (
        "import os\n"
        "before = dict(os.environ)\n"
        "from compaction_adapters.litellm import CompactionCallback\n"
        "import litellm\n"
        "print(dict(os.environ) == before, len(litellm.model_cost) > 100)\n"
    )
    assert run(program) == "True True"


@pytest.mark.full
def test_a_users_own_choice_of_the_table_stays() -> None:
    program = (
        "import os\n"
        "from compaction_adapters.litellm import CompactionCallback\n"
        "print(os.environ['LITELLM_LOCAL_MODEL_COST_MAP'])"
    )
    assert run(program, LITELLM_LOCAL_MODEL_COST_MAP="true") == "true"


def test_another_name_is_no_part_of_it() -> None:
    import compaction_adapters.litellm as adapter

    with pytest.raises(AttributeError, match="no attribute 'Compaction'"):
        _ = getattr(adapter, "Compaction")  # noqa: B009 - a type checker would know
    assert isinstance(adapter.CompactionCallback(), CustomLogger)
