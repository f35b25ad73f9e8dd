"""A chat on OpenAI's client, whose server cuts long prompts without an error, as Ollama does: its counts are of what is left."""

import logging
import re
from typing import Any

import pytest

pytest.importorskip("openai")

import openai

from compaction_hooks import CompactionController
from tests.cases import crossed
from tests.conversations import prose
from tests.provider import LoopbackProvider, Overflow, Side

CUT_AT = 4_096
WINDOW = 32_768


def chat(
    provider: LoopbackProvider, overflow: Overflow, *, window: int = WINDOW, turns: int = 30, known: int = 0
) -> tuple[Side, CompactionController[Any]]:
    """Play a chat, of which so many turns were before this process; return the provider's side and the controller."""
    side = provider.conversation("ollama", window=CUT_AT, overflow=overflow)
    hooks = CompactionController[Any](model="llama", context_window=window)
    messages: list[Any] = [{"role": "system", "content": "Be brief."}]
    with openai.OpenAI(base_url=provider.openai_url, api_key="ollama", max_retries=0) as client:
        for n in range(turns):
            messages.append({"role": "user", "content": f"Question {n}: {prose(1_200)}"})
            if n < known:
                messages.append({"role": "assistant", "content": "Done."})
                continue
            answer = hooks.call_sync(
                messages, lambda view: client.chat.completions.create(model="llama", messages=view)
            )
            messages.append(answer.choices[0].message)
    return side, hooks


@crossed(overflow=["crop", "halve"], known=[0, 12])
def test_a_server_that_cuts_prompts_is_named_once_and_the_estimate_decides(
    overflow: Overflow, known: int, provider: LoopbackProvider, caplog: pytest.LogCaptureFixture
) -> None:
    side, hooks = chat(provider, overflow, known=known)
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    told = re.search(r"model 'llama' seems to cut prompts at ([\d,]+) tokens: set context_window=(\d+)", warning)
    assert told is not None
    assert CUT_AT // 2 < int(told[1].replace(",", "")) == int(told[2]) <= CUT_AT

    sent = [request.input_tokens for request in side.model_requests]
    assert max(sent) > WINDOW / 2
    assert max(sent) <= WINDOW
    assert hooks.state().compaction_count > 0
    assert hooks.state().is_estimate
    assert hooks.state().context_tokens == pytest.approx(sent[-1], rel=0.25)


def test_with_the_servers_own_window_its_counts_are_believed(
    provider: LoopbackProvider, caplog: pytest.LogCaptureFixture
) -> None:
    side, hooks = chat(provider, "crop", window=CUT_AT, turns=12)
    assert caplog.records == []
    assert max(request.input_tokens for request in side.model_requests) <= CUT_AT
    assert (hooks.state().context_tokens, hooks.state().is_estimate) == (side.model_requests[-1].input_tokens, False)
