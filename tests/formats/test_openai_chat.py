"""OpenAI chat messages: reading them, and writing the few new ones."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from compaction_hooks.errors import ConfigurationError, FormatError
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.messages import Media, Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult, Usage
from compaction_hooks.testing import check_format
from tests.formats.samples import CACHE_MARK, CHAT, DATA_URL, IMAGE, IMAGE_HASH

FORMAT = OpenAIChatFormat()


def read(message: dict[str, Any]) -> Message:
    (piece,) = FORMAT.read(message)
    return piece


def test_keeps_the_contract_of_a_format() -> None:
    """System, user, assistant and tool result messages with all they hold."""
    check_format(FORMAT, CHAT)


@pytest.mark.parametrize(
    ("role", "neutral"),
    [
        ("system", "system"),
        ("developer", "system"),
        ("user", "user"),
        ("assistant", "assistant"),
        ("tool", "tool"),
        ("function", "tool"),
        ("critic", "other"),
    ],
)
def test_reads_roles(role: str, neutral: str) -> None:
    assert read({"role": role, "content": "hello"}).role == neutral


def test_an_unknown_role_keeps_its_text() -> None:
    assert read({"role": "critic", "content": "I disagree."}).text == "I disagree."


@pytest.mark.parametrize("content", [pytest.param(None, id="null"), pytest.param([], id="list")])
def test_empty_content_gives_no_part(content: object) -> None:
    assert read({"role": "user", "content": content}).parts == ()


def test_an_empty_text_is_one_where_nothing_else_is_said() -> None:
    """OpenAI takes "" and refuses null: they must not read alike."""
    assert read({"role": "user", "content": ""}).parts == (Text(""),)
    assert read({"role": "assistant", "content": "", "reasoning_content": "hm"}).parts == (Thinking("hm"), Text(""))
    assert read({"role": "assistant", "content": "", "refusal": "no"}).parts == (Text("no"),)
    call = {"id": "a", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    assert read({"role": "assistant", "content": "", "tool_calls": [call]}).parts == (ToolCall("a", "read", "{}"),)
    message = {"role": "assistant", "content": "", "reasoning_content": "hm"}
    assert FORMAT.rewrite(message, {(0, 1): "cut"}) == {**message, "content": "cut"}


def test_a_missing_content_gives_no_part() -> None:
    assert read({"role": "assistant", "tool_calls": []}).parts == ()


@pytest.mark.parametrize(
    ("block", "part"),
    [
        pytest.param("a bare string", Text("a bare string"), id="string"),
        pytest.param({"type": "text", "text": "hi", "cache_control": {}}, Text("hi"), id="text"),
        pytest.param({"type": "text", "text": ""}, Text(""), id="empty-text"),
        pytest.param({"type": "refusal", "refusal": "no"}, Text("no"), id="refusal"),
        pytest.param(
            {"type": "image_url", "image_url": {"url": DATA_URL}}, Media("image/png", IMAGE_HASH), id="data-url"
        ),
        pytest.param({"type": "image_url", "image_url": DATA_URL}, Media("image/png", IMAGE_HASH), id="url-not-nested"),
        pytest.param(
            {"type": "image_url", "image_url": {"url": DATA_URL, "detail": "low"}},
            Media("image/png", IMAGE_HASH, low_detail=True),
            id="low-detail",
        ),
        pytest.param(
            {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "high"}},
            Media("image", "https://example.org/a.png", is_reference=True),
            id="reference",
        ),
        pytest.param(
            {"type": "input_audio", "input_audio": {"data": IMAGE, "format": "mp3"}},
            Media("audio/mp3", IMAGE_HASH),
            id="audio",
        ),
        pytest.param(
            {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{IMAGE}"}},
            Media("application/pdf", IMAGE_HASH),
            id="file-data-url",
        ),
        pytest.param(
            {"type": "file", "file": {"file_data": IMAGE}}, Media("application", IMAGE_HASH), id="file-base64"
        ),
        pytest.param(
            {"type": "file", "file": {"file_id": "file-1"}},
            Media("application", "file-1", is_reference=True),
            id="file-id",
        ),
        pytest.param({"type": "thinking", "thinking": "hm", "signature": "c2ln"}, Thinking("hm", 4), id="thinking"),
        pytest.param(
            {"type": "hologram", "depth": 3},
            Opaque("hologram", '{"type":"hologram","depth":3}', content="depth=3"),
            id="unknown",
        ),
        pytest.param({"type": "image_url"}, Opaque("image_url", '{"type":"image_url"}'), id="image-without-url"),
        pytest.param({"text": "typeless"}, Opaque("unknown", '{"text":"typeless"}', content="typeless"), id="no-type"),
        pytest.param({"type": ["text"]}, Opaque("unknown", '{"type":["text"]}'), id="type-is-no-string"),
        pytest.param(7, Opaque("int", "7", content="=7"), id="number"),
    ],
)
def test_reads_each_content_part(block: object, part: Part) -> None:
    """Media is known as such, by the hash of its bytes, so that it can be counted and replaced by a placeholder."""
    assert read({"role": "user", "content": [block]}).parts == (part,)


def test_bytes_that_are_not_base64_are_identified_by_their_text() -> None:
    one, same, other = (
        read(
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{body}"}}]}
        )
        for body in ("abc\ud800", "abc\ud800", "abd\ud800")
    )
    assert one == same
    assert one != other


def test_a_data_url_without_base64_is_identified_by_its_bytes() -> None:
    plain = read(
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/svg+xml,%3Csvg/%3E"}}]}
    )
    (part,) = plain.parts
    assert isinstance(part, Media)
    assert part.media_type == "image/svg+xml"
    assert not part.is_reference


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"extra_content": {"google": {"thought_signature": "c2ln"}}}, id="google"),
        pytest.param({"provider_specific_fields": {"thought_signature": "c2ln"}}, id="litellm"),
        pytest.param({"function": {"provider_specific_fields": {"thought_signature": "c2ln"}}}, id="litellm-function"),
        pytest.param({"id": "a__thought__c2ln"}, id="litellm-id"),
    ],
)
def test_reads_that_a_call_carries_a_thought_signature(fields: dict[str, Any]) -> None:
    bare: dict[str, Any] = {"id": "a", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    signed = {**bare, **fields, "function": {**bare["function"], **fields.get("function", {})}}
    sizes = [read({"role": "assistant", "tool_calls": [call]}).calls[0].opaque_chars for call in (bare, signed)]
    assert sizes == [0, 4]


def test_reads_calls_after_thinking_and_text_with_arguments_as_they_are() -> None:
    message = {
        "role": "assistant",
        "content": "Reading.",
        "reasoning_content": "hm",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "read", "arguments": '{"path": "ü"} '}},
            {"id": "b", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}},
            {"id": "c", "type": "function", "function": {"name": "list", "arguments": {"path": "ü"}}},
            {"id": "d", "type": "telepathy"},
        ],
    }
    assert read(message).parts == (
        Thinking("hm"),
        Text("Reading."),
        ToolCall("a", "read", '{"path": "ü"} '),
        ToolCall("b", "patch", "*** Begin"),
        ToolCall("c", "list", '{"path":"ü"}'),
        Opaque("telepathy", '{"id":"d","type":"telepathy"}'),
    )


@pytest.mark.parametrize(
    ("fields", "thinking"),
    [
        pytest.param({"reasoning_content": "hm"}, (Thinking("hm"),), id="deepseek"),
        pytest.param({"reasoning": "hm"}, (Thinking("hm"),), id="openrouter"),
        pytest.param({"reasoning_content": None}, (), id="null"),
        pytest.param(
            {
                "reasoning_content": "hm",
                "thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}],
            },
            (Thinking("hm", 4),),
            id="litellm-gives-both",
        ),
        pytest.param(
            {"thinking_blocks": [{"type": "redacted_thinking", "data": "eHh4"}]}, (Thinking("", 4),), id="redacted"
        ),
        pytest.param(
            {"reasoning": "hm", "reasoning_details": [{"type": "reasoning.encrypted", "data": "eHh4eA=="}]},
            (Thinking("", 8),),
            id="openrouter-encrypted",
        ),
    ],
)
def test_reads_reasoning_once(fields: dict[str, Any], thinking: tuple[Thinking, ...]) -> None:
    assert read({"role": "assistant", "content": None, **fields}).parts == thinking


def test_reads_a_refusal_as_text() -> None:
    assert read({"role": "assistant", "content": None, "refusal": "I cannot."}).parts == (Text("I cannot."),)


def test_reads_the_audio_of_an_answer_by_its_id() -> None:
    whole = {"id": "audio_1", "data": IMAGE, "expires_at": 1, "transcript": "Hello."}
    audio = Media("audio", "audio_1", is_reference=True)
    for sent in ({"id": "audio_1"}, whole):
        assert read({"role": "assistant", "content": None, "audio": sent}).parts == (audio,)
        assert read({"role": "assistant", "audio": sent}).parts == (audio,)
    assert read({"role": "assistant", "content": None, "audio": {"data": IMAGE}}).parts == (Media("audio", IMAGE_HASH),)
    assert (
        read({"role": "assistant", "content": None, "audio": None, "function_call": None, "refusal": None}).parts == ()
    )


def test_drops_audio_and_refusal_each_alone() -> None:
    message = {"role": "assistant", "content": "hi", "audio": {"id": "audio_1"}, "refusal": "no"}
    assert FORMAT.drop(message, [(0, 1)]) == {"role": "assistant", "content": "hi", "refusal": "no"}
    assert FORMAT.drop(message, [(0, 2)]) == {"role": "assistant", "content": "hi", "audio": {"id": "audio_1"}}
    assert FORMAT.rewrite(message, {(0, 2): "cut"}) == {**message, "refusal": "cut"}


def test_reads_the_legacy_call_and_its_result() -> None:
    call = read({"role": "assistant", "content": None, "function_call": {"name": "old", "arguments": "{}"}})
    result = read({"role": "function", "name": "old", "content": "42"})
    assert call.calls == (ToolCall("", "old", "{}"),)
    assert result.results == (ToolResult("", "42", "old"),)


@pytest.mark.parametrize(
    ("fields", "result"),
    [
        pytest.param({"content": "ok"}, ToolResult("a", "ok"), id="text"),
        pytest.param({"content": "ok", "name": "read"}, ToolResult("a", "ok", "read"), id="name"),
        pytest.param({"content": "no", "is_error": True}, ToolResult("a", "no", is_error=True), id="error"),
        pytest.param({"content": None}, ToolResult("a", ""), id="null"),
        pytest.param(
            {"content": [{"type": "text", "text": "o"}, {"type": "text", "text": "k"}]},
            ToolResult("a", "ok"),
            id="list",
        ),
        pytest.param(
            {"content": [{"type": "image_url", "image_url": {"url": DATA_URL}}]},
            ToolResult("a", "", media=(Media("image/png", IMAGE_HASH),)),
            id="image",
        ),
        pytest.param({"content": [{"type": "x"}]}, ToolResult("a", '{"type":"x"}'), id="unknown-block"),
        pytest.param({"content": {"type": "text", "text": "ok"}}, ToolResult("a", "ok"), id="single-block"),
        pytest.param({"content": {"ok": 1}}, ToolResult("a", '{"ok":1}'), id="object"),
    ],
)
def test_reads_a_result(fields: dict[str, Any], result: ToolResult) -> None:
    assert read({"role": "tool", "tool_call_id": "a", **fields}).parts == (result,)


def test_a_result_without_a_call_id_is_read_all_the_same() -> None:
    """Histories may be broken before us; `validity` says so, reading does not."""
    assert read({"role": "tool", "content": "ok"}).results == (ToolResult("", "ok"),)


def test_reads_what_the_provider_reported() -> None:
    """OpenAI's input count holds the cached part already."""
    message = read(
        {
            "role": "assistant",
            "content": "hi",
            "model": "gpt-5",
            "finish_reason": "length",
            "usage": {"prompt_tokens": 120, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 100}},
        }
    )
    assert message.usage == Usage(input_tokens=120, output_tokens=7, cache_read_tokens=100)
    assert message.model == "gpt-5"
    assert message.stop_reason == "length"


@pytest.mark.parametrize(
    ("usage", "read_as"),
    [
        pytest.param({"input_tokens": 9, "output_tokens": 1}, Usage(input_tokens=9, output_tokens=1), id="responses"),
        pytest.param(
            {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2}},
            Usage(input_tokens=9, cache_read_tokens=4, cache_write_tokens=2),
            id="responses-cached",
        ),
        pytest.param(
            {"prompt_tokens": 9, "cache_read_input_tokens": 4},
            Usage(input_tokens=9, cache_read_tokens=4),
            id="litellm-for-anthropic",
        ),
        pytest.param(
            {"input_tokens": 9, "cache_creation_input_tokens": 4},
            Usage(input_tokens=13, cache_write_tokens=4),
            id="anthropic-only-wrote-the-cache",
        ),
        pytest.param({"prompt_tokens": 0}, Usage(input_tokens=0), id="zero"),
        pytest.param({"prompt_tokens": -1}, None, id="negative"),
        pytest.param({"prompt_tokens": True}, None, id="boolean"),
        pytest.param({"prompt_tokens": "9"}, None, id="text"),
        pytest.param({"total_tokens": 9}, None, id="no-input"),
        pytest.param(None, None, id="null"),
        pytest.param(9, None, id="number"),
    ],
)
def test_reads_usage_leniently(usage: object, read_as: Usage | None) -> None:
    assert read({"role": "assistant", "content": "hi", "usage": usage}).usage == read_as


def test_an_unknown_finish_reason_is_none() -> None:
    assert read({"role": "assistant", "content": "hi", "finish_reason": "bored"}).stop_reason is None


@pytest.mark.parametrize("mark", ["is_compact_summary", "compaction_summary"])
def test_a_marked_summary_is_known(mark: str) -> None:
    assert read({"role": "user", "content": "so far", mark: True}).is_summary
    assert not read({"role": "user", "content": "so far", mark: "no"}).is_summary


@pytest.mark.parametrize(
    ("message", "names"),
    [
        pytest.param({"content": "hi"}, '"role"', id="no-role"),
        pytest.param({"role": None, "content": "hi"}, '"role"', id="null-role"),
        pytest.param({"role": ["user"], "content": "hi"}, '"role"', id="list-role"),
        pytest.param({"role": "user", "content": {"text": "hi"}}, '"content".*dict', id="content-is-a-dict"),
        pytest.param({"role": "assistant", "content": 7}, '"content".*int', id="content-is-a-number"),
        pytest.param("hi", "must be a dict, not str", id="a-string"),
    ],
)
def test_a_foreign_message_is_refused_by_the_name_of_the_field(message: Any, names: str) -> None:
    with pytest.raises(FormatError, match=names):
        FORMAT.read(message)


@pytest.mark.parametrize("text", ["\ud83d half an emoji", "a\0b", "x" * 5_000_000], ids=["surrogate", "nul", "huge"])
def test_any_text_is_read_as_it_is(text: str) -> None:
    """A half surrogate is the host's, it must not crash us."""
    assert read({"role": "user", "content": text}).text == text
    assert read({"role": "user", "content": [{"type": "odd", "v": text}]}).parts


def test_arguments_that_json_cannot_hold_are_still_read() -> None:
    deep: list[object] = ["innermost"]
    for _ in range(100_000):
        deep = [deep]
    circular: dict[str, object] = {"name": "loop"}
    circular["self"] = circular
    for arguments, holds in [(deep, "innermost"), (circular, "loop"), ({("a", 1): object}, "a 1")]:
        (call,) = read(
            {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": arguments}}]}
        ).calls
        assert holds in call.arguments


def test_a_summary_is_a_plain_user_message() -> None:
    assert FORMAT.summary("so far") == {"role": "user", "content": "so far"}


def test_taking_the_only_piece_gives_the_same_object() -> None:
    assert FORMAT.take(CHAT[4], [0]) is CHAT[4]


@pytest.mark.parametrize("pieces", [[], [1], [0, 0], [-1]], ids=str)
def test_taking_pieces_that_are_not_there_is_refused(pieces: list[int]) -> None:
    with pytest.raises(ConfigurationError, match="ascending indexes below 1"):
        FORMAT.take(CHAT[4], pieces)


def test_rewriting_calls_touches_only_the_named_ones() -> None:
    """Everything else of the message, marks and unknown fields included, is the same object."""
    message = CHAT[4]
    before = deepcopy(message)
    made = FORMAT.rewrite(message, {(0, 2): '{"path":"…"}'})
    assert message == before
    assert made["tool_calls"] == [
        message["tool_calls"][0],
        {**message["tool_calls"][1], "function": {"name": "read", "arguments": '{"path":"…"}'}},
    ]
    assert made["tool_calls"][0] is message["tool_calls"][0]
    assert {name for name in message if made[name] is not message[name]} == {"tool_calls"}


def test_rewriting_reaches_custom_and_legacy_calls() -> None:
    message = {
        "role": "assistant",
        "content": "hm",
        "tool_calls": [{"id": "a", "type": "custom", "custom": {"name": "patch", "input": "long"}, "x": 1}],
        "function_call": {"name": "old", "arguments": "{}", "y": 2},
    }
    made = FORMAT.rewrite(message, {(0, 1): "cut", (0, 2): '{"cut":1}'})
    assert made["tool_calls"] == [{"id": "a", "type": "custom", "custom": {"name": "patch", "input": "cut"}, "x": 1}]
    assert made["function_call"] == {"name": "old", "arguments": '{"cut":1}', "y": 2}


def test_a_rewritten_result_list_keeps_its_cache_mark_and_loses_its_media() -> None:
    """The mark stays although the block that bore it is gone."""
    mark = {"type": "ephemeral"}
    message = {
        "role": "tool",
        "tool_call_id": "a",
        "content": [
            {"type": "text", "text": "long", "x": 1},
            {"type": "image_url", "image_url": {"url": DATA_URL}, "cache_control": mark},
        ],
    }
    made = FORMAT.rewrite(message, {(0, 0): "cut"})
    assert made["content"] == [{"type": "text", "text": "cut", "x": 1, "cache_control": mark}]
    assert read(dict(made)).results == (ToolResult("a", "cut"),)


def test_a_rewritten_result_without_text_gets_a_text_block() -> None:
    message = {"role": "tool", "tool_call_id": "a", "content": [{"type": "image_url", "image_url": {"url": DATA_URL}}]}
    assert FORMAT.rewrite(message, {(0, 0): "cut"})["content"] == [{"type": "text", "text": "cut"}]


@pytest.mark.parametrize(
    ("message", "number", "changed"),
    [
        pytest.param({"role": "user", "content": "long", "x": 1}, 0, {"content": "cut"}, id="user"),
        pytest.param(
            {"role": "user", "content": [{"type": "text", "text": "long", "cache_control": CACHE_MARK}, "more"]},
            0,
            {"content": [{"type": "text", "text": "cut", "cache_control": CACHE_MARK}, "more"]},
            id="text part",
        ),
        pytest.param({"role": "user", "content": ["long"]}, 0, {"content": ["cut"]}, id="bare text in a list"),
        pytest.param(
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "long"}]},
            0,
            {"content": [{"type": "refusal", "refusal": "cut"}]},
            id="refusal part",
        ),
        pytest.param({"role": "assistant", "content": "", "refusal": "long"}, 0, {"refusal": "cut"}, id="refusal"),
        pytest.param(
            {"role": "assistant", "content": "long", "refusal": "no"},
            0,
            {"content": "cut"},
            id="content before refusal",
        ),
        pytest.param(
            {"role": "assistant", "content": "so", "refusal": "long"}, 1, {"refusal": "cut"}, id="refusal after content"
        ),
        pytest.param(CHAT[7], 2, {"content": "cut"}, id="after thinking and before calls"),
    ],
)
def test_rewriting_a_text_changes_one_field(message: dict[str, Any], number: int, changed: dict[str, Any]) -> None:
    """All else, marks included, stays."""
    before = deepcopy(message)
    made = FORMAT.rewrite(message, {(0, number): "cut"})
    assert made == {**message, **changed}
    assert message == before
    assert all(made[name] is message[name] for name in message if name not in changed)


def test_rewriting_a_text_and_a_call_at_once() -> None:
    made: Any = FORMAT.rewrite(CHAT[7], {(0, 2): "cut", (0, 3): "less"})
    assert (made["content"], made["tool_calls"][0]["custom"]["input"]) == ("cut", "less")


def test_rewriting_nothing_gives_the_same_object() -> None:
    assert FORMAT.rewrite(CHAT[4], {}) is CHAT[4]


@pytest.mark.parametrize("address", [(0, 0), (0, 9), (1, 0), (0, -1)], ids=str)
def test_rewriting_anything_else_is_refused(address: tuple[int, int]) -> None:
    with pytest.raises(ConfigurationError, match="names no text, tool call or result"):
        FORMAT.rewrite(CHAT[4], {address: "cut"})
