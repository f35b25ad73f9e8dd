"""One conversation has one digest chain, whichever framework's messages it is written in: what the tests of all formats share."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from compaction_hooks import MessageFormat
from compaction_hooks.history import HistoryReader, OwnTexts
from compaction_hooks.messages import as_format
from compaction_hooks.view.texts import SUMMARY_MARKER
from tests.conversations import assistant, call, steps, system, talk, tool, user

Chat = Mapping[str, Any]

NO_JSON = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": '}}
NO_ARGUMENTS = {"id": "c1", "type": "function", "function": {"name": "now", "arguments": ""}}
IMAGES = [
    {"type": "image_url", "image_url": {"url": url}} for url in ("data:image/png;base64,aGk=", "https://a.org/a.png")
]

CONVERSATIONS = [
    pytest.param([system(), *talk(3), *steps(4)], id="turns and tool steps"),
    pytest.param(
        [
            user("Both."),
            assistant("Two.", call("c1", path="b", line=2), call("c2", path="a")),
            tool("c2", "second"),
            tool("c1", "first"),
            user("And?"),
            assistant("Done."),
        ],
        id="parallel calls answered out of order, and the user's next words",
    ),
    pytest.param(
        [user("Mend."), assistant(None, NO_JSON), tool("c1", "no JSON"), assistant("Sorry.")],
        id="a call whose arguments are no JSON",
    ),
    pytest.param(
        [
            user("Read."),
            assistant("", call("c1", path="a")),
            tool("c1", "no such file", is_error=True, status="error"),
            assistant("No."),
        ],
        id="a failed call",
    ),
    pytest.param(
        [user("When?"), assistant("", NO_ARGUMENTS), tool("c1", ""), assistant("It is late.")],
        id="a call without arguments and an empty result",
    ),
    pytest.param(
        [
            user("Grüße, 世界 🔧"),
            assistant("", call("c1", text='ü "quoted" \\ 世界', number=1.5, flags=[True, None])),
            tool("c1", "<b>&amp;</b>"),
            assistant("ok"),
        ],
        id="characters of every kind",
    ),
    pytest.param(
        [
            {"role": "user", "content": [{"type": "text", "text": "See"}, *IMAGES]},
            assistant("Two pictures."),
            user("Yes."),
        ],
        id="images",
    ),
]
"""Conversations as OpenAI chat dicts, to be converted into the framework's messages."""

HOSTED_CALLS: list[Chat] = [
    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "parser notes"}},
    {
        "type": "web_search_tool_result",
        "tool_use_id": "s1",
        "content": [{"type": "web_search_result", "title": "4.2", "url": "https://e.org", "encrypted_content": "Eq4B"}],
    },
    {"type": "mcp_tool_use", "id": "m1", "name": "find", "server_name": "tracker", "input": {"words": "parser"}},
    {"type": "mcp_tool_result", "tool_use_id": "m1", "is_error": False, "content": [{"type": "text", "text": "none"}]},
]
HOSTED: list[Chat] = [
    {"role": "user", "content": "Which release?"},
    {"role": "assistant", "content": [*HOSTED_CALLS, {"type": "text", "text": "4.2."}]},
    {"role": "user", "content": "Thanks."},
]
"""A conversation with tools that the provider ran, as Anthropic dicts: every framework's form of it has their chain."""


def chain(message_format: MessageFormat[Any], messages: Sequence[Any]) -> list[str | None]:
    """The digests before every run of a conversation."""
    history = HistoryReader(as_format(message_format), lambda _: 1, SUMMARY_MARKER).read(messages, OwnTexts())
    return [history.digest_before(run) for run in range(history.run_count)]
