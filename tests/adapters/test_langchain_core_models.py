"""Chat models as summarizers over real HTTP, and the facts of a model: name, window, limits."""

import asyncio
import sys
import threading
from typing import Any

import pytest
from compaction_adapters.langchain_core import LangChainFormat
from compaction_adapters.langchain_core.models import (
    chat_model_in,
    max_output_tokens,
    model_options,
    summarizer,
    summary_config,
)
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langchain_core.messages.tool import tool_call
from langchain_core.runnables import RunnableLambda
from langchain_openai import ChatOpenAI

from compaction_hooks import CompactionController, CompactionFinished, Summary, SummaryRequest, Usage
from compaction_hooks.errors import ConfigurationError, MissingExtraError
from compaction_hooks.summary.prompts import SYSTEM_PROMPT
from tests import careless_model
from tests.adapters import summary_answers
from tests.adapters.langchain_core_stage import SECRET, Stage, asked, file_tool
from tests.cases import sampled

REQUEST = SummaryRequest(
    system=SYSTEM_PROMPT,
    prompt="Summarize: <conversation>\n[User]: hi\n</conversation>",
    transcript="[User]: hi",
    previous_summary=None,
    focus=None,
    kind="history",
    max_tokens=900,
)
WITH_ROOM = 900 + 8_192
"""The limit of an answer: the summary, and the room for reasoning."""
both_clients = pytest.mark.parametrize("client", ["openai", "anthropic"])
either_client = pytest.mark.parametrize("client", sampled(["openai", "anthropic"], 1))


async def ask(model: Any, **options: Any) -> Summary:
    answer: Any = await summarizer(model, **options)(REQUEST)  # type: ignore[misc] # a coroutine
    assert isinstance(answer, Summary)
    return answer


def answering(*answers: AIMessage) -> FakeMessagesListChatModel:
    return FakeMessagesListChatModel(responses=[*answers] or [AIMessage("## Goal")])


# -- the request and its answer


@both_clients
async def test_a_summary_request_has_system_prompt_prompt_and_limit(stage: Stage, client: str) -> None:
    side = stage.side()
    answer = await ask(getattr(stage, client)())
    (request,) = side.requests
    assert request.is_summary
    assert (request.system, request.messages[-1]["content"]) == (SYSTEM_PROMPT, REQUEST.prompt)
    assert request.max_tokens == WITH_ROOM
    assert SECRET in answer.text
    assert isinstance(answer.usage, Usage)
    assert answer.usage.input_tokens == request.input_tokens
    assert answer.finish_reason in ("stop", "end_turn")
    assert answer.tool_calls == ()


@either_client
async def test_sync_and_async_sessions_ask_the_same_model_time_and_again(stage: Stage, client: str) -> None:
    """An async client keeps its connections for the loop it was first used in; a sync caller must not leave it a dead one."""
    stage.side()
    events: list[Any] = []
    model = getattr(stage, client)()
    controller = CompactionController(context_window=16_384, summarizer=summarizer(model), on_event=events.append)
    for number in range(2):
        session = controller.session(f"sync {number}", format=LangChainFormat())
        thread = threading.Thread(target=session.transform_context_sync, args=(asked(first=number),))
        thread.start()
        await asyncio.to_thread(thread.join)
        await controller.session(f"async {number}", format=LangChainFormat()).transform_context(asked(first=number))
    finished = [event for event in events if isinstance(event, CompactionFinished)]
    assert [event.used_fallback for event in finished] == [False] * 4
    assert [SECRET in event.record.summary for event in finished] == [True] * 4


async def test_bound_tools_are_not_sent(stage: Stage) -> None:
    side = stage.side()
    await ask(stage.openai().bind_tools([file_tool()]))
    assert side.requests[0].tools == []


async def test_a_summary_is_the_text_of_an_answer_with_its_tool_calls_and_its_finish_reason() -> None:
    thought: list[Any] = [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "## Goal"}]
    calling = AIMessage("", tool_calls=[tool_call(name="read", args={}, id="1")])
    model = answering(AIMessage(thought), calling, AIMessage("## G", response_metadata={"finish_reason": "length"}))
    assert (await ask(model)).text == "## Goal"
    assert [call["name"] for call in (await ask(model)).tool_calls] == ["read"]
    assert (await ask(model)).finish_reason == "length"


@pytest.mark.parametrize(
    ("client", "options", "limit"),
    [
        pytest.param("openai", {"model": "gpt-4.1"}, WITH_ROOM, id="no reasoning"),
        pytest.param("openai", {"model": "gpt-5"}, WITH_ROOM, id="reasoning by default"),
        pytest.param("openai", {"model": "gpt-5", "reasoning_effort": "low"}, 0, id="reasoning"),
        pytest.param("anthropic", {"model": "claude-opus-4-7"}, WITH_ROOM, id="thinking by default"),
        pytest.param(
            "anthropic",
            {"thinking": {"type": "enabled", "budget_tokens": 2_000}, "max_tokens": 5_000},
            5_000,
            id="thinking",
        ),
    ],
)
async def test_a_limit_has_room_for_reasoning_and_a_configured_one_is_left_alone(
    stage: Stage, client: str, options: dict[str, Any], limit: int
) -> None:
    """Anthropic rejects a limit below the thinking budget; a limit of the summary alone would cut it short."""
    side = stage.side()
    await ask(getattr(stage, client)(**options))
    assert side.requests[0].max_tokens == limit


@both_clients
async def test_an_answer_that_is_no_summary_is_refused_and_a_smaller_limit_taken(stage: Stage, client: str) -> None:
    await summary_answers.check(stage.side(window=200_000), summarizer(getattr(stage, client)()))


class Listener(BaseCallbackHandler):
    def __init__(self) -> None:
        self.runs: list[tuple[Any, Any]] = []

    def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
        self.runs.append((kwargs["tags"], kwargs["metadata"]))


async def test_tracing_sees_the_call_with_its_marks() -> None:
    listener = Listener()
    await ask(answering(), config={"callbacks": [listener], "tags": ["mine"], "metadata": {"team": "a"}})
    ((tags, metadata),) = listener.runs
    assert set(tags) == {"mine", "nostream"}
    assert (metadata["lc_source"], metadata["team"]) == ("summarization", "a")


def test_the_call_is_marked_as_internal_if_langchain_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    module = pytest.importorskip("langchain.agents.middleware.internal_call_transformer")
    assert module.internal_call_metadata().items() <= summary_config()["metadata"].items()
    monkeypatch.delitem(sys.modules, "langchain.agents.middleware.internal_call_transformer")
    assert summary_config()["metadata"] == {"lc_source": "summarization"}


# -- the model


async def test_a_name_is_resolved_by_langchain(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("langchain.chat_models")
    stage.side()
    monkeypatch.setenv("OPENAI_API_KEY", stage.key)
    monkeypatch.setenv("OPENAI_BASE_URL", stage.provider.openai_url)
    stage.keep(ChatOpenAI(model="gpt-4.1"))  # has the clients of the model that the name makes
    assert SECRET in (await ask("openai:gpt-4.1")).text


def test_a_name_without_langchain_and_any_other_object_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain.chat_models", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'compaction-hooks\[langchain\]'"):
        summarizer("openai:gpt-4.1")
    with pytest.raises(ConfigurationError, match="a summarizer needs a chat model or its name, not int"):
        summarizer(3)  # type: ignore[arg-type] # a wrong argument


# -- facts of a model


async def test_name_window_and_limit_are_found_inside_bindings_sequences_and_fallbacks(stage: Stage) -> None:
    model = stage.openai(window=9_000, model="gpt-4.1", max_tokens=700)
    tools = model.bind_tools([file_tool()])
    sequence = RunnableLambda(lambda x: x) | model.bind(stop=["x"])
    for one in (model, tools, model.with_retry(), model.with_fallbacks([stage.openai()]), sequence):
        assert chat_model_in(one) is model
        found = model_options(one)
        assert (found.get("model"), found.get("context_window"), found.get("max_output_tokens")) == (
            "gpt-4.1",
            9_000,
            700,
        )
    bound: Any = model_options(tools).get("tools")
    assert [tool["function"]["name"] for tool in bound] == ["read_file"]


async def test_the_limit_of_an_answer_is_that_of_the_user(stage: Stage) -> None:
    """ChatAnthropic sets its model's maximum by itself, for which nothing is left free; some models have -1 for no limit."""
    model = stage.openai(max_tokens=700)
    assert max_output_tokens(model, {"max_tokens": 50}) == 50
    assert max_output_tokens(model.bind(max_tokens=60)) == 60
    assert max_output_tokens(stage.anthropic(max_tokens=700)) == 700
    assert max_output_tokens(stage.openai()) is None
    assert max_output_tokens(stage.openai().bind(max_tokens=-1)) is None
    profile: Any = {"max_input_tokens": 200_000, "max_output_tokens": 64_000}
    assert max_output_tokens(stage.anthropic(max_tokens=64_000, profile=profile)) is None


def test_a_function_has_no_facts() -> None:
    around = RunnableLambda(lambda x: x)
    assert (chat_model_in(around), max_output_tokens(around)) == (None, None)
    assert not any(model_options(around).values())
    assert model_options(answering()).get("context_window", 1) is None


@either_client
async def test_a_models_summary_gets_back_what_it_drops(stage: Stage, client: str) -> None:
    await careless_model.check(summarizer(getattr(stage, client)()), stage.side())
