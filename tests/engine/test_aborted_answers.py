"""An answer that was aborted or failed is incomplete: the kept messages never begin with it."""

from __future__ import annotations

from typing import Any

import pytest

from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat
from tests.conversations import Scripted, assistant, controller, prose, user


@pytest.mark.parametrize(("form", "ending"), [(OpenAIChatFormat(), "aborted"), (AnthropicFormat(), "error")])
def test_the_kept_part_does_not_begin_with_an_aborted_answer(form: Any, ending: str) -> None:
    """The user interrupted the answer, and it is the nearest place to cut."""
    half = {"role": "assistant", "content": f"Half of {prose(300)}", "stop_reason": ending}
    whole = {"role": "assistant", "content": f"All of {prose(300)}", "stop_reason": "end_turn"}
    for answer, is_kept in ((half, False), (whole, True)):
        messages = [user(f"First. {prose(900)}"), assistant(prose(900)), user("Go on."), answer, user("No: stop that.")]
        hooks = controller(100_000, format=form, summarizer=Scripted())
        view = hooks.compact_sync(messages, keep_recent_tokens=150).messages
        assert len(view) < len(messages)
        assert (answer in view) is is_kept
