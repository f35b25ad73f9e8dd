"""The default summariser: deterministic, no model, no network."""

from compaction_hooks.summary.extractive.summarizer import ExtractiveSummarizer

__all__ = ["ExtractiveSummarizer"]
