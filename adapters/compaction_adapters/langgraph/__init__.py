"""LangGraph: `CompactionNode`, a node in front of the model node, and around the model itself."""

from compaction_hooks.errors import MissingExtraError

try:
    import langgraph.graph as _graph  # noqa: F401 # pyright: ignore[reportUnusedImport, reportMissingTypeStubs]
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("langgraph", "langchain_core"):
        raise
    raise MissingExtraError("compaction_adapters.langgraph", "LangGraph", "langgraph") from error

from compaction_adapters.langchain_core import LangChainFormat, ModelContextOverflowError, summarizer
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
    "summarizer",
]
