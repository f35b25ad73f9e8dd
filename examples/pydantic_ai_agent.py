"""An agent of pydantic-ai reads forty files. The limit of its model, 16k tokens, is unknown until the provider says "too long".

Run: python examples/pydantic_ai_agent.py     needs: pip install 'compaction-hooks[pydantic-ai]' 'pydantic-ai-slim[openai]'
starlette uvicorn; a real model: see model_endpoint.py. Prints each compaction, the answer, and how many messages are kept.
"""

from __future__ import annotations

import asyncio

from compaction_adapters.pydantic_ai import Compaction, CompactionStatusEvent
from model_endpoint import ModelEndpoint, model_endpoint
from pydantic_ai import Agent, RunContext
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from compaction_hooks.testing import Call

FILES = [f"src/part_{number}.py" for number in range(40)]


def read_file(path: str) -> str:
    """Pretend to read a file."""
    return f"# {path}\n" + "\n".join(f"def function_{line}(value): return value + {line}" for line in range(60))


async def tell(_: RunContext[None], event: CompactionStatusEvent) -> None:
    """Print the sizes before and after a compaction."""
    if event.stage == "finished":
        print(f"{event.reason}: {event.tokens_before:,} -> {event.tokens:,} tokens")


async def main(endpoint: ModelEndpoint) -> None:
    """Run the agent on one long request."""
    openai = OpenAIProvider(base_url=endpoint.base_url, api_key=endpoint.api_key)
    agent = Agent(
        OpenAIChatModel(endpoint.model, provider=openai),
        instructions="You read files with read_file, one at a time.",
        tools=[read_file],
        capabilities=[Compaction()],
    )
    agent.on_event(CompactionStatusEvent)(tell)
    async with agent:
        result = await agent.run(f"Read {', '.join(FILES)}, then say that you have read all of them.")
    print(result.output)
    print(f"{len(result.all_messages())} messages in the run, none of them lost")


if __name__ == "__main__":
    reads = [Call("read_file", {"path": path}) for path in FILES]
    with model_endpoint(*reads, "I have read all of them.") as offered:
        asyncio.run(main(offered))
