"""Markdown tables."""

from collections.abc import Iterable, Sequence


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table with a left-aligned first column."""
    print(f"| {' | '.join(columns)} |\n|---|" + "--:|" * (len(columns) - 1))
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |", flush=True)


def digits(value: float | None, unit: float = 1) -> str:
    """Return a value in a unit with three digits, or all digits of its whole part; "-" for None."""
    if value is None:
        return "-"
    number = value / unit
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
