"""Lists that begin with a summary of ours, and the chain that names what a record covers."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.history import HistoryReader, Known, Origin
from compaction_hooks.history.digests import text_digest
from tests.conversations import Chat, assistant, call, steps, tool, user

SUMMARY = user("[S] so far")
KNOWN = Known(
    origins={text_digest("[S] so far"): Origin(runs=4, digest="0123", pins=())},
    originals={("result", 7, 0, text_digest("[cleared]")): text_digest("a long text")},
)
"""What a record tells that covers four runs, and shows a result of the eighth cleared."""


def reader() -> HistoryReader[Mapping[str, object]]:
    return HistoryReader(OpenAIChatFormat(), lambda message: 10 + len(message.text), "[S]")


def test_runs_behind_a_summary_are_counted_from_the_start_of_the_conversation() -> None:
    history = reader().read([SUMMARY, *steps(2), assistant("so"), user("?")], KNOWN)
    assert (history.base, history.run_count) == (4, 10)
    assert [*history.boundaries(0)] == [*history.boundaries(4)] == [6, 8, 9]
    assert [*history.boundaries(7)] == [8, 9]
    assert not history.is_boundary(4)
    assert [history.digest_before(run) for run in (3, 4, 10)] == [None, "0123", None]
    assert (history.summary_piece, history.pieces()[0].side) == (0, None)
    assert reader().read([SUMMARY, *steps(2)], KNOWN).request is None


def test_a_quoted_summary_is_an_ordinary_message() -> None:
    """Ours stand at the head of a list only."""
    history = reader().read([user("go"), assistant("so"), SUMMARY, assistant("hm")], KNOWN)
    assert (history.base, history.request, history.summary_piece) == (0, 2, None)
    assert [piece.side for piece in history.pieces()] == ["host", "assistant"] * 2


@pytest.mark.parametrize(
    ("head", "side"),
    [
        pytest.param(assistant("[S] so far"), "assistant", id="of the assistant"),
        pytest.param(user("[S] by somebody else"), "host", id="nobody has a record of"),
    ],
)
def test_a_message_that_only_looks_like_a_summary_is_an_ordinary_message(head: Chat, side: str) -> None:
    history = reader().read([head, *steps(2), user("?")], KNOWN)
    assert (history.base, history.summary_piece, history.piece(0).side) == (0, None, side)


@pytest.mark.parametrize("is_swapped", [False, True])
def test_results_belong_to_the_chain_in_the_order_of_their_calls(is_swapped: bool) -> None:
    """Also where the chain is asked for behind them only."""
    calls = assistant(None, call("1", path="a"), call("2", path="b"))
    first, second = ("B", "A") if is_swapped else ("A", "B")
    one = [user("go"), calls, tool("1", "A"), tool("2", "B"), assistant("x"), user("y")]
    other = [user("go"), calls, tool("2", second), tool("1", first), assistant("x"), user("y")]
    digests = [reader().read(messages, Known()).digest_before(4) for messages in (one, other)]
    assert (digests[0] != digests[1]) is is_swapped


def test_a_result_cleared_in_the_hosts_list_counts_as_its_original() -> None:
    """By the run it stands in: the same words elsewhere are words."""

    def chain(before: int, text: str) -> str | None:
        messages = [SUMMARY, *steps(before), assistant(None, call("1")), tool("1", text), assistant("so")]
        return reader().read(messages, KNOWN).digest_before(6 + 2 * before)

    assert chain(1, "[cleared]") == chain(1, "a long text")
    assert chain(0, "[cleared]") != chain(0, "a long text")


@pytest.mark.parametrize("edited", [2, 5, 8])
def test_an_edited_list_that_begins_with_a_summary_is_read_as_if_it_were_new(edited: int) -> None:
    reads, messages = reader(), [SUMMARY, *steps(5), assistant("so"), user("?")]
    history = reads.sync(None, messages, KNOWN)
    new = [*messages[:edited], assistant("Something else."), user("And?"), *messages[edited + 1 :]]
    synced, fresh = reads.sync(history, new, KNOWN), reads.read(new, KNOWN)
    assert synced.base == fresh.base == 4
    assert synced.pieces() == fresh.pieces()
    assert [synced.digest_before(run) for run in range(20)] == [fresh.digest_before(run) for run in range(20)]
