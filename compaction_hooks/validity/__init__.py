"""The rules of providers, as data, and one checker over neutral messages."""

from compaction_hooks.messages import Provider, is_blank, provider_named
from compaction_hooks.reasoning import (
    FAMILIES,
    REFUSALS,
    Family,
    Refusal,
    binds_reasoning,
    find_family,
    is_reasoning,
    is_reasoning_refusal,
)
from compaction_hooks.validity.checker import (
    Problem,
    foreign_rule,
    is_alike,
    is_hosts_answer,
    is_server_call,
    is_server_result,
    problems,
    worsened,
)
from compaction_hooks.validity.rules import (
    RULES,
    Rule,
    RuleId,
    needs_merging,
    provider_of,
    rules_of,
    takes_call_id,
)

__all__ = [
    "FAMILIES",
    "REFUSALS",
    "RULES",
    "Family",
    "Problem",
    "Provider",
    "Refusal",
    "Rule",
    "RuleId",
    "binds_reasoning",
    "find_family",
    "foreign_rule",
    "is_alike",
    "is_blank",
    "is_hosts_answer",
    "is_reasoning",
    "is_reasoning_refusal",
    "is_server_call",
    "is_server_result",
    "needs_merging",
    "problems",
    "provider_named",
    "provider_of",
    "rules_of",
    "takes_call_id",
    "worsened",
]
