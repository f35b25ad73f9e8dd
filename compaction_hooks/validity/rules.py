"""The rules of providers, as data: each rule with its providers and a source for each (read in November 2026)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from compaction_hooks.messages import Format, MessageFormat, Provider, as_format, can
from compaction_hooks.reasoning import Needed, find_family

RuleId: TypeAlias = Literal[
    "empty_list",
    "only_system",
    "first_not_user",
    "system_inside",
    "empty_content",
    "empty_answer",
    "blank_text",
    "bare_reasoning",
    "dangling_reasoning",
    "unsigned_reasoning",
    "stale_reasoning",
    "missing_reasoning",
    "unanswered_call",
    "orphan_result",
    "detached_result",
    "split_step",
    "words_after_call",
    "duplicate_result",
    "duplicate_call",
    "twin_call",
    "call_id_form",
    "unsigned_call",
    "call_out_of_turn",
    "role_repeated",
    "split_results",
    "open_server_call",
    "orphan_server_result",
    "orphan_answer",
    "late_summary",
    "part_of_anthropic",
    "part_of_responses",
]
"""The name of a rule."""


class Rule(NamedTuple):
    """One property of messages that some providers reject.

    Attributes:
        says: The fault of a message that breaks the rule.
        sources: For each provider with this rule, the address of its documentation or of its error message.
        left_to_clients: How client libraries that translate messages resolve the fault. Such a rule holds only for a named
            provider, not for messages that may go to any. "" if no client resolves it.
    """

    id: RuleId
    says: str
    sources: Mapping[Provider, str]
    left_to_clients: str = ""


_GITHUB: Final = "https://github.com/"
_GEMINI_PARTS: Final = "https://ai.google.dev/api/caching#Part"
_PRESERVED_THINKING: Final = "https://platform.claude.com/docs/en/build-with-claude/preserved-thinking"
_PRESERVED_THINKING_ON_BEDROCK: Final = (
    "https://docs.aws.amazon.com/bedrock/latest/userguide/claude-messages-thinking-block-binding"
)
_BEDROCK_PARTS: Final = "https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ContentBlock.html"

RULES: Final[tuple[Rule, ...]] = (
    Rule(
        id="empty_list",
        says="there are no messages",
        sources={
            "openai_chat": _GITHUB + "run-llama/llama_index/issues/9373",
            "openai_responses": "https://platform.openai.com/docs/api-reference/responses/create",
            "anthropic": _GITHUB + "Helicone/helicone/pull/5257",
            "gemini": _GITHUB + "NousResearch/hermes-agent/pull/57942",
            "bedrock": _GITHUB + "elastic/kibana/pull/246393",
        },
    ),
    Rule(
        id="only_system",
        says="there are only system messages, which this provider does not count as messages",
        sources={
            "anthropic": _GITHUB + "Helicone/helicone/pull/5257",
            "gemini": _GITHUB + "NousResearch/hermes-agent/pull/57942",
            "bedrock": _GITHUB + "elastic/kibana/pull/246393",
        },
    ),
    Rule(
        id="first_not_user",
        says="the first message after the system prompt is the assistant's",
        sources={
            "anthropic": _GITHUB + "lobehub/lobehub/issues/1601",
            "bedrock": _GITHUB + "langgenius/dify/issues/12340",
        },
    ),
    Rule(
        id="system_inside",
        says="a system message stands after the conversation began",
        sources={
            "anthropic": _GITHUB + "ianarawjo/ChainForge/issues/271",
            "gemini": _GITHUB + "QuantumNous/new-api/issues/408",
            "bedrock": _GITHUB + "continuedev/continue/issues/1938",
        },
    ),
    Rule(
        id="empty_content",
        says="the message holds nothing",
        sources={
            "openai_chat": _GITHUB + "run-llama/llama_index/issues/17555",
            "anthropic": _GITHUB + "anthropics/claude-code/issues/23440",
            "gemini": _GITHUB + "vercel/ai/issues/3775",
            "bedrock": _GITHUB + "theopenco/llmgateway/pull/3127",
        },
    ),
    Rule(
        id="empty_answer",
        says="the last message is the assistant's and holds nothing",
        sources={
            "openai_chat": _GITHUB + "run-llama/llama_index/issues/17555",
            "gemini": _GITHUB + "vercel/ai/issues/3775",
            "bedrock": _GITHUB + "theopenco/llmgateway/pull/3127",
        },
    ),
    Rule(
        id="blank_text",
        says="one of the message's texts is empty or only white space",
        sources={
            "anthropic": _GITHUB + "anthropics/claude-code/issues/23440",
            "bedrock": _GITHUB + "NousResearch/hermes-agent/pull/63983",
        },
    ),
    Rule(
        id="bare_reasoning",
        says="the message holds reasoning and neither text nor call",
        sources={"openai_chat": _GITHUB + "run-llama/llama_index/issues/17555"},
        left_to_clients="formats that have reasoning as messages of their own are written as one",
    ),
    Rule(
        id="dangling_reasoning",
        says="reasoning is not followed by what it led to",
        sources={
            "openai_responses": _GITHUB + "continuedev/continue/issues/8933",
            "anthropic": _GITHUB + "tailcallhq/forgecode/issues/2107",
            "bedrock": _GITHUB + "NousResearch/hermes-agent/issues/105780",
        },
    ),
    Rule(
        id="unsigned_reasoning",
        says="reasoning without a signature, which this provider cannot take back",
        sources={
            "anthropic": _GITHUB + "agentscope-ai/agentscope/pull/1668",
            "bedrock": _GITHUB + "maximhq/bifrost/pull/6942",
        },
        left_to_clients="reasoning of other providers is left out (the same source)",
    ),
    Rule(
        id="stale_reasoning",
        says="reasoning of a model that binds it was made behind another beginning of the conversation",
        sources={
            "openai_chat": "https://docs.litellm.ai/docs/reasoning_content",
            "anthropic": _PRESERVED_THINKING,
            "bedrock": _PRESERVED_THINKING_ON_BEDROCK,
        },
    ),
    Rule(
        id="missing_reasoning",
        says="reasoning that this model needs next to its tool calls is missing",
        sources={
            "openai_chat": "https://api-docs.deepseek.com/guides/thinking_mode",
            "anthropic": "https://platform.claude.com/docs/en/build-with-claude/thinking",
            "bedrock": "https://platform.claude.com/docs/en/build-with-claude/thinking",
        },
    ),
    Rule(
        id="unanswered_call",
        says="a tool call has no result",
        sources={
            "openai_chat": _GITHUB + "evalstate/fast-agent/issues/314",
            "openai_responses": _GITHUB + "bytedance/trae-agent/issues/245",
            "anthropic": _GITHUB + "anthropics/claude-code/issues/8210",
            "gemini": _GITHUB + "google-gemini/gemini-cli/issues/4217",
            "bedrock": _GITHUB + "camel-ai/camel/issues/3954",
        },
    ),
    Rule(
        id="orphan_result",
        says="a tool result answers no call before it",
        sources={
            "openai_chat": _GITHUB + "FoundationAgents/OpenManus/issues/744",
            "openai_responses": _GITHUB + "continuedev/continue/issues/10092",
            "anthropic": _GITHUB + "anthropics/claude-code/issues/18947",
            "gemini": _GITHUB + "langchain-ai/langchain/issues/27799",
            "bedrock": _GITHUB + "langgenius/dify-official-plugins/issues/765",
        },
    ),
    Rule(
        id="detached_result",
        says="something else stands between a tool call and its result",
        sources={
            "openai_chat": _GITHUB + "evalstate/fast-agent/issues/314",
            "anthropic": _GITHUB + "anthropics/anthropic-sdk-typescript/issues/653",
            "gemini": _GITHUB + "langchain-ai/langchain/issues/27799",
            "bedrock": _GITHUB + "langchain-ai/langchain-aws/issues/451",
        },
    ),
    Rule(
        id="split_step",
        says="another message of the assistant stands between a tool call and its result",
        sources={"openai_chat": _GITHUB + "evalstate/fast-agent/issues/314"},
    ),
    Rule(
        id="words_after_call",
        says="text or reasoning stands after a tool call in the same turn",
        sources={"anthropic": _GITHUB + "can1357/oh-my-pi/issues/4781"},
        left_to_clients="other APIs hold text and calls apart, or in any order",
    ),
    Rule(
        id="duplicate_result",
        says="a tool call is answered a second time",
        sources={
            "openai_chat": _GITHUB + "agno-agi/agno/issues/5116",
            "openai_responses": _GITHUB + "NousResearch/hermes-agent/issues/102629",
            "anthropic": _GITHUB + "QwenLM/qwen-code/pull/8163",
            "gemini": _GITHUB + "google-gemini/gemini-cli/issues/4217",
            "bedrock": _GITHUB + "BerriAI/litellm/issues/20048",
        },
    ),
    Rule(
        id="duplicate_call",
        says="two tool calls of the conversation have the same id",
        sources={
            "openai_chat": _GITHUB + "craft-ai-agents/craft-agents-oss/issues/630",
            "openai_responses": _GITHUB + "NousResearch/hermes-agent/issues/102629",
            "anthropic": _GITHUB + "trycua/cua/issues/524",
        },
    ),
    Rule(
        id="twin_call",
        says="two tool calls of one turn have the same id",
        sources={
            "openai_chat": _GITHUB + "openclaw/openclaw/issues/84730",
            "openai_responses": _GITHUB + "NousResearch/hermes-agent/issues/102629",
            "anthropic": _GITHUB + "anthropics/claude-code/issues/20885",
            "bedrock": _GITHUB + "double16/Cyber-AutoAgent-ng/issues/27",
        },
    ),
    Rule(
        id="call_id_form",
        says="the id of a tool call is empty, too long or has characters that this provider does not take",
        sources={
            "openai_chat": _GITHUB + "FerroxLabs/wayland-core/pull/50",
            "openai_responses": _GITHUB + "decolua/9router/issues/393",
            "anthropic": _GITHUB + "cline/cline/issues/8942",
            "bedrock": _GITHUB + "maximhq/bifrost/pull/6300",
        },
        left_to_clients="ids are rewritten for the provider (the third source; pydantic-ai and LiteLLM too)",
    ),
    Rule(
        id="unsigned_call",
        says="the first tool call of a step in the present turn has lost its thought signature (Gemini 3 and later)",
        sources={
            "openai_chat": "https://ai.google.dev/gemini-api/docs/thought-signatures",
            "gemini": _GITHUB + "nanbingxyz/5ire/issues/405",
        },
        left_to_clients="a call of another model gets the placeholder that Gemini takes (open-gsd/gsd-pi/pull/155)",
    ),
    Rule(
        id="call_out_of_turn",
        says="a tool call follows neither the user's words nor a tool's results",
        sources={"gemini": _GITHUB + "google-gemini/gemini-cli/issues/11814"},
        left_to_clients="messages of the assistant in a row become one",
    ),
    Rule(
        id="role_repeated",
        says="the same speaker has two messages in a row",
        sources={
            "bedrock": _GITHUB + "langchain-ai/langchain-aws/issues/130",
            # "Conversation roles must alternate user/assistant/user/assistant/..."
            "chat_template": _GITHUB + "vllm-project/vllm/issues/6862",
        },
        left_to_clients="messages of one speaker in a row become one (langchain-aws since that issue; LiteLLM, pydantic-ai); "
        "`BedrockConverseFormat` does that itself, for a chat template the setting `merge_user_messages`",
    ),
    Rule(
        id="split_results",
        says="the results of one step stand in several messages",
        sources={
            "gemini": _GITHUB + "vertesia/llumiverse/pull/620",
            "bedrock": _GITHUB + "genkit-ai/aws-bedrock-js-plugin/issues/664",
        },
        left_to_clients="results in a row become one message (the first source; langchain, LiteLLM, pydantic-ai)",
    ),
    Rule(
        id="open_server_call",
        says="a call of a tool that the provider runs itself has no result",
        sources={"anthropic": _GITHUB + "anthropics/anthropic-sdk-python/issues/1339"},
    ),
    Rule(
        id="orphan_server_result",
        says="the result of a tool that the provider ran itself answers no call before it",
        sources={"anthropic": _GITHUB + "anthropics/claude-code/issues/66944"},
    ),
    Rule(
        id="orphan_answer",
        says="an approval, or the output of a tool search by the client, answers no item before it",
        sources={"openai_responses": _GITHUB + "openai/codex/pull/14274"},
    ),
    Rule(
        id="late_summary",
        says="messages come before a signed summary of the provider's own",
        sources={"anthropic": "https://platform.claude.com/docs/en/build-with-claude/compaction-on-demand"},
    ),
    Rule(
        id="part_of_anthropic",
        says="a part that only Anthropic takes back: its server tools, its own compaction",
        sources={
            "openai_chat": "https://platform.openai.com/docs/api-reference/chat/create",
            "openai_responses": "https://platform.openai.com/docs/api-reference/responses/create",
            "gemini": _GEMINI_PARTS,
            "bedrock": _BEDROCK_PARTS,
        },
        left_to_clients="parts of other providers are left out (pydantic-ai's `CompactionPart` by its `provider_name`)",
    ),
    Rule(
        id="part_of_responses",
        says="a part that only OpenAI Responses takes back: its server tools, its own compaction",
        sources={
            "openai_chat": "https://platform.openai.com/docs/api-reference/chat/create",
            "anthropic": "https://docs.claude.com/en/api/messages",
            "gemini": _GEMINI_PARTS,
            "bedrock": _BEDROCK_PARTS,
        },
        left_to_clients="parts of other providers are left out (pydantic-ai's `CompactionPart` by its `provider_name`)",
    ),
)
"""All rules that the checker knows."""

_ROLE_REPEATED: Final = next(rule for rule in RULES if rule.id == "role_repeated")
_CALL_IDS: Final[Mapping[Provider, re.Pattern[str]]] = {
    "openai_chat": re.compile(r".+", re.DOTALL),
    "openai_responses": re.compile(r".{1,64}", re.DOTALL),
    "anthropic": re.compile(r"[a-zA-Z0-9_-]+"),
    "bedrock": re.compile(r"[a-zA-Z0-9_.:-]{1,64}"),
}
"""The form of a whole tool call id that a provider accepts; sources: those of the rule `call_id_form`. OpenAI chat accepted 40
characters in 2025 and 51 in July 2026 (https://github.com/vercel/ai/pull/17233); its legacy function calls have no id."""


def provider_of(format: MessageFormat[Any]) -> Provider | None:
    """Return the provider that a format writes for; None if a client library translates the messages further.

    A format that declares no provider writes for the provider with the format's name, if there is one.
    """
    return as_format(format).provider


def needs_merging(format: Format[Any]) -> bool:
    """Return whether a format's provider refuses messages of one speaker in a row, and the format can write them as one.

    Then every view that a compaction changed is sent so, without the setting `merge_user_messages`.
    """
    return format.provider in _ROLE_REPEATED.sources and can(format, "merge")


def rules_of(provider: Provider | None, model: str | None = None) -> frozenset[RuleId]:
    """Return the rules of a provider; None: the rules for messages that may go to any, without those that clients resolve.

    Args:
        model: The model that will read the messages: the rules for reasoning are then those of its family.
    """
    rules: set[RuleId] = {
        rule.id for rule in RULES if (not rule.left_to_clients if provider is None else provider in rule.sources)
    }

    family = find_family(model)
    if family is not None:
        of_family = {_OF_NEEDED.get(family.needed), "stale_reasoning" if family.stale == "refused" else None}
        rules -= _OF_FAMILIES - of_family
    else:
        rules -= {"missing_reasoning", *_OF_SOME_MODELS.get(provider, ())}
    return frozenset(rules)


_OF_SOME_MODELS: Final[Mapping[Provider | None, tuple[RuleId, ...]]] = {
    # Not Gemini alone is called by chat messages; OpenAI itself takes an id again in a later turn, DeepSeek and Moonshot do not.
    "openai_chat": ("unsigned_call", "duplicate_call"),
    "bedrock": ("unsigned_reasoning",),  # Nova and MiniMax sign nothing
}
"""The rules of a provider that hold for a known model only."""


_OF_NEEDED: Final[Mapping[Needed, RuleId]] = {
    "open turn": "missing_reasoning",
    "tool calls": "missing_reasoning",
    "first call": "unsigned_call",
}
_OF_FAMILIES: Final[frozenset[RuleId]] = frozenset({"stale_reasoning", *_OF_NEEDED.values()})
"""The rules that hold for some families of models only."""


def takes_call_id(provider: Provider | None, call_id: str) -> bool:
    """Return whether the provider accepts a tool call with this id; True for None, since client libraries rewrite ids."""
    pattern = _CALL_IDS.get(provider) if provider else None
    return pattern is None or pattern.fullmatch(call_id) is not None
