"""An agent on tinyagent reads forty files. The limit of its model, 16k tokens, is unknown until the provider says "too long".

Run: python examples/tinyagent_agent.py     needs: pip install 'compaction-hooks[tinyagent]' starlette uvicorn; a real model: see
model_endpoint.py. Prints each compaction, the answer, and how many messages the agent has kept.
"""

from __future__ import annotations

import asyncio
from typing import Any

from compaction_adapters.tinyagent import compaction_hook
from model_endpoint import ModelEndpoint, model_endpoint
from tinyagent import Agent, AgentOptions, AgentTool, AgentToolResult, TextContent, extract_text
from tinyagent.alchemy_provider import OpenAICompatModel, stream_alchemy_openai_completions

from compaction_hooks import CompactionFinished
from compaction_hooks.events import CompactionEvent
from compaction_hooks.testing import Call

FILES = [f"src/part_{number}.py" for number in range(40)]


async def read_file(_: str, arguments: dict[str, Any], *__: object) -> AgentToolResult:
    """Pretend to read a file."""
    lines = "\n".join(f"def function_{line}(value): return value + {line}" for line in range(60))
    return AgentToolResult(content=[TextContent(text=f"# {arguments['path']}\n{lines}")])


def tell(event: CompactionEvent) -> None:
    """Print the sizes before and after a compaction."""
    if isinstance(event, CompactionFinished):
        print(f"{event.reason}: {event.tokens_before:,} -> {event.tokens_after:,} tokens")


async def main(endpoint: ModelEndpoint) -> None:
    """Run the agent on one long request."""
    hook = compaction_hook(context_window=128_000, on_event=tell)
    agent = Agent(
        AgentOptions(
            transform_context=hook,
            stream_fn=stream_alchemy_openai_completions,
            get_api_key=lambda _: endpoint.api_key,
        )
    )
    agent.set_model(
        OpenAICompatModel(provider="openai", id=endpoint.model, base_url=f"{endpoint.base_url}/chat/completions")
    )
    agent.set_system_prompt("You read files with read_file, one at a time.")
    parameters: Any = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    agent.set_tools([AgentTool(name="read_file", description="Read a file.", parameters=parameters, execute=read_file)])
    # hook.prompt attaches the hook: a model call that overflows is compacted and made once more.
    answer = await hook.prompt(agent, f"Read {', '.join(FILES)}, then say that you have read all of them.")
    print(extract_text(answer))
    print(f"{len(agent.state.messages)} messages in agent.state, none of them lost")


if __name__ == "__main__":
    reads = [Call("read_file", {"path": path}) for path in FILES]
    with model_endpoint(*reads, "I have read all of them.") as offered:
        asyncio.run(main(offered))
