"""A model whose window is smaller than believed cuts its answers: a loop around LiteLLM goes on to the end."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("litellm")

from compaction_adapters.litellm import with_compaction

from tests.adapters import litellm_stage
from tests.adapters.cut_answers import BELIEVED, MOST, STEPS, WINDOW, cut_off, talkative
from tests.adapters.litellm_stage import WITH_TOOLS, Stage, litellm
from tests.conversations import Scripted, prose, user

pytestmark = litellm_stage.QUIET
provider, stage = litellm_stage.provider, litellm_stage.stage

READ_FILE = {
    "type": "function",
    "function": {
        "name": "read_file",
        "description": "",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
    },
}


def test_a_logger_of_ones_own_is_called_too(stage: Stage) -> None:
    """The raw response is read by a `logger_fn`."""
    stage.side()
    seen: list[Any] = []
    with_compaction(litellm.completion)(
        messages=[user("Hi.")], logger_fn=lambda details: seen.append(details["log_event_type"]), **stage.openai()
    )
    assert seen == ["pre_api_call", "post_api_call"]


@pytest.mark.parametrize(("api", "told"), [("openai", BELIEVED), ("anthropic", None)])
async def test_a_run_whose_answers_the_window_cuts_reaches_its_end(stage: Stage, api: str, told: int | None) -> None:
    side = stage.side(*talkative(), window=WINDOW, overflow="cut")
    made = with_compaction(litellm.acompletion, context_window=told, summarizer=Scripted(), session_id="run")
    limit: dict[str, Any] = {"max_tokens": MOST} if api == "openai" else {}
    arguments = getattr(stage, api)("scripted", tools=[READ_FILE], **limit, **WITH_TOOLS)
    messages: list[Any] = [user("Read all.")]
    while messages[-1]["role"] != "assistant" or messages[-1].get("tool_calls"):
        answer = (await made(messages=messages, **arguments)).choices[0].message
        messages.append(answer.model_dump(exclude_none=True))
        calls = answer.tool_calls or ()
        messages += [{"role": "tool", "tool_call_id": call.id, "content": prose(50)} for call in calls]
    assert messages[-1]["content"] == "All read."
    assert len(messages) == 2 + 2 * STEPS
    assert cut_off(side) > 0
