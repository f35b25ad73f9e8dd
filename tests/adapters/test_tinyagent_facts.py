"""The facts of every adapter, for tinyagent: the real loop, its own binding, real HTTP."""

from __future__ import annotations

import pytest

pytest.importorskip("tinyagent")
pytest.importorskip("starlette")

from compaction_hooks.testing import ADAPTER_FACTS, AdapterFact, check_adapter, check_session
from tests.adapters import tinyagent_stage
from tests.adapters.recorded_sessions import PATTERNS, recorded_script
from tests.data import needs_data
from tests.provider import LoopbackProvider

provider = tinyagent_stage.provider


@pytest.mark.parametrize("fact", ADAPTER_FACTS, ids=str)
def test_adapter_facts(fact: AdapterFact, provider: LoopbackProvider) -> None:
    check_adapter(tinyagent_stage.TinyAgentHarness(), provider, fact)


@needs_data
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_recorded_session_runs_to_its_end(pattern: str, provider: LoopbackProvider) -> None:
    check_session(tinyagent_stage.TinyAgentHarness(), provider, recorded_script(pattern))
