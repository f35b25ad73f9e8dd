"""Models that bind reasoning to the messages before it: their names, their provider's error, and views without stale reasoning."""

from typing import Any

import pytest

from compaction_hooks import CompactionController, CompactionRecord, project
from compaction_hooks.formats import AnthropicFormat, BedrockConverseFormat, OpenAIChatFormat
from compaction_hooks.tokens import CharacterEstimator
from compaction_hooks.validity import binds_reasoning, is_reasoning_refusal
from tests.cases import folded

BINDING = "claude-sonnet-5-5"
OTHER = "claude-sonnet-5"


@folded(
    "model, binds",
    [
        ("claude-fable-5-1", True),
        ("claude-fable-5-2-20260920", True),
        ("claude-mythos-5-1", True),
        ("anthropic/claude-opus-5.5", True),
        ("us.anthropic.claude-haiku-5-5-20260401-v1:0", True),
        ("Claude-Sonnet-5-5", True),
        ("openrouter/anthropic/claude-sonnet-6", True),
        ("claude-fable-5", False),
        ("claude-opus-5-20260115", False),
        ("claude-3-7-sonnet-latest", False),
        ("claude-opus-4-8", False),
        ("gpt-5.5", False),
        ("my-gateway-model", False),
        (None, False),
    ],
)
def test_which_models_bind_their_reasoning(model: str | None, binds: bool) -> None:
    assert binds_reasoning(model) is binds


class ProviderError(Exception):
    def __init__(self, message: str, status: int) -> None:
        super().__init__(f"Error code: {status} - {message}")
        self.status_code = status
        self.body = {"type": "error", "error": {"type": "invalid_request_error", "message": message}}


BOUND = "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation."


REFUSED = [
    BOUND,
    "messages.1.content.0: Invalid `data` in `redacted_thinking` block",
    "messages.7.content.12: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.",
    "messages.1.content.0.thinking: each thinking block must contain thinking",
    "messages.1.content.0.thinking.signature.str: Input should be a valid string",
    "The encrypted content gAAA...DQ== could not be verified.",
    "The encrypted content for item rs_0a18 could not be verified. Reason: Encrypted content could not be decrypted or parsed.",
    "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
    "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'.",
    "Item 'msg_1' of type 'message' was provided without its required 'reasoning' item: 'rs_1'.",
    "Conflicting authenticated continuation identities.",
    "Invalid thought signature.",
    "Corrupted thought signature.",
    "Unable to submit request because Thought signature is not valid.. Learn more: https://cloud.google.com/vertex-ai",
]
NOT_CURED = [
    "prompt is too long: 208656 tokens > 200000 maximum",
    "messages.69.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.",
    "The `reasoning_content` in the thinking mode must be passed back to the API.",
    "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
    "Function call is missing a thought_signature in functionCall parts.",
    "Unable to submit request because function call `read` in the 2. content block is missing a `thought_signature`.",
    "The encrypted content for item cmp_1 could not be verified.",
]
NOT_FOUND = "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false."


@folded(
    "error, is_refusal",
    [
        *((ProviderError(text, 400), True) for text in REFUSED),
        *((ProviderError(text, 400), False) for text in NOT_CURED),
        (ProviderError(NOT_FOUND, 404), True),
        (ProviderError(NOT_FOUND, 400), False),
        (ExceptionGroup("two", [ValueError("no"), ProviderError(BOUND, 400)]), True),
        (RuntimeError(f"An error occurred (ValidationException) when calling the Converse operation: {BOUND}"), True),
        (ProviderError(BOUND, 401), False),
    ],
)
def test_an_error_that_refuses_reasoning_is_recognized(error: Exception, is_refusal: bool) -> None:
    assert is_reasoning_refusal(error) is is_refusal


# -- views


def anthropic_thoughts(step: int) -> dict[str, Any]:
    thoughts = [
        {"type": "thinking", "thinking": f"thought {step}", "signature": f"sealed {step}"},
        {"type": "redacted_thinking", "data": f"sealed {step}"},
    ]
    call = {"type": "tool_use", "id": f"c{step}", "name": "read", "input": {}}
    return {"role": "assistant", "content": [*thoughts, {"type": "text", "text": f"Step {step}."}, call]}


def anthropic_result(step: int) -> dict[str, Any]:
    result = {"type": "tool_result", "tool_use_id": f"c{step}", "content": f"result {step} " * 100}
    return {"role": "user", "content": [result]}


def chat_answer(step: int, **thoughts: Any) -> dict[str, Any]:
    call = {"id": f"c{step}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    return {"role": "assistant", "content": f"Step {step}.", "tool_calls": [call], **thoughts}


def litellm_thoughts(step: int) -> dict[str, Any]:
    block = {"type": "thinking", "thinking": f"thought {step}", "signature": f"sealed {step}"}
    return chat_answer(step, thinking_blocks=[block], reasoning_content=f"thought {step}")


def openrouter_thoughts(step: int) -> dict[str, Any]:
    details = [
        {"type": "reasoning.text", "text": f"thought {step}", "signature": f"sealed {step}"},
        {"type": "reasoning.encrypted", "data": f"sealed {step}"},
    ]
    return chat_answer(step, reasoning_details=details, reasoning=f"thought {step}")


def chat_result(step: int) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"c{step}", "content": f"result {step} " * 100}


def converse_thoughts(step: int) -> dict[str, Any]:
    thoughts: list[Any] = [
        {"reasoningContent": {"reasoningText": {"text": f"thought {step}", "signature": f"sealed {step}"}}},
        {"reasoningContent": {"redactedContent": f"sealed {step}"}},
    ]
    call = {"toolUse": {"toolUseId": f"c{step}", "name": "read", "input": {}}}
    return {"role": "assistant", "content": [*thoughts, {"text": f"Step {step}."}, call]}


def converse_result(step: int) -> dict[str, Any]:
    result = {"toolResult": {"toolUseId": f"c{step}", "content": [{"text": f"result {step} " * 100}]}}
    return {"role": "user", "content": [result]}


KINDS = [
    pytest.param(AnthropicFormat(), anthropic_thoughts, anthropic_result, id="anthropic"),
    pytest.param(OpenAIChatFormat(), litellm_thoughts, chat_result, id="litellm"),
    pytest.param(OpenAIChatFormat(), openrouter_thoughts, chat_result, id="openrouter"),
    pytest.param(BedrockConverseFormat(), converse_thoughts, converse_result, id="converse"),
]


def conversation(answer: Any, result: Any, steps: int) -> list[Any]:
    said = [message for step in range(steps) for message in (answer(step), result(step))]
    return [{"role": "user", "content": "Read all parts."}, *said]


def compact(messages: list[Any], format: Any) -> CompactionRecord:
    controller = CompactionController(format=format, context_window=8_000)
    result = controller.session("s").compact_sync(messages, keep_recent_tokens=1_500)
    assert result.record is not None
    assert result.record.rendered
    return result.record


def words(view: list[Any], word: str) -> list[int]:
    """Return the steps whose word is in the view, in any field."""
    return [step for step in range(20) if f"{word} {step}'" in repr(view)]


@pytest.mark.parametrize(("format", "answer", "result"), KINDS)
def test_a_view_for_a_binding_model_holds_the_reasoning_made_behind_it_and_no_other(
    format: Any, answer: Any, result: Any
) -> None:
    messages = conversation(answer, result, 12)
    record = compact(messages[:-4], format)
    view = project(messages, record, format=format, model=BINDING)
    for word in ("thought", "sealed"):
        assert words(view, word) == [10, 11]
    plain = project(messages, record, format=format)
    assert len(words(plain, "thought")) > 3
    assert [message.get("role") for message in view] == [message.get("role") for message in plain]
    assert view[-4:] == messages[-4:]


def test_a_message_of_reasoning_alone_goes_with_it() -> None:
    messages = conversation(anthropic_thoughts, anthropic_result, 12)
    lone = {"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": "sealed lone"}]}
    messages[-4:-4] = [lone, {"role": "user", "content": "Go on."}]
    record = compact(messages[:-4], AnthropicFormat())
    assert lone in project(messages, record, format=AnthropicFormat())
    view = project(messages, record, format=AnthropicFormat(), model=BINDING)
    assert "sealed lone" not in repr(view)
    assert all(message["content"] for message in view)


def test_left_out_reasoning_no_longer_counts() -> None:
    def long_thoughts(step: int) -> dict[str, Any]:
        block = {"type": "thinking", "thinking": f"thought {step} " * 200, "signature": "sealed"}
        return {**anthropic_thoughts(step), "content": [block, *anthropic_thoughts(step)["content"][2:]]}

    messages = conversation(long_thoughts, anthropic_result, 12)
    format, estimator = AnthropicFormat(), CharacterEstimator()
    sizes, counts = dict[str, int](), dict[str, int]()
    for model in (BINDING, OTHER):
        session = CompactionController(format=format, context_window=30_000).session("s")
        session.compact_sync(messages, keep_recent_tokens=4_000, model=model)
        view = session.transform_context_sync(messages, model=model)
        sizes[model] = session.state().context_tokens or 0
        shown = [piece for message in view for piece in format.read(message)]
        assert sizes[model] == sum(map(estimator.estimate_message_tokens, shown))
        counts[model] = len(view)
    assert sizes[BINDING] < sizes[OTHER]
    assert counts[BINDING] > 2 * counts[OTHER]  # nor does it count as kept


def test_an_answer_that_was_under_way_during_a_compaction_by_hand_is_of_the_older_view() -> None:
    messages = conversation(anthropic_thoughts, anthropic_result, 10)
    session = CompactionController(format=AnthropicFormat(), context_window=40_000).session("s")

    def send(view: list[Any]) -> dict[str, Any]:
        assert view is messages
        session.compact_sync(messages, keep_recent_tokens=1_500, model=BINDING)
        return anthropic_thoughts(10)

    messages += [session.call_sync(messages, send, model=BINDING), anthropic_result(10)]
    assert words(session.transform_context_sync(messages, model=BINDING), "sealed") == []
    messages += [anthropic_thoughts(11), anthropic_result(11)]
    assert words(session.transform_context_sync(messages, model=BINDING), "sealed") == [11]


def test_an_answer_to_a_view_that_is_undone_loses_its_reasoning() -> None:
    messages = conversation(anthropic_thoughts, anthropic_result, 10)
    session = CompactionController(format=AnthropicFormat(), context_window=40_000).session("s")
    session.compact_sync(messages, keep_recent_tokens=1_500, model=BINDING)
    session.transform_context_sync(messages, model=BINDING)
    messages += [anthropic_thoughts(10), anthropic_result(10)]  # the session has not seen them when it undoes
    assert session.undo() is not None
    assert words(session.transform_context_sync(messages, model=BINDING), "sealed") == []
    messages += [anthropic_thoughts(11), anthropic_result(11)]
    assert words(session.transform_context_sync(messages, model=BINDING), "sealed") == [11]


def test_a_format_that_cannot_leave_parts_out_shows_them() -> None:
    class Plain:
        """Anthropic's messages without the methods of a format that can mend."""

        name = "plain"
        read, summary, take, rewrite = (
            getattr(AnthropicFormat(), name) for name in ("read", "summary", "take", "rewrite")
        )

    messages = conversation(anthropic_thoughts, anthropic_result, 12)
    session = CompactionController(format=Plain(), context_window=8_000).session("s")
    session.compact_sync(messages, keep_recent_tokens=1_500, model=BINDING)
    assert words(session.transform_context_sync(messages, model=BINDING), "sealed")


# -- refusals


def test_reasoning_that_is_refused_is_left_out_once_and_stays_out() -> None:
    messages = conversation(anthropic_thoughts, anthropic_result, 4)
    session = CompactionController(format=AnthropicFormat(), context_window=40_000).session("s")
    sent = list[list[Any]]()

    def send(view: list[Any]) -> dict[str, Any]:
        sent.append([*view])
        if "sealed 0'" in repr(view):
            raise ProviderError(BOUND, 400)
        return anthropic_thoughts(4)

    messages += [session.call_sync(messages, send, model="alias"), anthropic_result(4)]
    assert [words(view, "sealed") for view in sent] == [[0, 1, 2, 3], []]
    assert words(session.transform_context_sync(messages, model="alias"), "sealed") == [4]
    assert session.state().compaction_count == 0


def test_a_second_refusal_is_raised_as_it_is() -> None:
    messages = conversation(anthropic_thoughts, anthropic_result, 4)
    session = CompactionController(format=AnthropicFormat(), context_window=40_000).session("s")
    errors = list[ProviderError]()

    def send(_: list[Any]) -> None:
        errors.append(ProviderError(BOUND, 400))
        raise errors[-1]

    with pytest.raises(ProviderError) as caught:
        session.call_sync(messages, send)
    assert caught.value is errors[1]
    with pytest.raises(ProviderError) as caught:
        session.call_sync(messages, send)
    assert caught.value is errors[2]  # nothing is left that could be left out
    assert len(errors) == 3


def test_a_refusal_after_a_recovered_overflow_is_recovered_too() -> None:
    messages = conversation(anthropic_thoughts, anthropic_result, 20)
    session = CompactionController(format=AnthropicFormat(), context_window=100_000).session("s")
    sent = list[list[Any]]()

    def send(view: list[Any]) -> str:
        sent.append(view)
        if view is messages:
            raise ProviderError("prompt is too long: 8000 tokens > 4000 maximum", 400)
        if words(view, "sealed"):
            raise ProviderError(BOUND, 400)
        return "Done."

    assert session.call_sync(messages, send) == "Done."
    assert len(sent) == 3


# -- the kit


def test_a_view_with_stale_reasoning_is_rejected() -> None:
    class Keeping(AnthropicFormat):
        def drop(self, message: Any, parts: Any, /) -> Any:
            return {**message}

    events = list[Any]()
    controller = CompactionController(format=Keeping(), context_window=8_000, on_event=events.append)
    messages = conversation(anthropic_thoughts, anthropic_result, 12)
    result = controller.session("s").compact_sync(messages, keep_recent_tokens=1_500, model=BINDING)
    assert result.messages is messages
    assert events[-1].why == "invalid: stale_reasoning"
