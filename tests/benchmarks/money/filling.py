"""The price of a fuller summary in every later call, next to that of reading a file once more: a table of docs/prompt-caches.md.

python -m tests.benchmarks.money.filling
"""

from tests.benchmarks.money.strategies import RULES, CacheRules
from tests.benchmarks.tables import print_table

FILLED = 1_400
"""Tokens that are filled in."""
CALLS = 25
"""Calls until the next compaction of recorded sessions: 3,966 to 161 at 64,000 tokens."""
CONTEXT, RESULT, CALL = 30_000, 1_500, 100
"""Tokens of the context in the middle between two compactions, of the result that is read once more, and of the call for it."""


def price_of_filling(rules: CacheRules) -> float:
    """Return the dollars of the tokens that are filled in, in one later call."""
    return FILLED * rules.read / 1e6


def price_of_reading(rules: CacheRules) -> float:
    """Return the dollars of one more call of the model and its tool's result; later calls read that result too."""
    return (CONTEXT * rules.read + RESULT * rules.write + CALL * rules.output) / 1e6


def main() -> None:
    columns = ("", f"{FILLED:,} tokens, one call", f"{CALLS} calls", "one repeated read", "calls for one read")
    rows = []
    for rules in RULES:
        filling, reading = price_of_filling(rules), price_of_reading(rules)
        rows.append(
            (rules.model, f"${filling:.5f}", f"${CALLS * filling:.4f}", f"${reading:.4f}", f"{reading / filling:.0f}")
        )
    print_table(columns, rows)


if __name__ == "__main__":
    main()
