"""The default summarizer: deterministic, no model, no network."""

from compaction_hooks.summary.extractive.summarizer import ExtractiveSummarizer

__all__ = ["ExtractiveSummarizer"]
