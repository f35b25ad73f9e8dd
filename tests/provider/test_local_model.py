"""The program examples/local_model.py against the shapes of local servers: errors, silent cutting, answers that end for length."""

import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai")

import openai

from tests.provider import Answer, Call, LoopbackProvider, Received

CONTEXT = 8_192
TOO_LARGE = 32_768
"""A window that the server does not have, as an argument may say."""


@pytest.fixture(scope="module")
def local_model() -> Any:
    """The example, imported."""
    path = Path(__file__).resolve().parents[2] / "examples" / "local_model.py"
    spec = spec_from_file_location("local_model", path)
    assert spec is not None
    assert spec.loader is not None
    made = sys.modules["local_model"] = module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture
def client(provider: LoopbackProvider, request: pytest.FixtureRequest) -> Iterator[Any]:
    with openai.OpenAI(base_url=provider.openai_url, api_key=request.node.name, max_retries=0) as made:
        yield made


class Keeper:
    """A model that finds what it is asked for in what it sees, and calls a tool now and then."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, received: Received) -> Answer:
        last, seen = str(received.messages[-1]["content"]), str(received.messages)
        if last.startswith("What does "):
            name = last.split()[2]
            return Answer(seen.partition(f"{name} wants ")[2].partition(" delivered")[0] or "I do not know.")
        self.calls += 1
        if self.calls % 12 == 5 and received.messages[-1]["role"] == "user":
            names = [tool["function"]["name"] for tool in received.tools]
            return Answer(calls=(Call(names[self.calls % len(names)], {"shelf": 3, "query": "brass"}),))
        return Answer("ok")


@pytest.mark.parametrize(
    ("summaries", "wording", "overflow", "context"),
    [
        pytest.param("model", "llamacpp", "reject", CONTEXT, id="llama.cpp", marks=pytest.mark.full),
        pytest.param("rule", "llamacpp", "reject", TOO_LARGE, id="llama.cpp, window not known", marks=pytest.mark.full),
        pytest.param("model", "vllm", "reject", TOO_LARGE, id="vLLM, window not known"),
        pytest.param("rule", "openai", "length", TOO_LARGE, id="ends for length"),
    ],
)
def test_a_long_talk_ends_and_the_facts_are_known(
    provider: LoopbackProvider,
    client: Any,
    request: pytest.FixtureRequest,
    local_model: Any,
    summaries: str,
    wording: str,
    overflow: Any,
    context: int,
) -> None:
    side = provider.conversation(request.node.name, window=CONTEXT, wording=wording, overflow=overflow)
    side.think = Keeper()
    side.summary_text = "## Goal\n- Keep the stock.\n\n## Progress\n### In Progress\n- [ ] counting shelves"
    report = local_model.run(client, "stock-1", context, summaries, offers_tools=True)
    assert (report.turns, report.refused) == (local_model.TURNS, 0)
    assert report.compactions >= 1
    assert len([one for one in side.model_requests if one.input_tokens > CONTEXT]) <= 2
    assert report.right == report.questions
    assert report.called
    assert report.cached_tokens > report.input_tokens / 4


@pytest.mark.full
def test_a_server_that_cuts_silently_is_named_in_the_log(
    provider: LoopbackProvider,
    client: Any,
    request: pytest.FixtureRequest,
    local_model: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    side = provider.conversation(request.node.name, window=CONTEXT, overflow="halve")
    side.think = Keeper()
    local_model.run(client, "stock-1", TOO_LARGE, "rule")
    assert "seems to cut" in caplog.text


@pytest.mark.full
@pytest.mark.parametrize(("way", "is_refused"), [("none", True), ("drop", False)])
def test_without_the_library_requests_are_refused_or_the_facts_are_dropped(
    provider: LoopbackProvider,
    client: Any,
    request: pytest.FixtureRequest,
    local_model: Any,
    way: str,
    is_refused: bool,
) -> None:
    side = provider.conversation(request.node.name, window=CONTEXT, wording="llamacpp")
    side.think = Keeper()
    report = local_model.run(client, "stock-1", CONTEXT, way)
    assert (report.refused > 10) is is_refused
    assert (report.turns, report.right) == (local_model.TURNS, 0)
