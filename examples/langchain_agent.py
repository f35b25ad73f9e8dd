"""An agent of LangChain reads forty files. The limit of its model, 16k tokens, is unknown until the provider says "too long".

Run: python examples/langchain_agent.py     needs: pip install 'compaction-hooks[langchain]' langchain-openai starlette uvicorn;
a real model: see model_endpoint.py. Prints each compaction, the answer, and how many messages the thread has kept.
"""

from __future__ import annotations

from typing import Any

from compaction_adapters.langchain import CompactionMiddleware
from langchain.agents import create_agent  # pyright: ignore[reportUnknownVariableType] - its own types have gaps
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from model_endpoint import ModelEndpoint, model_endpoint
from pydantic import SecretStr

from compaction_hooks.testing import Call

FILES = [f"src/part_{number}.py" for number in range(40)]
THREAD: RunnableConfig = {"configurable": {"thread_id": "reading"}}


@tool
def read_file(path: str) -> str:
    """Pretend to read a file."""
    return f"# {path}\n" + "\n".join(f"def function_{line}(value): return value + {line}" for line in range(60))


def main(endpoint: ModelEndpoint) -> None:
    """Run the agent on one long request."""
    model = ChatOpenAI(model=endpoint.model, base_url=endpoint.base_url, api_key=SecretStr(endpoint.api_key))
    agent: Any = create_agent(
        model,
        [read_file],
        system_prompt="You read files with read_file, one at a time.",
        middleware=[CompactionMiddleware()],
        checkpointer=InMemorySaver(),
    )
    request = f"Read {', '.join(FILES)}, then say that you have read all of them."
    for event in agent.stream({"messages": [{"role": "user", "content": request}]}, THREAD, stream_mode="custom"):
        if event["status"] == "finished":
            print(f"{event['reason']}: {event['tokens_before']:,} -> {event['tokens_after']:,} tokens")
    messages = agent.get_state(THREAD).values["messages"]
    print(messages[-1].text)
    print(f"{len(messages)} messages in the thread, none of them lost")


if __name__ == "__main__":
    reads = [Call("read_file", {"path": path}) for path in FILES]
    with model_endpoint(*reads, "I have read all of them.") as offered:
        main(offered)
