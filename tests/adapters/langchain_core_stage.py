"""What tests with models of LangChain share: the provider, models that talk to it, conversations, tools."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any

import pytest

pytest.importorskip("langchain_openai")
pytest.importorskip("langchain_anthropic")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, tool
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from compaction_hooks import Summary, SummaryRequest
from tests.provider import Answer, Call, LoopbackProvider, Received, Rejection, Side

WINDOW = 16_384
SECRET = "KINGFISHER"
"""A word that stands in summaries only."""
_timeouts = itertools.count(60)


class Stage:
    """A provider's side for one test, and models that talk to it."""

    def __init__(self, provider: LoopbackProvider, key: str) -> None:
        self.provider = provider
        self.key = key
        self._models: list[BaseChatModel] = []

    def side(self, *answers: Answer | Rejection, window: int = WINDOW, key: str = "", **options: Any) -> Side:
        side = self.provider.conversation(self.key + key, window=window, answers=answers, **options)
        side.summary_text = f"## Goal\n- {SECRET}"
        return side

    def openai(self, window: int | None = WINDOW, key: str = "", **options: Any) -> ChatOpenAI:
        # Clients are shared between models by URL and time-out; those of another test's event loop are of no use in this one.
        options = {"model": "loopback", "timeout": next(_timeouts), "max_retries": 0, **options}
        profile: Any = {"max_input_tokens": window} if window else None
        model = ChatOpenAI(
            base_url=self.provider.openai_url, api_key=SecretStr(self.key + key), profile=profile, **options
        )
        self._models.append(model)
        return model

    def configurable(self, window: int) -> Any:
        """A model of `init_chat_model` whose profile a run may tell."""
        from langchain.chat_models import init_chat_model

        like = self.openai(
            window
        )  # whose clients it uses, since they have the same time-out: they are closed with the stage
        names = ("openai_api_base", "openai_api_key", "request_timeout", "max_retries", "profile")
        fields: dict[str, Any] = {name: getattr(like, name) for name in names}
        return init_chat_model("loopback", model_provider="openai", configurable_fields=("profile",), **fields)

    def anthropic(self, window: int | None = WINDOW, key: str = "", **options: Any) -> ChatAnthropic:
        options = {"model_name": "loopback", "timeout": next(_timeouts), "max_retries": 0, "max_tokens": 512, **options}
        profile: Any = {"max_input_tokens": window} if window else None
        model = ChatAnthropic(
            base_url=self.provider.anthropic_url, api_key=SecretStr(self.key + key), profile=profile, **options
        )
        self._models.append(model)
        return model

    def keep(self, model: BaseChatModel) -> None:
        """Close the clients of a model with the stage."""
        self._models.append(model)

    async def close(self) -> None:
        for model in self._models:
            if isinstance(model, ChatOpenAI):
                model.root_client.close()
                await model.root_async_client.close()
            elif isinstance(model, ChatAnthropic):
                model._client.close()
                await model._async_client.close()


@pytest.fixture(scope="module")
def provider() -> Iterator[LoopbackProvider]:
    with LoopbackProvider() as running:
        yield running


@pytest.fixture
async def stage(provider: LoopbackProvider, request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    made = Stage(provider, request.node.name.encode("ascii", "replace").decode())
    yield made
    await made.close()


# -- conversations


def thread(name: str = "thread") -> RunnableConfig:
    return {"configurable": {"thread_id": name}}


def kinds_of(requests: Iterable[Received]) -> list[bool]:
    """Which requests were for a summary; one that was asked for in several parts counts once."""
    kinds: list[bool] = []
    for request in requests:
        if not (request.is_summary and kinds and kinds[-1]):
            kinds.append(request.is_summary)
    return kinds


def records_in(graph: Any, config: RunnableConfig | None = None, channel: str = "compaction_records") -> list[Any]:
    """The records in a thread's checkpoint; no value that a graph shows has them."""
    saved = graph.checkpointer.get_tuple(config or thread())
    found: list[Any] = saved.checkpoint["channel_values"].get(channel, [])
    return found


def listing(path: str, lines: int = 200) -> str:
    """About 12 tokens a line."""
    return "\n".join(f"{path}:{line} value_{line} = compute({line * 37 % 1000})" for line in range(lines))


def file_tool(lines: int = 200) -> BaseTool:
    """A tool whose results have about 12 tokens a line."""

    @tool
    def read_file(path: str) -> str:
        """Read a file."""
        return listing(path, lines)

    return read_file


def reads(*paths: str, text: str = "") -> Answer:
    """The model asks for files, all at once."""
    return Answer(text, tuple(Call("read_file", {"path": path}) for path in paths))


def spoken(turns: int, *, chars: int = 4_000, first: int = 0) -> list[BaseMessage]:
    """So many turns of plain talk: nothing but a summary can shorten it."""
    talk: list[BaseMessage] = []
    for turn in range(first, first + turns):
        talk.append(HumanMessage(f"Question {turn}. " + f"Consider case {turn} of the ledger. " * (chars // 32)))
        talk.append(AIMessage(f"Answer {turn}. " + f"Case {turn} needs a voucher check. " * (chars // 32)))
    return talk


def tool_steps(steps: int, *, lines: int = 200) -> list[BaseMessage]:
    """A request and so many steps of reading a file."""
    messages: list[BaseMessage] = [HumanMessage("Go through all files.")]
    for step in range(steps):
        call = {"name": "read_file", "args": {"path": f"src/{step}.py"}, "id": f"call_{step}", "type": "tool_call"}
        messages.append(AIMessage("", tool_calls=[call]))
        messages.append(ToolMessage(listing(f"src/{step}.py", lines), tool_call_id=f"call_{step}", name="read_file"))
    return messages


class CountingSummarizer:
    """Writes summaries and keeps what it was asked."""

    def __init__(self, text: str = f"## Goal\n- {SECRET}") -> None:
        self.text = text
        self.asked: list[SummaryRequest] = []

    def __call__(self, request: SummaryRequest) -> Summary:
        self.asked.append(request)
        return Summary(text=f"{self.text} {len(self.asked)}")


def heavy_tool(chars: int) -> BaseTool:
    """A tool nobody calls, whose schema takes this much room."""

    def unused(value: str) -> str:
        return value

    return StructuredTool.from_function(unused, name="unused", description="Never call this. " * (chars // 17))


def texts(messages: Sequence[Any]) -> str:
    return "\n".join(
        str(message.get("content") if isinstance(message, dict) else message.content) for message in messages
    )
