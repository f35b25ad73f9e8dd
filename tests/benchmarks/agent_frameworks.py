"""One long session in each of four agent frameworks: without compaction, with the framework's own, and with ours.

    python -m tests.benchmarks.agent_frameworks

Run it in an environment with all four (`nox -s 'frameworks(agents)'` makes one). The provider is the scripted one of the tests: it
refuses requests above 16,384 tokens, and calls without results. Printed are, for each:

- turns of 12 that ended in an answer; a turn that raises is given up, and the next one is asked;
- requests refused for their length, and for a call without its result or a result without its call;
- mean tokens of the requests that were answered;
- files: of all files that the session read or wrote, the part whose paths the last request has;
- stored: of all results of tools, the part that the framework's own store has at the end.
"""

import asyncio
import json
import logging
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from compaction_hooks import CompactionController
from compaction_hooks.testing import Script, ScriptedTool, long_script, tools_of
from tests.adapters import agent_framework_stage, google_adk_stage, openai_agents_stage, strands_stage
from tests.provider import Answer, LoopbackProvider, Received
from tests.provider.item_compacting import ItemCompactor

WINDOW = 16_384
TURNS = 12
SUMMARY = "## Goal\n- Go through the code; never change the public API.\n## Done\n- All parts so far."
"""Of whichever compaction asks a model."""


class Host(NamedTuple):
    """A conversation of a framework."""

    say: Callable[[str], Awaitable[object]]
    stored: Callable[[], Awaitable[object]]


Open = Callable[[LoopbackProvider, str, str, Script, list[ScriptedTool]], Any]


@asynccontextmanager
async def openai_agents(
    provider: LoopbackProvider, key: str, kind: str, script: Script, tools: list[ScriptedTool]
) -> AsyncIterator[Host]:
    """The Agents SDK; its own: a session that OpenAI compacts between runs."""
    from agents import Agent, OpenAIResponsesCompactionSession, Runner, SQLiteSession
    from compaction_adapters.openai_agents import CompactionModelProvider

    stage = openai_agents_stage.Stage(provider, key)
    session: Any = SQLiteSession(key)
    options: dict[str, Any] = {"max_turns": 100}
    model = stage.responses("gpt-5")
    if kind == "own":
        session = OpenAIResponsesCompactionSession(
            key, session, client=stage.client(), model="gpt-5", compaction_mode="input"
        )
    if kind == "ours":
        models = CompactionModelProvider(CompactionController(context_window=WINDOW))
        model, options["run_config"] = models.wrap(model), models.run_config(session)
    agent = Agent("one", instructions=script.system, model=model, tools=openai_agents_stage.function_tools(tools))

    async def say(text: str) -> object:
        return (await Runner.run(agent, text, session=session, **options)).final_output

    yield Host(say, session.get_items)
    await stage.close()


@asynccontextmanager
async def google_adk(
    provider: LoopbackProvider, key: str, kind: str, script: Script, tools: list[ScriptedTool]
) -> AsyncIterator[Host]:
    """ADK; its own: events that are compacted above a number of tokens."""
    from compaction_adapters.google_adk import CompactionPlugin
    from google.adk.apps.app import EventsCompactionConfig

    stage = google_adk_stage.Stage(provider, key)
    own: dict[str, Any] = {}
    if kind == "own":
        own["events_compaction_config"] = EventsCompactionConfig(token_threshold=WINDOW // 2, event_retention_size=4)
    plugins = [CompactionPlugin(CompactionController(context_window=WINDOW))] if kind == "ours" else []
    given = [google_adk_stage.GivenTool(tool) for tool in tools]
    root = google_adk_stage.agent(stage.gemini(), given, instruction=script.system)
    hosted = google_adk_stage.Hosted(root, *plugins, **own)
    yield Host(hosted.say, hosted.contents)
    await stage.close()


@asynccontextmanager
async def strands(
    provider: LoopbackProvider, key: str, kind: str, script: Script, tools: list[ScriptedTool]
) -> AsyncIterator[Host]:
    """Strands; its own: the manager that summarizes, before the window is full and after an overflow."""
    from compaction_adapters.strands import CompactionConversationManager
    from strands.agent.conversation_manager import NullConversationManager, SummarizingConversationManager

    stage = strands_stage.Stage(provider, key)
    manager: Any = NullConversationManager()
    if kind == "own":
        manager = SummarizingConversationManager(proactive_compression=True)
    if kind == "ours":
        manager = CompactionConversationManager(CompactionController(context_window=WINDOW))
    model = stage.openai(context_window_limit=WINDOW)
    agent = strands_stage.agent_with(model, manager, system_prompt=script.system, tools=strands_stage.tools_for(tools))

    async def stored() -> object:
        return agent.messages

    yield Host(agent.invoke_async, stored)
    await stage.close()


@asynccontextmanager
async def agent_framework(
    provider: LoopbackProvider, key: str, kind: str, script: Script, tools: list[ScriptedTool]
) -> AsyncIterator[Host]:
    """Agent Framework; its own: the strategy for a window, which its own agents with a harness have."""
    from agent_framework import ContextWindowCompactionStrategy
    from compaction_adapters.agent_framework import CompactionMiddleware

    stage = agent_framework_stage.Stage(provider, key)
    own: dict[str, Any] = {}
    if kind == "own":
        own["compaction_strategy"] = ContextWindowCompactionStrategy(
            max_context_window_tokens=WINDOW, max_output_tokens=1_000
        )
    middleware = [CompactionMiddleware(CompactionController(context_window=WINDOW))] if kind == "ours" else []
    given = [agent_framework_stage.function_tool(tool) for tool in tools]
    agent = stage.agent("openai", *middleware, instructions=script.system, tools=given, **own)
    session = agent.create_session(session_id=key)

    async def say(text: str) -> object:
        return (await agent.run(text, session=session)).messages[-1].text

    async def stored() -> object:
        return [message.to_dict() for message in agent_framework_stage.stored(session)]

    yield Host(say, stored)
    await stage.close()


FRAMEWORKS: dict[str, Open] = {
    "OpenAI Agents SDK": openai_agents,
    "Google ADK": google_adk,
    "Strands": strands,
    "Agent Framework": agent_framework,
}


async def play(provider: LoopbackProvider, name: str, kind: str) -> str:
    """Play the session, and return its row."""
    script = long_script(TURNS)
    key = f"{name}-{kind}"
    waiting = [*script.answers]

    def think(received: Received) -> Answer:
        """Give the next answer; a request without tools asks for a summary."""
        return waiting.pop(0) if received.tools and waiting else Answer(SUMMARY)

    side = provider.conversation(key, window=WINDOW, answers=())
    side.compactor, side.think = ItemCompactor(), think
    ended = 0
    async with FRAMEWORKS[name](provider, key, kind, script, [*tools_of(script)]) as host:
        for turn in script.turns:
            try:
                await host.say(turn.user)
                ended += 1
            except Exception as error:  # noqa: BLE001 - each framework has errors of its own
                logging.debug("%s, %s: %s", name, kind, error)
                waiting = [answer for answer in waiting if answer not in turn.answers]
        stored = str(await host.stored())
    answered = [request.input_tokens for request in side.model_requests if request.status < 400]
    refused = [request.input_tokens > WINDOW for request in side.model_requests if request.status >= 400]
    calls = [call.arguments for answer in script.answers for call in answer.calls]
    paths = {str(arguments["path"]) for arguments in calls if "path" in arguments}
    results = [result for turn in script.turns for result in turn.results]
    last = json.dumps(side.model_requests[-1].body, ensure_ascii=False)
    kept = sum(path in last for path in paths) / len(paths)
    whole = sum(result.splitlines()[-1] in stored for result in results) / len(results)
    figures = f"{ended:>3} of {TURNS} | {sum(refused)} | {len(refused) - sum(refused)} | {sum(answered) // max(1, len(answered)):,}"
    return f"| {name} | {kind} | {figures} | {kept:.0%} | {whole:.0%} |"


async def main() -> None:
    """Print the table."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    print("| framework | compaction | turns | too long | broken | mean tokens | files | stored |")
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    with LoopbackProvider() as provider:
        for name in FRAMEWORKS:
            for kind in ("none", "own", "ours"):
                print(await play(provider, name, kind), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
