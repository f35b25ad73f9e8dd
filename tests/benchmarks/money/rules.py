"""Published prompt-cache rules and prices, each with its source. Read on 2026-11-22."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRules:
    """One provider's cache for one model. Prices are US dollars for a million tokens, without batch or priority rates.

    Attributes:
        read: Input from the cache.
        write: Input written to the cache, instead of `input`; equal to `input` if writing costs nothing extra.
        minimum_tokens: A shorter prefix is never cached.
        step_tokens: The length of a cached prefix is a multiple of this.
        at_marks: Whether only prefixes that end at a mark of an earlier request are found; otherwise any common prefix is.
        marks_system: Whether the host marks the end of the system messages too, as Anthropic's own examples do.
        lookback_blocks: Number of content blocks before a mark that are searched for an earlier mark; None: all.
    """

    model: str
    input: float
    output: float
    read: float
    write: float
    minimum_tokens: int
    step_tokens: int = 1
    at_marks: bool = False
    marks_system: bool = False
    lookback_blocks: int | None = None


RULES: Final = (
    CacheRules(
        # From GPT-5.6 on: a mark that OpenAI sets itself at the end of the newest message, found again by exact match; writes
        # cost 1.25 times the input. A mark at the end of the system messages would have to be set by the host.
        # https://developers.openai.com/api/docs/guides/prompt-caching
        # https://developers.openai.com/api/docs/models/gpt-6.1-sol
        # https://github.com/openai/openai-openapi (PromptCacheOptionsParam: one implicit mark, no block lookback)
        model="gpt-6.1-sol",
        input=2.00,
        output=10.00,
        read=0.10,
        write=2.50,
        minimum_tokens=1024,
        at_marks=True,
    ),
    CacheRules(
        # Up to GPT-5.5: the longest known prefix, from 1,024 tokens in steps of 128; writing costs nothing.
        # https://openai.com/index/api-prompt-caching/
        # https://developers.openai.com/api/docs/models/gpt-5.5
        model="gpt-5.5",
        input=5.00,
        output=30.00,
        read=0.50,
        write=5.00,
        minimum_tokens=1024,
        step_tokens=128,
    ),
    CacheRules(
        # 5-minute entries: write 1.25, read 0.1 times the input; up to four marks; from each, the 20 blocks before it are searched.
        # https://platform.claude.com/docs/en/build-with-claude/prompt-caching
        # https://platform.claude.com/docs/en/models/sonnet-5/overview
        model="claude-sonnet-5",
        input=2.00,
        output=10.00,
        read=0.20,
        write=2.50,
        minimum_tokens=1024,
        at_marks=True,
        marks_system=True,
        lookback_blocks=20,
    ),
    CacheRules(
        # Implicit: common prefixes at a tenth of the price, writing costs nothing; "no cost saving guarantee".
        # https://ai.google.dev/gemini-api/docs/caching
        # https://ai.google.dev/gemini-api/docs/pricing (introductory rates to 2026-12-31; the ratios stay)
        model="gemini-3.8-flash",
        input=0.75,
        output=3.75,
        read=0.075,
        write=0.75,
        minimum_tokens=4096,
    ),
)
"""One current model of each provider, and OpenAI's rules before GPT-5.6, which many models in use still have."""
