"""pydantic-ai: `Compaction` for `Agent(capabilities=[...])`, `history_processor` for `ProcessHistory`."""

from compaction_hooks.errors import MissingExtraError

try:
    import pydantic_ai as _framework  # noqa: F401 # pyright: ignore[reportUnusedImport]
except ModuleNotFoundError as error:
    if error.name != "pydantic_ai":
        raise
    raise MissingExtraError("compaction_adapters.pydantic_ai", "pydantic-ai", "pydantic-ai") from error

from compaction_adapters.pydantic_ai.capability import Compaction
from compaction_adapters.pydantic_ai.events import CompactionStatusEvent
from compaction_adapters.pydantic_ai.messages import SUMMARY_KEY, PydanticAIFormat
from compaction_adapters.pydantic_ai.processor import history_processor
from compaction_adapters.pydantic_ai.recovery import ModelContextOverflowError
from compaction_adapters.pydantic_ai.summarizing import summarizer

__all__ = [
    "SUMMARY_KEY",
    "Compaction",
    "CompactionStatusEvent",
    "ModelContextOverflowError",
    "PydanticAIFormat",
    "history_processor",
    "summarizer",
]
