"""tinyagent's loop on models that bind their thinking to what stood before it, by its binding for Anthropic's API."""

from __future__ import annotations

import pytest

pytest.importorskip("tinyagent")
pytest.importorskip("uvicorn")

from tinyagent import extract_text

from tests.adapters import tinyagent_stage
from tests.adapters.tinyagent_stage import SCRIPT, Stage, anthropic_model, needs_binding
from tests.provider import LoopbackProvider, Signer

provider = tinyagent_stage.provider


@needs_binding
@pytest.mark.parametrize(("model", "refusals"), [("claude-opus-5-5", 0), ("my-gateway-model", 1)])
async def test_no_run_ends_in_a_refusal(provider: LoopbackProvider, model: str, refusals: int) -> None:
    stage = Stage(provider, model, model=lambda url: anthropic_model(url, id=model), context_window=6_000)
    signer = stage.side.signer = Signer(redacted_every=0)  # the binding loses redacted blocks of streams
    for turn in SCRIPT.turns:
        ended = await stage.hook.prompt(stage.agent, turn.user)
        assert extract_text(ended) == turn.answers[-1].text
    assert len(stage.reasons) >= 2
    assert len(signer.refusals) == refusals
    stage.demand_whole_history(said=len(SCRIPT.turns))
