"""What the calls of one conversation sent in this process, and what they cost, for a status line.

1. A call is a view that was sent for the host and answered, or that the host got for a request of its own.
2. The newest call is open: the provider's usage of it may be reported, or be in the next list. Until then its input is the size of
   the view, and it has no output.
3. If the next list has no answer to the open call either, the new view takes its place: the request failed, the host only looked,
   or an adapter hands out a view and sends it later.
4. A call adds numbers only: nothing here grows with the conversation.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from compaction_hooks.engine.sizes import LastSent
from compaction_hooks.formats.answers import is_usable
from compaction_hooks.history import History
from compaction_hooks.messages import Usage, Value
from compaction_hooks.tokens.windows import find_prices


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SessionTotals(Value):
    """What the calls of a session sent in this process, since it was opened, and what they and the summaries cost. Never stored.

    Attributes:
        calls: Views that `call` sent and the model answered, or that you got for a model call of your own. One without a reported
            usage counts until a list comes that has no answer to it.
        tokens_sent: Input of these calls in tokens: as the provider counted it, else the size of the view.
        tokens_without_compaction: Input that they would have had with all messages of your lists, in tokens of the same count. The
            messages that a view lacks are estimated. A list that begins with a stored summary lacks the older ones itself: they are
            missing here.
        is_estimate: Whether the provider's usage of a call is not known; that of the last one comes with its answer.
        summary_usage: The cost of the summaries made in this process, also of those that were discarded, previewed or undone.
    """

    calls: int
    tokens_sent: int
    tokens_without_compaction: int
    is_estimate: bool
    summary_usage: Usage
    _bill: tuple[tuple[str | None, Usage], ...] = field(repr=False, compare=False)

    @cached_property
    def dollars(self) -> float | None:
        """The price of calls and summaries in US dollars; None without genai-prices, or if it does not know a model.

        A call whose usage is not known counts with its whole input at the full price, without cache and answer. Summaries have the
        prices of the last call's model, whichever model wrote them. Left out are surcharges for writing to a cache and for long
        requests, and discounts.
        """
        # Only here: to load the prices takes longer than all else that a status line does.
        dollars = 0.0
        for model, usage in self._bill:
            prices = find_prices(model) if model is not None else None
            if prices is None:
                return None
            plain = usage.input_tokens - usage.cache_read_tokens
            dollars += plain * prices.input + usage.cache_read_tokens * prices.cached_input
            dollars += usage.output_tokens * prices.output
        return dollars / 1e6


class _Call(NamedTuple):
    """The newest call.

    Attributes:
        is_answered: Whether the model is known to have answered it.
        left_out: Tokens of the host's list that are not in the view, by estimate.
        usage: The provider's count, or None while it is not known.
        model: The model that it names, else that of the call.
    """

    sent: LastSent[Any]
    left_out: int
    model: str | None
    is_answered: bool
    usage: Usage | None = None

    def has_answer(self, history: History[Any]) -> bool:
        """Whether the model answered it, as far as is known: another list than the one that went on tells nothing."""
        key = self.sent.snapshot.key
        if self.is_answered or history.log is not key.log:
            return True
        return any(piece.message.role == "assistant" for piece in history.pieces(key.piece_count))


class Totals:
    """The sums of the calls of one conversation in this process."""

    def __init__(self) -> None:
        self._calls = self._left_out = 0
        self._usages: dict[str | None, Usage] = {}
        self._open: _Call | None = None

    def count(self, sent: LastSent[Any], *, is_answered: bool = False) -> None:
        """Count a view that was handed out to be sent, or sent and answered."""
        snapshot = sent.snapshot
        if self._open is not None and self._open.has_answer(snapshot.history):
            self._calls, self._left_out, self._usages = self._sum(snapshot.history)
        left_out = snapshot.calibration.predict_growth(snapshot.history.tokens() - snapshot.estimated)
        self._open = _Call(sent, left_out, snapshot.model, is_answered)

    def report(self, usage: Usage, view: list[Any] | None, model: str | None) -> None:
        """Set the usage of the newest call; ignore that of another list, and one that counts nothing.

        Args:
            view: The list that was counted; None: that of the newest call.
            model: The model that counted, if it is known.
        """
        call = self._open
        if (
            call is not None
            and is_usable(usage)
            and (view is None or view is call.sent.view or view is call.sent.to_store)
        ):
            self._open = call._replace(usage=usage, model=model or call.model, is_answered=True)

    def report_output(self, tokens: int, view: list[Any]) -> None:
        """Set the output of the newest call, whose input is known: a stream told it before.

        Args:
            view: The list that was answered.
        """
        call = self._open
        if call is not None and call.usage is not None and view is call.sent.view:
            self._open = call._replace(usage=replace(call.usage, output_tokens=tokens))

    def read(self, summaries: Usage, history: History[Any] | None, model: str | None) -> SessionTotals:
        """Return the totals of now.

        Args:
            summaries: The cost of the summaries made in this process.
            history: The list last read, which may have the answer to the newest call.
            model: The controller's own model.
        """
        calls, left_out, usages = self._sum(history)
        sent = sum(usage.input_tokens for usage in usages.values())
        last_model = self._open.model if self._open is not None else model
        return SessionTotals(
            calls=calls,
            tokens_sent=sent,
            tokens_without_compaction=sent + left_out,
            is_estimate=any(usage.is_estimate for usage in usages.values()),
            summary_usage=summaries,
            _bill=(*usages.items(), (last_model, summaries)),
        )

    def _sum(self, history: History[Any] | None) -> tuple[int, int, dict[str | None, Usage]]:
        """Return calls, tokens left out and usage by model, with the newest call."""
        call = self._open
        if call is None:
            return self._calls, self._left_out, self._usages

        usage, model = call.usage, call.model
        if usage is None and history is not None:
            usage, model = _find_usage(call, history)
        if usage is None:
            usage = Usage(input_tokens=call.sent.snapshot.tokens, is_estimate=True)
        known = self._usages.get(model)
        usages = {**self._usages, model: known + usage if known is not None else usage}
        return self._calls + 1, self._left_out + call.left_out, usages


def _find_usage(call: _Call, history: History[Any]) -> tuple[Usage | None, str | None]:
    """Return the usage in the answer to a call, and its model, if the list goes on with one that has it."""
    key = call.sent.snapshot.key
    place = next(history.counted_answers(), None)
    if history.log is not key.log or place is None or place < key.piece_count:
        return None, call.model
    answer = history.piece(place).message
    usable = answer.usage is not None and is_usable(answer.usage, answer.stop_reason)
    return (answer.usage, answer.model or call.model) if usable else (None, call.model)
