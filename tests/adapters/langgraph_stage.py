"""Graphs with a compaction node in front of a model node."""

import warnings
from collections.abc import Sequence
from typing import Any

from compaction_adapters.langgraph import CompactionNode, CompactionState
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableLambda
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import create_react_agent

from compaction_hooks import CompactionFinished
from compaction_hooks.events import CompactionEvent
from tests.adapters.langchain_core_stage import WINDOW, CountingSummarizer, is_summary, said


class ModelInput(MessagesState, CompactionState):
    """The input of a model node that reads the view from the state."""


class Model:
    """A model node that answers by itself and keeps the views it reads from the state."""

    def __init__(self) -> None:
        self.sent: list[Sequence[BaseMessage]] = []

    def __call__(self, state: ModelInput) -> dict[str, Any]:
        self.sent.append(state["llm_input_messages"])
        return {"messages": [AIMessage(f"Answer {len(self.sent)}.")]}


def calls(
    model: Any, key: str = "messages", before: Sequence[BaseMessage] = (), after: Sequence[BaseMessage] = ()
) -> Any:
    """Return a model node that calls a model with the messages under a key, between others."""

    def call(state: Any) -> dict[str, Any]:
        return {"messages": [model.invoke([*before, *state[key], *after])]}

    async def acall(state: Any) -> dict[str, Any]:
        return {"messages": [await model.ainvoke([*before, *state[key], *after])]}

    return RunnableLambda(call, acall)


def chat_graph(
    compact: Any, model: Any, state: Any = MessagesState, model_input: Any = ModelInput, **compile_options: Any
) -> Any:
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(state)
    builder.add_node("compact", compact)
    builder.add_node("model", RunnableLambda(model) if isinstance(model, Model) else model, input_schema=model_input)
    return builder.add_edge(START, "compact").add_edge("compact", "model").compile(**compile_options)


def wrapped_graph(compact: CompactionNode, model: Any, **options: Any) -> Any:
    """Return the graph of the docs: the model node calls the model that the node wraps, with the messages of the state."""
    around = {name: options.pop(name) for name in ("before", "after") if name in options}
    return chat_graph(compact, calls(compact.wrap(model), **around), model_input=MessagesState, **options)


def react_agent(*arguments: Any, **keywords: Any) -> Any:
    """Return `create_react_agent`, without the warning that it has moved."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return create_react_agent(*arguments, **keywords)


def question(number: int) -> dict[str, Any]:
    """Return a question of about 1,500 tokens."""
    return said(f"Question {number}. " + f"consider case {number} of the ledger and " * 200)


def node_of(summarizer: CountingSummarizer | None = None, **options: Any) -> CompactionNode:
    return CompactionNode(context_window=WINDOW, summarizer=summarizer or CountingSummarizer(), **options)


def sessions_of(events: Sequence[CompactionEvent]) -> list[str]:
    return [event.session_id for event in events if isinstance(event, CompactionFinished)]


def messages_of(view: Sequence[Any]) -> list[str]:
    """Return the texts of a list, a summary as "summary"."""
    return ["summary" if is_summary(message) else str(message.text) for message in view]
