"""Prices of models, from genai-prices if it is installed. Nothing is downloaded."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from compaction_hooks.tokens.windows import genai_prices_of, names_of


class Prices(NamedTuple):
    """The prices of one model, in US dollars per million tokens; of a short request, if long ones cost more.

    Attributes:
        input: Of input that is not read from the cache.
        cached_input: Of input that the provider reads from its cache; as `input` if it has no price of its own.
        output: Of the answer.
    """

    input: float
    cached_input: float
    output: float


@lru_cache(maxsize=1024)
def find_prices(model: str) -> Prices | None:
    """Return a model's prices at the time of the first call, by any of its names; None if no table that is installed has them."""
    found = (genai_prices_of(name, _prices) for name in names_of(model.strip().lower()))
    return next(filter(None, found), None)


def _prices(entry: Any) -> Prices:
    from datetime import UTC, datetime  # no call needs it before a trigger asks for prices

    listed = entry.get_prices(datetime.now(UTC))
    return Prices(
        input=_dollars(listed.input_mtok),
        cached_input=_dollars(getattr(listed, "cache_read_mtok", None) or listed.input_mtok),
        output=_dollars(listed.output_mtok),
    )


def _dollars(price: Any) -> float:
    """Return a price; of prices in tiers, that of the lowest."""
    return float(getattr(price, "base", price))
