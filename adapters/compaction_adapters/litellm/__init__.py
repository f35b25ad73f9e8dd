"""LiteLLM: `with_compaction` around its functions, and `CompactionCallback` for its hooks, which imports litellm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compaction_adapters.kit import require

require(__name__, "litellm", "LiteLLM", "litellm")

from compaction_adapters.litellm.calls import SessionId
from compaction_adapters.litellm.summaries import in_place, summarizer
from compaction_adapters.litellm.wrapping import with_compaction

if TYPE_CHECKING:
    from compaction_adapters.litellm.callback import CompactionCallback

__all__ = ["CompactionCallback", "SessionId", "in_place", "summarizer", "with_compaction"]


def __getattr__(name: str) -> object:
    if name != "CompactionCallback":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from compaction_adapters.litellm.callback import CompactionCallback

    return CompactionCallback
