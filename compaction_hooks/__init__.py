"""Keeps an LLM agent's conversation inside the context window."""

import typing

from compaction_hooks.errors import CompactionError, ConfigurationError, ContextOverflowError
from compaction_hooks.messages import Format, Message, MessageFormat, Usage
from compaction_hooks.session.controller import CompactionController
from compaction_hooks.session.options import CallOptions
from compaction_hooks.session.session import CompactionSession
from compaction_hooks.settings import CompactionSettings
from compaction_hooks.tokens.estimator import TokenEstimator
from compaction_hooks.view import CompactionReason

if typing.TYPE_CHECKING:
    from compaction_hooks.engine.result import CompactionOutcome, CompactionResult, SessionState
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
    from compaction_hooks.overflow import OverflowInfo, is_context_overflow, parse_overflow
    from compaction_hooks.stores import RecordStore
    from compaction_hooks.summary.extractive import ExtractiveSummarizer
    from compaction_hooks.summary.request import LiveCall, Summarizer, Summary, SummaryRequest
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

_MODULE_OF = {
    "CompactionOutcome": "engine.result",
    "CompactionResult": "engine.result",
    "SessionState": "engine.result",
    "CompactionEvent": "events",
    "CompactionFailed": "events",
    "CompactionFinished": "events",
    "CompactionSkipped": "events",
    "CompactionStarted": "events",
    "EventHandler": "events",
    "HostFilesFailed": "events",
    "PinMissing": "events",
    "StoreFailed": "events",
    "RecordStore": "stores",
    "OverflowInfo": "overflow",
    "is_context_overflow": "overflow",
    "parse_overflow": "overflow",
    "ExtractiveSummarizer": "summary.extractive",
    "LiveCall": "summary.request",
    "Summarizer": "summary.request",
    "Summary": "summary.request",
    "SummaryRequest": "summary.request",
    "project": "view.projection",
    "CompactionRecord": "view.record",
}
"""Names that no call needs before something is due. With the patterns behind them they take half of the time of an import."""


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
