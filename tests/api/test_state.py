"""`session.state()`: how full the context is."""

from compaction_hooks import Usage
from tests.conversations import controller, system, talk


def test_before_the_first_call_only_the_window_is_known() -> None:
    state = controller(8_000).state()
    assert (state.context_tokens, state.fraction, state.context_window) == (None, None, 8_000)


def test_the_fraction_is_the_part_of_the_window_that_the_context_takes() -> None:
    hooks = controller(8_000)
    hooks.transform_context_sync([system(), *talk(2)])
    hooks.report_usage(Usage(input_tokens=2_000, output_tokens=5))
    state = hooks.state()
    assert (state.context_tokens, state.is_estimate, state.fraction) == (2_000, False, 0.25)
