"""The checks a `MessageFormat` or an adapter must pass, for anyone who writes one."""

from compaction_hooks.testing.adapters import ADAPTER_FACTS, AdapterFact, check_adapter, check_session
from compaction_hooks.testing.formats import check_format
from compaction_hooks.testing.harness import (
    AdapterHarness,
    HostConversation,
    Opening,
    ProviderSide,
    ScriptedProvider,
    SeenRequest,
)
from compaction_hooks.testing.scripts import Answer, Call, Script, ScriptedTool, Turn, long_script, tools_of

__all__ = [
    "ADAPTER_FACTS",
    "AdapterFact",
    "AdapterHarness",
    "Answer",
    "Call",
    "HostConversation",
    "Opening",
    "ProviderSide",
    "Script",
    "ScriptedProvider",
    "ScriptedTool",
    "SeenRequest",
    "Turn",
    "check_adapter",
    "check_format",
    "check_session",
    "long_script",
    "tools_of",
]
