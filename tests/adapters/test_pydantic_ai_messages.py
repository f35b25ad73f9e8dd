"""`PydanticAIFormat`: every kind of part, the contract of a format, and the same digests as OpenAI chat dicts."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

from compaction_adapters.pydantic_ai import SUMMARY_KEY, PydanticAIFormat
from pydantic_ai import messages as framework
from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    CachePoint,
    CompactionPart,
    DocumentUrl,
    FilePart,
    ImageUrl,
    InstructionBaselinePart,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    RetryFeedbackPart,
    RetryInfo,
    SpeechPart,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolAvailabilityDeltaPart,
    ToolCallPart,
    ToolReturnPart,
    UploadedFile,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

from compaction_hooks import CompactionController, Message, Usage
from compaction_hooks.errors import ConfigurationError, FormatError
from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat
from compaction_hooks.messages import Media, Opaque, Text, Thinking, ToolCall, ToolResult
from compaction_hooks.testing import check_format
from tests.adapters.pydantic_ai_messages import from_chat
from tests.adapters.same_chain import CONVERSATIONS, HOSTED, HOSTED_CALLS, chain
from tests.conversations import system, talk
from tests.data import needs_data, sessions

PIXELS_HASH = hashlib.sha256(b"pixels").hexdigest()
PIXELS = BinaryContent(b"pixels", media_type="image/png")


def read(*parts: Any) -> tuple[Message, ...]:
    return PydanticAIFormat().read(ModelRequest(parts=list(parts)))


# -- the contract


def everything() -> list[ModelMessage]:
    """Messages with everything they can hold that a view could change."""
    return [
        ModelRequest(
            parts=[
                SystemPromptPart("Be careful."),
                UserPromptPart(["look", CachePoint(), TextContent("closer", metadata={"a": 1}), PIXELS]),
            ],
            instructions="Never write.",
            run_id="r",
            conversation_id="c",
            metadata={"mine": True},
        ),
        ModelResponse(
            parts=[
                ThinkingPart("hm", signature="sig"),
                TextPart("ok", id="t", provider_name="openai"),
                ToolCallPart("write", {"path": "a", "text": "x" * 500}, "1"),
                ToolCallPart("read", '{"path": "b"}', "2"),
            ],
            usage=RequestUsage(input_tokens=120, output_tokens=4, cache_read_tokens=100),
            model_name="m",
            finish_reason="tool_call",
        ),
        ModelRequest(
            parts=[
                ToolReturnPart("write", "done", "1", metadata={"mine": True}),
                ToolReturnPart("read", ["a picture", PIXELS], "2", outcome="failed"),
                ToolAvailabilityDeltaPart(tools_added=["search"]),
                UserPromptPart("and now?"),
            ]
        ),
        ModelRequest(parts=[CompactionPart("what was", metadata={"theirs": True}), UserPromptPart("go on")]),
        ModelResponse(parts=[SpeechPart(speaker="assistant", transcript="spoken")]),
        ModelRequest(parts=[SpeechPart(speaker="user", transcript="heard")]),
    ]


def test_the_format_keeps_its_contract() -> None:
    """A request with several speakers gives several pieces; `take` and `rewrite` keep the part objects."""
    check_format(PydanticAIFormat(), everything())


def test_the_contract_holds_after_a_store() -> None:
    stored = ModelMessagesTypeAdapter.dump_json(everything())
    check_format(PydanticAIFormat(), ModelMessagesTypeAdapter.validate_json(stored))


def test_the_summary_is_a_marked_request_in_the_users_voice() -> None:
    made = PydanticAIFormat().summary("what was")
    assert isinstance(made, ModelRequest)
    assert [type(part) for part in made.parts] == [UserPromptPart]
    assert made.metadata == {SUMMARY_KEY: True}
    assert ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json([made])) == [made]
    assert PydanticAIFormat().read(made) == (Message(role="user", parts=(Text("what was"),), is_summary=True),)


def test_other_objects_are_refused_with_the_fix() -> None:
    with pytest.raises(FormatError, match="ModelRequest or ModelResponse, not dict"):
        PydanticAIFormat().read({"role": "user"})  # type: ignore[arg-type]  # wrong on purpose


def test_a_mark_of_the_prompt_cache_stays_where_it_was() -> None:
    """The text before a mark is shortened, mark and neighbors are the same objects."""
    mark = CachePoint()
    said = UserPromptPart(["long", mark, PIXELS, TextContent("tail", metadata=7)])
    made = PydanticAIFormat().rewrite(ModelRequest(parts=[said]), {(0, 0): "cut", (0, 2): "end"})
    (part,) = made.parts
    assert isinstance(part, UserPromptPart)
    assert part.content == ["cut", mark, PIXELS, TextContent("end", metadata=7)]
    assert part.content[1] is mark
    assert said.content == ["long", mark, PIXELS, TextContent("tail", metadata=7)]


def test_a_cleared_result_of_a_typed_tool_is_a_plain_one() -> None:
    found = {"discovered_tools": [{"name": "send", "description": "Sends."}]}
    part = ToolReturnPart("search_tools", found, "1", tool_kind="tool-search")
    request = ModelRequest(parts=[part])
    made = PydanticAIFormat().rewrite(request, {(0, 0): "cleared"})
    assert type(request.parts[0]) is not ToolReturnPart
    assert type(made.parts[0]) is ToolReturnPart
    assert PydanticAIFormat().read(made)[0].results[0].text == "cleared"


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(ModelRequest(parts=[ToolAvailabilityDeltaPart(tools_added=["a"])]), id="of a note"),
        pytest.param(ModelResponse(parts=[ThinkingPart("hm")]), id="of reasoning"),
    ],
)
def test_what_has_no_text_cannot_be_rewritten(message: ModelMessage) -> None:
    with pytest.raises(ConfigurationError, match=r"read\(\)"):
        PydanticAIFormat().rewrite(message, {(0, 0): "cut"})


# -- requests


def test_each_part_of_a_request_is_a_piece() -> None:
    pieces = read(SystemPromptPart("s"), UserPromptPart("u"), ToolReturnPart("t", "r", "1"), UserPromptPart("v"))
    assert [(piece.role, piece.text) for piece in pieces] == [
        ("system", "s"),
        ("user", "u"),
        ("tool", ""),
        ("user", "v"),
    ]


def test_a_request_without_parts_says_nothing() -> None:
    assert PydanticAIFormat().read(ModelRequest(parts=[], instructions="Be brief.")) == (
        Message(role="other", parts=()),
    )


@pytest.mark.parametrize(
    ("item", "media"),
    [
        pytest.param(PIXELS, Media("image/png", PIXELS_HASH), id="bytes"),
        pytest.param(
            BinaryContent(b"pixels", media_type="image/png", vendor_metadata={"detail": "low"}),
            Media("image/png", PIXELS_HASH, low_detail=True),
            id="bytes in low detail",
        ),
        pytest.param(ImageUrl("https://x.test/a.png"), Media("image", "https://x.test/a.png", True), id="image"),
        pytest.param(
            ImageUrl("data:image/png;base64,cGl4ZWxz"), Media("image/png", PIXELS_HASH), id="image as data URL"
        ),
        pytest.param(DocumentUrl("https://x.test/a"), Media("application", "https://x.test/a", True), id="document"),
        pytest.param(AudioUrl("https://x.test/a"), Media("audio", "https://x.test/a", True), id="sound"),
        pytest.param(
            UploadedFile("file-1", "openai", media_type="image/png"), Media("image/png", "file-1", True), id="file"
        ),
    ],
)
def test_media_have_the_identity_that_they_have_in_other_formats(item: Any, media: Media) -> None:
    assert read(UserPromptPart(["see", item]))[0].parts == (Text("see"), media)
    assert read(ToolReturnPart("look", ["seen", item], "1"))[0].results[0].media == (media,)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param("words", "words", id="text"),
        pytest.param({"a": [1, None]}, '{"a":[1,null]}', id="data"),
        pytest.param(None, "", id="nothing"),
        pytest.param(["a", "b"], '["a","b"]', id="list"),
    ],
)
def test_a_result_is_read_as_models_get_it(content: Any, text: str) -> None:
    part = ToolReturnPart("t", content, "1")
    assert read(part)[0].results == (ToolResult("1", text, "t"),)


@pytest.mark.parametrize(
    ("outcome", "is_error"),
    [("success", False), ("failed", True), ("retried", True), ("denied", False), ("interrupted", False)],
)
def test_the_outcome_says_whether_a_result_is_an_error(outcome: Any, is_error: bool) -> None:
    (result,) = read(ToolReturnPart("t", "text", "1", outcome=outcome))[0].results
    assert (result.text, result.is_error) == ("text", is_error)


def test_feedback_of_the_framework_is_nobodys_request() -> None:
    """The user's own request stays the current one while the model mends its answer."""
    part = RetryFeedbackPart("not that", retry=RetryInfo("model_retry"))
    (piece,) = read(part)
    assert piece == Message(role="other", parts=(Text(part.model_response()),))


@pytest.mark.filterwarnings("ignore::pydantic_ai.exceptions.PydanticAIDeprecationWarning")
def test_the_deprecated_retry_is_what_it_became() -> None:
    retry: Any = getattr(framework, "RetryPromptPart")  # noqa: B009 - naming it is what is deprecated
    answering, other = retry("wrong", tool_name="t", tool_call_id="1"), retry("wrong")
    (result, feedback) = read(answering, other)
    assert result.results == (ToolResult("1", answering.model_response(), "t", is_error=True),)
    assert feedback == Message(role="other", parts=(Text(other.model_response()),))
    made = PydanticAIFormat().rewrite(ModelRequest(parts=[answering]), {(0, 0): "cut"})
    assert PydanticAIFormat().read(made)[0].results == (ToolResult("1", "cut", "t", is_error=True),)


def test_a_prompt_for_one_request_is_not_kept_as_the_system_prompt_is() -> None:
    (piece,) = read(SystemPromptPart("3 requests left", scope="request"))
    assert piece == Message(role="other", parts=(Opaque("system-prompt", "3 requests left"),))


def test_notes_of_what_became_available_stay_as_the_system_prompt_does() -> None:
    notes: list[Any] = [ToolAvailabilityDeltaPart(tools_added=["weather"])]
    if hasattr(framework, "CapabilityLoadDeltaPart"):  # not in every version
        notes.append(framework.CapabilityLoadDeltaPart(loaded=["climate"]))
    assert [piece.role for piece in read(*notes)] == ["system"] * len(notes)


def test_other_notes_of_the_framework_are_nobodys_words() -> None:
    """It restates them behind a summary by itself."""
    note = InstructionBaselinePart(instructions=[])
    assert read(note) == (Message(role="other", parts=(Opaque("instruction-baseline", repr(note)),)),)


# -- responses


def test_a_response_is_one_piece() -> None:
    native = NativeToolCallPart("web_search", {"query": "x"}, "n", provider_name="openai")
    found = NativeToolReturnPart("web_search", {"hits": 1}, "n", provider_name="openai")
    sealed = CompactionPart("what the provider kept", provider_name="anthropic")
    (piece,) = PydanticAIFormat().read(
        ModelResponse(
            parts=[
                ThinkingPart("hm", signature="sig"),
                TextPart("Let me see."),
                native,
                found,
                sealed,
                FilePart(PIXELS),
                ToolCallPart("t", {"a": "ü"}, "1"),
                ToolCallPart("u", None, "2"),
            ]
        )
    )
    assert piece.role == "assistant"
    assert piece.parts == (
        Thinking("hm", 3),
        Text("Let me see."),
        Opaque("builtin-tool-call", repr(native), name="web_search", content="x"),
        Opaque("builtin-tool-return", repr(found), name="web_search", content="hits=1"),
        Opaque("compaction", "what the provider kept", content="what the provider kept"),
        Media("image/png", PIXELS_HASH),
        ToolCall("1", "t", '{"a":"ü"}'),
        ToolCall("2", "u", ""),
    )


@pytest.mark.parametrize(
    ("reason", "state", "neutral"),
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
def test_how_an_answer_ended(reason: Any, state: Any, neutral: str | None) -> None:
    usage = RequestUsage(input_tokens=9)
    (piece,) = PydanticAIFormat().read(ModelResponse(parts=[], finish_reason=reason, state=state, usage=usage))
    assert piece.stop_reason == neutral
    assert (piece.usage is None) == (state != "complete")


@pytest.mark.parametrize(
    ("usage", "metadata", "wanted"),
    [
        pytest.param(
            RequestUsage(input_tokens=120, output_tokens=4, cache_read_tokens=100, cache_write_tokens=10),
            None,
            Usage(input_tokens=120, output_tokens=4, cache_read_tokens=100, cache_write_tokens=10),
            id="cached tokens are inside the input",
        ),
        pytest.param(RequestUsage(), None, None, id="nothing was counted"),
        pytest.param(
            RequestUsage(input_tokens=900, output_tokens=9),
            {"__pydantic_ai__": {"context_input_tokens": 300}},
            Usage(input_tokens=300, output_tokens=9),
            id="several requests summed up, the context of one noted",
        ),
        pytest.param(
            RequestUsage(input_tokens=900, output_tokens=9),
            {"__pydantic_ai__": {"context_input_tokens": 0}},
            None,
            id="an answer that only sums up",
        ),
    ],
)
def test_usage_measures_the_context(usage: RequestUsage, metadata: Any, wanted: Usage | None) -> None:
    """The framework counts cached tokens inside the input, whatever the provider does."""
    (piece,) = PydanticAIFormat().read(ModelResponse(parts=[], usage=usage, metadata=metadata))
    assert piece.usage == wanted


def test_usage_that_the_provider_left_out_says_nothing() -> None:
    """Zeros of requests that nobody measured are no count."""
    usage = RequestUsage(input_tokens=5)
    usage.unmeasured_requests = 1
    assert PydanticAIFormat().read(ModelResponse(parts=[], usage=usage))[0].usage is None


# -- digests


def assert_same_chain(messages: Sequence[Any]) -> int:
    made = from_chat(messages)
    wanted = chain(OpenAIChatFormat(), messages)
    assert chain(PydanticAIFormat(), made) == wanted
    stored = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(made))
    assert chain(PydanticAIFormat(), stored) == wanted
    return len(wanted)


@needs_data
def test_recorded_sessions_have_the_same_chain_as_chat_dicts_have() -> None:
    assert sum(assert_same_chain(session["messages"]) for session in itertools.islice(sessions(), 0, None, 6)) > 2_000


@pytest.mark.parametrize("messages", CONVERSATIONS)
def test_generated_conversations_have_the_same_chain_as_chat_dicts_have(messages: list[Any]) -> None:
    assert assert_same_chain(messages) > 1


def test_tools_that_the_provider_ran_have_the_chain_of_its_own_blocks() -> None:
    """As the framework's Anthropic model keeps them: an MCP call wrapped, results dumped with their empty fields."""
    wrapped = {"action": "call_tool", "tool_name": "find", "tool_args": {"words": "parser"}}
    page = {**HOSTED_CALLS[1]["content"][0], "page_age": None}
    told = {"content": [{"citations": None, "text": "none", "type": "text"}], "is_error": False}
    said: list[Any] = [
        NativeToolCallPart("web_search", {"query": "parser notes"}, "s1", provider_name="anthropic"),
        NativeToolReturnPart("web_search", [page], "s1", provider_name="anthropic"),
        NativeToolCallPart("mcp_server:tracker", wrapped, "m1", provider_name="anthropic"),
        NativeToolReturnPart("mcp_server:tracker", told, "m1", provider_name="anthropic"),
        TextPart("4.2."),
    ]
    asked, thanked = (ModelRequest(parts=[UserPromptPart(text)]) for text in ("Which release?", "Thanks."))
    messages = [asked, ModelResponse(parts=said), thanked]
    assert chain(PydanticAIFormat(), messages) == chain(AnthropicFormat(), HOSTED)


def test_a_record_made_with_chat_dicts_applies() -> None:
    chat: Any = [system(), *talk(20, tokens=400)]
    made = CompactionController(context_window=16_384).session("made")
    view = made.transform_context_sync(chat)
    other = CompactionController(context_window=16_384, summarizer=_refuse).session("other", format=PydanticAIFormat())
    other.import_records(made.export_records())
    shown = other.transform_context_sync(from_chat(chat))
    summary = next(message for message in shown if isinstance(message, ModelRequest) and message.metadata)
    assert [getattr(part, "content", None) for part in summary.parts] == [view[1]["content"]]


def _refuse(_: object) -> str:
    raise AssertionError("the record must spare the summary")
