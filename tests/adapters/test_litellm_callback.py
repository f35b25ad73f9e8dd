"""`CompactionCallback` among litellm's callbacks: async calls of the SDK and of a router, and the hooks of the proxy."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import compaction_adapters.litellm as adapter
import openai
import pytest
from compaction_adapters.litellm import CompactionCallback, with_compaction
from litellm.integrations.custom_logger import CustomLogger

from compaction_hooks import CompactionController
from tests.adapters import litellm_stage
from tests.adapters.litellm_stage import SECRET, WINDOW, Events, Stage, litellm, said, statuses, task, whole
from tests.cases import folded
from tests.conversations import Scripted, steps

pytestmark = litellm_stage.QUIET
provider = litellm_stage.provider


@pytest.fixture(autouse=True)
def callbacks() -> Iterator[list[Any]]:
    """litellm's callbacks, empty again afterwards."""
    yield litellm.callbacks
    litellm.logging_callback_manager._reset_all_callbacks()


def install(controller: CompactionController[Any] | None = None, **keywords: Any) -> Events:
    """Add a callback to litellm's own, with a summarizer that costs no request."""
    events = Events()
    if controller is None:
        keywords = {"context_window": WINDOW, "summarizer": Scripted(f"- {SECRET}"), "on_event": events, **keywords}
    litellm.callbacks.append(CompactionCallback(controller, **keywords))
    return events


class Logged(CustomLogger):
    """Waits until litellm has told its callbacks about an answer, and keeps the mark of each call for a summary."""

    def __init__(self) -> None:
        super().__init__()
        self.answered = asyncio.Event()
        self.marks: list[object] = []

    def log_pre_api_call(self, model: object, messages: object, kwargs: dict[str, Any]) -> None:
        self.marks.append((kwargs["litellm_params"]["metadata"] or {}).get("compaction_hooks"))

    async def async_log_success_event(self, *_: object, **__: object) -> None:
        self.answered.set()


@pytest.mark.parametrize("stream", [pytest.param(False, marks=pytest.mark.full), True], ids=["whole", "stream"])
async def test_async_calls_are_compacted(stage: Stage, stream: bool) -> None:
    side, messages = stage.side(), task(60)
    before = list(messages)
    events = install()
    arguments = stage.openai(messages=messages, metadata={"thread_id": "t"})
    answer = await litellm.acompletion(stream=stream, **arguments)
    assert (await whole(answer) if stream else said(answer)) == "Done."
    assert statuses(side) == [200]
    assert SECRET in json.dumps(side.requests[0].body)
    assert events.sessions == {"t"}
    assert messages == before


async def test_the_window_of_a_routers_deployment_counts(stage: Stage) -> None:
    side = stage.side()
    hooks = CompactionController(summarizer=Scripted(f"- {SECRET}"))
    install(hooks)
    router = litellm.Router(model_list=[stage.deployment("agent", model="behind-callback", max_input_tokens=WINDOW)])
    assert said(await router.acompletion("agent", task(60), metadata={"thread_id": "t"})) == "Done."
    assert statuses(side) == [200]
    assert SECRET in json.dumps(side.requests[0].body)
    assert hooks.session("t").state().context_window == WINDOW


async def test_below_the_threshold_the_request_is_the_same(stage: Stage) -> None:
    side = stage.side()
    await litellm.acompletion(messages=task(3), **stage.openai())
    events = install()
    await litellm.acompletion(messages=task(3), **stage.openai())
    assert side.requests[0].body == side.requests[1].body
    assert not events


async def test_the_called_model_writes_the_summary_in_a_marked_call(stage: Stage, callbacks: list[Any]) -> None:
    """The call for the summary does not come back to the callback; other callbacks can tell it from the user's."""
    side = stage.side()
    callbacks.append(logged := Logged())
    install(summarizer=None)
    await litellm.acompletion(messages=task(60), metadata={"thread_id": "t"}, stream=True, **stage.openai())
    assert [request.is_summary for request in side.requests] == [True, False]
    assert not side.requests[0].is_stream
    assert logged.marks == ["summary", None]


@pytest.mark.parametrize(
    ("options", "is_counted"),
    [
        pytest.param({}, True, id="whole"),
        pytest.param({"stream": True, "stream_options": {"include_usage": True}}, True, id="stream with usage"),
        pytest.param({"stream": True}, False, id="stream without usage"),
    ],
)
async def test_usage_is_reported_if_the_provider_states_it(
    stage: Stage, callbacks: list[Any], options: dict[str, Any], is_counted: bool
) -> None:
    side = stage.side()
    install(hooks := CompactionController(context_window=WINDOW), session_id="one")
    callbacks.append(logged := Logged())
    answer = await litellm.acompletion(messages=task(5), **options, **stage.openai())
    if options:
        await whole(answer)
    await asyncio.wait_for(logged.answered.wait(), 5)
    state = hooks.session("one").state()
    assert state.is_estimate is not is_counted
    assert (state.context_tokens == side.requests[0].input_tokens) is is_counted


@pytest.mark.parametrize("is_second", [False, True], ids=["alone", "in the place of another"])
async def test_the_call_after_an_overflow_is_compacted(stage: Stage, callbacks: list[Any], is_second: bool) -> None:
    """The stated limit is the window from then on. litellm tells an earlier callback of the class, too."""
    side, messages = stage.side(), task(40)
    if is_second:
        install()
        await litellm.acompletion(messages=task(1), **stage.openai())
        callbacks.clear()
        side.requests.clear()
    install(context_window=4 * WINDOW)
    with pytest.raises(litellm.ContextWindowExceededError):
        await litellm.acompletion(messages=messages, **stage.openai())
    for first in (40, 41):
        messages = [*messages, *steps(1, first=first)]
        assert said(await litellm.acompletion(messages=messages, **stage.openai())) == "Done."
        assert SECRET in json.dumps(side.requests[-1].body)
    assert statuses(side) == [400, 200, 200]


async def test_calls_of_with_compaction_are_left_alone(stage: Stage) -> None:
    side = stage.side()
    events = install()
    await with_compaction(litellm.acompletion, context_window=100_000)(messages=task(60), **stage.openai())
    assert len(side.requests[0].messages) == len(task(60))
    assert not events


async def test_unreadable_messages_are_sent_as_they_are(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    stage.side()
    install()
    odd: list[Any] = [{"role": "user", "content": 7}]
    with contextlib.suppress(openai.APIError):  # some versions send it, some refuse
        await litellm.acompletion(messages=odd, **stage.openai())
    assert "the messages go on as they are (FormatError)" in caplog.messages


async def test_session_is_that_of_the_calls(stage: Stage) -> None:
    stage.side()
    install()
    await litellm.acompletion(messages=task(3), metadata={"session_id": "thread-1"}, **stage.openai())
    assert litellm.callbacks[-1].session("thread-1").state().context_tokens
    assert litellm.callbacks[-1].session("thread-1", "another key").state().context_tokens is None


# -- the hooks of the proxy; test_litellm_proxy.py runs a real one


async def receive(callback: CompactionCallback, key: str | None, **data: Any) -> dict[str, Any]:
    """Return a request with this API key as the proxy goes on with it."""
    given: Any = SimpleNamespace(api_key=key)
    changed = await callback.async_pre_call_hook(given, None, {"model": "m", **data}, "acompletion")
    assert changed is not None
    return changed


async def test_conversations_of_two_api_keys_are_kept_apart() -> None:
    events = Events()
    callback = CompactionCallback(context_window=WINDOW, summarizer=Scripted("- facts"), on_event=events)
    for key in ("one", "two", None):
        data = await receive(callback, key, messages=task(60), metadata={"session_id": "s"})
        assert len(data["messages"]) < len(task(60))
    assert events.sessions == {"one%/s", "two%/s", "s"}


async def test_the_id_of_another_call_opens_nothing() -> None:
    """Clients may choose the id of a call: it is the same call only with the view that was made for it."""
    callback = CompactionCallback(context_window=WINDOW, summarizer=Scripted("- facts"))
    theirs = await receive(callback, "one", messages=task(60), litellm_call_id="x")
    mine = {"model": "m", "messages": task(2), "litellm_call_id": "x"}
    assert await callback.async_pre_call_deployment_hook(mine, "acompletion") is None
    again = await receive(callback, "one", messages=task(60), litellm_call_id="x")
    sent = await callback.async_pre_call_deployment_hook({**again, "messages": [*again["messages"]]}, "acompletion")
    assert sent is not None
    assert sent["messages"] == theirs["messages"]
    stolen = {"model": "m", "messages": theirs["messages"], "litellm_call_id": "x"}
    assert await callback.async_pre_call_hook(SimpleNamespace(api_key="two"), None, stolen, "acompletion") is None
    await callback.async_post_call_failure_hook(again, RuntimeError(), SimpleNamespace(api_key="one"))
    assert await callback.async_pre_call_deployment_hook(again, "acompletion") is None


@folded("call_type", ["aembedding", "text_completion", "anthropic_messages", None])
async def test_only_chat_completions_are_compacted(call_type: str | None) -> None:
    callback = CompactionCallback(context_window=WINDOW, summarizer=Scripted("- facts"))
    data, key = {"model": "m", "messages": task(60)}, SimpleNamespace(api_key=None)
    assert await callback.async_pre_call_deployment_hook(data, call_type) is None
    assert await callback.async_pre_call_hook(key, None, data, call_type) is None


# -- importing


def run(program: str, **environment: str) -> str:
    """Return the output of a program of its own, with a line for each access to the network."""
    watch = (
        "import os, sys\n"
        "def hook(event, args):\n"
        "    if event in ('socket.connect', 'socket.getaddrinfo', 'urllib.Request'): print('NETWORK', event, args)\n"
        "sys.addaudithook(hook)\n"
    )
    known = {name: value for name, value in os.environ.items() if name != "LITELLM_LOCAL_MODEL_COST_MAP"}
    command, whole = [sys.executable, "-c", watch + program], {**known, **environment}
    done = subprocess.run(command, capture_output=True, text=True, env=whole, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_wrapper_imports_no_litellm() -> None:
    program = "import compaction_adapters.litellm as adapter; print('litellm' in sys.modules, adapter.with_compaction.__name__)"
    assert run(program) == "False with_compaction"


@pytest.mark.full  # importing litellm takes seconds
def test_importing_the_callback_opens_no_connection_and_leaves_the_environment_alone() -> None:
    program = (
        "before = dict(os.environ)\n"
        "from compaction_adapters.litellm import CompactionCallback\n"
        "import litellm\n"
        "print(dict(os.environ) == before, len(litellm.model_cost) > 100)\n"
    )
    assert run(program) == "True True"


@pytest.mark.full
def test_a_users_own_choice_of_the_table_stays() -> None:
    program = (
        "from compaction_adapters.litellm import CompactionCallback\nprint(os.environ['LITELLM_LOCAL_MODEL_COST_MAP'])"
    )
    assert run(program, LITELLM_LOCAL_MODEL_COST_MAP="true") == "true"


def test_other_names_are_no_attributes() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Compaction'"):
        _ = getattr(adapter, "Compaction")  # noqa: B009 - a type checker would know
    assert isinstance(adapter.CompactionCallback(), CustomLogger)
