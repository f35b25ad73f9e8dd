"""tinyagent (distribution `tiny-agent-os`): the hook for `AgentOptions(transform_context=...)`, and recovery from overflows."""

from compaction_adapters.kit import require

require(__name__, "tinyagent", "tinyagent", "tinyagent")

from compaction_adapters.tinyagent.hook import CompactionHook, compaction_hook
from compaction_adapters.tinyagent.messages import TinyAgentFormat, usage_of
from compaction_adapters.tinyagent.models import ModelCallError, in_place, summarizer

__all__ = [
    "CompactionHook",
    "ModelCallError",
    "TinyAgentFormat",
    "compaction_hook",
    "in_place",
    "summarizer",
    "usage_of",
]
