"""The price of a fuller summary in every later call, next to that of reading a file once more: a table of docs/prompt-caches.md.

python -m tests.benchmarks.money.filling
"""

from compaction_hooks.replay.bills import Bill
from compaction_hooks.replay.prices import EXAMPLES, Prices
from tests.benchmarks.tables import print_table

FILLED = 1_400
"""Tokens that are filled in."""
CALLS = 25
"""Calls until the next compaction of recorded sessions: 3,963 to 164 at 64,000 tokens."""
CONTEXT, RESULT, CALL = 30_000, 1_500, 100
"""Tokens of the context in the middle between two compactions, of the result that is read once more, and of the call for it."""


def price_of_filling(prices: Prices) -> float:
    """Return the dollars of the tokens that are filled in, in one later call."""
    return prices.dollars(Bill(read=FILLED))


def price_of_reading(prices: Prices) -> float:
    """Return the dollars of one more call of the model and its tool's result; later calls read that result too."""
    return prices.dollars(Bill(read=CONTEXT, written=RESULT, output=CALL))


def main() -> None:
    columns = ("", f"{FILLED:,} tokens, one call", f"{CALLS} calls", "one repeated read", "calls for one read")
    rows = []
    for prices in EXAMPLES:
        filling, reading = price_of_filling(prices), price_of_reading(prices)
        rows.append(
            (prices.model, f"${filling:.5f}", f"${CALLS * filling:.4f}", f"${reading:.4f}", f"{reading / filling:.0f}")
        )
    print_table(columns, rows)


if __name__ == "__main__":
    main()
