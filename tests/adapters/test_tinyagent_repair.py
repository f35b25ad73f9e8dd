"""A broken history of tinyagent's messages is mended."""

from __future__ import annotations

import pytest

pytest.importorskip("tinyagent")

from compaction_adapters.tinyagent.messages import TinyAgentFormat
from tinyagent.agent_types import (
    AgentMessage,
    AssistantMessage,
    CustomAgentMessage,
    TextContent,
    ToolCallContent,
    ToolResultMessage,
    UserMessage,
)

from compaction_hooks.errors import ConfigurationError
from compaction_hooks.repair import INTERRUPTED, repaired
from compaction_hooks.testing import check_format
from tests.adapters import repair_dialects
from tests.adapters.framework_repairs import check_broken_histories, check_whole_histories

DIALECT = repair_dialects.tinyagent()
FORMAT = TinyAgentFormat()
ASKED = AssistantMessage(content=[TextContent(text="so"), None, ToolCallContent(id="a", name="read", arguments={})])


def test_broken_histories_are_mended() -> None:
    check_broken_histories(DIALECT)


def test_whole_histories_come_back_themselves() -> None:
    check_whole_histories(DIALECT)


def test_the_contract_of_a_format_that_mends_holds() -> None:
    check_format(FORMAT, [DIALECT.user("hi"), *DIALECT.asks("so", [("a", 1)], True), *DIALECT.tells([("a", 1)]), ASKED])


def test_a_call_without_an_answer_gets_a_failed_result() -> None:
    messages: list[AgentMessage] = [UserMessage(content=[TextContent(text="hi")]), ASKED]
    after = repaired(messages, FORMAT)
    content: list[object] = [TextContent(text=INTERRUPTED)]
    assert after[:2] == messages
    assert isinstance(after[2], ToolResultMessage)
    assert (after[2].tool_call_id, after[2].tool_name, after[2].is_error) == ("a", "read", True)
    assert list(after[2].content) == content


def test_a_call_in_a_message_with_holes_is_renamed_in_its_place() -> None:
    made = FORMAT.rename(ASKED, {(0, 1): "b"})
    assert FORMAT.read(made)[0].calls[0].id == "b"
    assert FORMAT.read(FORMAT.drop(ASKED, [(0, 0)]))[0].parts == FORMAT.read(ASKED)[0].parts[1:]


def test_what_is_not_tinyagents_own_stays_as_it_is() -> None:
    note = CustomAgentMessage(role="note")
    assert FORMAT.drop(note, [(0, 0)]) is note
    assert FORMAT.rename(note, {(0, 0): "b"}) is note


def test_only_a_call_is_answered() -> None:
    with pytest.raises(ConfigurationError, match="names no tool call"):
        FORMAT.answer(ASKED, (0, 0), "no")
