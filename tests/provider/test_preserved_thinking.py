"""Models that bind reasoning to the content before it, over real HTTP with Anthropic's client: no request is rejected."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, TypeAlias

import pytest

pytest.importorskip("anthropic")

import anthropic

from compaction_hooks import CompactionController, CompactionFinished, CompactionSettings
from compaction_hooks.formats import AnthropicFormat
from tests.provider import Answer, Call, LoopbackProvider, Side, Signer

BINDING = "claude-opus-5-5"
HIDDEN = "my-gateway-model"
WINDOW = 10_000
STEPS = 60
RESULT = "line of the file that was asked for\n" * 40
TOOLS: list[Any] = [{"name": "read", "description": "Reads a part.", "input_schema": {"type": "object"}}]


class Run:
    """An agent's run with Anthropic's client, and a session that keeps it inside the window."""

    def __init__(self, provider: LoopbackProvider, model: str) -> None:
        answers = [Answer(f"Step {step}.", (Call("read", {"part": step}),)) for step in range(STEPS)]
        self.side: Side = provider.conversation(model, window=200_000, answers=answers)
        self.signer = self.side.signer = Signer()
        self.events: list[CompactionFinished] = []
        self.client = anthropic.Anthropic(base_url=provider.anthropic_url, api_key=model, max_retries=0)
        self.model = model
        self.stale: list[Any] = []
        self.messages: list[Any] = [{"role": "user", "content": "Read all parts, one after the other."}]
        self.session = CompactionController(
            format=AnthropicFormat(),
            context_window=WINDOW,
            settings=CompactionSettings(keep_recent_tokens=3_000),
            on_event=self._note,
        ).session("run")

    def _note(self, event: object) -> None:
        if isinstance(event, CompactionFinished):
            self.events.append(event)

    def send(self, view: list[Any]) -> Any:
        return self.client.messages.create(
            model=self.model, max_tokens=500, system="Be brief.", tools=TOOLS, messages=view
        )

    def step(self) -> None:
        """Make one model call, and run its tool calls."""
        answer = self.session.call_sync(self.messages, self.send, model=self.model)
        self.stale += getattr(answer, "input_transformations", None) or []
        self.messages.append({"role": "assistant", "content": answer.content})
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": RESULT}
            for block in answer.content
            if block.type == "tool_use"
        ]
        self.messages.append({"role": "user", "content": results or "Go on."})

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.step()


@pytest.fixture
def start(provider: LoopbackProvider) -> Iterator[Callable[[str], Run]]:
    """Return a function that starts a run of a model; close the clients at the end."""
    with ExitStack() as stack:

        def start_run(model: str) -> Run:
            run = Run(provider, model)
            stack.enter_context(run.client)
            return run

        yield start_run


Start: TypeAlias = Callable[[str], Run]


def test_a_long_run_with_cleared_results_summaries_pins_and_an_undo_is_never_refused(start: Start) -> None:
    run = start(BINDING)
    run.steps(8)
    run.session.pin(run.messages[5])
    run.steps(42)
    assert run.session.undo() is not None
    run.steps(10)
    assert any(event.record.reductions for event in run.events)
    assert any(event.record.rendered and event.record.pins for event in run.events)
    assert run.signer.refusals == []
    assert run.signer.reasoning_share > 0.2  # all that was made since the newest compaction


def test_behind_a_gateway_that_hides_the_model_one_refusal_is_recovered_and_teaches(start: Start) -> None:
    run = start(HIDDEN)
    run.steps(42)
    assert len(run.events) >= 3
    assert len(run.signer.refusals) == 1


@pytest.mark.parametrize(("model", "sends_stale"), [(BINDING, False), (HIDDEN, True)])
def test_an_older_account_is_never_rejected_and_a_known_model_gets_no_stale_reasoning(
    start: Start, model: str, sends_stale: bool
) -> None:
    run = start(model)
    run.signer.enforces = False
    run.steps(42)
    assert len(run.events) >= 3
    assert run.signer.refusals == []
    assert bool(run.stale) is sends_stale


def test_an_error_that_the_host_catches_is_recovered_by_recover(start: Start) -> None:
    run = start(HIDDEN)
    run.steps(30)
    error = provoke_rejection(run)
    view = run.session.recover_sync(error, run.messages, model=HIDDEN)
    assert run.send(view).content
    assert run.session.transform_context_sync(run.messages, model=HIDDEN) == view


def provoke_rejection(run: Run) -> anthropic.BadRequestError:
    """Change the content before the reasoning, send it, and return the provider's error."""
    with pytest.raises(anthropic.BadRequestError) as caught:
        run.send([{"role": "user", "content": "Something else."}, *run.messages[1:]])
    return caught.value


@pytest.mark.parametrize(("answer", "is_rejected"), [(1, False), (3, True), (5, False)])
def test_the_provider_lets_reasoning_be_left_out_at_both_ends_and_not_in_the_middle(
    answer: int, is_rejected: bool
) -> None:
    signer = Signer(redacted_every=0)
    messages: list[Any] = [{"role": "user", "content": "Read all parts."}]
    for step in range(3):
        thoughts = signer.sign({"messages": messages})
        said = {"role": "assistant", "content": [*thoughts, {"type": "text", "text": f"Step {step}."}]}
        messages = [*messages, said, {"role": "user", "content": "Go on."}]
    messages[answer] = {**messages[answer], "content": messages[answer]["content"][1:]}
    assert (signer.refusal({"messages": messages}) is not None) is is_rejected
