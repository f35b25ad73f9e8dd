"""What the LangChain and the LangGraph adapter share: messages, chat models, runs. Needs langchain-core only."""

from compaction_adapters.kit import require

require(__name__, "langchain_core", "langchain-core", "langchain")

from compaction_adapters.langchain_core.calls import PassedOn, passed_on, read_answer
from compaction_adapters.langchain_core.carried import CarriedSessions
from compaction_adapters.langchain_core.messages import FORMAT, LangChainFormat, without_response_ids
from compaction_adapters.langchain_core.models import (
    ModelLike,
    bound_arguments,
    chat_model_in,
    is_configurable,
    max_input_tokens,
    max_output_tokens,
    model_name,
    model_of_run,
    model_options,
    summarizer,
    summary_config,
)
from compaction_adapters.langchain_core.overflow import ModelContextOverflowError
from compaction_adapters.langchain_core.records import records_update, union_records
from compaction_adapters.langchain_core.runs import conversation_id, stream_events, thread_id
from compaction_adapters.langchain_core.threads import ThreadMethods
from compaction_adapters.langchain_core.watching import TokenWatch

__all__ = [
    "FORMAT",
    "CarriedSessions",
    "LangChainFormat",
    "ModelContextOverflowError",
    "ModelLike",
    "PassedOn",
    "ThreadMethods",
    "TokenWatch",
    "bound_arguments",
    "chat_model_in",
    "conversation_id",
    "is_configurable",
    "max_input_tokens",
    "max_output_tokens",
    "model_name",
    "model_of_run",
    "model_options",
    "passed_on",
    "read_answer",
    "records_update",
    "stream_events",
    "summarizer",
    "summary_config",
    "thread_id",
    "union_records",
    "without_response_ids",
]
