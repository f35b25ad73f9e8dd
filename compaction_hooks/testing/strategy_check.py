"""Check of the contract of `Strategy`, for the author of a strategy."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from typing import Any, Final, cast

from compaction_hooks import (
    CompactionController,
    CompactionFinished,
    CompactionRecord,
    CompactionSession,
    CompactionSettings,
    project,
)
from compaction_hooks.events import CompactionEvent
from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat
from compaction_hooks.messages import M, MessageFormat
from compaction_hooks.strategies import (
    AnyStrategy,
    Candidate,
    ClearToolResults,
    DropOldest,
    Goal,
    ShortenParts,
    Snapshot,
    Summarized,
    SummaryPlan,
    SummaryStrategy,
)
from compaction_hooks.testing.generated import hostile_history, realistic_history
from compaction_hooks.testing.hosts import ChatMessage, as_anthropic, as_openai_chat
from compaction_hooks.testing.promises import BrokenPromise, check_view, demand

REALISTIC: Final = range(3)
"""Seeds of the realistic conversations."""
HOSTILE: Final = range(100, 102)
"""Seeds of the hostile conversations."""
WAYS: Final = ((0.9, False), (0.9, True), (1.5, True))
"""Size of the conversation as a share of the window, above the threshold or the window, and whether there are other strategies."""
GROWTH: Final = (0.7, 1.0)
"""Shares of a conversation after which it is sent; the second continues from the record of the first."""


def check_strategy(strategy: AnyStrategy, conversations: Iterable[Sequence[ChatMessage]] = ()) -> None:
    """Check that a strategy keeps the contract of `Strategy` on generated conversations as OpenAI and Anthropic messages.

    - It proposes `Candidate(...)` or None (one that asks for a summary: `SummaryPlan(...)` or None first), and never raises.
    - It proposes the same for the same snapshot, and changes neither the snapshot nor the messages.
    - The record of a candidate follows the active one, applies to the conversation, and survives JSON.
    - Alone and with other strategies, in windows larger and smaller than the conversation, every view passes `check_view`, and is
      smaller, or the unchanged list; a second call and another process with the records make the same view.

    Args:
        strategy: The strategy.
        conversations: OpenAI chat messages for which it proposes something, if the tools `read_file`, `run_command`,
            `write_file` and `search` of the generated conversations give it nothing to do.

    Raises:
        AssertionError: the contract is broken; the text names the broken rule and the conversation.
    """
    assert callable(getattr(strategy, "propose", None)), (
        f"{type(strategy).__name__} is no Strategy: it lacks propose(snapshot, goal)"
    )

    proposed = 0
    for name, format, messages in _conversations(conversations):
        for fill, others in WAYS:
            spy = _SummarySpy(strategy) if isinstance(strategy, SummaryStrategy) else _Spy(strategy)
            try:
                _play(spy, format, messages, fill, others=others)
            except BrokenPromise as broken:
                spy.broken.append(str(broken))
            assert not spy.broken, f"{spy.broken[0]}: {name}, {len(messages)} messages, {fill:.0%} of the window"
            proposed += spy.proposed

    assert proposed, (
        f"{type(strategy).__name__} never proposed anything: give conversations in which it has something to do"
    )


def _conversations(
    given: Iterable[Sequence[ChatMessage]],
) -> Iterator[tuple[str, MessageFormat[ChatMessage], list[ChatMessage]]]:
    for number, messages in enumerate(given):
        yield f"conversation {number}", OpenAIChatFormat(), list(messages)
    for seed in REALISTIC:
        name, history = f"realistic conversation {seed}", realistic_history(random.Random(seed).randrange, most_turns=3)
        yield name, OpenAIChatFormat(), [as_openai_chat(message) for message in history]
        yield f"{name} for Anthropic", AnthropicFormat(), as_anthropic(m for m in history if m.role != "system")
    for seed in HOSTILE:
        messages = [as_openai_chat(message) for message in hostile_history(random.Random(seed).randrange)]
        yield f"hostile conversation {seed}", OpenAIChatFormat(), messages


def _play(
    spy: AnyStrategy, format: MessageFormat[ChatMessage], messages: list[ChatMessage], fill: float, *, others: bool
) -> None:
    """Send a growing conversation through a controller with this strategy."""
    strategies: list[AnyStrategy] = [ClearToolResults(0, 0), spy, ShortenParts(), DropOldest()] if others else [spy]
    settings = CompactionSettings(strategies=strategies)
    window = max(int(_size(messages, format) / fill), 1_024)
    controller = CompactionController(context_window=window, settings=settings, format=format)
    session = controller.session("checked")
    for part in GROWTH:
        _check_call(session, messages[: int(len(messages) * part)], format)


def _check_call(
    session: CompactionSession[ChatMessage], messages: list[ChatMessage], format: MessageFormat[ChatMessage]
) -> None:
    """Check the view of a list: the list is unchanged, and every process with the records makes the same valid view of it."""
    copies, done = deepcopy(messages), list[CompactionFinished]()

    def on_event(event: CompactionEvent) -> None:
        if isinstance(event, CompactionFinished):
            done.append(event)

    view = session.transform_context_sync(messages, on_event=on_event)
    demand(messages == copies, "host list unchanged", "the list or a message in it was changed")
    check_view(messages, view, format=format, summaries=[record.rendered for record in session.records])
    demand(all(event.tokens_after < event.tokens_before for event in done), "smaller", "a compaction left no less")
    elsewhere = CompactionController(format=format).session("elsewhere")
    elsewhere.import_records(session.export_records())
    for again in (session.transform_context_sync(messages), elsewhere.transform_context_sync(copies)):
        demand(
            again == view, "deterministic", "the same list gives another view the second time, or in another process"
        )


def _size(messages: list[ChatMessage], format: MessageFormat[ChatMessage]) -> int:
    session = CompactionController(context_window=1_000_000_000, format=format).session("size")
    session.transform_context_sync(messages)
    return session.state().context_tokens or 0


class _Spy:
    """Wrapper of a strategy that asks it twice and checks each proposal.

    Attributes:
        broken: The rules it broke, one text each.
        proposed: Number of proposals other than None.
    """

    def __init__(self, strategy: Any) -> None:
        self._strategy = strategy
        self.broken: list[str] = []
        self.proposed = 0

    def propose(self, snapshot: Snapshot[M], goal: Goal[M], /) -> Any:
        """Return the strategy's proposal, unless it broke the contract."""
        return self._ask("propose", Candidate, snapshot, goal)

    def _ask(self, method: str, kind: type, snapshot: Snapshot[Any], goal: Goal[Any], *more: object) -> Any:
        held = deepcopy(_mutable(snapshot, goal))
        try:
            answer, again = (getattr(self._strategy, method)(snapshot, goal, *more) for _ in range(2))
            assert held == _mutable(snapshot, goal), f"{method}() must change nothing, but changed the snapshot"
            if answer is None and again is None:
                return None
            assert isinstance(cast("object", answer), kind), (
                f"{method}() must answer {kind.__name__}(...) or None, not {answer!r:.100}"
            )
            assert _same(answer, again), f"{method}() must answer the same to the same snapshot"
            if kind is Candidate:
                _check_candidate(snapshot, answer)
        except AssertionError as broken:
            self.broken.append(str(broken))
            return None
        except Exception as error:  # noqa: BLE001 - a strategy may raise anything
            self.broken.append(f"{method}() must not raise, but raised {type(error).__name__}: {error}")
            return None

        self.proposed += 1
        return answer


class _SummarySpy(_Spy):
    """Wrapper of a strategy that asks for a summary."""

    def propose(self, snapshot: Snapshot[M], goal: Goal[M], /) -> Any:
        """Return the strategy's plan, unless it broke the contract."""
        return self._ask("propose", SummaryPlan, snapshot, goal)

    def from_summary(self, snapshot: Snapshot[M], goal: Goal[M], plan: SummaryPlan, summary: Summarized, /) -> Any:
        """Return the strategy's candidate, unless it broke the contract."""
        return self._ask("from_summary", Candidate, snapshot, goal, plan, summary)


def _mutable(snapshot: Snapshot[M], goal: Goal[M]) -> list[object]:
    """Return the values that a strategy could change: the list and its messages, pins and rules."""
    return [snapshot.messages, dict(snapshot.user_pins), dict(goal.tool_rules)]


def _same(one: object, other: object) -> bool:
    if isinstance(one, Candidate) and isinstance(other, Candidate):
        return (one.record, one.is_enough) == (other.record, other.is_enough)
    return one == other


def _check_candidate(snapshot: Snapshot[Any], candidate: Any) -> None:
    record, messages = candidate.record, snapshot.messages
    active = snapshot.record.id if snapshot.record else None
    assert record.parent == active, "its record must follow the active one: make it with shrink(snapshot, goal, ...)"
    shown = snapshot.write(candidate.view)
    loaded = CompactionRecord.from_json(record.to_json())
    assert project(messages, loaded, format=snapshot.format) == shown, "its record must give its view, also after JSON"
