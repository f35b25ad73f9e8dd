"""tinyagent (distribution `tiny-agent-os`): the hook for `AgentOptions(transform_context=...)`, and recovery from overflows."""

from compaction_hooks.errors import MissingExtraError

try:
    import tinyagent as _tinyagent  # noqa: F401 # pyright: ignore[reportUnusedImport]
except ModuleNotFoundError as error:
    if error.name != "tinyagent":
        raise
    raise MissingExtraError("compaction_adapters.tinyagent", "tinyagent", "tinyagent") from error

from compaction_adapters.tinyagent.hook import CompactionHook, compaction_hook
from compaction_adapters.tinyagent.messages import TinyAgentFormat, usage_of
from compaction_adapters.tinyagent.models import ModelCallError, summarizer

__all__ = ["CompactionHook", "ModelCallError", "TinyAgentFormat", "compaction_hook", "summarizer", "usage_of"]
