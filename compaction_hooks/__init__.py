"""Keeps an LLM agent's conversation inside the context window."""

from compaction_hooks import interrupts as _interrupts  # noqa: F401, I001 - before the others, which take long

from compaction_hooks.engine.result import CompactionOutcome, CompactionResult, SessionState
from compaction_hooks.errors import CompactionError, ConfigurationError, ContextOverflowError
from compaction_hooks.events import (
    CompactionEvent,
    CompactionFailed,
    CompactionFinished,
    CompactionSkipped,
    CompactionStarted,
    EventHandler,
    HostFilesFailed,
    PinMissing,
    StoreFailed,
)
from compaction_hooks.messages import Format, Message, MessageFormat, Usage
from compaction_hooks.overflow import OverflowInfo, is_context_overflow, parse_overflow
from compaction_hooks.session.controller import CompactionController
from compaction_hooks.session.options import CallOptions
from compaction_hooks.session.session import CompactionSession
from compaction_hooks.settings import CompactionSettings
from compaction_hooks.stores import RecordStore
from compaction_hooks.summary.extractive import ExtractiveSummarizer
from compaction_hooks.summary.request import LiveCall, Summarizer, Summary, SummaryRequest
from compaction_hooks.tokens.estimator import TokenEstimator
from compaction_hooks.view import CompactionReason
from compaction_hooks.view.projection import project
from compaction_hooks.view.record import CompactionRecord

__version__ = "0.2.0"

__all__ = [
    "CallOptions",
    "CompactionController",
    "CompactionError",
    "CompactionEvent",
    "CompactionFailed",
    "CompactionFinished",
    "CompactionOutcome",
    "CompactionReason",
    "CompactionRecord",
    "CompactionResult",
    "CompactionSession",
    "CompactionSettings",
    "CompactionSkipped",
    "CompactionStarted",
    "ConfigurationError",
    "ContextOverflowError",
    "EventHandler",
    "ExtractiveSummarizer",
    "Format",
    "HostFilesFailed",
    "LiveCall",
    "Message",
    "MessageFormat",
    "OverflowInfo",
    "PinMissing",
    "RecordStore",
    "SessionState",
    "StoreFailed",
    "Summarizer",
    "Summary",
    "SummaryRequest",
    "TokenEstimator",
    "Usage",
    "is_context_overflow",
    "parse_overflow",
    "project",
]
