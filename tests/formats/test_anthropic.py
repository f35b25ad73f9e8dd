"""Anthropic messages: pieces of one message, blocks, and new messages."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from compaction_hooks.errors import ConfigurationError, FormatError
from compaction_hooks.formats import AnthropicFormat
from compaction_hooks.messages import Media, Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult, Usage
from compaction_hooks.testing import check_format
from tests.formats.samples import ANTHROPIC, IMAGE, IMAGE_HASH

FORMAT = AnthropicFormat()
PNG = {"type": "base64", "media_type": "image/png", "data": IMAGE}
MIXED = ANTHROPIC[3]


def read(message: dict[str, Any]) -> Message:
    (piece,) = FORMAT.read(message)
    return piece


def test_keeps_the_contract_of_a_format() -> None:
    """User, assistant and tool results with all they hold."""
    check_format(FORMAT, ANTHROPIC)


@pytest.mark.parametrize(
    ("block", "part"),
    [
        pytest.param({"type": "text", "text": "hi", "cache_control": {}}, Text("hi"), id="text"),
        pytest.param({"type": "text", "text": ""}, Text(""), id="empty-text"),
        pytest.param({"type": "image", "source": PNG}, Media("image/png", IMAGE_HASH), id="image"),
        pytest.param(
            {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
            Media("image", "https://example.org/a.png", is_reference=True),
            id="image-url",
        ),
        pytest.param(
            {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
            Media("image", "file_1", is_reference=True),
            id="image-file",
        ),
        pytest.param(
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": IMAGE}},
            Media("application/pdf", IMAGE_HASH),
            id="pdf",
        ),
        pytest.param(
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "plain"}},
            Text("plain"),
            id="plain-document-counts-by-its-length",
        ),
        pytest.param({"type": "image"}, Opaque("image", '{"type":"image"}'), id="image-without-source"),
        pytest.param(
            {"type": "tool_use", "id": "a"}, Opaque("tool_use", '{"type":"tool_use","id":"a"}'), id="users-call"
        ),
        pytest.param({"type": "new", "v": "ü"}, Opaque("new", '{"type":"new","v":"ü"}', content="ü"), id="unknown"),
    ],
)
def test_reads_each_block_of_a_user(block: dict[str, Any], part: Part) -> None:
    """Images are known as such, by the same hash as in the other formats."""
    assert read({"role": "user", "content": [block]}).parts == (part,)


@pytest.mark.parametrize(
    ("block", "part"),
    [
        pytest.param({"type": "thinking", "thinking": "hm", "signature": "c2ln"}, Thinking("hm", 4), id="thinking"),
        pytest.param({"type": "thinking", "thinking": "", "signature": ""}, Thinking(""), id="empty-thinking"),
        pytest.param({"type": "redacted_thinking", "data": "eHh4eA=="}, Thinking("", 8), id="redacted"),
        pytest.param(
            {"type": "tool_use", "id": "a", "name": "read", "input": {"path": "ü", "n": 1}},
            ToolCall("a", "read", '{"path":"ü","n":1}'),
            id="call",
        ),
        pytest.param(
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
            Opaque(
                "server_tool_use",
                '{"type":"server_tool_use","id":"s","name":"web_search","input":{}}',
                "s",
                "web_search",
            ),
            id="server-call",
        ),
        pytest.param(
            {"type": "mcp_tool_result", "tool_use_id": "m"},
            Opaque("mcp_tool_result", '{"type":"mcp_tool_result","tool_use_id":"m"}', "m"),
            id="mcp-result",
        ),
        pytest.param(
            {"type": "compaction", "content": "before"},
            Opaque("compaction", '{"type":"compaction","content":"before"}', content="before"),
            id="anthropics-own-compaction",
        ),
        pytest.param(
            {"type": "tool_result", "tool_use_id": "a"},
            Opaque("tool_result", '{"type":"tool_result","tool_use_id":"a"}'),
            id="assistants-result",
        ),
    ],
)
def test_reads_each_block_of_the_assistant(block: dict[str, Any], part: Part) -> None:
    assert read({"role": "assistant", "content": [block]}).parts == (part,)


def test_results_and_the_users_words_in_one_message_are_two_pieces() -> None:
    """A user message that mixes tool results and text is read as both, in their order."""
    tool, user = FORMAT.read(MIXED)
    assert (tool.role, user.role) == ("tool", "user")
    assert tool.results == (
        ToolResult("toolu_1", "import b"),
        ToolResult("toolu_2", "no such file", is_error=True, media=(Media("image/png", IMAGE_HASH),)),
    )
    assert user.parts == (Text("Go on, "), Text("please."))


def test_pieces_stand_in_the_order_of_the_blocks() -> None:
    text = {"type": "text", "text": "first"}
    result = {"type": "tool_result", "tool_use_id": "a", "content": "ok"}
    pieces = FORMAT.read({"role": "user", "content": [text, result, text, result]})
    assert [piece.role for piece in pieces] == ["user", "tool", "user", "tool"]


@pytest.mark.parametrize("content", ["", None, []], ids=["empty", "null", "list"])
def test_empty_content_is_one_piece_without_parts(content: object) -> None:
    assert read({"role": "user", "content": content}).parts == ()


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param("ok", "ok", id="text"),
        pytest.param(None, "", id="null"),
        pytest.param([{"type": "text", "text": "o"}, {"type": "text", "text": "k"}], "ok", id="list"),
        pytest.param(
            [{"type": "search_result", "title": "t"}], '{"type":"search_result","title":"t"}', id="unknown-block"
        ),
    ],
)
def test_reads_the_text_of_a_result(content: object, text: str) -> None:
    (result,) = read(
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": content}]}
    ).results
    assert result.text == text


def test_reads_what_the_provider_reported() -> None:
    """Anthropic's input count excludes the tokens read from and written to the cache."""
    message = read(ANTHROPIC[2])
    assert message.usage == Usage(input_tokens=125, output_tokens=9, cache_read_tokens=100, cache_write_tokens=5)
    assert message.model == "claude-opus-4-5"
    assert message.stop_reason == "tool_calls"


def test_a_system_message_in_the_list_is_tolerated() -> None:
    assert read({"role": "system", "content": "Be brief."}) == Message(role="system", parts=(Text("Be brief."),))


def test_an_unknown_role_keeps_its_text() -> None:
    assert read({"role": "critic", "content": [{"type": "text", "text": "no"}]}) == Message(
        role="other", parts=(Text("no"),)
    )


@pytest.mark.parametrize(
    ("message", "names"),
    [
        pytest.param({"content": "hi"}, '"role"', id="no-role"),
        pytest.param({"role": "user", "content": {"type": "text"}}, '"content".*dict', id="content-is-a-dict"),
        pytest.param(None, "must be a dict, not NoneType", id="none"),
    ],
)
def test_a_foreign_message_is_refused_by_the_name_of_the_field(message: Any, names: str) -> None:
    with pytest.raises(FormatError, match=names):
        FORMAT.read(message)


@pytest.mark.parametrize("text", ["\ud83d half an emoji", "a\0b", "x" * 5_000_000], ids=["surrogate", "nul", "huge"])
def test_any_text_is_read_as_it_is(text: str) -> None:
    assert read({"role": "user", "content": text}).text == text
    call = {"type": "tool_use", "id": "a", "name": "f", "input": {"v": text}}
    assert read({"role": "assistant", "content": [call]}).calls


def test_taking_one_piece_keeps_its_blocks_as_they_are() -> None:
    """Cache marks stay, because the blocks are the same objects."""
    before = deepcopy(MIXED)
    results: Any = FORMAT.take(MIXED, [0])
    words: Any = FORMAT.take(MIXED, [1])
    assert before == MIXED
    assert results == {"role": "user", "x_turn": 2, "content": MIXED["content"][:2]}
    assert words == {"role": "user", "x_turn": 2, "content": MIXED["content"][2:]}
    assert all(one is other for one, other in zip(results["content"], MIXED["content"], strict=False))


def test_taking_all_pieces_gives_the_same_object() -> None:
    assert FORMAT.take(MIXED, [0, 1]) is MIXED


def test_taking_pieces_out_of_order_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="ascending indexes below 2"):
        FORMAT.take(MIXED, [1, 0])


def test_rewriting_a_result_touches_only_its_block() -> None:
    """A result given as a list keeps the cache mark of its blocks; media inside is dropped."""
    before = deepcopy(MIXED)
    made: Any = FORMAT.rewrite(MIXED, {(0, 1): "cut"})
    assert before == MIXED
    old, new = MIXED["content"], made["content"]
    assert new[1] == {
        **old[1],
        "content": [{"type": "text", "text": "cut", "cache_control": {"type": "ephemeral"}}],
    }
    assert [one is other for one, other in zip(old, new, strict=True)] == [True, False, True, True]
    assert made["x_turn"] is MIXED["x_turn"]


def test_a_rewritten_text_result_stays_a_text_with_its_mark() -> None:
    made: Any = FORMAT.rewrite(MIXED, {(0, 0): "cut"})
    assert made["content"][0] == {**MIXED["content"][0], "content": "cut"}


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        pytest.param('{"path":"…"}', {"path": "…"}, id="object"),
        pytest.param('["a"]', {"arguments": '["a"]'}, id="list"),
        pytest.param("*** cut", {"arguments": "*** cut"}, id="no-json"),
        pytest.param("[" * 100_000, {"arguments": "[" * 100_000}, id="too-deep"),
    ],
)
def test_rewritten_arguments_are_always_an_object(text: str, arguments: dict[str, Any]) -> None:
    message = ANTHROPIC[2]
    made: Any = FORMAT.rewrite(message, {(0, 5): text})
    assert made["content"][5] == {**message["content"][5], "input": arguments}


def test_rewriting_a_text_touches_only_its_block_and_keeps_its_mark() -> None:
    """All else is the same object."""
    message = {"role": "user", "x": [1], "content": [*ANTHROPIC[1]["content"], "bare"]}
    before = deepcopy(message)
    document, bare = len(message["content"]) - 3, len(message["content"]) - 1
    made: Any = FORMAT.rewrite(message, {(0, 0): "cut", (0, document): "less", (0, bare): "least"})
    assert message == before
    assert made["content"][0] == {"type": "text", "text": "cut", "cache_control": {"type": "ephemeral"}}
    assert made["content"][document]["source"] == {"type": "text", "media_type": "text/plain", "data": "less"}
    assert made["content"][bare] == "least"
    kept = [number for number in range(bare) if number not in (0, document)]
    assert all(made["content"][number] is message["content"][number] for number in kept)
    assert made["x"] is message["x"]


def test_rewriting_a_text_content_and_a_text_beside_results() -> None:
    assert FORMAT.rewrite(ANTHROPIC[0], {(0, 0): "cut"}) == {**ANTHROPIC[0], "content": "cut"}
    made: Any = FORMAT.rewrite(MIXED, {(0, 0): "less", (1, 0): "cut"})
    assert [made["content"][0]["content"], made["content"][2]["text"]] == ["less", "cut"]
    assert made["content"][3] is MIXED["content"][3]


def test_rewriting_nothing_gives_the_same_object() -> None:
    assert FORMAT.rewrite(MIXED, {}) is MIXED


@pytest.mark.parametrize("address", [(1, 2), (2, 0), (0, 2)], ids=str)
def test_rewriting_anything_else_is_refused(address: tuple[int, int]) -> None:
    with pytest.raises(ConfigurationError, match="names no text, tool call or result"):
        FORMAT.rewrite(MIXED, {address: "cut"})


def test_a_summary_is_a_plain_user_message() -> None:
    assert FORMAT.summary("so far") == {"role": "user", "content": "so far"}
