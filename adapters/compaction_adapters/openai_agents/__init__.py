"""OpenAI Agents SDK: `CompactionModelProvider`, whose models keep their conversations inside the window."""

from compaction_adapters.kit import require

require(__name__, "agents", "the OpenAI Agents SDK", "openai-agents")

from compaction_adapters.openai_agents.models import in_place, summarizer
from compaction_adapters.openai_agents.provider import CompactionModelProvider

__all__ = ["CompactionModelProvider", "in_place", "summarizer"]
