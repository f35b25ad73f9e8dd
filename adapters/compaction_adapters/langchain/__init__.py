"""LangChain: `CompactionMiddleware` for `langchain.agents.create_agent` and for deep agents."""

from compaction_hooks.errors import MissingExtraError

try:
    import langchain as _langchain  # noqa: F401 # pyright: ignore[reportUnusedImport]
except ModuleNotFoundError as error:
    if error.name != "langchain":
        raise
    raise MissingExtraError("compaction_adapters.langchain", "LangChain", "langchain") from error

from compaction_adapters.langchain.middleware import CompactionMiddleware
from compaction_adapters.langchain.records import CompactionState
from compaction_adapters.langchain_core import LangChainFormat, ModelContextOverflowError, summarizer

__all__ = [
    "CompactionMiddleware",
    "CompactionState",
    "LangChainFormat",
    "ModelContextOverflowError",
    "summarizer",
]
