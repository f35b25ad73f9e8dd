"""Checks for authors of a `MessageFormat`, an adapter, a store, a trigger or a strategy."""

from compaction_hooks.testing.adapters import ADAPTER_FACTS, AdapterFact, check_adapter, check_session
from compaction_hooks.testing.formats import check_format
from compaction_hooks.testing.generated import generated_history, hostile_history, realistic_history
from compaction_hooks.testing.harness import (
    AdapterHarness,
    HostConversation,
    Opening,
    ProviderSide,
    ScriptedProvider,
    SeenRequest,
)
from compaction_hooks.testing.hosts import as_anthropic, as_openai_chat
from compaction_hooks.testing.promises import BrokenPromise, check_view
from compaction_hooks.testing.scripts import Answer, Call, Script, ScriptedTool, Turn, long_script, tools_of
from compaction_hooks.testing.stores import check_store
from compaction_hooks.testing.strategy_check import check_strategy
from compaction_hooks.testing.triggers import check_trigger

__all__ = [
    "ADAPTER_FACTS",
    "AdapterFact",
    "AdapterHarness",
    "Answer",
    "BrokenPromise",
    "Call",
    "HostConversation",
    "Opening",
    "ProviderSide",
    "Script",
    "ScriptedProvider",
    "ScriptedTool",
    "SeenRequest",
    "Turn",
    "as_anthropic",
    "as_openai_chat",
    "check_adapter",
    "check_format",
    "check_session",
    "check_store",
    "check_strategy",
    "check_trigger",
    "check_view",
    "generated_history",
    "hostile_history",
    "long_script",
    "realistic_history",
    "tools_of",
]
