"""`LangChainFormat`: all contents of langchain-core's messages, of any provider."""

import base64
import hashlib
import json
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import pytest
from compaction_adapters.langchain_core import LangChainFormat
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
    messages_from_dict,
    messages_to_dict,
)
from langchain_core.messages.tool import invalid_tool_call, tool_call, tool_call_chunk

from compaction_hooks import CompactionController, CompactionSettings, Usage
from compaction_hooks.errors import FormatError
from compaction_hooks.messages import Media, NativeSummary, Opaque, Text, Thinking, ToolCall, ToolResult
from compaction_hooks.testing import check_format
from tests.cases import folded
from tests.conversations import prose

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
    AIMessage([{"type": "tool_use", "id": "call_6", "name": "read", "input": {"path": "c.py"}}]),
    HumanMessage(
        [{"type": "tool_result", "tool_use_id": "call_6", "content": "c"}, {"type": "text", "text": "Go on."}]
    ),
    ChatMessage(content="Hm.", role="critic"),
]


def parts(message: BaseMessage) -> tuple[object, ...]:
    (piece,) = FORMAT.read(message)
    return piece.parts


def test_the_contract_of_a_format_holds() -> None:
    check_format(FORMAT, SAMPLES)


@folded(
    "message, role",
    [
        (SystemMessage("x"), "system"),
        (HumanMessage("x"), "user"),
        (AIMessage("x"), "assistant"),
        (AIMessageChunk(content="x"), "assistant"),
        (ToolMessage("x", tool_call_id="1"), "tool"),
        (FunctionMessage(content="x", name="f"), "other"),
        (ChatMessage(content="x", role="user"), "user"),
        (ChatMessage(content="x", role="developer"), "system"),
        (ChatMessage(content="x", role="assistant"), "assistant"),
        (ChatMessage(content="x", role="critic"), "other"),
        (BaseMessage(content="x", type="odd"), "other"),
    ],
)
def test_the_role_of_a_message(message: BaseMessage, role: str) -> None:
    assert [piece.role for piece in FORMAT.read(message)] == [role]


def at(media_type: str, reference: str) -> Media:
    return Media(media_type, reference, is_reference=True)


PNG = {"type": "image", "mime_type": "image/png"}
IMAGE = Media("image/png", PIXELS_HASH)
SOURCE = {"type": "base64", "data": PIXELS, "media_type": "image/png"}


@folded(
    "block, part",
    [
        ("words", Text("words")),
        ({"type": "text", "text": "words"}, Text("words")),
        ({"type": "text-plain", "text": "words"}, Text("words")),
        ({"type": "text-plain", "url": "https://x/a.txt"}, at("text/plain", "https://x/a.txt")),
        ({**PNG, "base64": PIXELS}, IMAGE),
        ({"type": "image", "url": "https://x/a.png"}, at("image", "https://x/a.png")),
        ({"type": "image", "file_id": "file-1"}, at("image", "file-1")),
        ({**PNG, "source_type": "base64", "data": PIXELS}, IMAGE),  # of langchain-core 0, as the next
        ({"type": "image", "source_type": "id", "id": "file-1"}, at("image", "file-1")),
        ({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXELS}"}}, IMAGE),  # of OpenAI
        ({"type": "image", "source": SOURCE}, IMAGE),  # of Anthropic
        ({"type": "media", "data": PIXELS, "mime_type": "image/png"}, IMAGE),  # of Google
        ({"type": "audio", "base64": PIXELS, "mime_type": "audio/wav"}, Media("audio/wav", PIXELS_HASH)),
        ({"type": "video", "url": "https://x/a.mp4"}, at("video", "https://x/a.mp4")),
        ({"type": "file", "base64": PIXELS, "mime_type": "application/pdf"}, Media("application/pdf", PIXELS_HASH)),
        (
            {"type": "file", "url": "https://x/a", "filename": "a.pdf"},
            replace(at("application", "https://x/a"), name="a.pdf"),
        ),
        ({"type": "file", "file_id": "f", "extras": {"filename": "a"}}, replace(at("application", "f"), name="a")),
        ({"type": "file", "file": {"file_id": "file-1"}}, at("application", "file-1")),  # of OpenAI
        ({"type": "document", "source": {"type": "text", "data": "paper"}}, Text("paper")),
        (
            {"type": "non_standard", "value": {"a": 1}},
            Opaque("non_standard", '{"type":"non_standard","value":{"a":1}}', content="a=1"),
        ),
        ({"type": "image"}, Opaque("image", '{"type":"image"}')),
    ],
)
def test_blocks_of_a_human_message(block: Any, part: object) -> None:
    assert parts(HumanMessage([block])) == (part,)


ITEM = {"type": "reasoning", "id": "rs_1", "summary": [{"text": "a"}, {"text": "b"}], "encrypted_content": "xyz"}


@folded(
    "block, part",
    [
        ({"type": "thinking", "thinking": "hm", "signature": "abc"}, Thinking("hm", 3)),
        ({"type": "redacted_thinking", "data": "abcd"}, Thinking("", 4)),
        ({"type": "reasoning", "reasoning": "hm"}, Thinking("hm")),
        ({"type": "reasoning", "reasoning": "hm", "extras": {"signature": "abc"}}, Thinking("hm", 3)),
        (ITEM, Thinking("a\nb", 3)),  # of OpenAI's Responses
        ({"type": "refusal", "refusal": "No."}, Text("No.")),
        (
            {"type": "server_tool_use", "id": "s", "name": "search"},
            Opaque("server_tool_use", '{"type":"server_tool_use","id":"s","name":"search"}', "s", "search"),
        ),
        (
            {"type": "server_tool_result", "tool_call_id": "s"},
            Opaque("server_tool_result", '{"type":"server_tool_result","tool_call_id":"s"}'),
        ),
        (
            {"type": "compaction", "content": "so far"},
            NativeSummary("compaction", '{"type":"compaction","content":"so far"}', content="so far"),
        ),
        (
            {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read", "arguments": "{}"},
            ToolCall("call_1", "read", "{}"),
        ),
    ],
)
def test_blocks_of_an_answer(block: Any, part: object) -> None:
    assert parts(AIMessage([block])) == (part,)


@folded(
    "kwargs, part",
    [
        ({"reasoning_content": "hm"}, Thinking("hm")),  # of DeepSeek, xAI, Groq and Ollama
        ({"reasoning": "hm"}, Thinking("hm")),
        ({"reasoning": ITEM}, Thinking("a\nb", 3)),
    ],
)
def test_reasoning_next_to_the_content(kwargs: dict[str, Any], part: object) -> None:
    assert parts(AIMessage("So.", additional_kwargs=kwargs)) == (part, Text("So."))


PATH = {"path": "a.py"}


@folded(
    "block, field",
    [
        ({"type": "tool_use", "id": "call_1", "name": "read", "input": PATH}, "input"),
        ({"type": "tool_call", "id": "call_1", "name": "read", "args": PATH}, "args"),
        (
            {"type": "function_call", "id": "fc", "call_id": "call_1", "name": "read", "arguments": json.dumps(PATH)},
            "arguments",
        ),
    ],
)
def test_a_call_that_the_content_repeats_is_one_call_and_is_rewritten_in_both_places(block: Any, field: str) -> None:
    """LangChain's ClearToolUsesEdit rewrites one of the two only, and the provider is sent the other."""
    message = AIMessage([{"type": "text", "text": "I look."}, block], tool_calls=[READ])
    assert parts(message) == (Text("I look."), ToolCall("call_1", "read", '{"path":"a.py"}'))
    made = FORMAT.rewrite(message, {(0, 1): '{"cleared":true}'})
    assert isinstance(made, AIMessage)
    assert made.tool_calls[0]["args"] == {"cleared": True}
    text, repeated = cast("list[Any]", made.content)
    assert text is message.content[0]
    arguments = repeated.pop(field)
    assert (json.loads(arguments) if field == "arguments" else arguments) == {"cleared": True}
    assert repeated == {key: value for key, value in block.items() if key != field}


def test_a_call_is_rewritten_wherever_raw_calls_and_chunks_repeat_it() -> None:
    raw = AIMessage("", additional_kwargs=SAMPLES[6].additional_kwargs)
    made = FORMAT.rewrite(raw, {(0, 1): '{"cleared":true}'})
    first, second = made.additional_kwargs["tool_calls"]
    assert first["function"]["arguments"] == '{"cleared":true}'
    assert second is raw.additional_kwargs["tool_calls"][1]
    chunk = FORMAT.rewrite(SAMPLES[9], {(0, 0): '{"cleared":true}'})
    for one in (chunk, *messages_from_dict(messages_to_dict([chunk]))):
        assert isinstance(one, AIMessageChunk)
        assert one.tool_calls == [tool_call(name="read", args={"cleared": True}, id="call_5")]
        assert all("cleared" in str(part["args"]) for part in one.tool_call_chunks)


def test_arguments_that_are_no_object_are_put_under_a_key() -> None:
    made = FORMAT.rewrite(AIMessage("", tool_calls=[READ]), {(0, 0): "[cleared]"})
    assert isinstance(made, AIMessage)
    assert made.tool_calls[0]["args"] == {"arguments": "[cleared]"}


def test_the_result_of_a_tool() -> None:
    assert parts(SAMPLES[4]) == (ToolResult("call_1", "import b", "read", is_error=True),)
    assert parts(SAMPLES[5]) == (ToolResult("call_2", "no such file", media=(Media("image/png", PIXELS_HASH),)),)


REFERENCE = {"type": "tool_reference", "tool_name": "weather"}
BY_ANTHROPIC = {
    "type": "tool_search_tool_result",
    "tool_use_id": "v",
    "content": {"type": "tool_search_tool_search_result", "tool_references": [REFERENCE]},
}
BY_OPENAI = {
    "type": "tool_search_output",
    "id": "v",
    "execution": "server",
    "tools": [{"type": "function", "name": "weather", "parameters": {}}],
}


def in_the_form_of_langchain(provider: str, block: dict[str, Any]) -> AIMessage:
    answer = AIMessage([block], response_metadata={"model_provider": provider})
    return AIMessage(cast("Any", answer.content_blocks))


@folded(
    "search",
    {
        "the host's own tool": [
            AIMessage("", tool_calls=[tool_call(name="search", args={}, id="v")]),
            ToolMessage([REFERENCE], tool_call_id="v"),
        ],
        "Anthropic": [AIMessage([BY_ANTHROPIC])],
        "OpenAI": [AIMessage([BY_OPENAI])],
        "Anthropic, standard blocks": [in_the_form_of_langchain("anthropic", BY_ANTHROPIC)],
        "OpenAI, standard blocks": [in_the_form_of_langchain("openai", BY_OPENAI)],
    },
)
def test_a_view_has_the_search_that_found_a_tool(search: list[BaseMessage]) -> None:
    messages: list[BaseMessage] = [HumanMessage("Port it."), *search]
    for n in range(40):
        asked = tool_call(name="weather", args={"day": n}, id=f"call_{n}")
        messages += [AIMessage("", tool_calls=[asked]), ToolMessage(prose(200), tool_call_id=f"call_{n}")]
    view = CompactionController(context_window=8_192, format=FORMAT).transform_context_sync(messages)
    assert len(view) < len(messages) - len(search)
    assert all(any(message is own for own in view) for message in search)


def test_a_rewritten_result_keeps_its_id_its_status_and_its_artifact() -> None:
    made = FORMAT.rewrite(SAMPLES[4], {(0, 0): "cut"})
    assert isinstance(made, ToolMessage)
    assert (made.content, made.status, made.tool_call_id) == ("cut", "error", "call_1")
    assert made.artifact is SAMPLES[4].artifact  # type: ignore[attr-defined] # a ToolMessage


def test_results_of_anthropic_inside_a_human_message_are_a_piece_of_their_own() -> None:
    result, words = FORMAT.read(SAMPLES[11])
    assert (result.role, result.parts) == ("tool", (ToolResult("call_6", "c"),))
    assert (words.role, words.parts) == ("user", (Text("Go on."),))
    assert FORMAT.take(SAMPLES[11], [1]).content == [{"type": "text", "text": "Go on."}]


# -- the call of an answer


@folded(
    "details, read, written",
    [
        ({"cache_read": 30, "cache_creation": 10}, 30, 10),
        ({"priority_cache_read": 30, "priority": 100}, 30, 0),  # with a service tier
        (
            {"cache_read": 30, "cache_creation": 0, "ephemeral_5m_input_tokens": 4, "ephemeral_1h_input_tokens": 6},
            30,
            10,
        ),
        ({}, 0, 0),
    ],
)
def test_usage_counts_the_cached_part_once(details: dict[str, int], read: int, written: int) -> None:
    """In langchain-core `input_tokens` is the whole input, whichever the provider."""
    metadata: Any = {"input_tokens": 100, "output_tokens": 7, "total_tokens": 107, "input_token_details": details}
    (piece,) = FORMAT.read(AIMessage("x", usage_metadata=metadata))
    assert piece.usage == Usage(input_tokens=100, output_tokens=7, cache_read_tokens=read, cache_write_tokens=written)


def test_usage_in_the_response_metadata_only_is_read() -> None:
    openai = {"token_usage": {"prompt_tokens": 9, "completion_tokens": 2}}
    anthropic = {"usage": {"input_tokens": 4, "output_tokens": 2, "cache_read_input_tokens": 5}}
    found = [FORMAT.read(AIMessage("x", response_metadata=one))[0].usage for one in (openai, anthropic, {})]
    assert found == [
        Usage(input_tokens=9, output_tokens=2),
        Usage(input_tokens=9, output_tokens=2, cache_read_tokens=5),
        None,
    ]


@folded(
    "metadata, reason",
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
)
def test_the_stop_reason_of_an_answer(metadata: dict[str, Any], reason: str | None) -> None:
    assert FORMAT.read(AIMessage("x", response_metadata=metadata))[0].stop_reason == reason


@pytest.mark.parametrize("key", ["model_name", "model"])
def test_the_model_of_an_answer(key: str) -> None:
    assert FORMAT.read(AIMessage("x", response_metadata={key: "gpt-5"}))[0].model == "gpt-5"


# -- summaries and wrong messages


def test_a_summary_is_marked_as_those_of_langchain_and_equal_ones_have_equal_ids() -> None:
    """A view must not change between calls: frontends and reducers know messages by their id."""
    summary = FORMAT.summary("## Goal\n- \ud800 lone")
    assert summary.additional_kwargs == {"lc_source": "summarization"}
    assert FORMAT.read(summary)[0].is_summary
    assert summary.id
    assert summary.id == FORMAT.summary("## Goal\n- \ud800 lone").id
    assert summary.id != FORMAT.summary("## Goal").id


def test_other_objects_are_refused() -> None:
    with pytest.raises(FormatError, match="RemoveMessage is an instruction to a reducer"):
        FORMAT.read(RemoveMessage(id="1"))
    with pytest.raises(FormatError, match="use convert_to_messages"):
        FORMAT.read({"role": "user", "content": "x"})  # type: ignore[arg-type] # a wrong message


def test_merge_user_messages_makes_one_message_of_a_summary_and_the_request_after_it() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    messages: list[BaseMessage] = []
    for n in range(20):
        asked: list[Any] = [{"type": "text", "text": f"Question {n}: {prose(200)}"}, image]
        messages += [HumanMessage(asked, id=f"asked-{n}"), AIMessage(prose(200), id=f"said-{n}")]
    before = [message.model_copy(deep=True) for message in messages]
    settings = CompactionSettings(merge_user_messages=True, keep_user_tokens=0)
    hooks = CompactionController(context_window=8_192, settings=settings, format=FORMAT)
    first, *kept = view = hooks.transform_context_sync(messages)
    assert hooks.state().compaction_count == 1
    assert not any(isinstance(one, HumanMessage) and isinstance(other, HumanMessage) for one, other in pairwise(view))
    assert [block["type"] for block in first.content if isinstance(block, dict)] == ["text", "text", "image_url"]
    assert "[Conversation summary]" in str(first.content)
    assert first.id == messages[-len(view)].id
    assert messages == before
    assert all(any(message is own for own in messages) for message in kept)
