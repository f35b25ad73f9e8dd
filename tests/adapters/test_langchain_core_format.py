"""`LangChainFormat`: langchain-core's messages with everything they can hold, whatever provider wrote it."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest
from compaction_adapters.langchain_core import LangChainFormat, without_response_ids
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages.tool import invalid_tool_call, tool_call, tool_call_chunk

from compaction_hooks import Usage
from compaction_hooks.errors import FormatError
from compaction_hooks.messages import Media, Opaque, Text, Thinking, ToolCall, ToolResult
from compaction_hooks.testing import check_format

FORMAT = LangChainFormat()
PIXELS = base64.b64encode(b"pixels").decode()
PIXELS_HASH = hashlib.sha256(b"pixels").hexdigest()
MARK = {"type": "ephemeral"}

READ = tool_call(name="read", args={"path": "a.py"}, id="call_1")
TOOL_USE = {"type": "tool_use", "id": "call_1", "name": "read", "input": {"path": "a.py"}, "cache_control": MARK}

SAMPLES: list[BaseMessage] = [
    SystemMessage("You mend parsers.", id="s"),
    HumanMessage("Mend it.", id="h", name="ada", additional_kwargs={"ticket": 7}),
    HumanMessage(
        [
            "See ",
            {"type": "text", "text": "this", "cache_control": MARK},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXELS}"}},
            {"type": "text-plain", "text": "a,b", "mime_type": "text/plain"},
            {"type": "document", "source": {"type": "text", "data": "a paper"}, "title": "t"},
        ]
    ),
    AIMessage(
        [
            {"type": "thinking", "thinking": "Look first.", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "eHh4eA=="},
            {"type": "text", "text": "I look.", "citations": []},
            TOOL_USE,
        ],
        id="a",
        tool_calls=[READ],
        usage_metadata={"input_tokens": 50, "output_tokens": 5, "total_tokens": 55},
        response_metadata={"stop_reason": "tool_use", "model_name": "claude-x"},
    ),
    ToolMessage("import b", tool_call_id="call_1", name="read", artifact={"lines": 1}, status="error"),
    ToolMessage(
        [{"type": "text", "text": "no such "}, "file", {"type": "image", "base64": PIXELS, "mime_type": "image/png"}],
        tool_call_id="call_2",
    ),
    AIMessage(
        "",
        additional_kwargs={
            "reasoning_content": "Two are needed.",
            "tool_calls": [
                {"id": "call_3", "type": "function", "function": {"name": "read", "arguments": '{"path": "b.py"}'}},
                {"id": "call_4", "type": "function", "function": {"name": "read", "arguments": '{"path": "c.py"}'}},
            ],
        },
    ),
    AIMessage("", tool_calls=[tool_call(name="read", args={}, id=None)]),
    AIMessage("Hm.", invalid_tool_calls=[invalid_tool_call(name="read", args='{"path":', id="call_4", error="cut")]),
    AIMessageChunk(content="", tool_call_chunks=[tool_call_chunk(name="read", args='{"a": 1}', id="call_5", index=0)]),
    AIMessage("", additional_kwargs={"function_call": {"name": "read", "arguments": "{}"}}),
    AIMessage([{"type": "tool_use", "id": "call_6", "name": "read", "input": {"path": "c.py"}}]),
    HumanMessage(
        [{"type": "tool_result", "tool_use_id": "call_6", "content": "c"}, {"type": "text", "text": "Go on."}]
    ),
    FunctionMessage(content="d", name="read"),
    ChatMessage(content="Hm.", role="critic"),
]


def parts(message: BaseMessage) -> tuple[object, ...]:
    (piece,) = FORMAT.read(message)
    return piece.parts


def test_the_contract_of_a_format_holds() -> None:
    """Messages with everything they can hold."""
    check_format(FORMAT, SAMPLES)


@pytest.mark.parametrize(
    ("message", "role"),
    [
        pytest.param(SystemMessage("x"), "system", id="system"),
        pytest.param(HumanMessage("x"), "user", id="human"),
        pytest.param(AIMessage("x"), "assistant", id="ai"),
        pytest.param(AIMessageChunk(content="x"), "assistant", id="ai chunk"),
        pytest.param(ToolMessage("x", tool_call_id="1"), "tool", id="tool"),
        pytest.param(FunctionMessage(content="x", name="f"), "tool", id="function"),
        pytest.param(ChatMessage(content="x", role="user"), "user", id="chat user"),
        pytest.param(ChatMessage(content="x", role="developer"), "system", id="chat developer"),
        pytest.param(ChatMessage(content="x", role="assistant"), "assistant", id="chat assistant"),
        pytest.param(ChatMessage(content="x", role="critic"), "other", id="chat critic"),
        pytest.param(BaseMessage(content="x", type="odd"), "other", id="of another kind"),
    ],
)
def test_who_speaks(message: BaseMessage, role: str) -> None:
    assert [piece.role for piece in FORMAT.read(message)] == [role]


@pytest.mark.parametrize(
    ("block", "part"),
    [
        pytest.param("words", Text("words"), id="a bare string"),
        pytest.param({"type": "text", "text": "words"}, Text("words"), id="text"),
        pytest.param({"type": "text-plain", "text": "words"}, Text("words"), id="plain text"),
        pytest.param(
            {"type": "text-plain", "url": "https://x/a.txt"},
            Media("text/plain", "https://x/a.txt", is_reference=True),
            id="plain text by url",
        ),
        pytest.param(
            {"type": "image", "base64": PIXELS, "mime_type": "image/png"}, Media("image/png", PIXELS_HASH), id="image"
        ),
        pytest.param(
            {"type": "image", "url": "https://x/a.png"},
            Media("image", "https://x/a.png", is_reference=True),
            id="image by url",
        ),
        pytest.param(
            {"type": "image", "file_id": "file-1"}, Media("image", "file-1", is_reference=True), id="image by file id"
        ),
        pytest.param(
            {"type": "image", "source_type": "base64", "data": PIXELS, "mime_type": "image/png"},
            Media("image/png", PIXELS_HASH),
            id="image of langchain-core 0",
        ),
        pytest.param(
            {"type": "image", "source_type": "id", "id": "file-1"},
            Media("image", "file-1", is_reference=True),
            id="image by id of langchain-core 0",
        ),
        pytest.param(
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXELS}", "detail": "low"}},
            Media("image/png", PIXELS_HASH, low_detail=True),
            id="image of OpenAI",
        ),
        pytest.param(
            {"type": "image", "source": {"type": "base64", "data": PIXELS, "media_type": "image/png"}},
            Media("image/png", PIXELS_HASH),
            id="image of Anthropic",
        ),
        pytest.param(
            {"type": "media", "data": PIXELS, "mime_type": "image/png"},
            Media("image/png", PIXELS_HASH),
            id="image of Google",
        ),
        pytest.param(
            {"type": "audio", "base64": PIXELS, "mime_type": "audio/wav"}, Media("audio/wav", PIXELS_HASH), id="audio"
        ),
        pytest.param(
            {"type": "input_audio", "input_audio": {"data": PIXELS, "format": "wav"}},
            Media("audio/wav", PIXELS_HASH),
            id="audio of OpenAI",
        ),
        pytest.param(
            {"type": "video", "url": "https://x/a.mp4"},
            Media("video", "https://x/a.mp4", is_reference=True),
            id="video",
        ),
        pytest.param(
            {"type": "file", "base64": PIXELS, "mime_type": "application/pdf"},
            Media("application/pdf", PIXELS_HASH),
            id="file",
        ),
        pytest.param(
            {"type": "file", "file": {"file_id": "file-1"}},
            Media("application", "file-1", is_reference=True),
            id="file of OpenAI",
        ),
        pytest.param({"type": "document", "source": {"type": "text", "data": "paper"}}, Text("paper"), id="document"),
        pytest.param(
            {"type": "non_standard", "value": {"a": 1}},
            Opaque("non_standard", '{"type":"non_standard","value":{"a":1}}', content="a=1"),
            id="non-standard",
        ),
        pytest.param({"type": "image"}, Opaque("image", '{"type":"image"}'), id="an image that is nowhere"),
    ],
)
def test_blocks_of_a_human_message(block: Any, part: object) -> None:
    assert parts(HumanMessage([block])) == (part,)


@pytest.mark.parametrize(
    ("block", "part"),
    [
        pytest.param({"type": "thinking", "thinking": "hm", "signature": "abc"}, Thinking("hm", 3), id="Anthropic"),
        pytest.param({"type": "redacted_thinking", "data": "abcd"}, Thinking("", 4), id="Anthropic, redacted"),
        pytest.param({"type": "reasoning", "reasoning": "hm"}, Thinking("hm"), id="standard"),
        pytest.param(
            {"type": "reasoning", "reasoning": "hm", "extras": {"signature": "abc"}}, Thinking("hm", 3), id="signed"
        ),
        pytest.param(
            {"type": "reasoning", "id": "rs_1", "summary": [{"text": "a"}, {"text": "b"}], "encrypted_content": "xyz"},
            Thinking("a\nb", 3),
            id="Responses",
        ),
        pytest.param({"type": "refusal", "refusal": "No."}, Text("No."), id="refusal"),
        pytest.param(
            {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {}},
            Opaque(
                "server_tool_use",
                '{"type":"server_tool_use","id":"srv","name":"web_search","input":{}}',
                "srv",
                "web_search",
            ),
            id="server tool of Anthropic",
        ),
        pytest.param(
            {"type": "server_tool_result", "tool_call_id": "srv", "status": "success"},
            Opaque("server_tool_result", '{"type":"server_tool_result","tool_call_id":"srv","status":"success"}'),
            id="standard server tool result",
        ),
        pytest.param(
            {"type": "compaction", "content": "sealed"},
            Opaque("compaction", '{"type":"compaction","content":"sealed"}', content="sealed"),
            id="the provider's own compaction",
        ),
        pytest.param(
            {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read", "arguments": "{}"},
            ToolCall("call_1", "read", "{}"),
            id="a call that only the content holds",
        ),
    ],
)
def test_blocks_of_an_answer(block: Any, part: object) -> None:
    assert parts(AIMessage([block])) == (part,)


@pytest.mark.parametrize(
    ("kwargs", "part"),
    [
        pytest.param({"reasoning_content": "hm"}, Thinking("hm"), id="DeepSeek, xAI, Groq, Ollama"),
        pytest.param({"reasoning": "hm"}, Thinking("hm"), id="a text"),
        pytest.param(
            {"reasoning": {"id": "rs_1", "summary": [{"text": "a"}], "encrypted_content": "xy"}},
            Thinking("a", 2),
            id="an item of Responses",
        ),
    ],
)
def test_reasoning_beside_the_content(kwargs: dict[str, Any], part: object) -> None:
    assert parts(AIMessage("So.", additional_kwargs=kwargs)) == (part, Text("So."))


@pytest.mark.parametrize(
    "block",
    [
        pytest.param({"type": "tool_use", "id": "call_1", "name": "read", "input": {"path": "a.py"}}, id="Anthropic"),
        pytest.param({"type": "tool_call", "id": "call_1", "name": "read", "args": {"path": "a.py"}}, id="standard"),
        pytest.param(
            {
                "type": "function_call",
                "id": "fc_9",
                "call_id": "call_1",
                "name": "read",
                "arguments": '{"path":"a.py"}',
            },
            id="Responses",
        ),
    ],
)
def test_a_call_that_the_content_repeats_is_one_call_and_is_rewritten_in_both_places(block: dict[str, Any]) -> None:
    """LangChain's ClearToolUsesEdit rewrites one of the two only, and the provider is sent the other."""
    message = AIMessage([{"type": "text", "text": "I look."}, block], tool_calls=[READ])
    assert parts(message) == (Text("I look."), ToolCall("call_1", "read", '{"path":"a.py"}'))
    made = FORMAT.rewrite(message, {(0, 1): '{"cleared":true}'})
    assert isinstance(made, AIMessage)
    assert isinstance(made.content, list)
    assert made.tool_calls[0]["args"] == {"cleared": True}
    assert made.content[0] is message.content[0]
    repeated = made.content[1]
    assert isinstance(repeated, dict)
    arguments = repeated.get("input") or repeated.get("args") or json.loads(repeated["arguments"])
    assert arguments == {"cleared": True}
    assert repeated["id"] == block["id"]


def test_a_call_is_rewritten_wherever_raw_calls_and_chunks_repeat_it() -> None:
    raw = AIMessage("", additional_kwargs=SAMPLES[6].additional_kwargs)
    made = FORMAT.rewrite(raw, {(0, 1): '{"cleared":true}'})
    first, second = made.additional_kwargs["tool_calls"]
    assert first["function"]["arguments"] == '{"cleared":true}'
    assert second is raw.additional_kwargs["tool_calls"][1]
    chunk = FORMAT.rewrite(SAMPLES[9], {(0, 0): '{"cleared":true}'})
    assert isinstance(chunk, AIMessageChunk)
    assert [one["args"] for one in chunk.tool_call_chunks] == ['{"cleared":true}']
    assert chunk.tool_calls[0]["args"] == {"cleared": True}


def test_arguments_that_are_no_object_are_put_under_a_key() -> None:
    made = FORMAT.rewrite(AIMessage("", tool_calls=[READ]), {(0, 0): "[cleared]"})
    assert isinstance(made, AIMessage)
    assert made.tool_calls[0]["args"] == {"arguments": "[cleared]"}


def test_what_a_tool_answered() -> None:
    assert parts(SAMPLES[4]) == (ToolResult("call_1", "import b", "read", is_error=True),)
    assert parts(SAMPLES[5]) == (ToolResult("call_2", "no such file", media=(Media("image/png", PIXELS_HASH),)),)


def test_a_rewritten_result_keeps_its_id_its_status_and_its_artifact() -> None:
    made = FORMAT.rewrite(SAMPLES[4], {(0, 0): "cut"})
    assert isinstance(made, ToolMessage)
    assert (made.content, made.status, made.tool_call_id) == ("cut", "error", "call_1")
    assert made.artifact is SAMPLES[4].artifact  # type: ignore[attr-defined] # a ToolMessage


def test_results_of_anthropic_inside_a_human_message_are_a_piece_of_their_own() -> None:
    result, words = FORMAT.read(SAMPLES[12])
    assert (result.role, result.parts) == ("tool", (ToolResult("call_6", "c"),))
    assert (words.role, words.parts) == ("user", (Text("Go on."),))
    assert FORMAT.take(SAMPLES[12], [1]).content == [{"type": "text", "text": "Go on."}]


# -- what an answer tells of its call


@pytest.mark.parametrize(
    ("details", "read", "written"),
    [
        pytest.param({"cache_read": 30, "cache_creation": 10}, 30, 10, id="plain"),
        pytest.param({"priority_cache_read": 30, "priority": 100}, 30, 0, id="a service tier before the key"),
        pytest.param(
            {"cache_read": 30, "cache_creation": 0, "ephemeral_5m_input_tokens": 4, "ephemeral_1h_input_tokens": 6},
            30,
            10,
            id="writes by lifetime",
        ),
        pytest.param({}, 0, 0, id="none"),
    ],
)
def test_usage_counts_the_cached_part_once(details: dict[str, int], read: int, written: int) -> None:
    """In langchain-core `input_tokens` is the whole input, whichever the provider."""
    metadata: Any = {"input_tokens": 100, "output_tokens": 7, "total_tokens": 107, "input_token_details": details}
    (piece,) = FORMAT.read(AIMessage("x", usage_metadata=metadata))
    assert piece.usage == Usage(input_tokens=100, output_tokens=7, cache_read_tokens=read, cache_write_tokens=written)


def test_usage_that_only_the_response_metadata_hold_is_read() -> None:
    openai = AIMessage("x", response_metadata={"token_usage": {"prompt_tokens": 9, "completion_tokens": 2}})
    anthropic = AIMessage(
        "x", response_metadata={"usage": {"input_tokens": 4, "output_tokens": 2, "cache_read_input_tokens": 5}}
    )
    assert FORMAT.read(openai)[0].usage == Usage(input_tokens=9, output_tokens=2)
    assert FORMAT.read(anthropic)[0].usage == Usage(input_tokens=9, output_tokens=2, cache_read_tokens=5)
    assert FORMAT.read(AIMessage("x"))[0].usage is None


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"finish_reason": "stop"}, "complete"),
        ({"finish_reason": "length"}, "length"),
        ({"finish_reason": "tool_calls"}, "tool_calls"),
        ({"finish_reason": "MAX_TOKENS"}, "length"),
        ({"stop_reason": "tool_use"}, "tool_calls"),
        ({"stop_reason": "model_context_window_exceeded"}, "window"),
        ({"done_reason": "length"}, "length"),
        ({"status": "completed"}, "complete"),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ({}, None),
    ],
    ids=str,
)
def test_why_an_answer_ended(metadata: dict[str, Any], reason: str | None) -> None:
    assert FORMAT.read(AIMessage("x", response_metadata=metadata))[0].stop_reason == reason


@pytest.mark.parametrize("key", ["model_name", "model"])
def test_which_model_answered(key: str) -> None:
    assert FORMAT.read(AIMessage("x", response_metadata={key: "gpt-5"}))[0].model == "gpt-5"


# -- the few messages that are made


def test_a_summary_is_marked_as_the_ecosystem_marks_them_and_equal_ones_have_equal_ids() -> None:
    """A view must not flip: frontends and reducers know messages by their id."""
    summary = FORMAT.summary("## Goal\n- \ud800 lone")
    assert summary.additional_kwargs == {"lc_source": "summarization"}
    assert FORMAT.read(summary)[0].is_summary
    assert summary.id
    assert summary.id == FORMAT.summary("## Goal\n- \ud800 lone").id
    assert summary.id != FORMAT.summary("## Goal").id


def test_answers_in_a_compacted_view_do_not_name_a_response_that_openai_keeps() -> None:
    """With `use_previous_response_id` the provider would go on from the history it keeps, and the summary never be sent."""
    kept = AIMessage("x", response_metadata={"id": "resp_1", "model_name": "gpt-5"})
    other = AIMessage("y", response_metadata={"id": "chatcmpl-1"})
    view = without_response_ids([kept, other])
    assert view[0].response_metadata == {"model_name": "gpt-5"}
    assert view[1] is other
    assert kept.response_metadata["id"] == "resp_1"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        pytest.param(RemoveMessage(id="1"), "RemoveMessage is an instruction to a reducer", id="an instruction"),
        pytest.param({"role": "user", "content": "x"}, "use convert_to_messages", id="a dict"),
    ],
)
def test_what_is_no_message_is_refused(message: Any, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        FORMAT.read(message)
