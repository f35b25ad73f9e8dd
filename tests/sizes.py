"""How many generated examples a test has, in proportion to the size of the suite."""

from __future__ import annotations

from hypothesis import settings

from tests.conftest import FULL_EXAMPLES


def examples(full: int) -> settings:
    """Return settings of so many examples in the full suite, and the same share of them in the fast one that others have."""
    return settings(max_examples=max(1, full * settings().max_examples // FULL_EXAMPLES))
