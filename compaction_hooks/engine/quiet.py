"""The quiet way: a call in which nothing can be due costs one comparison of lists and a sum of bounds.

A snapshot says how many tokens are left before a trigger speaks, and a new message takes at most the bound of its texts. While all
bounds since that snapshot fit, the view is the one of before with the new messages at its end, and nothing is read. Every other
call, and everything else that looks at the conversation, *settles* first: it reads what is unread and learns from the reports.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, Generic

from compaction_hooks.engine.call import Call, SharedState
from compaction_hooks.engine.conversation import GUESSED_FORMAT, Conversation
from compaction_hooks.engine.measuring import find_calibration, is_impossible, measure_view, report_usage, take_snapshot
from compaction_hooks.engine.sizes import LastSent
from compaction_hooks.foreign import are_equal
from compaction_hooks.formats.answers import is_usable
from compaction_hooks.messages import Format, M, PlainMessage, Text, Thinking, ToolCall, Usage, can
from compaction_hooks.tokens.calibration import MAXIMUM_RATIO
from compaction_hooks.tokens.estimator import (
    MESSAGE_TOKENS,
    OPAQUE_CHARS_PER_TOKEN,
    TOOL_CALL_TOKENS,
    TOOL_RESULT_TOKENS,
)
from compaction_hooks.tokens.windows import same_model
from compaction_hooks.triggers import silent_below
from compaction_hooks.view.reasoning import needs_open_turn
from compaction_hooks.view.snapshot import Snapshot

MOST_REPLAYS = 64
"""The most calls whose answers carried usage or reasoning until one takes the regular way: they are learned from one by one."""
FRAME_TOKENS = MESSAGE_TOKENS + max(TOOL_CALL_TOKENS, TOOL_RESULT_TOKENS)
"""The most tokens of the frame around one text."""


class Quiet(Generic[M]):
    """The last snapshot, and the calls and usage reports since then.

    Attributes:
        sent: The view that the last snapshot is of, as it was handed out; from `settle` on that of the last call.
        view: The view of the last call.
        seen: The list of the last call: the log's own, with the unread messages at its end until `settle`.
        first_open: Index of the last answer, where hosts still write: from it on all messages are bounded in each call.
        available: The tokens that the messages from `first_open` on may take before a trigger speaks.
        calls: Ids of the tool calls that new results may answer: a result of any other call may change the view.
        reports: The usage reports, each with the length of its list.
        replays: The lengths of the lists whose new answer carried usage or reasoning.
        learned: What other conversations had taught about the model and its window.
        is_plain: Whether no new message has reasoning or usage, which may be learned from.
        has_reasoning: Whether a new message has reasoning, of which a note may come.
        estimated: The estimate of the view up to message `estimated_until` of the list, before calibration.
        open: The messages from the last answer on, as the last call read them.
        measured: The open messages that were last estimated, and their estimate.
    """

    def __init__(
        self,
        call: Call[M],
        options: Mapping[str, object],
        sent: LastSent[M],
        snapshot: Snapshot[M],
        format: Format[M],
        bound: Callable[[str], int],
        limit: float,
        learned: object,
    ) -> None:
        history = snapshot.history
        first_piece = history.first_piece(history.watched_from)
        self.call = call
        # A list of tools may be changed in place.
        self.options = {name: copy(value) for name, value in options.items()}
        self.snapshot = snapshot
        self.sent = sent
        self.view = sent.view
        self.format = format
        self.bound = bound
        self.seen = history.log.hosts
        self.first_open = history.watched_from
        self.limit = limit
        self.available = (limit - snapshot.tokens - 1) / snapshot.ratio + history.tokens(first_piece)
        self.estimated = snapshot.key.estimated - history.tokens(first_piece)
        self.estimated_until = self.first_open
        self.open: list[PlainMessage] = []
        self.measured: tuple[list[PlainMessage], int] = [], 0
        self.calls = {call.id for piece in history.pieces(first_piece) for call in piece.message.calls}
        self.reports: list[tuple[int, Usage]] = []
        self.replays: list[int] = []
        self.learned = learned
        self.is_plain = True
        self.has_reasoning = False

    def show(self, messages: list[M]) -> list[M] | None:
        """Return the view of a list that goes on from the last one; None if something about it is not plain, or too large."""
        seen, known = self.seen, len(self.seen)
        are_copies = len(messages) >= known > 0 and messages[known - 1] is not seen[known - 1]
        if len(messages) < known or (are_copies and self.snapshot.record is not None):
            return None  # a copy is compared with the reading of the message that a record covers
        seen += messages[known:]
        if not are_equal(seen, messages) or not self._fits(messages, known):
            del seen[known:]
            return None
        if are_copies:
            seen[:] = messages  # whatever is read later is of the newest
        projection = self.snapshot.projection
        self.view = messages if projection.is_identity else projection.view(messages)
        return self.view

    def _fits(self, messages: list[M], known: int) -> bool:
        """Return whether all messages from the last answer on are plain, and their bounds fit; if so, go on from the newest one.

        The first message after the `known` ones answers the view last sent: it may carry reasoning, and the usage of that view.
        """
        read, bound, available = self.format.read_plain, self.bound, self.available
        plains: list[PlainMessage] = []
        settled: list[str] = []
        texts: list[str] = []
        last_answer, has_more, is_plain = self.first_open, False, self.is_plain
        for index in range(last_answer, len(messages)):
            plain = read(messages[index])
            if plain is None:
                is_plain = False
                if self.format is GUESSED_FORMAT:  # this message may tell which format it is
                    return False
                plain, usage = self._read_answer(messages[index])
                if plain is None or index > known or len(self.replays) == MOST_REPLAYS:
                    return False
                has_more |= index == known
                if usage is not None and index == known:
                    if not self._believes(usage):
                        return False
                    settled, texts = [], []
                    available = (self.limit - usage.input_tokens - 1) / MAXIMUM_RATIO
            plains.append(plain)
            is_answer, found, calls, results = plain
            if is_answer:
                last_answer = index
                settled += texts
                texts = []
                self.calls.update(calls)
            elif results and not self.calls.issuperset(results):
                return False
            texts += found or ("",)
        spent = bound("".join(settled)) + FRAME_TOKENS * len(settled)
        if spent + bound("".join(texts)) + FRAME_TOKENS * len(texts) > available:
            return False
        # Messages that were measured while they were open are not estimated again, if they still read the same.
        measured, tokens = self.measured
        if measured and len(measured) == last_answer - self.first_open and measured == plains[: len(measured)]:
            self.estimated, self.estimated_until = self.estimated + tokens, last_answer
        self.measured = [], 0
        self.is_plain = is_plain
        self.open = plains[last_answer - self.first_open :]
        self.first_open = last_answer
        self.available = available - spent
        if has_more:
            self.replays.append(len(messages))
        return True

    def _read_answer(self, message: M) -> tuple[PlainMessage | None, Usage | None]:
        """Read an answer that may have reasoning, signatures and usage; None for anything else."""
        pieces = self.format.read(message)
        texts, calls = list[str](), list[str]()
        for part in (part for piece in pieces for part in piece.parts):
            if isinstance(part, Text):
                texts.append(part.text)
            elif isinstance(part, ToolCall):
                calls.append(part.id)
                texts += part.name, part.arguments
            elif isinstance(part, Thinking):
                self.has_reasoning = True
                texts += part.text, " " * math.ceil(part.opaque_chars / OPAQUE_CHARS_PER_TOKEN)
            else:
                return None, None
        is_plain = all(piece.role == "assistant" and not piece.is_summary for piece in pieces)
        last, model = pieces[-1], self.snapshot.model
        is_same = last.model is None or model is None or same_model(last.model, model)
        if not is_plain or not is_same or last.stop_reason not in (None, "complete", "tool_calls"):
            return None, None
        return PlainMessage(True, texts, calls), last.usage

    def _believes(self, usage: Usage) -> bool:
        """Return whether a count is one of the view last sent, inside the window: others are learned from at once."""
        budget = self.snapshot.budget
        is_over = budget is not None and usage.input_tokens > budget.window
        return is_usable(usage) and not is_over and not is_impossible(usage, self.snapshot.key.estimated, budget)

    def estimate(self) -> int:
        """Return the estimate of the view of the last call, which a snapshot of it would have."""
        self.estimated += self._estimate(self.estimated_until, self.first_open)
        self.estimated_until = self.first_open
        tokens = self._estimate(self.first_open, len(self.seen))
        self.measured = self.open, tokens
        return self.estimated + tokens

    def _estimate(self, start: int, end: int) -> int:
        read, estimate = self.format.read, self.snapshot.estimator.estimate_message_tokens
        return sum(estimate(piece) for message in self.seen[start:end] for piece in read(message))

    @property
    def is_unread(self) -> bool:
        """Whether there are messages or reports that the last snapshot does not know."""
        return len(self.seen) > self.snapshot.history.host_count or bool(self.reports)

    def report(self, usage: Usage, view: list[Any] | None, model: str | None) -> bool:
        """Note a usage report for later; return whether it fits: no other list and model, not impossible, not above the window."""
        own = self.snapshot.model
        if (view is not None and view is not self.view) or not self._believes(usage):
            return False
        if model is not None and own is not None and not same_model(model, own):
            return False
        self.reports.append((len(self.seen), usage))
        self.available = (self.limit - usage.input_tokens - 1) / MAXIMUM_RATIO
        return True


def begin(
    conversation: Conversation[M], shared: SharedState, call: Call[M], options: Mapping[str, object]
) -> Quiet[M] | None:
    """Return the quiet way for the next calls; None if more than the size of new messages can make a compaction due."""
    sent = conversation.last_sent
    if sent is None or sent.snapshot.messages is not call.messages:
        return None
    snapshot = sent.snapshot
    limit, bound, format = _find_limit(call, snapshot), conversation.estimator.upper_bound, conversation.format
    if limit is None or bound is None or not can(format, "read_plain") or not _is_quiet(conversation, call, snapshot):
        return None
    learned = learned_elsewhere(conversation, shared, snapshot.model)
    return Quiet(call, options, sent, snapshot, format, bound, limit, learned)


def _find_limit(call: Call[M], snapshot: Snapshot[M]) -> float | None:
    """Return the tokens above which a compaction may be due; None if a trigger is asked in each call."""
    if snapshot.budget is None or not call.settings.auto_compact or call.settings.is_subagent:
        return float("inf")
    return silent_below(call.settings.effective_trigger, snapshot.window, snapshot.input_limit)


def _is_quiet(conversation: Conversation[M], call: Call[M], snapshot: Snapshot[M]) -> bool:
    projection, queue, cooldown = snapshot.projection, conversation.queue, conversation.cooldown
    return (
        not cooldown.has_overflowed
        and cooldown.max_chars is None
        and conversation.flight is None
        and not conversation.records.unseen_pins
        and queue.is_loaded
        and not queue.unwritten
        and call.settings.max_result_tokens is None
        and call.server_compaction is None
        and not (call.settings.repair if call.repair is None else call.repair)  # a new message may break the history
        and snapshot.history.run_count > snapshot.history.base
        and len(snapshot.history.log.hosts) == snapshot.history.host_count
        # A list that was rewound may grow to where a record is true of it again.
        and all(record.covered_runs < snapshot.history.run_count for record in conversation.records.all)
        and projection.is_settled
        and projection.tail_start <= snapshot.history.watched_from  # what hosts may still change is sent as it is
        and projection.unpinned_request is None
        and snapshot.key.start is None
        and not snapshot.merges_user_messages
        and not (snapshot.binds_reasoning and needs_open_turn(snapshot.model))
    )


def learned_elsewhere(conversation: Conversation[M], shared: SharedState, model: str | None) -> object:
    """Return what other conversations have taught: a change ends the quiet way."""
    own = conversation.sizes.models.get(model)
    has_own = own is not None and own.calibration is not None
    return shared.windows.revision, None if has_own else shared.calibrations.get(model)


def measure(quiet: Quiet[M], conversation: Conversation[M], shared: SharedState) -> int | None:
    """Return the tokens of the view of the last call; None if there is something to learn from before."""
    model = quiet.snapshot.model
    if quiet.reports or not quiet.is_plain or quiet.learned != learned_elsewhere(conversation, shared, model):
        return None
    key = quiet.snapshot.key._replace(estimated=quiet.estimate())
    return measure_view(find_calibration(conversation, shared, model), key, conversation.sizes.baseline_of(key))


def settle(quiet: Quiet[M], conversation: Conversation[M], shared: SharedState) -> None:
    """Read what the quiet calls left unread, and learn from their reports."""
    if not quiet.is_unread:
        return
    messages = [*quiet.seen]
    del quiet.seen[quiet.snapshot.history.host_count :]
    call = quiet.call._replace(messages=messages)
    for count in quiet.replays:
        _replay(conversation, call._replace(messages=messages[:count]))
    snapshot = take_snapshot(conversation, call)
    for count, usage in quiet.reports:
        end = snapshot.history.first_piece(count)
        key = snapshot.key._replace(piece_count=end, estimated=snapshot.key.estimated - snapshot.history.tokens(end))
        report_usage(conversation, shared, usage, snapshot._replace(key=key), None)
    if quiet.reports:
        snapshot = take_snapshot(conversation, call)
    handed_out = conversation.hand_out(snapshot)
    quiet.sent = conversation.newest_view = handed_out._replace(view=quiet.view, unmerged=quiet.view)


def _replay(conversation: Conversation[M], call: Call[M]) -> None:
    """Learn from the newest answer of a quiet call, and remember the view that was sent, as the regular way would have."""
    snapshot = take_snapshot(conversation, call)
    if conversation.reasoning.record_call(snapshot.history, snapshot.shown_record):
        snapshot = take_snapshot(conversation, call)
    conversation.hand_out(snapshot)
