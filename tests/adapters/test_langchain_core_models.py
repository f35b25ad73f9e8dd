"""Chat models as summarizers over real HTTP, and what is known of a model: name, window, limits."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

import pytest

pytest.importorskip("langchain_core")

from compaction_adapters.langchain_core.models import (
    chat_model_in,
    max_output_tokens,
    model_options,
    summarizer,
    summary_config,
)
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.messages.tool import tool_call
from langchain_core.runnables import RunnableLambda
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from compaction_hooks import CompactionController, CompactionFinished, Summary, SummaryRequest, Usage
from compaction_hooks.errors import ConfigurationError, MissingExtraError
from compaction_hooks.summary.prompts import SYSTEM_PROMPT
from tests.adapters import langchain_core_stage
from tests.adapters.langchain_core_stage import SECRET, Stage, spoken
from tests.provider import Answer

provider = langchain_core_stage.provider
stage = langchain_core_stage.stage

REQUEST = SummaryRequest(
    system=SYSTEM_PROMPT,
    prompt="Summarise: <conversation>\n[User]: hi\n</conversation>",
    transcript="[User]: hi",
    previous_summary=None,
    focus=None,
    kind="history",
    max_tokens=900,
)
both_clients = pytest.mark.parametrize("client", ["openai", "anthropic"])


async def ask(model: Any, **options: Any) -> Summary:
    """Ask on a loop that has something else to do, as the async driver does."""
    answer: Any = await asyncio.ensure_future(summarizer(model, **options)(REQUEST))  # type: ignore[arg-type] # a coroutine
    assert isinstance(answer, Summary)
    return answer


# -- asking


@both_clients
async def test_a_summary_is_asked_for_with_system_prompt_prompt_and_limit(stage: Stage, client: str) -> None:
    side = stage.side()
    answer = await ask(getattr(stage, client)())
    (request,) = side.requests
    assert request.is_summary
    assert request.system == SYSTEM_PROMPT
    assert request.messages[-1]["content"] == REQUEST.prompt
    assert request.max_tokens == 900
    assert SECRET in answer.text
    assert isinstance(answer.usage, Usage)
    assert answer.usage.input_tokens == request.input_tokens
    assert answer.finish_reason in ("stop", "end_turn")
    assert answer.tool_calls == ()


@both_clients
async def test_sync_and_async_sessions_ask_the_same_model_time_and_again(stage: Stage, client: str) -> None:
    """An async client keeps its connections for the loop it was first used in; a sync caller must not leave it a dead one."""
    stage.side()
    events: list[Any] = []
    controller = CompactionController(
        context_window=16_384, summarizer=summarizer(getattr(stage, client)()), on_event=events.append
    )
    from compaction_adapters.langchain_core import LangChainFormat

    for number in range(2):
        talk = [*spoken(30, first=number), HumanMessage("And now?")]
        session = controller.session(f"sync {number}", format=LangChainFormat())
        thread = threading.Thread(target=session.transform_context_sync, args=(talk,))
        thread.start()
        await asyncio.to_thread(thread.join)
        await controller.session(f"async {number}", format=LangChainFormat()).transform_context(talk)
    finished = [event for event in events if isinstance(event, CompactionFinished)]
    assert [event.used_fallback for event in finished] == [False] * 4
    assert [SECRET in event.record.summary for event in finished] == [True] * 4


async def test_bound_tools_are_not_offered(stage: Stage) -> None:
    side = stage.side()
    await ask(stage.openai().bind_tools([_tool]))
    assert side.requests[0].tools == []


def _tool(path: str) -> str:
    """Read a file."""
    return path


async def test_calls_and_cut_answers_are_told_so_that_they_can_be_refused() -> None:
    calling = AIMessage("", tool_calls=[tool_call(name="read", args={}, id="1")])
    cut = AIMessage("## Goal", response_metadata={"finish_reason": "length"})
    model = FakeMessagesListChatModel(responses=[calling, cut])
    assert [call["name"] for call in (await ask(model)).tool_calls] == ["read"]
    assert (await ask(model)).finish_reason == "length"


async def test_only_the_text_of_an_answer_is_the_summary() -> None:
    blocks: list[Any] = [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "## Goal"}]
    assert (await ask(FakeMessagesListChatModel(responses=[AIMessage(blocks)]))).text == "## Goal"


@pytest.mark.parametrize(
    ("client", "options", "limit"),
    [
        pytest.param("openai", {"model": "gpt-4.1"}, 900, id="no reasoning"),
        pytest.param("openai", {"model": "gpt-5", "reasoning_effort": "low"}, 0, id="reasoning asked for"),
        pytest.param("anthropic", {"thinking": {"type": "disabled"}}, 900, id="thinking off"),
        pytest.param(
            "anthropic",
            {"thinking": {"type": "enabled", "budget_tokens": 2_000}, "max_tokens": 5_000},
            5_000,
            id="thinking with a budget above the limit",
        ),
    ],
)
async def test_a_limit_that_would_bound_the_reasoning_too_is_not_sent(
    stage: Stage, client: str, options: dict[str, Any], limit: int
) -> None:
    """Anthropic rejects a limit below the thinking budget; OpenAI would cut the summary short."""
    side = stage.side()
    await ask(getattr(stage, client)(**options))
    assert side.requests[0].max_tokens == limit


async def test_a_model_without_a_known_limit_is_asked_without_one() -> None:
    assert (await ask(FakeMessagesListChatModel(responses=[AIMessage("## Goal")]))).text == "## Goal"


class Listener(BaseCallbackHandler):
    def __init__(self) -> None:
        self.runs: list[tuple[Any, Any]] = []

    def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
        self.runs.append((kwargs["tags"], kwargs["metadata"]))


async def test_tracing_sees_the_call_with_its_marks() -> None:
    listener = Listener()
    model = FakeMessagesListChatModel(responses=[AIMessage("## Goal")])
    await ask(model, config={"callbacks": [listener], "tags": ["mine"], "metadata": {"team": "a"}})
    ((tags, metadata),) = listener.runs
    assert set(tags) == {"mine", "nostream"}
    assert metadata["lc_source"] == "summarization"
    assert metadata["team"] == "a"


def test_langchains_own_mark_of_an_inner_call_is_set_when_langchain_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    module = pytest.importorskip("langchain.agents.middleware.internal_call_transformer")
    assert module.internal_call_metadata().items() <= summary_config()["metadata"].items()
    monkeypatch.delitem(sys.modules, "langchain.agents.middleware.internal_call_transformer")
    assert summary_config()["metadata"] == {"lc_source": "summarization"}


# -- giving a model


async def test_a_name_is_resolved_by_langchain(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("langchain.chat_models")
    stage.side()
    monkeypatch.setenv("OPENAI_API_KEY", stage.key)
    monkeypatch.setenv("OPENAI_BASE_URL", stage.provider.openai_url)
    stage.keep(ChatOpenAI(model="gpt-4.1"))  # has the clients of the model that the name makes
    assert SECRET in (await ask("openai:gpt-4.1")).text


def test_a_name_without_langchain_is_a_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain.chat_models", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'compaction-hooks\[langchain\]'"):
        summarizer("openai:gpt-4.1")


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="a summarizer needs a chat model or its name, not int"):
        summarizer(3)  # type: ignore[arg-type] # what a user might do


# -- what is known of a model


async def test_name_window_and_limit_are_found_inside_what_is_around_a_model(stage: Stage) -> None:
    model = stage.openai(window=9_000, model="gpt-4.1", max_tokens=700)
    around = [
        model,
        model.bind_tools([_tool]),
        model.with_retry(),
        model.with_fallbacks([stage.openai()]),
        RunnableLambda(lambda x: x) | model.bind(stop=["x"]),
    ]
    for one in around:
        assert chat_model_in(one) is model
        told = model_options(one)
        assert (told.get("model"), told.get("context_window"), told.get("max_output_tokens")) == ("gpt-4.1", 9_000, 700)
    assert max_output_tokens(model, {"max_tokens": 50}) == 50
    assert max_output_tokens(model.bind(max_tokens=60)) == 60
    told_tools: Any = model_options(around[1]).get("tools")
    assert [tool["function"]["name"] for tool in told_tools] == ["_tool"]


async def test_a_limit_that_the_user_did_not_set_is_not_one(stage: Stage) -> None:
    """ChatAnthropic fills in 64,000 and the like by itself: nothing the user asked to keep room for."""
    from langchain_anthropic import ChatAnthropic

    profile: Any = {"max_input_tokens": 200_000, "max_output_tokens": 64_000}
    model = ChatAnthropic(model_name="claude-sonnet-4-5", api_key=SecretStr("x"), timeout=1, stop=None, profile=profile)
    assert model.max_tokens == 64_000
    assert max_output_tokens(model) is None
    assert max_output_tokens(stage.anthropic(max_tokens=700)) == 700
    assert max_output_tokens(stage.openai()) is None


def test_what_holds_no_model_has_no_facts() -> None:
    around = RunnableLambda(lambda x: x)
    assert chat_model_in(around) is None
    assert model_options(around) == {}
    assert max_output_tokens(around) is None
    assert model_options(FakeMessagesListChatModel(responses=[])).get("context_window", 1) is None


async def test_the_answer_of_a_summary_is_not_consumed_by_the_conversation(stage: Stage) -> None:
    side = stage.side(Answer("Hello."))
    await ask(stage.openai())
    assert side.remaining == 1
