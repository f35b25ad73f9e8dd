"""What a request costs: the prices of the recorded model, or of four current ones.

Prices come from genai-prices if it is installed (the extra `cli` has it). Nothing is downloaded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from compaction_hooks.replay.bills import Bill, CacheRules
from compaction_hooks.tokens import names_of

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """The prices of one model, and its provider's cache.

    Attributes:
        dollars: Returns the price of one request in US dollars.
    """

    model: str
    rules: CacheRules
    dollars: Callable[[Bill], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Prices in US dollars for a million tokens, without batch or priority rates.

    Attributes:
        read: Input from the cache.
        write: Input written to the cache, instead of `input`; equal to `input` if writing costs nothing extra.
    """

    input: float
    output: float
    read: float
    write: float

    def dollars(self, bill: Bill) -> float:
        """Return the price of these tokens in dollars."""
        price = bill.read * self.read + bill.written * self.write + (bill.plain + bill.asked) * self.input
        return (price + (bill.output + bill.summaries) * self.output) / 1e6


_OPENAI: Final = CacheRules(minimum_tokens=1024, step_tokens=128)
"""Up to GPT-5.5: the longest known prefix, from 1,024 tokens in steps of 128; writing costs nothing.
https://openai.com/index/api-prompt-caching/"""
_OPENAI_MARKS: Final = CacheRules(minimum_tokens=1024, at_marks=True)
"""From GPT-5.6 on: a mark that OpenAI sets itself at the end of the newest message, found again by exact match; writes cost 1.25
times the input. A mark at the end of the system messages would have to be set by the host.
https://developers.openai.com/api/docs/guides/prompt-caching
https://github.com/openai/openai-openapi (PromptCacheOptionsParam: one implicit mark, no block lookback)"""
_ANTHROPIC: Final = CacheRules(minimum_tokens=1024, at_marks=True, marks_system=True, lookback_blocks=20)
"""5-minute entries: write 1.25, read 0.1 times the input; up to four marks; from each, the 20 blocks before it are searched.
https://platform.claude.com/docs/en/build-with-claude/prompt-caching"""
_GOOGLE: Final = CacheRules(minimum_tokens=4096)
"""Implicit: common prefixes at a tenth of the price, writing costs nothing; "no cost saving guarantee".
https://ai.google.dev/gemini-api/docs/caching"""
_OTHERS: Final = CacheRules(minimum_tokens=1024, step_tokens=64)
"""The longest known prefix, in blocks of 64 tokens, as DeepSeek does (https://api-docs.deepseek.com/guides/kv_cache)."""


def _example(model: str, rules: CacheRules, rates: Rates) -> Prices:
    return Prices(model=model, rules=rules, dollars=rates.dollars)


EXAMPLES: Final = (
    # https://developers.openai.com/api/docs/models/gpt-6.1-sol
    _example("gpt-6.1-sol", _OPENAI_MARKS, Rates(input=2.00, output=10.00, read=0.10, write=2.50)),
    # https://developers.openai.com/api/docs/models/gpt-5.5
    _example("gpt-5.5", _OPENAI, Rates(input=5.00, output=30.00, read=0.50, write=5.00)),
    # https://platform.claude.com/docs/en/models/sonnet-5/overview
    _example("claude-sonnet-5", _ANTHROPIC, Rates(input=2.00, output=10.00, read=0.20, write=2.50)),
    # https://ai.google.dev/gemini-api/docs/pricing (introductory rates to 2026-12-31; the ratios stay)
    _example("gemini-3.8-flash", _GOOGLE, Rates(input=0.75, output=3.75, read=0.075, write=0.75)),
)
"""One current model of each provider, and OpenAI's rules before GPT-5.6, which many models in use have. Prices of 2026-11-22."""


_GPT: Final = re.compile(r"\b(?:gpt-(\d{1,2})(?:\.(\d{1,2}))?|chatgpt|codex|o\d)\b")


@lru_cache(maxsize=256)
def find_prices(model: str | None) -> Prices | None:
    """Return the prices of a model at the time of the first call, as far as genai-prices is installed and knows it.

    A provider in front ("openai/", "anthropic:", "us.anthropic.") and a variant behind it are left out if the full name is unknown.
    """
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ModuleNotFoundError:
        return None

    snapshot = get_snapshot()
    for name in names_of((model or "").strip().lower()):
        try:
            _, found = snapshot.find_provider_model(name, None, None, None)
        except LookupError:
            continue

        rates = found.get_prices(datetime.now(UTC))
        # A few entries, such as those of models that are no longer served, have no price of a token.
        if rates.input_mtok is not None and rates.output_mtok is not None:
            return Prices(model=found.id, rules=_rules_of(found.id), dollars=_make_dollars(rates))

    return None


def _rules_of(model: str) -> CacheRules:
    """Return the rules of the cache for a family of models, whoever serves them."""
    if "claude" in model:
        return _ANTHROPIC
    if "gemini" in model:
        return _GOOGLE
    if found := _GPT.search(model):
        is_new = found[1] is not None and (int(found[1]), int(found[2] or 0)) >= (5, 6)
        return _OPENAI_MARKS if is_new else _OPENAI
    return _OTHERS


def _make_dollars(rates: ModelPrice) -> Callable[[Bill], float]:
    """Return a function that prices one request in dollars; genai-prices knows if a long one is dearer as a whole."""
    from genai_prices import Usage

    def dollars(bill: Bill) -> float:
        whole = bill.read + bill.written + bill.plain + bill.asked
        if not whole + bill.output + bill.summaries:
            return 0.0

        # What is cached costs as the rest of the input if the model has no price of its own for it.
        usage = Usage(
            input_tokens=whole,
            cache_read_tokens=bill.read if rates.cache_read_mtok is not None else 0,
            cache_write_tokens=bill.written if rates.cache_write_mtok is not None else 0,
            output_tokens=bill.output + bill.summaries,
        )
        return float(rates.calc_price(usage)["total_price"])

    return dollars
