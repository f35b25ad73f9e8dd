"""The common part of the LangChain and LangGraph adapters: messages, chat models, tasks of graphs. Needs langchain-core only."""

from compaction_adapters.kit import require

require(__name__, "langchain_core", "langchain-core", "langchain")

from compaction_adapters.langchain_core.calls import ModelContextOverflowError, TokenWatch, make_call
from compaction_adapters.langchain_core.conversations import Conversation, Conversations
from compaction_adapters.langchain_core.messages import FORMAT, LangChainFormat, without_response_ids
from compaction_adapters.langchain_core.models import (
    chat_model_in,
    is_configurable,
    max_output_tokens,
    model_of_run,
    model_options,
    request_options,
    summarizer,
)
from compaction_adapters.langchain_core.native import native_arguments, native_summarizer
from compaction_adapters.langchain_core.recalling import recall_tool
from compaction_adapters.langchain_core.records import records_update, union_records
from compaction_adapters.langchain_core.tasks import Task
from compaction_adapters.langchain_core.threads import ThreadMethods

__all__ = [
    "FORMAT",
    "Conversation",
    "Conversations",
    "LangChainFormat",
    "ModelContextOverflowError",
    "Task",
    "ThreadMethods",
    "TokenWatch",
    "chat_model_in",
    "is_configurable",
    "make_call",
    "max_output_tokens",
    "model_of_run",
    "model_options",
    "native_arguments",
    "native_summarizer",
    "recall_tool",
    "records_update",
    "request_options",
    "summarizer",
    "union_records",
    "without_response_ids",
]
