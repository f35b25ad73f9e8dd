"""A broken history of pydantic-ai's messages is mended."""

from __future__ import annotations

import pytest

pytest.importorskip("pydantic_ai")

from compaction_adapters.pydantic_ai import PydanticAIFormat
from pydantic_ai.messages import (
    CachePoint,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from compaction_hooks.errors import ConfigurationError
from compaction_hooks.repair import INTERRUPTED, NO_WORDS, repaired
from tests.adapters import repair_dialects
from tests.adapters.framework_repairs import check_broken_histories, check_whole_histories

DIALECT = repair_dialects.pydantic_ai()
FORMAT = PydanticAIFormat()
ASKED = ModelResponse([ToolCallPart("read", {}, "a"), ToolCallPart("read", {}, "b")])


def test_broken_histories_are_mended() -> None:
    check_broken_histories(DIALECT)


def test_whole_histories_come_back_themselves() -> None:
    check_whole_histories(DIALECT)


def test_a_call_without_an_answer_is_answered_as_interrupted() -> None:
    told = ModelRequest([ToolReturnPart("read", "ok", "a"), UserPromptPart("Go on.")])
    messages: list[ModelMessage] = [ModelRequest([UserPromptPart("hi")]), ASKED, told]
    after = repaired(messages, FORMAT)
    made = ToolReturnPart("read", INTERRUPTED, "b", timestamp=ASKED.timestamp, outcome="interrupted")
    assert after == [*messages[:2], ModelRequest([made]), told]
    assert after[3] is told


def test_only_the_wrong_part_of_a_request_goes() -> None:
    kept: list[ModelRequestPart] = [
        ToolReturnPart("read", "ok", "a"),
        ToolReturnPart("read", "ok", "b"),
        UserPromptPart("Go on."),
    ]
    told = ModelRequest([*kept[:2], ToolReturnPart("read", "?", "z"), UserPromptPart([]), kept[2]], run_id="r")
    messages: list[ModelMessage] = [ModelRequest([UserPromptPart("hi")]), ASKED, told]
    (_, _, made) = repaired(messages, FORMAT)
    assert isinstance(made, ModelRequest)
    assert all(part is old for part, old in zip(made.parts, kept, strict=True))
    assert made.run_id == "r"


def test_a_prompt_loses_its_blank_item_and_keeps_its_cache_mark() -> None:
    image = ImageUrl("https://example.org/a.png")
    prompt = UserPromptPart([" ", CachePoint(), image])
    messages: list[ModelMessage] = [ModelRequest([prompt])]
    (made,) = repaired(messages, FORMAT)
    assert isinstance(made, ModelRequest)
    (part,) = made.parts
    assert isinstance(part, UserPromptPart)
    assert part.content == [CachePoint(), image]


def test_an_empty_prompt_gets_words_that_are_the_same_each_time() -> None:
    messages: list[ModelMessage] = [ModelRequest([UserPromptPart("")])]
    once, again = (repaired(messages, FORMAT) for _ in range(2))
    assert once == again
    assert FORMAT.read(once[0])[0].text == NO_WORDS


def test_a_signed_call_is_read_as_signed() -> None:
    call = ToolCallPart("read", {}, "a", provider_name="google", provider_details={"thought_signature": "c2ln"})
    assert FORMAT.read(ModelResponse([call]))[0].calls[0].opaque_chars == 4


def test_only_a_call_is_answered() -> None:
    for message in (ModelResponse([TextPart("so")]), ModelRequest([UserPromptPart("hi")])):
        with pytest.raises(ConfigurationError, match="names no tool call"):
            FORMAT.answer(message, (0, 0), "no")
