"""The default summarizer: deterministic, no model, no network."""

from compaction_hooks.summary.extractive.summarizer import ExtractiveSummarizer, summarize_by_rule

__all__ = ["ExtractiveSummarizer", "summarize_by_rule"]
