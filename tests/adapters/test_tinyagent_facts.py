"""The facts of every adapter, for tinyagent: the real loop, its own binding, real HTTP."""

from __future__ import annotations

import pytest

pytest.importorskip("tinyagent")
pytest.importorskip("starlette")

from compaction_hooks.testing import ADAPTER_FACTS, AdapterFact, check_adapter
from tests.adapters import tinyagent_stage
from tests.provider import LoopbackProvider

provider = tinyagent_stage.provider


@pytest.mark.parametrize("fact", ADAPTER_FACTS, ids=str)
def test_adapter_facts(fact: AdapterFact, provider: LoopbackProvider) -> None:
    check_adapter(tinyagent_stage.TinyAgentHarness(), provider, fact)
