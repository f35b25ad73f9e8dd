"""The host's say in compactions, in agent loops around the clients of five APIs."""

import pytest

from compaction_hooks.testing import AdapterFact, check_adapter
from tests.host_facts import NamesTheLimit, by_host_facts
from tests.provider import LoopbackProvider
from tests.provider.clients import CONVERSATIONS, ClientHarness, has_client


@by_host_facts(api=CONVERSATIONS)
def test_the_host_has_its_say(fact: AdapterFact, api: str, provider: LoopbackProvider) -> None:
    if not has_client(api):
        pytest.skip(f"needs the client of {api}")
    check_adapter(ClientHarness(api), NamesTheLimit(provider) if api == "bedrock" else provider, fact)
