"""Prompt caches: each request begins with the one before it, unless there was a compaction between them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import pytest

from compaction_hooks.events import CompactionEvent, CompactionFinished
from compaction_hooks.testing import generated_history
from tests.cases import sampled
from tests.conversations import Chat, controller, prose, steps, system, talk, user

CLEARED = "[Old tool result cleared"
MARK = {"type": "ephemeral"}
SEEDS = range(24)


@dataclass(frozen=True, slots=True)
class Sent:
    """One request, each message as the bytes a provider would get, and how many compactions it was made by."""

    messages: tuple[str, ...]
    compactions: int

    def begins_with(self, earlier: Sent) -> bool:
        return self.messages[: len(earlier.messages)] == earlier.messages

    @property
    def cleared(self) -> int:
        return sum(CLEARED in message for message in self.messages)


def requests(messages: Sequence[Chat], window: int) -> list[Sent]:
    events: list[CompactionEvent] = []
    hooks = controller(window, events=events)
    made: list[Sent] = []
    for index in calls(messages):
        events.clear()
        view = hooks.transform_context_sync(list(messages[:index]))
        finished = sum(isinstance(event, CompactionFinished) for event in events)
        made.append(Sent(tuple(map(json.dumps, view)), finished))
    return made


def calls(messages: Sequence[Chat]) -> list[int]:
    return [index for index, message in enumerate(messages) if index and message["role"] == "assistant"]


def pairs(made: list[Sent]) -> list[tuple[Sent, Sent]]:
    return list(pairwise(made))


@pytest.mark.parametrize("seed", SEEDS)
def test_below_the_threshold_every_request_begins_with_the_whole_one_before(seed: int) -> None:
    messages = generated_history(seed)
    hooks = controller(10_000_000)
    made: list[Sent] = []
    for index in calls(messages):
        history = list(messages[:index])
        view = hooks.transform_context_sync(history)
        assert view is history
        made.append(Sent(tuple(map(json.dumps, view)), 0))
    assert all(later.begins_with(earlier) for earlier, later in pairs(made))


@pytest.mark.parametrize("window", sampled([16_384, 8_192], 1))
def test_a_compaction_changes_the_prefix_once(window: int) -> None:
    runs = [requests(generated_history(seed), window) for seed in SEEDS]
    compactions = sum(sent.compactions for made in runs for sent in made)
    changed = [later for made in runs for earlier, later in pairs(made) if not later.begins_with(earlier)]
    assert len(changed) > 10
    assert all(sent.compactions == 1 for sent in changed)
    assert len(changed) <= compactions


def test_old_results_are_cleared_in_batches() -> None:
    """Clearing a little in each call would write the cache anew each time: between compactions nothing more is cleared."""
    made = requests([system(), user("go"), *steps(120, 500)], 16_384)
    gains = [(later.compactions, later.cleared - earlier.cleared) for earlier, later in pairs(made)]
    assert all(gain == 0 for compactions, gain in gains if not compactions)
    batches = [gain for compactions, gain in gains if compactions and gain > 0]
    assert batches
    assert min(batches) > 2


def test_compactions_are_far_apart() -> None:
    """The target lies well below the trigger, so that a changed prefix pays: after each compaction, many calls begin alike."""
    made = requests([system(), *talk(150, 150)], 8_192)
    changes = [number for number, (earlier, later) in enumerate(pairs(made)) if not later.begins_with(earlier)]
    assert len(changes) >= 3
    assert min(later - earlier for earlier, later in pairwise(changes)) >= 4


# -- marks


def with_mark(message: Chat) -> Chat:
    """Return a copy of an OpenAI message with a mark, as hosts set one on the newest message of a request."""
    content = message["content"]
    blocks: list[Chat] = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    return {**message, "content": [*blocks[:-1], {**blocks[-1], "cache_control": MARK}]}


def marks(view: Sequence[Chat]) -> list[Chat]:
    return [message for message in view if "cache_control" in json.dumps(message)]


def test_marks_of_kept_messages_survive_every_compaction() -> None:
    """A mark on the system message and one on each request stay as long as their message is sent; then the summary has the last."""
    messages = [with_mark(system("You are careful. " + prose(200)))]
    for number in range(40):
        messages += [with_mark(user(f"Question {number}: {prose(150)}")), *steps(2, 200, first=2 * number)]
    hooks = controller(8_192)
    compacted = 0
    for index in calls(messages):
        view = hooks.transform_context_sync(list(messages[:index]))
        kept = [message for message in view if any(message is host for host in messages)]
        assert view[0] is messages[0]
        is_compacted = len(kept) < len(view)
        assert marks(view) == [view[0], *([view[1]] if is_compacted else []), *marks(kept[1:])]
        compacted = hooks.state().compaction_count
    assert compacted >= 3


def test_a_mark_that_moves_with_every_call_changes_nothing_else() -> None:
    """Hosts mark the newest message of each request; its copy in the next request bears none. Records still apply."""
    messages = [system(), *talk(60, 150)]
    hooks = controller(8_192)
    bare: list[Sent] = []
    for index in calls(messages):
        before = hooks.state().compaction_count if index > 2 else 0
        view = hooks.transform_context_sync([*messages[: index - 1], with_mark(messages[index - 1])])
        assert marks(view) == [view[-1]]
        count = hooks.state().compaction_count
        bare.append(Sent(tuple(map(json.dumps, [*view[:-1], messages[index - 1]])), count - before))
    assert hooks.state().compaction_count >= 2
    assert all(later.begins_with(earlier) or later.compactions for earlier, later in pairs(bare))
