"""LangGraph: `CompactionNode`, a node in front of the model node, and around the model itself."""

from compaction_adapters.kit import require

require(__name__, "langgraph.graph", "LangGraph", "langgraph")

from compaction_adapters.langchain_core import LangChainFormat, ModelContextOverflowError, in_place, summarizer
from compaction_adapters.langgraph.channels import CompactionState, UntrackedView
from compaction_adapters.langgraph.model import CompactingModel
from compaction_adapters.langgraph.node import CompactionNode
from compaction_adapters.langgraph.stores import BaseStoreRecordStore

__all__ = [
    "BaseStoreRecordStore",
    "CompactingModel",
    "CompactionNode",
    "CompactionState",
    "LangChainFormat",
    "ModelContextOverflowError",
    "UntrackedView",
    "in_place",
    "summarizer",
]
