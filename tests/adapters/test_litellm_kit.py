"""litellm: the checks of every adapter, methods by hand and the recall tool."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from compaction_adapters.kit import Twin
from compaction_adapters.litellm import CompactionCallback, with_compaction

from compaction_hooks import CompactionEvent, ConfigurationError
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.testing import ADAPTER_FACTS, AdapterFact, HostConversation, Opening, check_adapter, check_session
from tests.adapters import compact_scene, litellm_stage
from tests.adapters.by_hand_rows import ID, Process, check_rows
from tests.adapters.compact_scene import check_compact, read_leaf
from tests.adapters.litellm_stage import WINDOW, WITH_TOOLS, Stage, litellm, offered
from tests.adapters.recall_scene import NOTICE, REQUEST, check_recall, read_page
from tests.adapters.stage import PATTERNS, recorded_script
from tests.cases import crossed
from tests.conversations import system, talk, user
from tests.data import needs_data
from tests.host_facts import by_host_facts
from tests.provider import LoopbackProvider

pytestmark = litellm_stage.QUIET
provider = litellm_stage.provider


class AgentLoop:
    """An agent loop as people write it around litellm."""

    def __init__(
        self,
        opening: Opening,
        completion: Callable[..., Any],
        acompletion: Callable[..., Any],
        arguments: Mapping[str, object],
    ) -> None:
        self.session_id = opening.conversation_id
        self.completion, self.acompletion = completion, acompletion
        self.tools = {tool.name: tool for tool in opening.tools}
        functions = [{"name": tool.name, "parameters": tool.parameters} for tool in opening.tools]
        self.messages: list[Any] = [{"role": "system", "content": opening.system}]
        self.arguments = {
            **arguments,
            **WITH_TOOLS,
            "messages": self.messages,
            "max_retries": 0,
            "metadata": {"session_id": opening.conversation_id},
            "tools": [{"type": "function", "function": function} for function in functions],
        }

    async def say(self, text: str, /) -> str:
        self.messages.append({"role": "user", "content": text})
        while not self.take(await self.acompletion(**self.arguments)):
            pass
        return str(self.messages[-1].content)

    def say_sync(self, text: str, /) -> str:
        self.messages.append({"role": "user", "content": text})
        while not self.take(self.completion(**self.arguments)):
            pass
        return str(self.messages[-1].content)

    async def say_streamed(self, text: str, /) -> list[str]:
        self.messages.append({"role": "user", "content": text})
        seen: list[str] = []
        is_last = False
        while not is_last:
            chunks = [chunk async for chunk in await self.acompletion(stream=True, **self.arguments)]
            seen += [chunk.choices[0].delta.content for chunk in chunks if chunk.choices[0].delta.content]
            is_last = self.take(litellm.stream_chunk_builder(chunks))
        return seen

    def take(self, response: Any) -> bool:
        """Store an answer and run its tools; return whether it was the last one."""
        answer = response.choices[0].message
        self.messages.append(answer)
        for call in answer.tool_calls or ():
            result = self.tools[call.function.name].run(json.loads(call.function.arguments))
            self.messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        return not answer.tool_calls

    async def history(self) -> list[Any]:
        return self.messages


class Harness:
    format = OpenAIChatFormat()
    has_sync = has_streaming = keeps_history = True

    def __init__(self, name: str) -> None:
        self.name = f"litellm-{name}"

    @asynccontextmanager
    async def open(self, opening: Opening, /) -> AsyncIterator[HostConversation[Any]]:
        completion, acompletion, arguments = self.functions(opening)
        if opening.controller is not None:
            completion = with_compaction(completion, opening.controller)
            acompletion = with_compaction(acompletion, opening.controller)
        yield AgentLoop(opening, completion, acompletion, arguments)
        litellm.in_memory_llm_clients_cache.flush_cache()  # the next loop needs connections of its own

    def functions(self, opening: Opening) -> tuple[Callable[..., Any], Callable[..., Any], Mapping[str, object]]:
        kind = self.name.rpartition("-")[2]
        url = opening.anthropic_url if kind == "anthropic" else opening.openai_url
        model = f"{'anthropic' if kind == 'anthropic' else 'openai'}/{opening.model}"
        connection = {"model": model, "api_base": url, "api_key": opening.api_key}
        if kind != "router":
            return litellm.completion, litellm.acompletion, connection
        router = litellm.Router(model_list=[{"model_name": "agent", "litellm_params": connection}])
        return router.completion, router.acompletion, {"model": "agent"}


@crossed(fact=ADAPTER_FACTS, way=["openai", "anthropic", "router"])
def test_the_adapter_has_every_fact(fact: AdapterFact, way: str, provider: LoopbackProvider) -> None:
    check_adapter(Harness(way), provider, fact)


@by_host_facts(way=["openai", "anthropic", "router"])
def test_the_host_has_its_say(fact: AdapterFact, way: str, provider: LoopbackProvider) -> None:
    check_adapter(Harness(way), provider, fact)


@needs_data
@pytest.mark.full
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_recorded_session_runs_to_its_end(pattern: str, provider: LoopbackProvider) -> None:
    check_session(Harness("openai"), provider, recorded_script(pattern))


MESSAGES = [system(), *talk(10)]


@pytest.mark.parametrize("how", ["sync", pytest.param("async", marks=pytest.mark.full)])
async def test_rows_of_a_wrapped_function(stage: Stage, tmp_path: Path, how: str) -> None:
    side, call = stage.side(), {"messages": MESSAGES, "metadata": {"session_id": ID}, **stage.openai()}

    def new_process(**keywords: Any) -> Process:
        function = litellm.completion if how == "sync" else litellm.acompletion
        completion: Any = with_compaction(function, context_window=WINDOW, **keywords)
        return Process(completion, Twin(completion, completion, **call), lambda: MESSAGES, (ID,))

    await check_rows(how, tmp_path, side, new_process, MESSAGES[1])


# litellm 1.81 leaves a coroutine of its own log unawaited if the loop of `asyncio.run` ends first.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore:coroutine:RuntimeWarning")
@pytest.mark.parametrize("how", [pytest.param("sync", marks=pytest.mark.full), "async"])
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


RECALL_WINDOW = 16_384


def run_loop(
    completion: Any,
    request: str,
    own_tools: Mapping[str, Callable[..., Any]],
    read: Callable[..., str],
    *,
    stream: bool,
    **arguments: Any,
) -> object:
    """Run a host's loop with a tool that reads and those that the wrapper offers; return the final answer."""
    messages: list[Any] = [user(request)]
    while True:
        answered = completion(stream=stream, messages=messages, **arguments)
        whole = litellm.stream_chunk_builder([*answered]) if stream else answered
        answer = whole.choices[0].message
        messages.append(answer)
        if not answer.tool_calls:
            return answer.content
        for call in answer.tool_calls:
            name = call.function.name
            tool = own_tools[name](messages) if name in own_tools else read
            result = tool(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


@pytest.mark.parametrize(
    ("is_streamed", "recall"), [pytest.param(False, True, marks=pytest.mark.full), (True, True), (False, False)]
)
async def test_an_agent_that_needs_a_covered_fact_recalls_it(stage: Stage, is_streamed: bool, recall: bool) -> None:
    completion = with_compaction(litellm.completion, context_window=RECALL_WINDOW, recall=recall, notice=NOTICE)

    async def ask() -> object:
        read = {"tools": [offered("read_page", page={"type": "integer"})], **stage.openai(), **WITH_TOOLS}
        return run_loop(completion, REQUEST, {"recall": completion.recall_tool}, read_page, stream=is_streamed, **read)

    await check_recall(stage.side(window=RECALL_WINDOW), ask, recall)


async def test_a_model_asks_for_a_compaction(stage: Stage) -> None:
    events: list[CompactionEvent] = []
    completion = with_compaction(litellm.completion, context_window=RECALL_WINDOW, compact=True, on_event=events.append)

    async def ask() -> object:
        read = {"tools": [offered("read_leaf", leaf={"type": "integer"})], **stage.openai(), **WITH_TOOLS}
        own = {compact_scene.NAME: completion.compact_tool}
        return run_loop(completion, compact_scene.REQUEST, own, read_leaf, stream=False, **read)

    await check_compact(stage.side(window=RECALL_WINDOW), ask, events)
