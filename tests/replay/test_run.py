import logging
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from compaction_hooks import CompactionSettings, Summary, SummaryRequest, Usage
from compaction_hooks.replay import (
    RecordedCall,
    RecordedSession,
    Replay,
    Totals,
    UsedLater,
    read_sessions,
    replay,
    total,
)
from compaction_hooks.tokens import CharacterEstimator
from tests.cases import folded
from tests.conversations import assistant, call, prose, steps, system, tool, user
from tests.data import DATA, needs_data
from tests.replay.samples import (
    OLD_FILE,
    OLD_ORDER,
    WINDOW,
    forgetful_conversation,
    long_conversation,
    probe,
    session,
    short_conversation,
)

BURIED = f"{prose(300)}\n{OLD_ORDER}, written to {OLD_FILE}"
"""A result with names that are not in its beginning: its step, which every summary gets, does not tell them."""
SUMMARIZING = CompactionSettings(clear_tool_results=False, identifier_tokens=0)
"""Makes the first compaction a summary."""


def replay_with_summary(conversation: Sequence[Mapping[str, Any]], summary: str) -> Replay:
    text = f"## Goal\n- {summary}"
    return replay(session(conversation), window=10_000, summarizer=lambda _: text, settings=SUMMARIZING)


def estimate(recorded: RecordedSession, end: int) -> int:
    estimate = CharacterEstimator().estimate_message_tokens
    return sum(estimate(piece) for message in recorded.messages[:end] for piece in recorded.format.read(message))


# -- calls


def test_every_answer_is_a_call_with_all_messages_before_it() -> None:
    recorded = session(short_conversation())
    done = replay(recorded, window=WINDOW)
    assert [(call.number, call.index) for call in done.calls] == [(1, 2), (2, 4)]
    assert [call.tokens_without for call in done.calls] == [estimate(recorded, 2), estimate(recorded, 4)]


def test_an_answer_with_nothing_before_it_is_no_call() -> None:
    greeting = [assistant("How can I help?"), user("Not at all."), assistant("Fine.")]
    assert [call.index for call in replay(session(greeting), window=WINDOW).calls] == [2]
    assert [call.index for call in replay(session(greeting, system="Be kind."), window=WINDOW).calls] == [0, 2]


def test_a_session_without_a_call_gives_empty_figures() -> None:
    done = replay(session([assistant("Hello?")]), window=WINDOW)
    assert done.calls == ()
    assert done.totals == Totals(sessions=1)
    assert done.totals.saving == 0.0


def test_system_prompt_and_tools_beside_the_messages_are_sent_too() -> None:
    bare = session(short_conversation())
    dressed = replace(bare, system=prose(400), tools=({"name": "read_file", "description": prose(200)},))
    more = replay(dressed, window=WINDOW).calls[0].tokens_sent - replay(bare, window=WINDOW).calls[0].tokens_sent
    assert 600 <= more <= 700


# -- compactions


def test_a_conversation_that_fits_is_sent_unchanged() -> None:
    done = replay(session(short_conversation()), window=WINDOW)
    assert done.compactions == ()
    assert [call.tokens_sent for call in done.calls] == [call.tokens_without for call in done.calls]
    assert (done.overflows_without, done.totals.saving, done.trigger) == (0, 0.0, 6_000)


def test_a_conversation_that_does_not_fit_is_compacted_and_the_saving_is_counted() -> None:
    ticks: list[int] = []
    done = replay(session(long_conversation()), window=WINDOW, on_call=lambda: ticks.append(1))
    assert len(ticks) == len(done.calls) == 21
    assert len(done.compactions) >= 2
    assert max(call.tokens_sent for call in done.calls) <= done.trigger
    assert done.overflows_without == sum(call.tokens_without > WINDOW for call in done.calls) > 5
    totals = done.totals
    assert totals.tokens_without == sum(call.tokens_without for call in done.calls)
    assert totals.tokens_sent == sum(call.tokens_sent for call in done.calls)
    assert totals.saving == 1 - totals.tokens_sent / totals.tokens_without > 0.3
    first = done.compactions[0]
    assert first.cleared_results > 1
    assert (first.summary, first.summarized_messages) == ("", 0)
    assert first.kept_messages + first.cleared_results == first.messages_before - 1, "all but the system message"


def test_a_compaction_says_when_why_and_how_much() -> None:
    done = replay(session(long_conversation()), window=WINDOW, settings=SUMMARIZING)
    first = done.compactions[0]
    at = done.calls[first.call - 1]
    assert first.reason == "threshold"
    assert done.calls[first.call - 2].tokens_sent <= done.trigger < first.tokens_before == at.tokens_without
    assert first.tokens_after == at.tokens_sent <= 3_600
    assert first.messages_before == at.index
    assert first.summary.startswith("[Conversation summary]")
    assert "src/module_0.py" in first.read_files


def test_a_failing_summarizer_shows() -> None:
    def broken(request: SummaryRequest) -> str:
        raise RuntimeError("no credit")

    done = replay(session(long_conversation(20, 1_900)), window=WINDOW, summarizer=broken, settings=SUMMARIZING)
    fallbacks = {compaction.call for compaction in done.compactions if compaction.used_fallback}
    failures = {failed.call for failed in done.failed}
    assert fallbacks
    assert fallbacks < failures, "some compactions were put off"
    assert {failed.error for failed in done.failed} == {"RuntimeError: no credit"}


def test_a_summary_that_is_refused_is_paid_all_the_same() -> None:
    def truncated(request: SummaryRequest) -> Summary:
        return Summary("## Goal", usage=Usage(input_tokens=0, output_tokens=1_000_000), finish_reason="length")

    recorded = session(long_conversation(20, 1_900))
    done = replay(recorded, window=WINDOW, summarizer=truncated, settings=SUMMARIZING)
    paid = {cost.model: cost.summaries for cost in done.costs}
    assert paid["gpt-5.5"] == pytest.approx(30.0 * len(done.failed))


def test_a_summary_that_did_not_make_a_call_fit_is_paid_all_the_same() -> None:
    def told(request: SummaryRequest) -> Summary:
        return Summary("## Goal\n- go on", usage=Usage(input_tokens=0, output_tokens=1_000_000))

    recorded = session([*long_conversation(4), user(prose(9_000)), assistant("Too long.")])
    done = replay(recorded, window=WINDOW, summarizer=told, settings=SUMMARIZING)
    assert len(done.unfit) == 1
    assert {cost.model: cost.summaries for cost in done.costs}["gpt-5.5"] == pytest.approx(30.0)


def test_a_summary_by_which_nothing_is_gained_is_paid_too() -> None:
    requests: list[SummaryRequest] = []

    def summarize(request: SummaryRequest) -> Summary:
        requests.append(request)
        return Summary("## Goal\n- read", usage=Usage(input_tokens=0, output_tokens=1_000_000))

    conversation = [system(), user("Read."), *steps(3, 40), assistant("Read."), user(prose(5_700)), assistant("Long.")]
    done = replay(session(conversation), window=WINDOW, summarizer=summarize, settings=SUMMARIZING)
    assert (done.compactions, done.failed, done.put_off) == ((), (), {"no gain": 1})
    assert {cost.model: cost.summaries for cost in done.costs}["gpt-5.5"] == pytest.approx(30.0)
    assert len(requests) == 1


# -- calls that do not fit


def test_a_call_that_cannot_be_made_to_fit_is_listed() -> None:
    done = replay(session([system(), user(prose(9_000)), assistant("Too long.")]), window=WINDOW)
    (unfit,) = done.unfit
    assert (unfit.call, unfit.tokens) == (1, done.calls[0].tokens_sent)
    assert "current request" in unfit.error
    assert done.totals.unfit_calls == 1


def test_a_compaction_that_is_put_off_is_counted_by_its_reason() -> None:
    done = replay(session([system(), user(prose(6_500)), assistant("Long.")]), window=WINDOW)
    assert sum(done.put_off.values()) == 1
    assert (done.compactions, done.unfit) == ((), ())


# -- usage


def with_usage(factor: float, context_start: int = 0) -> RecordedSession:
    """Return a long session with recorded counts of `factor` times the estimate."""
    recorded = session(long_conversation())
    calls = [
        RecordedCall(
            index=index,
            usage=Usage(input_tokens=int(estimate(recorded, index) * factor)),
            context_start=context_start,
        )
        for index, message in enumerate(recorded.messages)
        if message["role"] == "assistant"
    ]
    return replace(recorded, calls=tuple(calls))


def test_recorded_usage_moves_the_first_compaction() -> None:
    recorded = with_usage(1.5)
    counted = replay(recorded, window=WINDOW, uses_recorded_usage=True)
    plain = replay(recorded, window=WINDOW)
    assert (counted.used_recorded_usage, plain.used_recorded_usage) == (True, False)
    assert counted.compactions[0].call < plain.compactions[0].call


def test_recorded_usage_is_not_used_once_something_is_compacted() -> None:
    """These counts are of the whole list, which is no longer sent."""
    done = replay(with_usage(1.0), window=WINDOW, uses_recorded_usage=True)
    assert len(done.compactions) < 5
    assert max(call.tokens_sent for call in done.calls[done.compactions[0].call - 1 :]) <= done.trigger


def test_usage_from_after_the_agents_own_compaction_is_not_used() -> None:
    done = replay(with_usage(1.5, context_start=2), window=WINDOW, uses_recorded_usage=True)
    assert not done.used_recorded_usage
    assert done.calls == replay(with_usage(1.5), window=WINDOW).calls


def test_usage_inside_messages_is_never_used() -> None:
    """It counts the recorded requests, by which a compaction would gain nothing."""
    plain = long_conversation()
    counted = [
        {**message, "usage": {"prompt_tokens": 7_000, "completion_tokens": 10}}
        if message["role"] == "assistant"
        else message
        for message in plain
    ]
    assert replay(session(counted), window=WINDOW).calls == replay(session(plain), window=WINDOW).calls


# -- details


def test_details_have_the_view_the_covered_parts_and_the_reasons(caplog: pytest.LogCaptureFixture) -> None:
    recorded = session(long_conversation())
    done = replay(recorded, window=WINDOW, details=True)
    logging.getLogger("compaction_hooks").debug("a line that nobody asked for")
    assert caplog.records == [], "the log is as quiet after it as before"
    assert done.compactions
    for compaction in done.compactions:
        details = compaction.details
        assert details is not None
        assert len(details.view) == compaction.messages_after
        assert details.covered
        assert any("tokens for a trigger of" in line for line in details.reasons)
    assert [each.details for each in replay(recorded, window=WINDOW).compactions] == [None] * len(done.compactions)


# -- what the agent used later


@folded(
    "summary, lost",
    {
        "both in the summary": (f"{OLD_ORDER} is in {OLD_FILE}", ()),
        "the file is lost": (f"the order is {OLD_ORDER}", (OLD_FILE,)),
        "both lost": ("order 48213 in ledgers.py", (OLD_ORDER, OLD_FILE)),
    },
)
def test_identifiers_of_the_next_calls_are_looked_for_in_the_summary(summary: str, lost: tuple[str, ...]) -> None:
    done = replay_with_summary(forgetful_conversation(found=BURIED), summary)
    later = [compaction.used_later for compaction in done.compactions]
    assert [{*each.lost} for each in later] == [{*lost}]
    assert {*later[0].kept} == {OLD_ORDER, OLD_FILE} - {*lost}
    assert (done.totals.used_later, done.totals.kept) == (2, 2 - len(lost))


def test_identifiers_in_kept_messages_do_not_count() -> None:
    done = replay_with_summary(forgetful_conversation(f"I mean {OLD_ORDER}."), f"{OLD_ORDER} is in {OLD_FILE}")
    later = done.compactions[0].used_later
    assert (later.kept, later.lost) == ((OLD_FILE,), ())


def test_identifiers_in_the_beginning_of_a_result_that_is_cut_short_do_not_count() -> None:
    read = assistant(None, call("c1", path="log"))
    log = tool("c1", f"{OLD_FILE} {prose(12_000)}")
    conversation = [system(), user("Read it."), read, log, assistant(f"It is {OLD_FILE}.")]
    (compaction,) = replay(session(conversation), window=WINDOW).compactions
    assert compaction.shortened_parts == 1
    assert compaction.used_later == UsedLater()


def test_identifiers_in_the_middle_of_a_result_that_is_cut_short_are_lost() -> None:
    read = assistant(None, call("c1", path="log"))
    log = tool("c1", f"{prose(6_000)} {OLD_FILE} {prose(6_000)}")
    conversation = [system(), user("Read it."), read, log, assistant(f"It is {OLD_FILE}.")]
    (compaction,) = replay(session(conversation), window=WINDOW).compactions
    assert compaction.used_later == UsedLater(lost=(OLD_FILE,))


def test_identifiers_in_a_pinned_message_are_kept() -> None:
    conversation = [system(), user(f"Mend {OLD_FILE}."), *steps(18, 300), assistant(f"Done: {OLD_FILE}.")]
    done = replay(session(conversation), window=WINDOW, settings=SUMMARIZING, summarizer=lambda _: "## Goal\n- mend")
    pinned = [each for each in done.compactions if each.pinned_messages]
    assert [name for each in pinned for name in each.used_later.kept] == [OLD_FILE]


def test_identifiers_that_were_not_compacted_do_not_count() -> None:
    kept, new = "src/module_10.py", "/other/file.py"
    conversation = [*forgetful_conversation(), user(f"Now open {new}"), assistant(f"Opened {new} and {kept}")]
    assert replay_with_summary(conversation, "nothing").totals.used_later == 2


def test_probes_are_looked_for_in_the_context_at_the_end() -> None:
    probes = (probe(OLD_ORDER), probe("module 77"), probe("as before", "ONCE  more"), probe(OLD_ORDER, "module 77"))
    done = replay(session(forgetful_conversation(), probes=probes), window=10_000)
    assert [(each.is_kept, each.is_in_session) for each in done.probes] == [
        (True, True),
        (False, False),
        (True, True),
        (False, False),
    ]
    totals = done.totals
    assert (totals.probes, totals.probes_in_session, totals.probes_kept) == (4, 2, 2)


def test_a_probe_whose_evidence_was_compacted_away_is_lost() -> None:
    conversation = forgetful_conversation(found=BURIED)[:-3]
    recorded = session([*conversation, assistant("I forgot.")], probes=(probe(OLD_ORDER),))
    done = replay(recorded, window=10_000, summarizer=lambda _: "## Goal\n- an order", settings=SUMMARIZING)
    assert [(each.is_kept, each.is_in_session) for each in done.probes] == [(False, True)]


def test_a_path_counts_as_kept_in_its_relative_form() -> None:
    recorded = session(long_conversation(3), probes=(probe("/project/src/module_1.py"), probe("/project/module_1.py")))
    assert [each.is_kept for each in replay(recorded, window=WINDOW).probes] == [True, False]


# -- many


def test_totals_are_sums() -> None:
    one = replay(session(long_conversation()), window=WINDOW)
    other = replay(session(forgetful_conversation(), probes=(probe(OLD_ORDER),)), window=WINDOW)
    both = total([one, other])
    assert both.sessions == 2
    assert both.calls == len(one.calls) + len(other.calls)
    assert both.tokens_sent == one.totals.tokens_sent + other.totals.tokens_sent
    assert (both.probes, both.compactions) == (1, len(one.compactions) + len(other.compactions))
    assert total([]) == Totals()


def test_needs_no_extra() -> None:
    script = "import sys; sys.modules.update(rich=None, typer=None); from compaction_hooks.replay import *"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@needs_data
@pytest.mark.parametrize(
    "pattern", ["claude_code/parallel*.jsonl", "claude_code/zh*.jsonl", "claude_code/compacted*.jsonl"]
)
def test_recorded_sessions_stay_inside_the_window(pattern: str) -> None:
    (path,) = (DATA / "native").glob(pattern)
    for recorded in read_sessions(path):
        done = replay(recorded, window=16_000)
        assert done.calls
        assert max(call.tokens_sent for call in done.calls) <= done.window
        assert done.totals.tokens_sent <= done.totals.tokens_without
