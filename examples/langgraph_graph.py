"""A graph of LangGraph reads forty files. The limit of its model, 16k tokens, is unknown until the provider says "too long".

Run: python examples/langgraph_graph.py     needs: pip install 'compaction-hooks[langgraph]' langchain-openai starlette uvicorn;
a real model: see model_endpoint.py. Prints each compaction, the answer, and the size of the thread.
"""

from __future__ import annotations

from typing import Any

from compaction_adapters.langgraph import CompactionNode
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph  # pyright: ignore[reportMissingTypeStubs] - it has none
from langgraph.prebuilt import ToolNode, tools_condition  # pyright: ignore[reportMissingTypeStubs] - it has none
from model_endpoint import ModelEndpoint, model_endpoint
from pydantic import SecretStr

from compaction_hooks.testing import Call

FILES = [f"src/part_{number}.py" for number in range(40)]
THREAD: RunnableConfig = {"configurable": {"thread_id": "reading"}, "recursion_limit": 200}


@tool
def read_file(path: str) -> str:
    """Pretend to read a file."""
    return f"# {path}\n" + "\n".join(f"def function_{line}(value): return value + {line}" for line in range(60))


def build_graph(chat_model: ChatOpenAI, compact: CompactionNode) -> Any:
    """Return the graph, a loop: compact, call the model, run its tools."""
    model = compact.wrap(chat_model.bind_tools([read_file]))  # pyright: ignore[reportUnknownMemberType]

    def call_model(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    graph: Any = StateGraph(MessagesState)  # its own types have gaps
    graph.add_node("compact", compact)
    graph.add_node("model", call_model)
    graph.add_node("tools", ToolNode([read_file]))
    graph.add_edge(START, "compact")
    graph.add_edge("compact", "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "compact")
    return graph.compile(checkpointer=InMemorySaver())


def main(endpoint: ModelEndpoint) -> None:
    """Run the graph on one long request."""
    model = ChatOpenAI(model=endpoint.model, base_url=endpoint.base_url, api_key=SecretStr(endpoint.api_key))
    compact = CompactionNode()
    graph = build_graph(model, compact)
    request = f"Read {', '.join(FILES)}, then say that you have read all of them."
    for event in graph.stream({"messages": [{"role": "user", "content": request}]}, THREAD, stream_mode="custom"):
        if event["status"] == "finished":
            print(f"{event['reason']}: {event['tokens_before']:,} -> {event['tokens_after']:,} tokens")
    messages = graph.get_state(THREAD).values["messages"]
    print(messages[-1].text)
    compactions = compact.session("reading").history()
    print(f"{len(messages)} messages in the thread, none of them lost, and {len(compactions)} compactions")


if __name__ == "__main__":
    reads = [Call("read_file", {"path": path}) for path in FILES]
    with model_endpoint(*reads, "I have read all of them.") as offered:
        main(offered)
