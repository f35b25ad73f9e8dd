"""Google ADK: `CompactionPlugin` for `App(plugins=[...])`."""

from compaction_adapters.kit import require

require(__name__, "google.adk", "google-adk", "google-adk")

from compaction_adapters.google_adk.plugin import CompactionPlugin
from compaction_adapters.google_adk.summaries import in_place, summarizer

__all__ = ["CompactionPlugin", "in_place", "summarizer"]
