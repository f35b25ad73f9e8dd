"""pydantic-ai: `Compaction` for `Agent(capabilities=[...])`, `history_processor` for `ProcessHistory`."""

from compaction_adapters.kit import require

require(__name__, "pydantic_ai", "pydantic-ai", "pydantic-ai")

from compaction_adapters.pydantic_ai.capability import Compaction, CompactionStatusEvent, history_processor
from compaction_adapters.pydantic_ai.messages import SUMMARY_KEY, PydanticAIFormat
from compaction_adapters.pydantic_ai.models import ModelContextOverflowError, in_place, summarizer

__all__ = [
    "SUMMARY_KEY",
    "Compaction",
    "CompactionStatusEvent",
    "ModelContextOverflowError",
    "PydanticAIFormat",
    "history_processor",
    "in_place",
    "summarizer",
]
