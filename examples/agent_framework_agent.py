"""An agent of Microsoft Agent Framework reads forty files. Its model's limit, 16k tokens, is unknown until the provider says so.

Run: python examples/agent_framework_agent.py     needs: pip install 'compaction-hooks[agent-framework]' agent-framework-openai
starlette uvicorn; a real model: see model_endpoint.py. Prints each compaction, the answer, and how many messages are kept.
"""

from __future__ import annotations

import asyncio

from agent_framework import Agent
from agent_framework.openai import OpenAIChatCompletionClient
from compaction_adapters.agent_framework import CompactionMiddleware
from model_endpoint import ModelEndpoint, model_endpoint

from compaction_hooks import CompactionFinished
from compaction_hooks.events import CompactionEvent
from compaction_hooks.testing import Call

FILES = [f"src/part_{number}.py" for number in range(40)]


def read_file(path: str) -> str:
    """Pretend to read a file."""
    return f"# {path}\n" + "\n".join(f"def function_{line}(value): return value + {line}" for line in range(60))


def tell(event: CompactionEvent) -> None:
    """Print the sizes before and after a compaction."""
    if isinstance(event, CompactionFinished):
        print(f"{event.reason}: {event.tokens_before:,} -> {event.tokens_after:,} tokens")


async def main(endpoint: ModelEndpoint) -> None:
    """Run the agent on one long request."""
    client = OpenAIChatCompletionClient(model=endpoint.model, base_url=endpoint.base_url, api_key=endpoint.api_key)
    client.function_invocation_configuration["max_iterations"] = len(FILES) + 1
    agent = Agent(
        client=client,
        instructions="You read files with read_file, one at a time.",
        tools=[read_file],
        middleware=[CompactionMiddleware(on_event=tell)],
    )
    session = agent.create_session()
    result = await agent.run(f"Read {', '.join(FILES)}, then say that you have read all of them.", session=session)
    print(result.messages[-1].text)
    print(f"{len(session.state['in_memory']['messages'])} messages in the session, none of them lost")


if __name__ == "__main__":
    reads = [Call("read_file", {"path": path}) for path in FILES]
    with model_endpoint(*reads, "I have read all of them.") as offered:
        asyncio.run(main(offered))
