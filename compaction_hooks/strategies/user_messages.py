"""The user's words: messages of the user from before the cut that stay, in the tokens that the target leaves empty.

1. Their budget is what all else that stays and the largest summary leave of the target, at most `keep_user_tokens`; after an
   overflow a fifth of that. The recent messages leave them a fifth of the room next to that summary. Of a context below the
   threshold, the target is the same part as at the threshold.
2. The first request has room before the others, then the newest. A message without room is in the summary alone.
3. One that is longer than a quarter of the budget is shortened in its middle. Of media the names stay.
4. Summaries, tool results and the words of harnesses are not the user's. Short replies are in the summary, with their questions.
5. They are chosen anew at each compaction. Its record names them, so that every process shows the same ones.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import NamedTuple

from compaction_hooks.digest import Facts
from compaction_hooks.harness import is_request, is_summary_message, strip_harness
from compaction_hooks.history import History
from compaction_hooks.history.digests import message_digest
from compaction_hooks.history.history import UserWords
from compaction_hooks.messages import M, Message, Text
from compaction_hooks.strategies.candidate import Goal
from compaction_hooks.strategies.reduce_parts import choose_shortened
from compaction_hooks.strategies.requests import list_parts_of, rewrite
from compaction_hooks.tokens.budget import EMERGENCY_KEEP_USER_RATIO, TARGET_RATIO
from compaction_hooks.tokens.estimator import find_media
from compaction_hooks.view import CompactionReason
from compaction_hooks.view.head import whole_step
from compaction_hooks.view.parts import OF_A_REQUEST, Reduction
from compaction_hooks.view.snapshot import Snapshot
from compaction_hooks.view.texts import parse_summary

RESERVED_RATIO = 0.2
"""The part of the target, next to the largest summary, that recent messages leave to them: forty short requests take a sixth of it
in a window of 32,000, where steps of 400 tokens would have all of it."""
LONGEST_RATIO = 0.25
"""The part of the budget that one message may take."""
CUT_SHARE = 0.75
"""A message is only shortened if at most this part of it stays: less saves little more than the marker takes."""
ABOUT_TOKENS = 40
"""Estimate of the sentence about them behind the summary."""


_ALONE = UserWords(stands_alone=True)
_QUESTION = Message(role="assistant", parts=(Text("Shall I go on?"),))


class OlderMessages(NamedTuple):
    """Messages of the user from before a cut that stay as far as there is room.

    Attributes:
        whole: The pieces that stay whole, but for their media.
        digests: By piece that is shown smaller, the digest of the message as it is shown.
        reductions: The parts of them that are shown smaller.
        tokens: The size of all these, before calibration.
    """

    whole: tuple[int, ...] = ()
    digests: Mapping[int, str] = MappingProxyType({})
    reductions: tuple[Reduction, ...] = ()
    tokens: int = 0

    @property
    def pieces(self) -> Collection[int]:
        """All of them."""
        return {*self.whole, *self.digests}


def keep_older(snapshot: Snapshot[M], goal: Goal[M], start: int, taken: Collection[int], spare: int) -> OlderMessages:
    """Choose the messages of the user before piece `start` that stay.

    Args:
        taken: Those that stay in any case.
        spare: The tokens that the target leaves empty, before calibration.
    """
    history = snapshot.history
    free = spare - _find_excess(snapshot, goal) - ABOUT_TOKENS
    room = _find_budget(snapshot, goal, free)
    most = int(room * LONGEST_RATIO)
    native = snapshot.view.start
    first = native.piece + 1 if native is not None and native.always_stays else 0  # its provider tells them
    said: Mapping[int, UserWords] = read_user_words(history, start) if most > 0 else {}
    pieces = [index for index in said if first <= index < start and said[index].stands_alone and index not in taken]

    def fits(size: int) -> bool:
        return size <= room - tokens

    whole, digests, reductions, tokens = list[int](), dict[int, str](), list[Reduction](), 0
    beside: dict[int, list[int]] = {}  # by run
    for index in taken:
        beside.setdefault(history.run_of(index), []).append(index)
    for index in (*pieces[:1], *reversed(pieces[1:])):  # the first request, then all from the newest on
        piece = history.piece(index)
        has_media = any(map(find_media, piece.message.parts))
        least = most if piece.tokens * CUT_SHARE > most else piece.tokens
        others = beside.setdefault(history.run_of(index), [])
        if not (has_media or fits(least)) or _is_one_of(history, index, others):
            continue

        made = _shorten(snapshot, index, most)
        shown, size = rewrite(snapshot, [index], made) if made else ({}, piece.tokens)
        size = size or piece.tokens
        if not fits(size):
            continue

        others.append(index)
        tokens += size
        digests |= shown
        reductions += made
        if all(item.kind == "media" for item in made):
            whole.append(index)
    return OlderMessages(tuple(sorted(whole)), digests, tuple(reductions), tokens)


def size_older(snapshot: Snapshot[M], goal: Goal[M], room: int) -> Callable[[int], int]:
    """Return a function that tells the most tokens they may take if messages are kept from a run on, before calibration.

    Args:
        room: The tokens of all that stays next to the largest summary, before calibration.
    """
    history = snapshot.history
    most = max(min(room, int(goal.budget.keep_user / snapshot.ratio)), 0)
    # The current request stays in any case.
    end = min((*snapshot.older_requests, history.piece_count if history.request is None else history.request))
    pieces = history.pieces_of_user(end) if most else []
    longest = int(most * LONGEST_RATIO)
    sizes = [0, *accumulate(min(history.piece(index).tokens, longest) for index in pieces)]
    return lambda run: min(sizes[bisect_left(pieces, history.run_start(run))], most)


def _is_one_of(history: History[M], index: int, others: Iterable[int]) -> bool:
    """Return whether a message equals another one of its run: a pin finds it by its digest, and a view shows one of them."""
    digests = {message_digest(history.piece(other).message) for other in others}
    return bool(digests) and message_digest(history.piece(index).message) in digests


def _find_excess(snapshot: Snapshot[M], goal: Goal[M]) -> int:
    """Return the tokens, before calibration, by which the target is larger than the same part of the context.

    Below the threshold it may be larger than the whole context, and with all of the user's words nothing would be gained.
    """
    return int(max(goal.budget.target - snapshot.tokens * TARGET_RATIO, 0) / snapshot.ratio)


def _find_budget(snapshot: Snapshot[M], goal: Goal[M], free: int) -> int:
    """Return the most tokens of them, before calibration.

    Args:
        free: The tokens that nothing else needs.
    """
    room = min(free, int(goal.budget.keep_user / snapshot.ratio))
    return int(room * EMERGENCY_KEEP_USER_RATIO) if goal.reason is CompactionReason.OVERFLOW else room


def read_user_words(history: History[M], end: int) -> Mapping[int, UserWords]:
    """Return what the user says in each piece of his before piece `end`, in their order; there may be later ones too.

    Each piece is read once.
    """
    first, known = history.log.user_words
    if first < end:
        new = {index: _read_words(history, index) for index in history.pieces_of_user(end, first)}
        first, known = history.log.user_words = end, {**known, **new}
    return known


def _read_words(history: History[M], index: int) -> UserWords:
    message = history.piece(index).message
    words = Facts.read_words(lambda at: history.piece(at).message, index)
    if is_summary_message(message) or parse_summary(message.text) is not None:
        return words
    if words.questions or not is_request(strip_harness(message.text)) or len(whole_step(history, index)) > 1:
        return words

    # In a stored view the answer before a message is gone: a short one may be a reply.
    is_behind_summary = index in _find_row(history) and not _is_known_older(history, index)
    may_answer = (
        is_behind_summary and Facts.read_words(lambda at: message if at == index else _QUESTION, index).questions
    )
    alone = words._replace(stands_alone=not may_answer)
    return _ALONE if alone == _ALONE else alone  # nearly all are: one value takes no memory for each


def _find_row(history: History[M]) -> range:
    """Return the pieces of the user directly behind a summary of ours at the head of a list; empty without one."""
    head = history.log.summary_piece
    if head is None:
        return range(0)
    end = next((i for i in range(head + 1, history.piece_count) if history.piece(i).message.role != "user"), None)
    return range(head + 1, history.piece_count if end is None else end)


def _is_known_older(history: History[M], index: int) -> bool:
    """Return whether a stored view has a message only because there was room for it."""
    origin, piece = history.origin, history.piece(index)
    return origin is not None and piece.side is None and message_digest(piece.message) in origin.optional


def _shorten(snapshot: Snapshot[M], index: int, most: int) -> Sequence[Reduction]:
    """Return the reductions of a message to a size, and those of its media; none in a stored view, which has it shortened."""
    piece = snapshot.history.piece(index)
    is_long = piece.tokens * CUT_SHARE > most
    if piece.side is None or not (is_long or any(map(find_media, piece.message.parts))):
        return []

    parts = list_parts_of(snapshot, [index], OF_A_REQUEST)
    texts = [part for part in parts if part.kind == "text"]
    tokens = sum(part.tokens for part in texts)
    media = [part.reduction() for part in parts if part.kind == "media"]
    if tokens * CUT_SHARE <= most:
        return media
    return [*media, *choose_shortened(texts, excess_tokens=tokens - most, rules={})]
