"""Recorder of examples/session.jsonl: a real agent loop (tinyagent) with real tools on a small project made for it.

Run: python examples/record_session.py [FILE]     needs: pip install 'compaction-hooks[tinyagent]'; no key, no model, no network
Prints the length of the session. Only the user's prompts and the model's decisions are scripted (recording/decisions.toml);
another run gives the same bytes.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import tempfile
import tomllib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

from recording.session import record
from recording.tools import Project, Tool
from tinyagent import Agent, AgentOptions
from tinyagent.agent_types import (
    AgentTool,
    AgentToolResult,
    AssistantMessage,
    AssistantMessageEvent,
    Context,
    Model,
    SimpleStreamOptions,
    TextContent,
    ToolCallContent,
    UserMessage,
)

HERE = Path(__file__).resolve().parent
SESSION = HERE / "session.jsonl"

Step = dict[str, Any]


class ScriptedModel:
    """A `stream_fn` that returns the steps of the script, one after the other."""

    def __init__(self, steps: list[Step], steer: Callable[[str], None]) -> None:
        self._steps = iter(steps)
        self._ids = itertools.count(1)
        self._steer = steer

    async def __call__(self, model: Model, _context: Context, _options: SimpleStreamOptions) -> ScriptedAnswer:
        step = next(self._steps)
        if "steer" in step:
            self._steer(step["steer"].strip())
        calls = [self._call(call) for call in step.get("call", ())]
        return ScriptedAnswer(
            AssistantMessage(
                content=[TextContent(text=step["say"].strip()), *calls],
                stop_reason="tool_calls" if calls else "stop",
                model=model.id,
            )
        )

    def _call(self, call: Step) -> ToolCallContent:
        arguments = {name: value for name, value in call.items() if name != "tool"}
        return ToolCallContent(id=f"call_{next(self._ids):03d}", name=call["tool"], arguments=arguments)


class ScriptedAnswer:
    """An answer that arrives at once."""

    def __init__(self, message: AssistantMessage) -> None:
        self._message = message
        self._events: Iterator[AssistantMessageEvent] = iter(
            [AssistantMessageEvent(type="done", message=message, reason="stop")]
        )

    def __aiter__(self) -> AsyncIterator[AssistantMessageEvent]:
        return self

    async def __anext__(self) -> AssistantMessageEvent:
        for event in self._events:
            return event
        raise StopAsyncIteration

    async def result(self) -> AssistantMessage:
        return self._message


def as_agent_tool(tool: Tool) -> AgentTool:
    """Return the tool in tinyagent's form."""

    async def execute(_id: str, arguments: dict[str, Any], _signal: object, _on_update: object) -> AgentToolResult:
        return AgentToolResult(content=[TextContent(text=tool.run(**arguments))])

    return AgentTool(name=tool.name, description=tool.description, parameters=tool.schema(), execute=execute)


async def run(script: dict[str, Any], project: Project) -> dict[str, Any]:
    """Let the agent work through every turn of the script."""
    tools = project.tools()
    system = script["system"].strip()
    agent = Agent(AgentOptions())
    agent.set_system_prompt(system)
    agent.set_model(Model(provider="none", id="scripted", api="none"))
    agent.set_tools([as_agent_tool(tool) for tool in tools])
    agent.stream_fn = ScriptedModel(
        [step for turn in script["turn"] for step in turn["step"]],
        steer=lambda text: agent.steer(UserMessage(content=[TextContent(text=text)])),
    )
    for turn in script["turn"]:
        await agent.prompt(turn["user"].strip())
    return record(system, agent.state.messages, tools, script["probe"])


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else SESSION
    script = tomllib.loads((HERE / "recording" / "decisions.toml").read_text(encoding="utf-8"))
    files = tomllib.loads((HERE / "recording" / "project.toml").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        session = asyncio.run(run(script, Project(Path(folder), files)))
    target.write_text(json.dumps(session, ensure_ascii=False) + "\n", encoding="utf-8")
    characters = sum(len(json.dumps(message, ensure_ascii=False)) for message in session["messages"])
    print(f"{target.name}: {len(session['messages'])} messages, {characters:,} characters")


if __name__ == "__main__":
    main()
