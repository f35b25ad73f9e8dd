"""Over real HTTP: a broken history is rejected, the repaired one accepted, and the run continues."""

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

pytest.importorskip("httpx")

import httpx

from compaction_hooks import CompactionController, CompactionSettings
from compaction_hooks.repair import INTERRUPTED, repaired
from tests.provider import LoopbackProvider
from tests.repairs import ANTHROPIC, CHAT, Dialect, broken
from tests.validity.test_repair import script


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with httpx.Client() as made:
        yield made


class Sender:
    """Sends a history in its dialect to the provider's endpoint for it."""

    def __init__(self, provider: LoopbackProvider, client: httpx.Client, dialect: Dialect) -> None:
        provider.conversation("key", window=1_000_000)
        self.dialect = dialect
        self._provider = provider
        self._client = client

    def send(self, messages: list[Any]) -> httpx.Response:
        if self.dialect is CHAT:
            url, headers = f"{self._provider.openai_url}/chat/completions", {"Authorization": "Bearer key"}
            body: dict[str, Any] = {"model": "m", "messages": messages}
        else:
            url, headers = f"{self._provider.anthropic_url}/v1/messages", {"x-api-key": "key"}
            systems = [message["content"] for message in messages if message["role"] == "system"]
            spoken = [message for message in messages if message["role"] != "system"]
            body = {"model": "m", "max_tokens": 100, "system": "\n".join(systems), "messages": spoken}
        return self._client.post(url, headers=headers, json=body)


@pytest.fixture(params=[pytest.param(CHAT, id="chat"), pytest.param(ANTHROPIC, id="anthropic")])
def sender(provider: LoopbackProvider, client: httpx.Client, request: pytest.FixtureRequest) -> Sender:
    return Sender(provider, client, request.param)


def test_broken_histories_of_every_kind_are_accepted_once_repaired(sender: Sender) -> None:
    rejected = 0
    for seed in range(100):
        messages = [sender.dialect.user("hi"), *broken(Random(seed), sender.dialect), sender.dialect.user("go on")]
        rejected += sender.send(messages).status_code == 400
        answer = sender.send(repaired(messages, sender.dialect.format))
        assert answer.status_code == 200, answer.text
    assert rejected > 50


def test_a_controller_that_repairs_sends_accepted_requests(sender: Sender) -> None:
    """`repair=True`: a crashed run continues, the host's list is unchanged, and each call gives the same list."""
    hooks = CompactionController(
        context_window=100_000, format=sender.dialect.format, settings=CompactionSettings(repair=True)
    )
    messages = script(sender.dialect, "s u ?x u")
    before = list(messages)
    view = hooks.transform_context_sync(messages)
    assert sender.send(view).status_code == 200
    assert messages == before
    results = [result.text for piece in sender.dialect.read(view) for result in piece.results]
    assert results == [INTERRUPTED]
    assert hooks.transform_context_sync(messages) == view
