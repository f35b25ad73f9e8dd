"""An agent of Google ADK reads forty files. The limit of its model, 16k tokens, is unknown until the provider says "too long".

Run: python examples/google_adk_agent.py     needs: pip install 'compaction-hooks[google-adk]' anthropic starlette uvicorn; a real
model: a Claude model, see model_endpoint.py. Prints each compaction, the answer, and how many events are kept.
"""

from __future__ import annotations

import asyncio

from anthropic import AsyncAnthropic
from compaction_adapters.google_adk import CompactionPlugin
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models.anthropic_llm import AnthropicLlm
from google.adk.runners import InMemoryRunner
from google.genai import types
from model_endpoint import ModelEndpoint, model_endpoint

from compaction_hooks import CompactionFinished
from compaction_hooks.events import CompactionEvent
from compaction_hooks.testing import Call

FILES = [f"src/part_{number}.py" for number in range(40)]
APP, USER, SESSION = "files", "ada", "forty-files"


def read_file(path: str) -> str:
    """Pretend to read a file."""
    return f"# {path}\n" + "\n".join(f"def function_{line}(value): return value + {line}" for line in range(60))


def tell(event: CompactionEvent) -> None:
    """Print the sizes before and after a compaction."""
    if isinstance(event, CompactionFinished):
        print(f"{event.reason}: {event.tokens_before:,} -> {event.tokens_after:,} tokens")


async def main(endpoint: ModelEndpoint) -> None:
    """Run the agent on one long request."""
    async with AsyncAnthropic(base_url=endpoint.base_url.removesuffix("/v1"), api_key=endpoint.api_key) as client:
        agent = LlmAgent(
            name="reader",
            model=AnthropicLlm(model=endpoint.model, client=client, max_tokens=2_000),
            instruction="You read files with read_file, one at a time.",
            tools=[read_file],
        )
        runner = InMemoryRunner(app=App(name=APP, root_agent=agent, plugins=[CompactionPlugin(on_event=tell)]))
        await runner.session_service.create_session(app_name=APP, user_id=USER, session_id=SESSION)
        request = f"Read {', '.join(FILES)}, then say that you have read all of them."
        message = types.Content(role="user", parts=[types.Part(text=request)])
        async for event in runner.run_async(user_id=USER, session_id=SESSION, new_message=message):
            if event.is_final_response() and event.content and event.content.parts:
                print(event.content.parts[0].text)
        session = await runner.session_service.get_session(app_name=APP, user_id=USER, session_id=SESSION)
        print(f"{len(session.events) if session else 0} events in the session, none of them lost")


if __name__ == "__main__":
    reads = [Call("read_file", {"path": path}) for path in FILES]
    with model_endpoint(*reads, "I have read all of them.") as offered:
        asyncio.run(main(offered))
