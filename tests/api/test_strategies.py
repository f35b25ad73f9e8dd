"""`strategies` of `CompactionSettings`, with `add_continuation`: how a view is made smaller."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from compaction_hooks import CompactionOutcome, CompactionSettings, ContextOverflowError, Usage
from compaction_hooks.events import CompactionEvent, CompactionFailed, CompactionSkipped
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.messages import M, Message, PartAddress, Text
from compaction_hooks.strategies import (
    AnyStrategy,
    Candidate,
    ClearToolResults,
    DropOldest,
    Goal,
    ShortenParts,
    Snapshot,
    Summarize,
    Summarized,
    SummaryPlan,
    plan_summary,
    shrink,
    shrinkable_parts,
)
from compaction_hooks.tokens import CharacterEstimator
from tests.conversations import (
    Chat,
    Controller,
    Scripted,
    assistant,
    call,
    controller,
    elsewhere,
    prose,
    steps,
    system,
    talk,
    texts,
    tool,
    user,
)

OVERFLOW = RuntimeError("prompt is too long: 9000 tokens > 8192 maximum")
AT_WORK = [system(), user("Port the parser."), *steps(18, 300)]
"""A turn with tool results, above the threshold of 6,144 tokens and within the window of 8,192."""
IN_TALK = [*talk(15, 220), user("And now?")]
"""The same without tools."""


def hooks(*strategies: AnyStrategy, asked: Scripted | None = None, **more: Any) -> Controller:
    settings = CompactionSettings(strategies=strategies, keep_user_tokens=0)
    return controller(settings=settings, summarizer=asked or Scripted(), **more)


def list_cleared(view: Sequence[Chat]) -> list[int]:
    return [place for place, message in enumerate(view) if "Old tool result cleared" in str(message["content"])]


# -- those of the package


def test_clear_only_asks_no_model_and_drops_no_message() -> None:
    asked, events = Scripted(), list[CompactionEvent]()
    only = hooks(ClearToolResults(), asked=asked, events=events)
    view = only.transform_context_sync(AT_WORK)
    assert len(view) == len(AT_WORK)
    assert list_cleared(view)
    assert [message for place, message in enumerate(view) if place not in list_cleared(view)] == [
        message for place, message in enumerate(AT_WORK) if place not in list_cleared(view)
    ]
    assert not asked.requests
    assert elsewhere(only, AT_WORK) == view


def test_clear_only_waits_while_nothing_can_be_cleared() -> None:
    events: list[CompactionEvent] = []
    assert hooks(ClearToolResults(), events=events).transform_context_sync(IN_TALK) is IN_TALK
    assert [event.why for event in events if isinstance(event, CompactionSkipped)] == ["nothing to summarize"]


def test_the_first_strategy_that_reaches_the_target_is_taken() -> None:
    asked = Scripted()
    first_cleared = hooks(ClearToolResults(protect_tokens=0), Summarize(), asked=asked).transform_context_sync(AT_WORK)
    assert list_cleared(first_cleared)
    assert not asked.requests
    first_dropped = hooks(DropOldest(), ClearToolResults(), asked=asked).transform_context_sync(AT_WORK)
    assert "[Compacted " in texts(first_dropped)
    assert not list_cleared(first_dropped)
    first_shortened = hooks(ShortenParts(), Summarize(), asked=asked).transform_context_sync(AT_WORK)
    assert "characters left out" in texts(first_shortened)
    assert not asked.requests


@pytest.mark.parametrize(
    ("strategy", "newest_cleared"),
    [
        (ClearToolResults(protect_tokens=0), len(AT_WORK) - 3),
        (ClearToolResults(protect_tokens=3_000), len(AT_WORK) - 19),
    ],
)
def test_so_many_of_the_newest_results_are_protected(strategy: ClearToolResults, newest_cleared: int) -> None:
    assert max(list_cleared(hooks(strategy).transform_context_sync(AT_WORK))) == newest_cleared


def test_clearing_must_gain_as_much_as_it_is_told() -> None:
    assert list_cleared(hooks(ClearToolResults(minimum_gain_tokens=3_000)).transform_context_sync(AT_WORK))
    assert hooks(ClearToolResults(minimum_gain_tokens=7_000)).transform_context_sync(AT_WORK) is AT_WORK


@pytest.mark.parametrize(
    ("counted", "gains", "newest_cleared"), [((300, 1_460, 2_620), False, 22), ((450, 2_190, 3_930), True, 24)]
)
def test_tokens_to_protect_and_to_gain_are_those_that_the_model_counts(
    counted: Sequence[int], gains: bool, newest_cleared: int
) -> None:
    """Another conversation taught how many they are: as many as estimated, or a quarter more."""
    messages = [user("go"), *steps(16, 300)]

    def clear(**limits: int) -> list[int]:
        only = hooks(ClearToolResults(**limits))
        session = only.session("another")
        for number, tokens in zip((1, 5, 9), counted, strict=True):
            view = session.transform_context_sync([user("go"), *steps(number, 200)])
            session.report_usage(Usage(input_tokens=tokens), view)
        return list_cleared(only.transform_context_sync(messages))

    assert bool(clear(protect_tokens=0, minimum_gain_tokens=6_000)) == gains
    assert max(clear(protect_tokens=1_500, minimum_gain_tokens=1_000)) == newest_cleared


def test_of_each_part_so_many_characters_stay() -> None:
    view = hooks(ShortenParts(least_chars=600)).transform_context_sync(AT_WORK)
    results = [str(message["content"]) for message in view if message["role"] == "tool"]
    assert any("characters left out" in text for text in results)
    assert 600 <= min(map(len, results)) < 700
    assert hooks(ShortenParts(least_chars=1_000)).transform_context_sync(AT_WORK) is AT_WORK


class DropWatched:
    """`DropOldest`, with the tokens that are left for the line in front of its extract."""

    line_tokens = 0

    def propose(self, snapshot: Snapshot[M], goal: Goal[M], /) -> SummaryPlan | None:
        plan = DropOldest().propose(snapshot, goal)
        assert plan is not None
        self.line_tokens = _plan(snapshot, goal).allowance - plan.allowance
        return plan

    from_summary = DropOldest().from_summary


def test_an_extract_leaves_room_for_the_line_that_counts_the_dropped_messages() -> None:
    watched = DropWatched()
    only = hooks(watched)
    only.transform_context_sync(IN_TALK)
    line = only.history()[-1].summary.partition("\n")[0]
    assert "messages: " in line
    for record in (only.history()[-1], only.compact_sync([*IN_TALK, *talk(15, 220, first=15)]).record):
        assert record is not None
        assert record.unseen_message_count == record.compacted_message_count > 0
    assert watched.line_tokens == CharacterEstimator().estimate_message_tokens(
        Message(role="user", parts=(Text(line),))
    )


class CountingRewrites(OpenAIChatFormat):
    """Counts the messages that it writes anew."""

    rewrites = 0

    def rewrite(self, message: Chat, texts: Mapping[PartAddress, str], /) -> Chat:
        self.rewrites += 1
        return super().rewrite(message, texts)


def test_a_view_that_cannot_reach_the_target_is_not_made_while_a_summary_does() -> None:
    messages = [*talk(9, 220), user("Port the parser."), *steps(8, 250)]
    clear, counting = ClearToolResults(protect_tokens=0), CountingRewrites()
    view = hooks(clear, Summarize(), format=counting).transform_context_sync(messages)
    assert "keep going" in texts(view)
    assert not counting.rewrites
    assert list_cleared(hooks(clear, format=counting).transform_context_sync(messages))
    assert counting.rewrites


def test_a_view_above_the_target_is_sent_when_the_summary_fails() -> None:
    messages = [*talk(8, 260), user("Port the parser."), *steps(14, 250)]
    failing = Scripted(RuntimeError("no model today"))
    view = hooks(ClearToolResults(protect_tokens=0), Summarize(), asked=failing).transform_context_sync(messages)
    assert failing.requests
    assert list_cleared(view)
    assert len(view) == len(messages)


# -- by hand, and after an overflow


def test_by_hand_without_anything_to_clear_the_list_stays() -> None:
    result = hooks(ClearToolResults()).compact_sync(IN_TALK)
    assert (result.outcome, result.messages) == (CompactionOutcome.NOTHING_TO_COMPACT, IN_TALK)


def test_after_an_overflow_clear_only_clears() -> None:
    only = hooks(ClearToolResults())
    view = only.recover_sync(OVERFLOW, AT_WORK)
    assert list_cleared(view)
    assert len(view) == len(AT_WORK)


# -- nothing fits


def test_a_list_that_clearing_cannot_make_fit_stays_word_for_word_with_an_event() -> None:
    messages = [*talk(40, 300), user("And now?")]
    events: list[CompactionEvent] = []
    only = hooks(ClearToolResults(), events=events)
    assert only.transform_context_sync(messages) is messages
    (failed,) = (event for event in events if isinstance(event, CompactionFailed))
    assert failed.is_over_window
    with pytest.raises(ContextOverflowError, match=r"add ShortenParts\(\) to the strategies") as raised:
        only.compact_sync(messages)
    assert raised.value.part == "strategies"


def test_with_shorten_parts_older_messages_are_shortened_before_it_fails() -> None:
    messages = [*talk(40, 300), user("And now?")]
    view = hooks(ShortenParts()).transform_context_sync(messages)
    assert len(view) == len(messages)
    assert "characters left out" in texts(view)
    assert view[-1] is messages[-1]
    with pytest.raises(ContextOverflowError) as raised:
        hooks(ShortenParts()).compact_sync([*messages, user(prose(7_000))])
    assert 7_000 < (raised.value.tokens or 0) < 11_000


# -- a user's own


@dataclass(frozen=True)
class KeepNewest:
    tool: str

    def propose(self, snapshot: Snapshot[M], goal: Goal[M], /) -> Candidate[M] | None:
        results = [part for part in shrinkable_parts(snapshot, goal, results_only=True) if part.tool == self.tool]
        return shrink(snapshot, goal, [part.reduction() for part in results[:-1]])


class SummarizeMore:
    """Summarizes, and keeps half as much word for word; notes the threads in which it works."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []

    def propose(self, snapshot: Snapshot[M], goal: Goal[M], /) -> SummaryPlan | None:
        self.threads.append(threading.current_thread())
        return plan_summary(snapshot, replace(goal, keep_tokens=goal.keep_tokens // 2))

    def from_summary(
        self, snapshot: Snapshot[M], goal: Goal[M], plan: SummaryPlan, summary: Summarized, /
    ) -> Candidate[M] | None:
        self.threads.append(threading.current_thread())
        return Summarize().from_summary(snapshot, goal, plan, summary)


def test_a_strategy_of_ones_own_makes_the_view() -> None:
    messages = [user("Log in."), *steps(14, 300, name="screenshot"), *steps(10, 300, first=14), user("Go on.")]
    own = hooks(KeepNewest("screenshot"))
    view = own.transform_context_sync(messages)
    assert list_cleared(view) == [2 * number for number in range(1, 14)]
    assert elsewhere(own, messages) == view
    assert own.transform_context_sync([*messages, *steps(1, 50, first=24)])[:-2] == view


def test_a_strategy_of_ones_own_asks_for_a_summary() -> None:
    def list_kept(strategy: AnyStrategy) -> int:
        return len(hooks(strategy).compact_sync(AT_WORK).messages)

    assert list_kept(SummarizeMore()) < list_kept(Summarize())


@pytest.mark.parametrize("asked", [None, Scripted()], ids=["by rule", "of a model"])
async def test_a_summary_is_planned_and_completed_outside_the_event_loop(asked: Scripted | None) -> None:
    strategy = SummarizeMore()
    await controller(settings=CompactionSettings(strategies=[strategy]), summarizer=asked).transform_context(AT_WORK)
    assert len(strategy.threads) == 2
    assert threading.main_thread() not in strategy.threads


class Broken:
    def __init__(self, propose: Callable[[Snapshot[Any], Goal[Any]], Any]) -> None:
        self._propose = propose

    def propose(self, snapshot: Snapshot[Any], goal: Goal[Any], /) -> Any:
        return self._propose(snapshot, goal)


class BrokenSummary(Broken):
    def from_summary(self, *_: object) -> Any:
        raise RuntimeError("no use for that")


def foreign(snapshot: Snapshot[Any], goal: Goal[Any]) -> Any:
    """Return a candidate of another conversation, made before."""
    made = KeepNewest("read_file").propose(snapshot, goal)
    assert made is not None
    return replace(made, record=replace(made.record, covered_runs=4, covered_digest="0" * 64))


def with_record(**fields: Any) -> Callable[[Snapshot[Any], Goal[Any]], Any]:
    def propose(snapshot: Snapshot[Any], goal: Goal[Any]) -> Any:
        made = KeepNewest("read_file").propose(snapshot, goal)
        assert made is not None
        return replace(made, record=replace(made.record, **fields))

    return propose


@pytest.mark.parametrize(
    "broken",
    [
        Broken(lambda snapshot, goal: 1 / 0),
        Broken(lambda snapshot, goal: snapshot.messages),
        Broken(foreign),
        Broken(with_record(parent="nobody")),
        Broken(with_record(digest={"not": object()})),
        Broken(with_record(summary=None)),
        BrokenSummary(lambda snapshot, goal: {"history": []}),
        BrokenSummary(lambda snapshot, goal: _plan(snapshot, goal)),
    ],
)
def test_a_broken_strategy_is_passed_over_and_named_once(broken: Broken, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "compaction_hooks")
    guarded = hooks(broken, ClearToolResults())
    assert guarded.transform_context_sync(AT_WORK) == hooks(ClearToolResults()).transform_context_sync(AT_WORK)
    guarded.session("another").transform_context_sync(AT_WORK)
    assert len([line for line in caplog.messages if f"strategy {type(broken).__name__} failed" in line]) == 1


def _plan(snapshot: Snapshot[Any], goal: Goal[Any]) -> SummaryPlan:
    plan = plan_summary(snapshot, goal)
    assert plan is not None
    return plan


def test_a_second_answer_to_the_same_call_stays_whole_when_the_first_is_shortened() -> None:
    messages = [user("go"), assistant(None, call("1")), tool("1", "long " * 3_000), tool("1", "short")]
    hooks = controller(4_096, settings=CompactionSettings(strategies=[ShortenParts()]))
    view = hooks.transform_context_sync(messages)
    assert len(str(view[2]["content"])) < len("long " * 3_000)
    assert view[3] is messages[3]
