"""Calls of models that bind their thinking to the messages before it, behind litellm's own client of Anthropic."""

from importlib.util import find_spec
from itertools import product
from typing import Any

import pytest
from compaction_adapters.litellm import with_compaction

from compaction_hooks.stores import MemoryStore
from tests.adapters import litellm_stage
from tests.adapters.litellm_stage import IS_OLD, WITH_TOOLS, Stage, got, litellm, offered
from tests.adapters.signed_reasoning import BINDING, HIDDEN, REFUSALS, RESULT, SETTINGS, TURNS, WINDOW, Reading
from tests.cases import crossed
from tests.conversations import user
from tests.provider import CallSigner, Signer

pytestmark = litellm_stage.QUIET
provider = litellm_stage.provider

RESENDS = "litellm.llms.vertex_ai.gemini.rejected_thought_signature_retry"
"""From 1.110 on litellm itself cures a refused signature, so that an adapter sees no refusal."""


async def read_on(
    function: Any,
    store: MemoryStore,
    messages: list[Any],
    turn: str,
    arguments: dict[str, Any],
    is_stream: bool = False,
) -> list[Any]:
    """Return the messages after one turn of an agent in a new process, which has those of before and a store."""
    complete = with_compaction(function, context_window=WINDOW, settings=SETTINGS, store=store, session_id="reading")
    arguments = {"stream": is_stream, "tools": [offered("read_file")], **arguments, **WITH_TOOLS}
    messages = [*messages, user(turn)]
    while True:
        answer = await got(complete(messages=messages, **arguments))
        if is_stream:
            answer = litellm.stream_chunk_builder([chunk async for chunk in answer])
        message = answer.choices[0].message
        calls = message.tool_calls or []
        messages = [
            *messages,
            message,
            *({"role": "tool", "tool_call_id": call.id, "content": RESULT} for call in calls),
        ]
        if not calls:
            assert message.content == "Done."
            return messages


def router(stage: Stage, model: str) -> tuple[Any, dict[str, Any]]:
    made = litellm.Router(model_list=[{"model_name": "group", "litellm_params": stage.anthropic(model)}], num_retries=2)
    return made.acompletion, {"model": "group"}


HOWS = ("completion", "acompletion", "streamed", "router")
DIFFERENT = {("streamed", BINDING), ("router", HIDDEN)}
"""The cases that the fast suite has."""


@pytest.mark.parametrize(
    ("how", "model"),
    [
        pytest.param(*case, marks=() if case in DIFFERENT else pytest.mark.full)
        for case in product(HOWS, (BINDING, HIDDEN))
    ],
)
async def test_no_call_ends_in_a_refusal(stage: Stage, model: str, how: str) -> None:
    """Retries are left for other errors."""
    if how == "streamed" and IS_OLD:
        pytest.skip("this litellm loses signatures of streamed thinking")
    reading, store, messages = Reading(stage.side()), MemoryStore(), list[Any]()
    for turn in TURNS:
        function, arguments = (litellm.acompletion, {**stage.anthropic(model), "num_retries": 2})
        if how == "completion":
            function = litellm.completion
        if how == "router":
            function, arguments = router(stage, model)
        messages = await read_on(function, store, messages, turn, {**arguments, "max_tokens": 400}, how == "streamed")
    reading.check(model)
    thoughts = [message for message in messages if getattr(message, "thinking_blocks", None)]
    assert len(thoughts) == len(reading.answers)


@pytest.mark.full
@pytest.mark.parametrize("model", [BINDING, HIDDEN])
async def test_no_call_of_bedrock_ends_in_a_refusal(stage: Stage, model: str) -> None:
    """litellm (1.106) sends no redacted blocks back to Converse."""
    reading, store, messages = Reading(stage.side(), has_redacted=False), MemoryStore(), list[Any]()
    for turn in TURNS:
        messages = await read_on(litellm.acompletion, store, messages, turn, stage.bedrock(f"anthropic.{model}"))
    reading.check(model)


@pytest.mark.skipif(
    find_spec(RESENDS) is not None, reason="this litellm sends again with placeholders, and tells nobody"
)
@crossed(function=[litellm.completion, litellm.acompletion], model=["gemini-3-pro", f"gemini-3-{HIDDEN}"])
async def test_signatures_of_another_route_are_left_out(stage: Stage, function: Any, model: str) -> None:
    """The route changes between three turns."""
    reading, store, messages = Reading(stage.side()), MemoryStore(), list[Any]()
    signer = reading.side.signer = CallSigner()
    for turn, account in zip((*TURNS, "Go on."), ("first", "second", "second"), strict=True):
        signer.account = account
        messages = await read_on(function, store, messages, turn, stage.google(model))
    assert len(signer.refusals) == len(reading.side.rejections) == 1
    assert signer.sent[-1] > 1


@crossed(
    field=["thinking_blocks", "reasoning_details"],
    model=[BINDING, HIDDEN],
    function=[litellm.completion, litellm.acompletion],
)
async def test_no_copy_of_stale_thinking_is_sent_to_a_gateway(
    stage: Stage, model: str, function: Any, field: str
) -> None:
    """Its chat messages have the thinking in several fields, and litellm copies some of them."""
    reading, store, messages = Reading(stage.side()), MemoryStore(), list[Any]()
    signer = reading.side.signer = Signer(chat_field=field)
    for turn in TURNS:
        messages = await read_on(function, store, messages, turn, stage.openai(model))
    assert len(signer.refusals) == len(reading.side.rejections) == REFUSALS[model]
    assert signer.unsigned == []
    assert signer.reasoning_share > 0.1
