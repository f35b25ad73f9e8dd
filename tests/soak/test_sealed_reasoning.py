"""Reasoning that the provider binds to the messages before it: recorded conversations with signed blocks, and generated ones.

The lines at the end tell how many answers in the requests had their reasoning, next to a host that drops all at each compaction.
"""

from collections.abc import Callable, Iterable

import pytest

from tests.data import sessions
from tests.sealed_runs import BINDING, HIDDEN, Agent, Run, replay

WINDOWS = (8_192, 16_384, 32_768, 131_072)
HISTORIES = 10_000
PART = 1_250


def line(name: str, agents: Iterable[Agent]) -> str:
    columns = zip(*(agent.figures for agent in agents), strict=True)
    requests, refusals, kept, dropping, answers = map(sum, columns)
    shares = f"{kept / answers:.0%} of the answers with their reasoning, {dropping / answers:.0%} if all were dropped"
    return f"{name}: {requests:,} requests, {refusals:,} refused, {shares}"


def allowed_refusals(agent: Agent, model: str) -> int:
    """Return how often a conversation may be refused: once for a model that is not known, and once for each unseen edit."""
    return (model == HIDDEN) + (agent.blind_calls if isinstance(agent, Run) else 0)


@pytest.mark.parametrize("model", [BINDING, HIDDEN])
@pytest.mark.parametrize("window", WINDOWS)
def test_recorded_conversations_with_signed_reasoning(
    window: int, model: str, note_line: Callable[[str], None]
) -> None:
    agents = {record["id"]: replay(record, window, model, Agent()) for record in sessions()}
    note_line(line(f"recorded, {window:,}, {model}", agents.values()))
    assert [name for name, agent in agents.items() if len(agent.signer.refusals) > allowed_refusals(agent, model)] == []


@pytest.mark.parametrize("model", [BINDING, HIDDEN])
@pytest.mark.parametrize("first", range(0, HISTORIES, PART))
def test_generated_conversations_with_signed_reasoning(
    first: int, model: str, note_line: Callable[[str], None]
) -> None:
    runs = {seed: Run(seed, model) for seed in range(first, first + PART)}
    for run in runs.values():
        run.steps(30)
    note_line(line(f"generated, from {first:,}, {model}", runs.values()))
    assert [seed for seed, run in runs.items() if len(run.signer.refusals) > allowed_refusals(run, model)] == []
