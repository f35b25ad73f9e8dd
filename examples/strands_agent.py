"""An agent of Strands reads forty files. The limit of its model, 16k tokens, is unknown until the provider says "too long".

Run: python examples/strands_agent.py     needs: pip install 'compaction-hooks[strands]' openai starlette uvicorn; a real model:
see model_endpoint.py. Prints each compaction, the answer, and how many messages are kept.
"""

from __future__ import annotations

from compaction_adapters.strands import CompactionConversationManager
from model_endpoint import ModelEndpoint, model_endpoint
from strands import Agent, tool  # pyright: ignore[reportUnknownVariableType] - Strands leaves its schemas untyped
from strands.models.openai import OpenAIModel

from compaction_hooks import CompactionFinished
from compaction_hooks.events import CompactionEvent
from compaction_hooks.testing import Call

FILES = [f"src/part_{number}.py" for number in range(40)]


@tool
def read_file(path: str) -> str:
    """Pretend to read a file.

    Args:
        path: The file's path.
    """
    return f"# {path}\n" + "\n".join(f"def function_{line}(value): return value + {line}" for line in range(60))


def tell(event: CompactionEvent) -> None:
    """Print the sizes before and after a compaction."""
    if isinstance(event, CompactionFinished):
        print(f"{event.reason}: {event.tokens_before:,} -> {event.tokens_after:,} tokens")


def main(endpoint: ModelEndpoint) -> None:
    """Run the agent on one long request."""
    agent = Agent(
        model=OpenAIModel(
            client_args={"base_url": endpoint.base_url, "api_key": endpoint.api_key}, model_id=endpoint.model
        ),
        system_prompt="You read files with read_file, one at a time.",
        tools=[read_file],
        conversation_manager=CompactionConversationManager(on_event=tell),
        callback_handler=None,
    )
    print(agent(f"Read {', '.join(FILES)}, then say that you have read all of them."))
    print(f"{len(agent.messages)} messages in the agent, none of them lost")


if __name__ == "__main__":
    reads = [Call("read_file", {"path": path}) for path in FILES]
    with model_endpoint(*reads, "I have read all of them.") as offered:
        main(offered)
