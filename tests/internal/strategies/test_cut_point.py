from __future__ import annotations

from collections.abc import Sequence

import pytest

from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.history import History, HistoryReader, OwnTexts
from compaction_hooks.strategies.cut import find_cut
from tests.cases import folded
from tests.conversations import Chat, assistant, call, steps, talk, tool, user


def history(messages: Sequence[Chat], tokens: int = 100) -> History[Chat]:
    """A history in which every message weighs the same."""
    return HistoryReader(OpenAIChatFormat(), lambda _: tokens, "[S]").read(messages, OwnTexts())


def kept(messages: Sequence[Chat], keep_tokens: int, *, after: int = 0, room: int = 10**9) -> list[Chat]:
    read = history(messages)
    cut = find_cut(
        read,
        runs=range(max(after, read.runs_before_list) + 1, read.run_count),
        keep_tokens=keep_tokens,
        size=read.tokens,
        fits=lambda run: read.tokens(read.run_start(run)) <= room,
    )
    return [] if cut is None else [read.host(piece.host) for piece in read.pieces(read.run_start(cut))]


@pytest.mark.parametrize("keep_tokens", [100, 150, 200, 250, 300, 350, 450])
def test_never_begins_with_a_tool_result(keep_tokens: int) -> None:
    messages = [user("go"), *steps(6)]
    assert kept(messages, keep_tokens)[0]["role"] == "assistant"


def test_a_turn_that_begins_nearby_is_preferred() -> None:
    messages = [user("a"), *steps(4), assistant("x"), user("b"), *steps(5), assistant("y")]
    assert kept(messages, 1_300)[0] == user("b")


@folded("count", range(1, 20))
def test_exactly_as_much_is_kept_as_was_asked_for_but_for_a_turn_nearby(count: int) -> None:
    """Of messages that weigh 100 each, as many as reach the number; a quarter may go for the user's words."""
    messages = [*talk(12), user("now")]
    begins_with_answer = messages[-count]["role"] == "assistant"
    moves_on = begins_with_answer and count - 1 >= count * 0.75
    assert kept(messages, count * 100) == messages[-(count - moves_on) :]


def test_trailing_results_larger_than_the_number_keep_their_step() -> None:
    messages = [user("a"), *steps(3), assistant(None, call("a"), call("b")), tool("a", "1"), tool("b", "2")]
    assert kept(messages, 100) == messages[-3:]


def test_when_nothing_fits_the_last_step_is_kept_alone() -> None:
    messages = [user("a"), *steps(3)]
    assert kept(messages, 1_500, room=0) == messages[-2:]


def test_a_short_history_is_cut_at_its_first_boundary_when_asked() -> None:
    messages = talk(2)
    assert kept(messages, 10_000) == messages[1:]
