"""The options of one call, its budget and its order to compact, and the state shared by all conversations of a controller."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Generic, Literal, NamedTuple

from compaction_hooks.engine.host_answers import HostAnswers
from compaction_hooks.messages import M
from compaction_hooks.native import Issuer
from compaction_hooks.runtime.tellers import Tellers
from compaction_hooks.settings import CompactionSettings
from compaction_hooks.strategies.cut import turns_tokens
from compaction_hooks.tokens.budget import KEEP_RECENT_RATIO, Budget
from compaction_hooks.tokens.calibration import Calibration
from compaction_hooks.tokens.windows import Windows
from compaction_hooks.triggers import Due
from compaction_hooks.view import CompactionReason
from compaction_hooks.view.record import CompactionRecord
from compaction_hooks.view.snapshot import Snapshot

SMALLEST_WINDOW = 1_024
"""The smallest window in tokens that is believed, since an error text may be misread."""


class SharedState(NamedTuple):
    """State shared by all conversations of a controller.

    Attributes:
        find_settings: Returns the policy for a model.
        model: The controller's own model, or None.
        windows: The windows of models, as given, looked up or learned from errors.
        requested_outputs: By model, the room for the answer in tokens, as named by an overflow error.
        answer_limits: By model, the length in tokens at which an answer ended twice, with less and with more room for it.
        calibrations: By model, how the estimator differs from reported usage.
        tellers: The host's functions that every compaction asks.
        notice: The text that tells the model before its context is cut; "" without one.
    """

    find_settings: Callable[[str | None], CompactionSettings]
    model: str | None
    windows: Windows
    requested_outputs: dict[str | None, int]
    answer_limits: dict[str | None, int]
    calibrations: dict[str | None, Calibration]
    tellers: Tellers
    notice: str


class Call(NamedTuple, Generic[M]):
    """The messages and the options of one call.

    Attributes:
        settings: The policy for the model, with the call's own trigger if it has one.
        shared: The state that all conversations of the controller share.
        model: The model of this very call; None: the controller's.
        context_window: The window of that model in tokens, if the caller knows it.
        max_output_tokens: The longest answer that this call asks for, in tokens; None: as in the settings.
        system: A system prompt that is not in the list but counts: text or JSON.
        tools: Tool schemas that count, as JSON.
        request: The other options of the model call, if the host gave them.
        repair: Whether to repair a broken history in the view; None: as in the settings.
        server_compaction: The option of the request that makes the server compact; None without one.
        may_be_shortened: Whether an option of the request lets the server shorten it.
        seconds_since_last_call: Seconds since the last call began; None if unknown.
        issuer: The API that reads the views and compacts by itself, without a model; None: no native items.
        cut_at: Input and output, in tokens, at which the window ended the answer of this very call; None: it did not.
        is_look: Whether the list is only looked at, and no view of it is sent.
    """

    messages: list[M]
    settings: CompactionSettings
    shared: SharedState
    model: str | None = None
    context_window: int | None = None
    max_output_tokens: int | None = None
    system: object = None
    tools: object = None
    request: Mapping[str, object] | None = None
    repair: bool | None = None
    server_compaction: str | None = None
    may_be_shortened: bool = False
    seconds_since_last_call: float | None = None
    issuer: Issuer | None = None
    cut_at: int | None = None
    is_look: bool = False


class Order(NamedTuple):
    """Instructions for one attempt to compact.

    Attributes:
        keep: Recent tokens to keep; None: as the budget says for this reason, and the user's last turns if they are more.
        keep_ratio: The most of that, as a part of the present context; None: no such limit.
        needs_summary: Whether strategies before the first summary are skipped: who asks for a compaction wants one.
        may_ask: Whether the summarizer may be called; not if another caller's attempt has just failed.
        must_fit: Whether a list that cannot be made to fit raises an error; if not, it goes out unchanged, with an event.
        only_media: Whether the request was too large in bytes: leave media out, and do nothing else.
        limit_bytes: The provider's limit in bytes; None if unknown: half of the media are left out, so that the next images do not
            change the part of the view that the provider has cached.
        is_preview: Whether to end before the record becomes active, without events.
        previewed: The record of a preview to make active, if it still gives a good view; None: make a new one.
        due: The answer of the trigger, if a trigger asked for this.
        spares: What stays as it is: the user's present "turn", or the last "step", which the model has not seen; "": neither.
        sections: Sections at the end of the summary that come with the order.
        answers: The answers of the host to the attempt that this one repeats; None: this is the first one.
    """

    reason: CompactionReason
    keep: int | None = None
    keep_ratio: float | None = None
    needs_summary: bool = False
    may_ask: bool = True
    focus: str | None = None
    must_fit: bool = False
    only_media: bool = False
    limit_bytes: int | None = None
    is_preview: bool = False
    previewed: CompactionRecord | None = None
    due: Due | None = None
    spares: Literal["", "turn", "step"] = ""
    sections: tuple[str, ...] = ()
    answers: HostAnswers | None = None

    def keep_tokens(self, snapshot: Snapshot[Any], budget: Budget) -> int:
        """Return the recent tokens to keep. After an overflow the context is larger than estimated: a part of it at most."""
        if self.keep is not None:
            return self.keep
        if self.reason is CompactionReason.OVERFLOW:
            return min(budget.emergency_keep, int(snapshot.tokens * KEEP_RECENT_RATIO))
        most = budget.keep if self.keep_ratio is None else int(snapshot.tokens * self.keep_ratio)

        turns = turns_tokens(snapshot, budget.keep_turns)
        return max(min(budget.keep, most), math.ceil(snapshot.ratio * turns))


def budget_for(call: Call[M]) -> Budget | None:
    """Return the budget for a call's model, or None if its window is unknown; the smaller one if the window cut an answer short."""
    shared, settings, cut_at, model = call.shared, call.settings, call.cut_at, call.model or call.shared.model
    window = shared.windows.find(call.model, call.context_window, settings.default_context_window)
    requested = call.max_output_tokens or shared.requested_outputs.get(model)

    if cut_at is not None and (window is None or cut_at < window.tokens):
        # The provider lowers the limit of an answer by itself, so the whole answer need not fit.
        wished = min(requested or settings.max_output_tokens or 0, cut_at // 2)
        return settings.budget(max(cut_at, SMALLEST_WINDOW), max_output_tokens=wished or None, model=model)
    if window is None:
        return None
    return settings.budget(
        max(window.tokens, SMALLEST_WINDOW),
        is_input_only=window.is_input_only,
        max_output_tokens=requested,
        model=model,
    )


def find_budget(call: Call[M], snapshot: Snapshot[M]) -> Budget:
    """Return the budget of the model's window, or of a window as large as the context if the window is unknown."""
    return snapshot.budget or call.shared.find_settings(snapshot.model).budget(max(snapshot.tokens, 1))
