"""Models of LangChain that talk to the loopback provider, conversations, tools."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, tool
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from tests.adapters.stage import SECRET as SECRET
from tests.adapters.stage import WINDOW as WINDOW
from tests.adapters.stage import CountingSummarizer as CountingSummarizer
from tests.adapters.stage import ProviderStage
from tests.cases import sampled
from tests.provider import Answer, Call, LoopbackProvider, Received, Rejection

OUTAGE = Rejection(503, {"error": {"message": "The server is overloaded.", "type": "server_error"}})
_timeouts = itertools.count(60)

both_ways = pytest.mark.parametrize("how", ["sync", "async"])
either_way = pytest.mark.parametrize("how", sampled(["sync", "async"], 1))
"""Both, for tests whose code path has another test in the other way."""


class Stage(ProviderStage):
    def __init__(self, provider: LoopbackProvider, key: str) -> None:
        super().__init__(provider, key)
        self._models: list[ChatOpenAI | ChatAnthropic] = []

    def openai(self, window: int | None = WINDOW, key: str = "", **options: Any) -> ChatOpenAI:
        options = {"model": "loopback", "base_url": self.provider.openai_url, **options}
        model: ChatOpenAI = self._open(ChatOpenAI, window, key, options)
        return model

    def anthropic(self, window: int | None = WINDOW, key: str = "", **options: Any) -> ChatAnthropic:
        options = {"model_name": "loopback", "base_url": self.provider.anthropic_url, "max_tokens": 512, **options}
        model: ChatAnthropic = self._open(ChatAnthropic, window, key, options)
        return model

    def google(self, model: str) -> BaseChatModel:
        from langchain_google_genai import ChatGoogleGenerativeAI

        made = ChatGoogleGenerativeAI(
            model=model, api_key=SecretStr(self.key), base_url=self.provider.anthropic_url, max_retries=1
        )
        self._genai.append(made.client)
        return made

    def bedrock(self, model: str) -> BaseChatModel:
        from langchain_aws import ChatBedrockConverse

        client = self.bedrock_client()
        return ChatBedrockConverse(model=model, client=client, bedrock_client=client)

    def _open(self, kind: Any, window: int | None, key: str, options: dict[str, Any]) -> Any:
        profile = {"max_input_tokens": window} if window else None
        # Clients are shared between models by URL and time-out; those of another test's event loop are of no use in this one.
        options = {"timeout": next(_timeouts), "max_retries": 0, "profile": profile, **options}
        model = kind(api_key=SecretStr(self.key + key), **options)
        self._models.append(model)
        return model

    def configurable(self, window: int) -> Any:
        from langchain.chat_models import init_chat_model

        like = self.openai(window)  # has the same clients, by its time-out: they are closed with the stage
        names = ("openai_api_base", "openai_api_key", "request_timeout", "max_retries", "profile")
        fields: dict[str, Any] = {name: getattr(like, name) for name in names}
        return init_chat_model("loopback", model_provider="openai", configurable_fields=("profile",), **fields)

    def keep(self, model: ChatOpenAI) -> None:
        self._models.append(model)

    async def close(self) -> None:
        await super().close()
        for model in self._models:
            if isinstance(model, ChatOpenAI):
                model.root_client.close()
                await model.root_async_client.close()
            else:
                model._client.close()
                await model._async_client.close()


# -- runs


def thread(name: str = "thread") -> RunnableConfig:
    return {"configurable": {"thread_id": name}}


async def run(graph: Any, value: Any, how: str = "sync", config: Any = None, **options: Any) -> Any:
    if how == "streamed":
        return await streamed(graph, value, "async", "messages", config, **options)
    return graph.invoke(value, config, **options) if how == "sync" else await graph.ainvoke(value, config, **options)


async def streamed(graph: Any, value: Any, how: str, mode: Any, config: Any = None, **options: Any) -> list[Any]:
    if how == "sync":
        return list(graph.stream(value, config, stream_mode=mode, **options))
    return [item async for item in graph.astream(value, config, stream_mode=mode, **options)]


async def say(graph: Any, text: str, how: str, config: Any = None) -> str:
    """Return the last answer to a request; streamed, its pieces together."""
    if how == "streamed":
        pieces = await streamed(graph, said(text), "async", "messages", config)
        last = pieces[-1][0].id
        return "".join(piece.text for piece, _ in pieces if piece.id == last)
    ended = await run(graph, said(text), how, config)
    return str(ended["messages"][-1].text)


async def step_by_step(start: Callable[[], Any], text: str, how: str) -> str:
    """Return the last answer to a request if a new graph, as in another process, goes on at each interrupt of the thread."""
    graph, config = start(), {**thread(), "recursion_limit": 200}
    ended = await run(graph, said(text), how, config)
    while graph.get_state(config).next:
        graph = start()
        ended = await run(graph, None, how, config)
    return str(ended["messages"][-1].text)


def kinds_of(requests: Iterable[Received]) -> list[bool]:
    """Return which requests were for a summary; one that was asked for in several parts counts once."""
    kinds: list[bool] = []
    for request in requests:
        if not (request.is_summary and kinds and kinds[-1]):
            kinds.append(request.is_summary)
    return kinds


def records_in(graph: Any, config: RunnableConfig | None = None, channel: str = "compaction_records") -> list[Any]:
    """Return the records in a thread's checkpoint; no value that a graph shows has them."""
    saved = graph.checkpointer.get_tuple(config or thread())
    found: list[Any] = saved.checkpoint["channel_values"].get(channel, [])
    return found


# -- conversations


def said(*texts: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text) for text in texts]}


def spoken(turns: int, *, chars: int = 4_000, first: int = 0) -> list[BaseMessage]:
    """Return turns of plain talk, which nothing but a summary can shorten. Each is one long sentence: many would take much time."""
    talk: list[BaseMessage] = []
    for turn in range(first, first + turns):
        talk.append(HumanMessage(f"Question {turn}. " + f"consider case {turn} of the ledger and " * (chars // 32)))
        talk.append(AIMessage(f"Answer {turn}. " + f"case {turn} needs a voucher check, " * (chars // 32)))
    return talk


def asked(turns: int = 30, first: int = 0) -> list[BaseMessage]:
    """Return turns of plain talk and a last question; thirty turns are several windows."""
    return [*spoken(turns, first=first), HumanMessage("And now?")]


LONG: dict[str, Any] = {"messages": asked()}
NEXT = said("Go on.")


def file_tool(lines: int = 200) -> BaseTool:
    """Return a tool whose results have about 12 tokens a line."""

    @tool
    def read_file(path: str) -> str:
        """Read a file."""
        return "\n".join(f"{path}:{line} value_{line} = compute({line * 37 % 1000})" for line in range(lines))

    return read_file


def reads(*paths: str, text: str = "") -> Answer:
    """Return an answer that asks for files, all at once."""
    return Answer(text, tuple(Call("read_file", {"path": path}) for path in paths))


def heavy_tool(chars: int) -> BaseTool:
    """Return a tool that is never called, whose schema has this size."""

    def unused(value: str) -> str:
        return value

    return StructuredTool.from_function(unused, name="unused", description="Never call this. " * (chars // 17))


def texts(messages: Sequence[Any]) -> str:
    return "\n".join(
        str(message.get("content") if isinstance(message, dict) else message.content) for message in messages
    )


def is_summary(message: BaseMessage) -> bool:
    return bool(message.additional_kwargs.get("lc_source") == "summarization")
