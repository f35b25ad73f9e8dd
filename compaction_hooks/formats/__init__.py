"""How providers' own messages are read: OpenAI chat (the default), Anthropic, OpenAI Responses."""

from compaction_hooks.formats.anthropic import AnthropicFormat
from compaction_hooks.formats.openai_chat import OpenAIChatFormat
from compaction_hooks.formats.openai_responses import OpenAIResponsesFormat

__all__ = ["AnthropicFormat", "OpenAIChatFormat", "OpenAIResponsesFormat"]
