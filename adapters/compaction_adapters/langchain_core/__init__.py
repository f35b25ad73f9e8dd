"""The common part of the LangChain and LangGraph adapters: messages, chat models, tasks of graphs. Needs langchain-core only."""

from compaction_adapters.kit import require

require(__name__, "langchain_core", "langchain-core", "langchain")

from compaction_adapters.langchain_core.calls import ModelContextOverflowError, make_call
from compaction_adapters.langchain_core.conversations import (
    Conversation,
    Conversations,
    list_tools,
    records_update,
    union_records,
)
from compaction_adapters.langchain_core.messages import FORMAT, LangChainFormat, without_response_ids
from compaction_adapters.langchain_core.models import (
    CallArguments,
    chat_model_in,
    in_place,
    is_configurable,
    model_of_run,
    model_options,
    summarizer,
    unbind,
)
from compaction_adapters.langchain_core.native import native_arguments, native_summarizer
from compaction_adapters.langchain_core.tasks import Task
from compaction_adapters.langchain_core.threads import ThreadMethods

__all__ = [
    "FORMAT",
    "CallArguments",
    "Conversation",
    "Conversations",
    "LangChainFormat",
    "ModelContextOverflowError",
    "Task",
    "ThreadMethods",
    "chat_model_in",
    "in_place",
    "is_configurable",
    "list_tools",
    "make_call",
    "model_of_run",
    "model_options",
    "native_arguments",
    "native_summarizer",
    "records_update",
    "summarizer",
    "unbind",
    "union_records",
    "without_response_ids",
]
