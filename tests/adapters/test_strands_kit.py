"""Strands Agents: the checks of every adapter, methods by hand, the recall tool, and the messages."""

import asyncio
import base64
import itertools
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from compaction_adapters.kit import Twin
from compaction_adapters.strands import CompactionConversationManager, StrandsFormat
from strands import Agent, tool
from strands.agent.conversation_manager import NullConversationManager
from strands.session.file_session_manager import FileSessionManager
from strands.session.session_manager import SessionManager

from compaction_hooks import CompactionEvent
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.testing import ADAPTER_FACTS, AdapterFact, Opening, check_adapter, check_format, check_session
from tests.adapters import compact_scene, recall_scene
from tests.adapters.by_hand_rows import ID, Process, check_rows
from tests.adapters.compact_scene import check_compact, read_leaf
from tests.adapters.recall_scene import NOTICE, REQUEST, check_recall
from tests.adapters.same_chain import CONVERSATIONS, chain
from tests.adapters.stage import PATTERNS, recorded_script
from tests.adapters.strands_stage import WINDOW, Stage, agent_with, chunks_of, spoken, tools_for
from tests.cases import crossed, sampled, sampled_rows
from tests.conversations import prose
from tests.data import needs_data, sessions
from tests.host_facts import NamesTheLimit, by_host_facts
from tests.provider import Answer, LoopbackProvider

FORMAT = StrandsFormat()


class Named(SessionManager[Any]):
    """Names a conversation, and keeps nothing of it."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id

    def _keep_nothing(self, *_: object, **__: object) -> None: ...

    redact_latest_message = append_message = sync_agent = initialize = _keep_nothing


class AgentConversation:
    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.session_id = agent.session_id

    async def say(self, text: str, /) -> str:
        return str(await self.agent.invoke_async(text))

    def say_sync(self, text: str, /) -> str:
        return str(self.agent(text))

    async def say_streamed(self, text: str, /) -> list[str]:
        return [chunk async for chunk in chunks_of(self.agent, text)]

    async def history(self) -> list[Any]:
        return self.agent.messages


class Harness:
    format = FORMAT
    has_streaming = keeps_history = True

    def __init__(self, provider: LoopbackProvider, kind: str) -> None:
        self.name = f"strands-{kind}"
        self.provider = provider
        self.kind = kind
        self.has_sync = kind != "google"  # Strands uses one client of Google's for the loops of all calls

    @asynccontextmanager
    async def open(self, opening: Opening, /) -> AsyncIterator[AgentConversation]:
        stage = Stage(self.provider, opening.api_key)
        controller: Any = opening.controller
        own = CompactionConversationManager(controller) if controller else NullConversationManager()
        model = getattr(stage, self.kind)(model=opening.model)
        try:
            yield AgentConversation(
                agent_with(
                    model,
                    own,
                    system_prompt=opening.system,
                    tools=tools_for(opening.tools),
                    session_manager=Named(opening.conversation_id),
                )
            )
        finally:
            await stage.close()


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # Strands leaves streams of Responses open
@crossed(fact=ADAPTER_FACTS, kind=["openai", "anthropic", "bedrock", "google", "responses"])
def test_the_adapter_has_every_fact(fact: AdapterFact, kind: str, provider: LoopbackProvider) -> None:
    check_adapter(Harness(provider, kind), NamesTheLimit(provider) if kind == "bedrock" else provider, fact)


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # Strands leaves streams of Responses open
@by_host_facts(kind=["openai", "anthropic", "bedrock", "google", "responses"])
def test_the_host_has_its_say(fact: AdapterFact, kind: str, provider: LoopbackProvider) -> None:
    check_adapter(Harness(provider, kind), NamesTheLimit(provider) if kind == "bedrock" else provider, fact)


@pytest.mark.full
@needs_data
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_recorded_session_runs_to_its_end(pattern: str, provider: LoopbackProvider) -> None:
    check_session(Harness(provider, "openai"), provider, recorded_script(pattern))


# -- by hand, and recall


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_rows_of_a_manager(stage: Stage, tmp_path: Path, how: str) -> None:
    side, history, agents = stage.side(Answer("Yes.")), spoken(5), list[Agent]()

    def new_process(**keywords: Any) -> Process:
        own = CompactionConversationManager(context_window=WINDOW, **keywords)
        session = FileSessionManager(ID, storage_dir=str(tmp_path))
        agents.append(agent := agent_with(stage.openai(), own, session_manager=session, messages=history[:]))
        run = Twin(lambda: agent("Go on."), lambda: agent.invoke_async("Go on."))
        return Process(own, run, lambda: agent.messages, (ID,))

    await check_rows(how, tmp_path, side, new_process, history[0])
    first, last = ([(one["role"], one["content"]) for one in agent.messages] for agent in (agents[0], agents[-1]))
    assert last == first  # restored from the files


@pytest.mark.parametrize(
    ("kind", "way", "recall", "argument"),
    sampled_rows(
        [
            ("openai", "sync", True, "query"),
            ("bedrock", "async", True, "query"),
            ("anthropic", "stream", True, "handle"),
            ("openai", "async", False, "query"),
        ],
        2,
    ),
)
async def test_an_agent_that_needs_a_covered_fact_recalls_it(
    stage: Stage, kind: str, way: str, recall: bool, argument: str
) -> None:
    own = CompactionConversationManager(context_window=WINDOW, recall=recall, notice=NOTICE)
    agent = agent_with(getattr(stage, kind)(), own, tools=[tool(recall_scene.read_page)])

    async def ask() -> str:
        if way == "sync":
            return str(await asyncio.to_thread(agent, REQUEST)).strip()
        if way == "stream":
            return "".join([chunk async for chunk in chunks_of(agent, REQUEST)])
        return str(await agent.invoke_async(REQUEST)).strip()

    await check_recall(stage.side(), ask, recall, argument, is_told=False)


@pytest.mark.parametrize("kind", sampled(["bedrock", "openai", "anthropic", "google", "responses"], 1))
async def test_the_model_is_told_behind_the_words_of_the_user(stage: Stage, kind: str) -> None:
    """Behind results it waits: some models of Bedrock refuse both in one message."""
    side = stage.side(*[Answer(f"Noted {turn}. {prose(400)}") for turn in range(24)])
    own = CompactionConversationManager(context_window=WINDOW, notice=NOTICE)
    agent = agent_with(getattr(stage, kind)(), own)
    for turn in range(24):
        await agent.invoke_async(f"Part {turn}. {prose(400)}")
    recall_scene.check_told(side)
    assert NOTICE not in str(agent.messages)


async def test_a_model_asks_for_a_compaction(stage: Stage) -> None:
    events: list[CompactionEvent] = []
    own = CompactionConversationManager(context_window=WINDOW, compact=True, on_event=events.append)
    agent = agent_with(stage.openai(), own, tools=[tool(read_leaf)])

    async def ask() -> str:
        return str(await agent.invoke_async(compact_scene.REQUEST)).strip()

    await check_compact(stage.side(), ask, events)


# -- the messages


def as_strands(messages: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return messages of OpenAI chat as Strands has them: results of one answer in one user message."""
    made: list[Any] = []
    for number, message in enumerate(messages):
        content = message.get("content")
        blocks: list[Any] = [{"text": content}] if isinstance(content, str) and content else []
        if isinstance(content, list):
            blocks = [_block(part) for part in content]
        role = message["role"]
        if role == "tool":
            status = "error" if message.get("is_error") else "success"
            result = {"toolUseId": message["tool_call_id"], "status": status, "content": [{"text": content}]}
            if made and "toolResult" in str(made[-1]["content"][-1:]) and messages[number - 1]["role"] == "tool":
                made[-1]["content"].append({"toolResult": result})
                continue
            role, blocks = "user", [{"toolResult": result}]
        for call in message.get("tool_calls") or ():
            named = {"toolUseId": call["id"], "name": call["function"]["name"]}
            blocks.append({"toolUse": {**named, "input": _parsed(call["function"]["arguments"])}})
        metadata = {"metadata": {"usage": {"inputTokens": 9}}} if role == "assistant" else {}
        made.append({"role": role, "content": blocks, "tracking_id": f"id-{number}", **metadata})
    return made


def _block(part: Mapping[str, Any]) -> dict[str, Any]:
    if part["type"] == "text":
        return {"text": part["text"]}
    url = part["image_url"]["url"]
    if not url.startswith("data:"):
        return {"image": {"format": "png", "source": {"location": {"type": "s3", "uri": url}}}}
    head, _, data = url.partition(",")
    kind = head.removeprefix("data:image/").removesuffix(";base64")
    return {"image": {"format": kind, "source": {"bytes": base64.b64decode(data)}}}


def _parsed(arguments: str) -> Any:
    """Return arguments as a model's stream is read (`handle_content_block_stop`), which keeps no broken JSON."""
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return arguments


def test_the_contract_of_a_format_holds() -> None:
    call = {"toolUseId": "a", "name": "read", "input": {"path": "a", "content": "x" * 500}}
    thought = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}}
    signed = {"role": "assistant", "content": [thought, {"toolUse": {**call, "reasoningSignature": "c2ln"}}]}
    answered: Any = CONVERSATIONS[1].values[0]
    check_format(FORMAT, [*as_strands(answered), signed])
    untied = FORMAT.untie(signed)
    assert untied["content"][0] == thought
    assert untied["content"][1]["toolUse"]["reasoningSignature"] != "c2ln"
    assert FORMAT.untie(untied) is untied
    unsigned: Any = {"role": "assistant", "content": [{"toolUse": call}]}
    assert FORMAT.untie(unsigned) is unsigned


@pytest.mark.parametrize("messages", CONVERSATIONS)
def test_generated_conversations_have_the_chain_of_chat_dicts(messages: list[Any]) -> None:
    wanted = chain(OpenAIChatFormat(), messages)
    assert chain(FORMAT, as_strands(messages)) == wanted
    assert len(wanted) > 1


@pytest.mark.full
@needs_data
def test_recorded_sessions_have_the_chain_of_chat_dicts() -> None:
    runs = 0
    for session in itertools.islice(sessions(), 0, None, 6):
        wanted = chain(OpenAIChatFormat(), session["messages"])
        assert chain(FORMAT, as_strands(session["messages"])) == wanted, session["id"]
        runs += len(wanted)
    assert runs > 2_000
