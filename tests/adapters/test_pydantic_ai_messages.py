"""`PydanticAIFormat`: every kind of part, the contract of a format, repair, and the same digests as OpenAI chat dicts."""

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from compaction_adapters.pydantic_ai import SUMMARY_KEY, PydanticAIFormat
from pydantic_ai import messages as ai
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, UserPromptPart
from pydantic_ai.usage import RequestUsage

from compaction_hooks import Message, Usage
from compaction_hooks.errors import ConfigurationError, FormatError
from compaction_hooks.formats import AnthropicFormat
from compaction_hooks.messages import Media, NativeSummary, Opaque, Text, Thinking, ToolCall, ToolResult
from compaction_hooks.repair import INTERRUPTED, NO_WORDS, repaired
from compaction_hooks.testing import check_format
from tests.adapters import repair_dialects
from tests.adapters.pydantic_ai_messages import stored
from tests.adapters.repair_dialects import check_broken_histories, check_same_chain, check_whole_histories
from tests.adapters.same_chain import HOSTED, HOSTED_CALLS, chain
from tests.cases import folded
from tests.repairs import Dialect

FORMAT = PydanticAIFormat()
PIXELS = ai.BinaryContent(b"pixels", media_type="image/png")
LOW = ai.BinaryContent(b"pixels", media_type="image/png", vendor_metadata={"detail": "low"})
HASH = hashlib.sha256(b"pixels").hexdigest()
URL = "https://x.test/a"


def read(*parts: Any) -> tuple[Message, ...]:
    return FORMAT.read(ModelRequest(parts=list(parts)))


# -- the contract


def test_the_format_keeps_its_contract_before_and_after_a_store() -> None:
    messages: list[ModelMessage] = [
        ModelRequest(
            parts=[
                ai.SystemPromptPart("Be careful."),
                UserPromptPart(["look", ai.CachePoint(), ai.TextContent("closer", metadata={"a": 1}), PIXELS]),
            ],
            instructions="Never write.",
            run_id="r",
            conversation_id="c",
            metadata={"mine": True},
        ),
        ModelResponse(
            parts=[
                ai.ThinkingPart("hm", signature="sig"),
                ai.TextPart("ok", id="t", provider_name="openai"),
                ai.ToolCallPart("write", {"path": "a", "text": "x" * 500}, "1"),
                ai.ToolCallPart("read", '{"path": "b"}', "2"),
            ],
            usage=RequestUsage(input_tokens=120, output_tokens=4, cache_read_tokens=100),
            model_name="m",
            finish_reason="tool_call",
        ),
        ModelRequest(
            parts=[
                ai.ToolReturnPart("write", "done", "1", metadata={"mine": True}),
                ai.ToolReturnPart("read", ["a picture", PIXELS], "2", outcome="failed"),
                ai.ToolAvailabilityDeltaPart(tools_added=["search"]),
                UserPromptPart("and now?"),
            ]
        ),
        ModelRequest(parts=[ai.CompactionPart("before", metadata={"theirs": True}), UserPromptPart("go on")]),
        ModelResponse(parts=[ai.SpeechPart(speaker="assistant", transcript="spoken")]),
        ModelRequest(parts=[ai.SpeechPart(speaker="user", transcript="heard")]),
    ]
    check_format(FORMAT, messages)
    check_format(FORMAT, stored(messages))


def test_the_summary_is_a_marked_request_of_the_user() -> None:
    made = FORMAT.summary("before")
    assert [type(part) for part in made.parts] == [UserPromptPart]
    assert made.metadata == {SUMMARY_KEY: True}
    assert stored([made]) == [made]
    assert FORMAT.read(made) == (Message(role="user", parts=(Text("before"),), is_summary=True),)


def test_other_objects_and_parts_without_text_are_refused() -> None:
    with pytest.raises(FormatError, match="ModelRequest or ModelResponse, not dict"):
        FORMAT.read({"role": "user"})  # type: ignore[arg-type]  # wrong on purpose
    for message in (
        ModelRequest(parts=[ai.ToolAvailabilityDeltaPart(tools_added=["a"])]),
        ModelResponse(parts=[ai.ThinkingPart("hm")]),
    ):
        with pytest.raises(ConfigurationError, match=r"read\(\)"):
            FORMAT.rewrite(message, {(0, 0): "cut"})


def test_a_cache_point_stays_between_texts_that_are_shortened() -> None:
    mark = ai.CachePoint()
    prompt = UserPromptPart(["long", mark, PIXELS, ai.TextContent("tail", metadata=7)])
    (part,) = FORMAT.rewrite(ModelRequest(parts=[prompt]), {(0, 0): "cut", (0, 2): "end"}).parts
    assert isinstance(part, UserPromptPart)
    assert part.content == ["cut", mark, PIXELS, ai.TextContent("end", metadata=7)]
    assert part.content[1] is mark
    assert prompt.content == ["long", mark, PIXELS, ai.TextContent("tail", metadata=7)]


def test_a_cleared_result_of_a_typed_tool_is_a_plain_one() -> None:
    found = {"discovered_tools": [{"name": "send", "description": "Sends."}]}
    request = ModelRequest(parts=[ai.ToolReturnPart("search_tools", found, "1", tool_kind="tool-search")])
    made = FORMAT.rewrite(request, {(0, 0): "cleared"})
    assert type(request.parts[0]) is not ai.ToolReturnPart
    assert type(made.parts[0]) is ai.ToolReturnPart
    assert FORMAT.read(made)[0].results[0].text == "cleared"


# -- requests


def test_each_part_of_a_request_is_a_piece() -> None:
    pieces = read(ai.SystemPromptPart("s"), UserPromptPart("u"), ai.ToolReturnPart("t", "r", "1"), UserPromptPart("v"))
    said = [("system", "s"), ("user", "u"), ("tool", ""), ("user", "v")]
    assert [(piece.role, piece.text) for piece in pieces] == said
    assert FORMAT.read(ModelRequest(parts=[], instructions="Be brief.")) == (Message(role="other", parts=()),)


@folded(
    "item, media",
    {
        "bytes": (PIXELS, Media("image/png", HASH)),
        "bytes in low detail": (LOW, Media("image/png", HASH, low_detail=True)),
        "an image": (ai.ImageUrl(URL), Media("image", URL, True)),
        "a data URL": (ai.ImageUrl("data:image/png;base64,cGl4ZWxz"), Media("image/png", HASH)),
        "a document": (ai.DocumentUrl(URL), Media("application", URL, True)),
        "a sound": (ai.AudioUrl(URL), Media("audio", URL, True)),
        "a file": (ai.UploadedFile("f", "openai", media_type="image/png"), Media("image/png", "f", True)),
    },
)
def test_media_have_the_identity_that_they_have_in_other_formats(item: Any, media: Media) -> None:
    assert read(UserPromptPart(["see", item]))[0].parts == (Text("see"), media)
    assert read(ai.ToolReturnPart("look", ["seen", item], "1"))[0].results[0].media == (media,)


@folded(
    "content, outcome, text, is_error",
    [
        ("words", "success", "words", False),
        ({"a": [1, None]}, "success", '{"a":[1,null]}', False),
        (None, "success", "", False),
        (["a", "b"], "success", '["a","b"]', False),
        ("words", "failed", "words", True),
        ("words", "retried", "words", True),
        ("words", "denied", "words", True),
        ("words", "interrupted", "words", False),
    ],
)
def test_a_result_is_read_as_models_get_it(content: Any, outcome: Any, text: str, is_error: bool) -> None:
    assert read(ai.ToolReturnPart("t", content, "1", outcome=outcome))[0].results == (
        ToolResult("1", text, "t", is_error),
    )


def test_notes_of_the_framework_are_no_requests_of_the_user() -> None:
    """Only notes of what became available are kept as the system prompt is; it restates the others after a summary."""
    feedback = ai.RetryFeedbackPart("not that", retry=ai.RetryInfo("model_retry"))
    assert read(feedback) == (Message(role="other", parts=(Text(feedback.model_response()),)),)
    prompt = ai.SystemPromptPart("3 requests left", scope="request")
    assert read(prompt) == (Message(role="other", parts=(Opaque("system-prompt", "3 requests left"),)),)
    note = ai.InstructionBaselinePart(instructions=[])
    assert read(note) == (Message(role="other", parts=(Opaque("instruction-baseline", repr(note)),)),)
    available: list[Any] = [ai.ToolAvailabilityDeltaPart(tools_added=["weather"])]
    if hasattr(ai, "CapabilityLoadDeltaPart"):  # not in every version
        available.append(ai.CapabilityLoadDeltaPart(loaded=["climate"]))
    assert {piece.role for piece in read(*available)} == {"system"}


# -- responses


def test_a_response_is_one_piece() -> None:
    call = ai.NativeToolCallPart("web_search", {"query": "x"}, "n", provider_name="openai")
    found = ai.NativeToolReturnPart("web_search", {"hits": 1}, "n", provider_name="openai")
    signed = {"thought_signature": "c2ln"}
    read_as: list[tuple[Any, Any]] = [
        (ai.ThinkingPart("hm", signature="sig"), Thinking("hm", 3)),
        (ai.TextPart("Let me see."), Text("Let me see.")),
        (call, Opaque("builtin-tool-call", repr(call), name="web_search", content="x")),
        (found, Opaque("builtin-tool-return", repr(found), name="web_search", content="hits=1")),
        (ai.CompactionPart("kept", provider_name="anthropic"), NativeSummary("compaction", "kept", content="kept")),
        (ai.FilePart(PIXELS), Media("image/png", HASH)),
        (ai.ToolCallPart("t", {"a": "ü"}, "1"), ToolCall("1", "t", '{"a":"ü"}')),
        (ai.ToolCallPart("u", None, "2"), ToolCall("2", "u", "")),
        (ai.ToolCallPart("v", None, "3", provider_name="google", provider_details=signed), ToolCall("3", "v", "", 4)),
    ]
    (piece,) = FORMAT.read(ModelResponse(parts=[part for part, _ in read_as]))
    assert piece.role == "assistant"
    assert piece.parts == tuple(neutral for _, neutral in read_as)
    assert [part.opaque_chars for part in piece.calls] == [0, 0, 4]


@folded(
    "reason, state, neutral",
    [
        ("stop", "complete", "complete"),
        ("tool_call", "complete", "tool_calls"),
        ("length", "complete", "length"),
        ("content_filter", "complete", "error"),
        (None, "complete", None),
        ("stop", "interrupted", "aborted"),
        (None, "suspended", "aborted"),
    ],
)
def test_the_stop_reason_of_an_answer(reason: Any, state: Any, neutral: str | None) -> None:
    usage = RequestUsage(input_tokens=9)
    (piece,) = FORMAT.read(ModelResponse(parts=[], finish_reason=reason, state=state, usage=usage))
    assert piece.stop_reason == neutral
    assert (piece.usage is None) == (state != "complete")


CACHED = {"input_tokens": 120, "output_tokens": 4, "cache_read_tokens": 100, "cache_write_tokens": 10}


@folded(
    "usage, noted, unmeasured, wanted",
    {
        "cached tokens are inside the input": (CACHED, None, 0, CACHED),
        "no count": ({}, None, 0, None),
        "several requests": ({"input_tokens": 900}, 300, 0, {"input_tokens": 300}),
        "only a sum": ({"input_tokens": 900}, 0, 0, None),
        "left out by the provider": ({"input_tokens": 5}, None, 1, None),
    },
)
def test_usage_measures_the_context(usage: Any, noted: int | None, unmeasured: int, wanted: Any) -> None:
    """If a response took several requests, the framework notes the context of one."""
    counted = RequestUsage(**usage)
    counted.unmeasured_requests = unmeasured
    metadata = None if noted is None else {"__pydantic_ai__": {"context_input_tokens": noted}}
    (piece,) = FORMAT.read(ModelResponse(parts=[], usage=counted, metadata=metadata))
    assert piece.usage == (Usage(**wanted) if wanted else None)


# -- digests


def test_tools_that_the_provider_ran_have_the_chain_of_its_own_blocks() -> None:
    """As the framework's Anthropic model keeps them: an MCP call wrapped, results dumped with their empty fields."""
    wrapped = {"action": "call_tool", "tool_name": "find", "tool_args": {"words": "parser"}}
    page = {**HOSTED_CALLS[1]["content"][0], "page_age": None}
    told = {"content": [{"citations": None, "text": "none", "type": "text"}], "is_error": False}
    parts: list[Any] = [
        ai.NativeToolCallPart("web_search", {"query": "parser notes"}, "s1", provider_name="anthropic"),
        ai.NativeToolReturnPart("web_search", [page], "s1", provider_name="anthropic"),
        ai.NativeToolCallPart("mcp_server:tracker", wrapped, "m1", provider_name="anthropic"),
        ai.NativeToolReturnPart("mcp_server:tracker", told, "m1", provider_name="anthropic"),
        ai.TextPart("4.2."),
    ]
    asked, thanked = (ModelRequest(parts=[UserPromptPart(text)]) for text in ("Which release?", "Thanks."))
    assert chain(FORMAT, [asked, ModelResponse(parts=parts), thanked]) == chain(AnthropicFormat(), HOSTED)


# -- repair

ASKED = ModelResponse([ai.ToolCallPart("read", {}, "a"), ai.ToolCallPart("read", {}, "b")])
BOTH = [ai.ToolReturnPart("read", "ok", "a"), ai.ToolReturnPart("read", "ok", "b")]


@pytest.mark.parametrize("check", [check_broken_histories, check_whole_histories, check_same_chain])
def test_histories(check: Callable[[Dialect], None]) -> None:
    check(repair_dialects.pydantic_ai())


def test_a_call_without_a_result_is_answered_as_interrupted() -> None:
    told = ModelRequest([BOTH[0], UserPromptPart("Go on.")])
    messages: list[ModelMessage] = [ModelRequest([UserPromptPart("hi")]), ASKED, told]
    after = repaired(messages, FORMAT)
    made = ai.ToolReturnPart("read", INTERRUPTED, "b", timestamp=ASKED.timestamp, outcome="interrupted")
    assert after == [*messages[:2], ModelRequest([made]), told]
    assert after[3] is told
    for message in (ModelResponse([ai.TextPart("so")]), messages[0]):
        with pytest.raises(ConfigurationError, match="names no tool call"):
            FORMAT.answer(message, (0, 0), "no")


def test_only_the_wrong_part_of_a_request_goes() -> None:
    kept: list[Any] = [*BOTH, UserPromptPart("Go on.")]
    told = ModelRequest([*BOTH, ai.ToolReturnPart("read", "?", "z"), UserPromptPart([]), kept[2]], run_id="r")
    messages: list[ModelMessage] = [ModelRequest([UserPromptPart("hi")]), ASKED, told]
    made = repaired(messages, FORMAT)[2]
    assert all(part is old for part, old in zip(made.parts, kept, strict=True))
    assert made.run_id == "r"


def test_blank_prompts_are_repaired() -> None:
    image = ai.ImageUrl("https://example.org/a.png")
    messages: list[ModelMessage] = [ModelRequest([UserPromptPart([" ", ai.CachePoint(), image])])]
    (part,) = repaired(messages, FORMAT)[0].parts
    assert isinstance(part, UserPromptPart)
    assert part.content == [ai.CachePoint(), image]
    empty: list[ModelMessage] = [ModelRequest([UserPromptPart("")])]
    once, again = (repaired(empty, FORMAT) for _ in range(2))
    assert once == again
    assert FORMAT.read(once[0])[0].text == NO_WORDS
