"""What the tests of the LangGraph adapter share: graphs, and a summarizer whose questions are counted."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from compaction_adapters.langgraph import CompactionNode, CompactionState
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import create_react_agent

from compaction_hooks import CompactionFinished
from compaction_hooks.events import CompactionEvent
from tests.adapters.langchain_core_stage import WINDOW, CountingSummarizer


class ModelInput(MessagesState, CompactionState):
    """What a model node reads."""


class Model:
    """A model node that answers by itself and keeps what it was sent."""

    def __init__(self, *answers: AIMessage | Exception) -> None:
        self.answers = list(answers)
        self.sent: list[Sequence[BaseMessage]] = []

    def __call__(self, state: ModelInput) -> dict[str, Any]:
        self.sent.append(state["llm_input_messages"])
        answer = self.answers.pop(0) if self.answers else AIMessage(f"Answer {len(self.sent)}.")
        if isinstance(answer, Exception):
            raise answer
        return {"messages": [answer]}


def chat_graph(
    compact: Any, model: Any, state: Any = MessagesState, model_input: Any = ModelInput, **compile_options: Any
) -> Any:
    """A compaction node in front of a model node."""
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(state)
    builder.add_node("compact", compact)
    node = RunnableLambda(model) if isinstance(model, Model) else model
    builder.add_node("model", node, input_schema=model_input)
    builder.add_edge(START, "compact")
    builder.add_edge("compact", "model")
    return builder.compile(**compile_options)


def react_agent(*arguments: Any, **keywords: Any) -> Any:
    """`create_react_agent`, without the word that it has moved."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return create_react_agent(*arguments, **keywords)


def said(*texts: str) -> dict[str, Any]:
    """What a user says."""
    return {"messages": [HumanMessage(text) for text in texts]}


def question(number: int) -> dict[str, Any]:
    """About 1,500 tokens."""
    return said(f"Question {number}. " + f"Consider case {number} of the ledger. " * 200)


def node_of(summarizer: CountingSummarizer, **options: Any) -> CompactionNode:
    return CompactionNode(context_window=WINDOW, summarizer=summarizer, **options)


def sessions_of(events: Sequence[CompactionEvent]) -> list[str]:
    """The conversations that were compacted, in order."""
    return [event.session_id for event in events if isinstance(event, CompactionFinished)]


def messages_of(view: Sequence[Any]) -> list[str]:
    """The texts of a list, a summary as "summary"."""
    return ["summary" if is_summary(message) else str(message.text) for message in view]


def is_summary(message: BaseMessage) -> bool:
    return bool(message.additional_kwargs.get("lc_source") == "summarization")
