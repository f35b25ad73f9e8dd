"""`OpenAIChatFormat(summary_fields={...})`: the host's own fields in the message of a summary."""

from typing import Any

import pytest

from compaction_hooks import CompactionController
from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat, OpenAIResponsesFormat
from tests.conversations import Scripted, talk

FORMATS: list[Any] = [OpenAIChatFormat, AnthropicFormat, OpenAIResponsesFormat]


@pytest.mark.parametrize("form", FORMATS)
def test_they_are_in_every_summary_and_in_no_other_message(form: Any) -> None:
    hooks = CompactionController[Any](
        context_window=8_192, format=form(summary_fields={"metadata": {"kind": "summary"}}), summarizer=Scripted()
    )
    view = hooks.transform_context_sync(talk(20))
    assert [message.get("metadata") for message in view] == [{"kind": "summary"}] + [None] * (len(view) - 1)
    plain = CompactionController[Any](context_window=8_192, format=form(), summarizer=Scripted())
    assert all("metadata" not in message for message in plain.transform_context_sync(talk(20)))
