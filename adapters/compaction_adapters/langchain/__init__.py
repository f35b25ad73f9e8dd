"""LangChain: `CompactionMiddleware` for `langchain.agents.create_agent` and for deep agents."""

from compaction_adapters.kit import require

require(__name__, "langchain", "LangChain", "langchain")

from compaction_adapters.langchain.middleware import CompactionMiddleware, CompactionState
from compaction_adapters.langchain_core import LangChainFormat, ModelContextOverflowError, in_place, summarizer

__all__ = [
    "CompactionMiddleware",
    "CompactionState",
    "LangChainFormat",
    "ModelContextOverflowError",
    "in_place",
    "summarizer",
]
