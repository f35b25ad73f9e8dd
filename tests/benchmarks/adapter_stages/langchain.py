"""LangGraph and LangChain."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

from compaction_adapters.langchain import CompactionMiddleware
from compaction_adapters.langgraph import CompactionNode, CompactionState
from langchain.agents import create_agent  # pyright: ignore[reportUnknownVariableType]
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.graph import END, START, MessagesState, StateGraph  # pyright: ignore[reportMissingTypeStubs]

from tests.benchmarks.adapter_stages import RESULT, Run, Stage, Watch, controller, read_file, tool_call


class State(MessagesState, CompactionState):
    """What the graph hands round; `left` are the model calls still to come."""

    left: int


def langgraph_stages(count: int) -> Iterator[Stage]:
    """A pre-model node, in a graph that goes round and round."""
    watch = Watch()
    history = langchain_messages(count)

    class Watched(CompactionNode):
        async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
            with watch.working():
                return await super().ainvoke(input, config, **kwargs)

    def hand_on(state: State) -> dict[str, list[AnyMessage]]:
        return {"llm_input_messages": state["messages"]}

    def model(state: State) -> dict[str, object]:
        watch.note_call()
        return {"messages": [AIMessage("Reading on.")], "left": state["left"] - 1}

    def goes_on(state: State) -> str:
        return "compact" if state["left"] else END

    def run_of(node: Any) -> Run:
        graph: Any = StateGraph(State)
        graph.add_node("compact", node).add_node("model", model)
        graph.add_edge(START, "compact").add_edge("compact", "model")
        graph.add_conditional_edges("model", goes_on)
        compiled = graph.compile()

        async def run(calls: int) -> object:
            config = {"recursion_limit": 10 * calls + 10, "configurable": {"thread_id": str(uuid.uuid4())}}
            return await compiled.ainvoke({"messages": history, "left": calls}, config)

        return run

    yield Stage("LangGraph, `CompactionNode`", run_of(hand_on), run_of(Watched(controller())), watch)


def langchain_stages(count: int) -> Iterator[Stage]:
    """A middleware around the model call of an agent."""
    watch = Watch()
    history = langchain_messages(count)

    class Model(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self

    class HandOn(AgentMiddleware[Any, Any]):
        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            return await handler(request)

    class Watched(CompactionMiddleware[Any, Any]):
        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            async def waited(request: Any) -> Any:
                with watch.waiting():
                    return await handler(request)

            with watch.working():
                return await super().awrap_model_call(request, waited)

    def run_of(middleware: Any) -> Run:
        async def run(calls: int) -> object:
            def answers() -> Iterator[AIMessage]:
                for number in range(calls):
                    watch.note_call()
                    yield AIMessage("", tool_calls=[tool_call(number)] if number < calls - 1 else [])

            model = Model(messages=answers())
            agent: Any = create_agent(model, tools=[read_file], middleware=[middleware])
            config = {"recursion_limit": 10 * calls + 10, "configurable": {"thread_id": str(uuid.uuid4())}}
            return await agent.ainvoke({"messages": history}, config)

        return run

    yield Stage("LangChain, `CompactionMiddleware`", run_of(HandOn()), run_of(Watched(controller())), watch)


def langchain_messages(count: int) -> list[Any]:
    """Return a conversation of LangChain messages, with ids as a state gives them."""
    messages: list[Any] = [HumanMessage("Port the parser.", id="m0")]
    while len(messages) < count:
        call = tool_call(len(messages))
        messages.append(AIMessage("", tool_calls=[call], id=f"m{len(messages)}"))
        messages.append(ToolMessage(RESULT, tool_call_id=call["id"], id=f"m{len(messages)}"))
    return [*messages[: count - 1], AIMessage("Read.", id="last")]
