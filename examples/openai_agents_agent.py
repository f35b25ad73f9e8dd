"""An agent of the OpenAI Agents SDK reads forty files. The limit of its model, 16k tokens, is unknown until the provider tells it.

Run: python examples/openai_agents_agent.py     needs: pip install 'compaction-hooks[openai-agents]' starlette uvicorn tiktoken;
a real model: see model_endpoint.py. Prints each compaction, the answer, and how many items are kept.
"""

from __future__ import annotations

import asyncio

from agents import Agent, OpenAIProvider, Runner, SQLiteSession, function_tool, set_tracing_disabled
from compaction_adapters.openai_agents import CompactionModelProvider
from model_endpoint import ModelEndpoint, model_endpoint
from openai import AsyncOpenAI

from compaction_hooks import CompactionEvent, CompactionFinished
from compaction_hooks.testing import Call

FILES = [f"src/part_{number}.py" for number in range(40)]


@function_tool
def read_file(path: str) -> str:
    """Pretend to read a file."""
    return f"# {path}\n" + "\n".join(f"def function_{line}(value): return value + {line}" for line in range(60))


def tell(event: CompactionEvent) -> None:
    """Print the sizes before and after a compaction."""
    if isinstance(event, CompactionFinished):
        print(f"{event.reason}: {event.tokens_before:,} -> {event.tokens_after:,} tokens")


async def main(endpoint: ModelEndpoint) -> None:
    """Run the agent on one long request."""
    async with AsyncOpenAI(base_url=endpoint.base_url, api_key=endpoint.api_key) as client:
        openai = OpenAIProvider(openai_client=client, use_responses=False)
        provider = CompactionModelProvider(provider=openai, on_event=tell)
        session = SQLiteSession("reading")
        agent = Agent(
            "reader",
            instructions="You read files with read_file, one at a time.",
            model=endpoint.model,
            tools=[read_file],
        )
        result = await Runner.run(
            agent,
            f"Read {', '.join(FILES)}, then say that you have read all of them.",
            session=session,
            run_config=provider.run_config(session),
            max_turns=50,
        )
        print(result.final_output)
        print(f"{len(await session.get_items())} items in the session, none of them lost")
        session.close()


if __name__ == "__main__":
    set_tracing_disabled(True)
    reads = [Call("read_file", {"path": path}) for path in FILES]
    with model_endpoint(*reads, "I have read all of them.") as offered:
        asyncio.run(main(offered))
