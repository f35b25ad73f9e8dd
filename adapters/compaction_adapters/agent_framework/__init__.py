"""Microsoft Agent Framework: `CompactionMiddleware` for `Agent(middleware=[...])`, and for clients."""

from compaction_adapters.kit import require

require(__name__, "agent_framework", "Microsoft Agent Framework", "agent-framework")

from compaction_adapters.agent_framework.messages import AgentFrameworkFormat
from compaction_adapters.agent_framework.middleware import CompactionMiddleware
from compaction_adapters.agent_framework.models import in_place, summarizer

__all__ = ["AgentFrameworkFormat", "CompactionMiddleware", "in_place", "summarizer"]
