"""The number of generated examples of a test, in proportion to the size of the suite."""

from hypothesis import settings

from tests.conftest import FULL_EXAMPLES


def examples(full: int) -> settings:
    """Return settings with `full` examples in the full suite, and the usual share of them in the fast suite."""
    return settings(max_examples=max(1, full * settings().max_examples // FULL_EXAMPLES))
