"""LiteLLM's calls of models that bind their thinking to what stood before it."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("litellm")

from compaction_adapters.litellm import CompactionCallback, with_compaction

from compaction_hooks import CompactionSettings
from tests.adapters import litellm_stage
from tests.adapters.litellm_stage import QUIET, WITH_TOOLS, Stage, litellm
from tests.provider import Answer, Call, Signer

pytestmark = QUIET
provider = litellm_stage.provider
stage = litellm_stage.stage

BINDING = "claude-opus-5-5"
HIDDEN = "my-gateway-model"
STEPS = 30
SETTINGS = CompactionSettings(keep_recent_tokens=2_000)
READ = {"name": "read", "description": "Reads a part.", "parameters": {"type": "object", "properties": {}}}
TOOLS = [{"type": "function", "function": READ}]


def signing(stage: Stage) -> Signer:
    """A provider that thinks in every step and signs what it thought."""
    side = stage.side(*(Answer(f"Step {step}.", (Call("read", {"part": step}),)) for step in range(STEPS)))
    side.signer = Signer()
    return side.signer


class Loop:
    """An agent's loop around litellm, which answers with its own message objects."""

    def __init__(self) -> None:
        self.messages: list[Any] = [{"role": "user", "content": "Read all parts."}]

    def take(self, response: Any) -> None:
        message = response.choices[0].message
        self.messages.append(message)
        for call in message.tool_calls or ():
            self.messages.append(
                {"role": "tool", "tool_call_id": call.id, "content": f"part {len(self.messages)}\n" * 200}
            )


def asked(stage: Stage, model: str, loop: Loop) -> dict[str, Any]:
    """The arguments of the loop's next call."""
    arguments = stage.anthropic(model, max_tokens=400, tools=TOOLS, **WITH_TOOLS)
    return {**arguments, "messages": loop.messages, "metadata": {"session_id": "run"}}


@pytest.mark.parametrize(("model", "refusals"), [(BINDING, 0), (HIDDEN, 1)])
def test_no_call_of_a_wrapped_function_ends_in_a_refusal(stage: Stage, model: str, refusals: int) -> None:
    signer, loop = signing(stage), Loop()
    completion = with_compaction(litellm.completion, context_window=8_192, settings=SETTINGS)
    for _ in range(STEPS):
        loop.take(completion(**asked(stage, model, loop)))
    assert len(signer.refusals) == refusals
    assert len(signer.sent) >= STEPS
    assert signer.reasoning_share > 0.1


async def test_the_callback_learns_from_a_refusal(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    signer, loop = signing(stage), Loop()
    monkeypatch.setattr(litellm, "callbacks", [CompactionCallback(context_window=8_192, settings=SETTINGS)])
    failures = 0
    while len(loop.messages) < 2 * STEPS:
        try:
            loop.take(await litellm.acompletion(**asked(stage, HIDDEN, loop)))
        except litellm.BadRequestError:
            failures += 1
            assert failures == 1
    assert (failures, len(signer.refusals)) == (1, 1)
