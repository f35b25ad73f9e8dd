"""The programs, with other libraries that compact, that docs/migration.md goes on from: by the section of the page."""

BEFORE: dict[str, str] = {
    "langchain": """\
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

saver = InMemorySaver()
thread: RunnableConfig = {"configurable": {"thread_id": "thread-1"}}
theirs = SummarizationMiddleware("openai:gpt-5.4-mini", trigger=("fraction", 0.8), keep=("messages", 20))
agent = create_agent("openai:gpt-5.2", tools=[], middleware=[theirs], checkpointer=saver)
print(agent.invoke({"messages": [HumanMessage("Port the parser.")]}, thread)["messages"][-1].text)
""",
    "trim_messages": """\
from langchain_core.messages import HumanMessage, trim_messages
from langchain_core.runnables import RunnableConfig
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

saver = InMemorySaver()
chat: RunnableConfig = {"configurable": {"thread_id": "chat-1"}}
model = ChatOpenAI(model="gpt-5.2")


def call_trimmed(state: MessagesState):
    kept = trim_messages(
        state["messages"], max_tokens=100_000, token_counter="approximate", start_on="human", include_system=True
    )
    return {"messages": [model.invoke(kept)]}


builder = StateGraph(MessagesState).add_node("model", call_trimmed).add_edge(START, "model")
graph = builder.compile(checkpointer=saver)
print(graph.invoke({"messages": [HumanMessage("Port the parser.")]}, chat)["messages"][-1].text)
""",
    "deepagents": """\
from deepagents import create_deep_agent
from deepagents.backends import StateBackend
from deepagents.middleware import summarization
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

saver, backend, model = InMemorySaver(), StateBackend(), ChatOpenAI(model="gpt-5.2")
task: RunnableConfig = {"configurable": {"thread_id": "task-1"}}
theirs = summarization.SummarizationMiddleware(
    model, backend=backend, trigger=("fraction", 0.85), keep=("fraction", 0.1)
)
agent = create_deep_agent(model, backend=backend, middleware=[theirs], checkpointer=saver)
print(agent.invoke({"messages": [HumanMessage("Port the parser.")]}, task)["messages"][-1].text)
""",
    "pydantic-ai-harness": """\
from pydantic_ai import Agent
from pydantic_ai_harness import FallbackCompaction, SlidingWindowCompaction, SummarizingCompaction

theirs = FallbackCompaction(
    fallback_chain=[
        SummarizingCompaction(model="openai-chat:gpt-5.4-mini", max_messages=1, keep_tokens=20_000),
        SlidingWindowCompaction(max_messages=1, keep_tokens=20_000),
    ],
    max_fraction=0.85,
)
porter = Agent("openai-chat:gpt-5.2", capabilities=[theirs])
first = porter.run_sync("Port the parser.")
""",
    "openai-agents-sdk": """\
import agents

session = agents.SQLiteSession("thread-1")
compacting = agents.OpenAIResponsesCompactionSession("thread-1", underlying_session=session, model="gpt-5.2")
coder = agents.Agent("porter", model="gpt-5.2", instructions="You port programs.")
agents.Runner.run_sync(coder, "Port the parser.", session=compacting)
""",
    "the-providers-own-compaction": """\
from openai import OpenAI
from openai.types.responses import Response, ResponseInputItemParam

client = OpenAI()
items: list[ResponseInputItemParam] = [{"type": "message", "role": "user", "content": "Port the parser."}]
answer = client.responses.create(
    model="gpt-5.6-sol",
    input=items,
    store=False,
    context_management=[{"type": "compaction", "compact_threshold": 200_000}],
)
items.append({"type": "message", "role": "assistant", "content": answer.output_text})
""",
}
