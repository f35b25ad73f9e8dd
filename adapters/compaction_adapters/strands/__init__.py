"""Strands Agents: `CompactionConversationManager` for `Agent(conversation_manager=...)`."""

from compaction_adapters.kit import require

require(__name__, "strands", "Strands Agents", "strands")

from compaction_adapters.strands.manager import CompactionConversationManager
from compaction_adapters.strands.messages import StrandsFormat
from compaction_adapters.strands.models import in_place, summarizer

__all__ = ["CompactionConversationManager", "StrandsFormat", "in_place", "summarizer"]
