"""Keeps an LLM agent's conversation inside the context window."""

from compaction_hooks import interrupts as interrupts  # before the others, which take long

# isort: split
import importlib
import typing

from compaction_hooks.dress.project import project
from compaction_hooks.engine.result import CompactionOutcome, CompactionResult, SessionState
from compaction_hooks.engine.totals import SessionTotals
from compaction_hooks.errors import CompactionError, ConfigurationError, ContextOverflowError
from compaction_hooks.events import (
    CompactionEvent,
    CompactionFailed,
    CompactionFinished,
    CompactionSkipped,
    CompactionStarted,
    ContextPressure,
    EventHandler,
    HostCallFailed,
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
from compaction_hooks.telling import Advice, Carried, CarryRequest, CompactionPlan
from compaction_hooks.tokens.estimator import TokenEstimator
from compaction_hooks.view import CompactionReason
from compaction_hooks.view.record import CompactionRecord

__version__ = "0.2.0"

__all__ = [
    "Advice",
    "CallOptions",
    "Carried",
    "CarryRequest",
    "CompactionController",
    "CompactionError",
    "CompactionEvent",
    "CompactionFailed",
    "CompactionFinished",
    "CompactionOutcome",
    "CompactionPlan",
    "CompactionReason",
    "CompactionRecord",
    "CompactionResult",
    "CompactionSession",
    "CompactionSettings",
    "CompactionSkipped",
    "CompactionStarted",
    "ConfigurationError",
    "ContextOverflowError",
    "ContextPressure",
    "EventHandler",
    "ExtractiveSummarizer",
    "Format",
    "HostCallFailed",
    "LiveCall",
    "Message",
    "MessageFormat",
    "OverflowInfo",
    "PinMissing",
    "RecordStore",
    "SessionState",
    "SessionTotals",
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

_OTHER_MODULES = (
    "compact_tool",
    "errors",
    "formats",
    "messages",
    "native",
    "recall",
    "repair",
    "stores",
    "strategies",
    "telling",
    "tiktoken_estimator",
    "tokens",
    "triggers",
    "validity",
    "replay",
    "testing",
)

if not typing.TYPE_CHECKING:  # for a type checker an unknown name stays an error

    def __getattr__(name: str) -> object:
        """Return a public module of this name; refuse another name, with the module that has it.

        So `hasattr` of a name that another module has raises ImportError: `from` shows no other error's text.

        Raises:
            ImportError: another public module has the name.
            AttributeError: none has it.
        """
        if name in _OTHER_MODULES:  # before names: `replay` is a function of the module `replay` too
            return importlib.import_module(f"{__name__}.{name}")
        for module in (f"{__name__}.{other}" for other in _OTHER_MODULES if not name.startswith("_")):
            if name in importlib.import_module(module).__all__:
                raise ImportError(f"{name} is in another module: from {module} import {name}", name=name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
