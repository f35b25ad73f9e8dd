"""The sizes of views: the view last sent, and the usage that the provider reported.

1. A count of the provider is believed for the view that it counted, and for that view with more messages at its end.
2. Everything else is an estimate, times the ratio that the model's counts taught (`Calibration`).
3. A calibration outlives the process in the records; a count does not.
4. What is known of a list goes with the list: no key of another log stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple

from compaction_hooks.messages import M
from compaction_hooks.tokens.calibration import UNTAUGHT, Calibration
from compaction_hooks.view.record import CompactionRecord
from compaction_hooks.view.snapshot import Snapshot, ViewKey

MOST_REFUSALS = 2
"""So many refusals in a row of a provider's own items are no rotated key: each further item would be paid for and refused too."""


class LastSent(NamedTuple, Generic[M]):
    """The view last handed out: a usage report that names no view measures this one.

    Attributes:
        snapshot: The snapshot it is the view of.
        view: The list to send.
        to_store: The same list for hosts to store: with the text in place of native items, and user messages not merged; `view`
            itself if it has neither.
        is_sent: Whether it was sent; if not, it is that of the list given to `load`.
        is_by_hand: Whether a compaction by hand made it: the host may have sent the view before it instead.
    """

    snapshot: Snapshot[M]
    view: list[M]
    to_store: list[M]
    is_by_hand: bool = False
    is_sent: bool = True


class UsageBaseline(NamedTuple):
    """The provider's own count of a view.

    Attributes:
        cached_tokens: The part of `input_tokens` that came from the provider's cache; None: not reported.
    """

    key: ViewKey
    input_tokens: int
    cached_tokens: int | None = None


class ModelCounts(NamedTuple):
    """What one conversation knows of a model that it was sent to, in this process or (from its records) an earlier one.

    Attributes:
        calibration: How the estimator differs from the model's own counts, or None.
        native_refusals: How often in a row its provider refused the native items that it had made for us.
        cut_at: The size in tokens at which its server seems to cut prompts without an error; None: it does not, as far as is known.
    """

    calibration: Calibration | None = None
    native_refusals: int = 0
    cut_at: int | None = None


class FixedPart(NamedTuple):
    """A system prompt, or tools, next to the list, as measured last.

    Attributes:
        copy: A deep copy, since hosts change them in place; None if the value cannot be copied.
        digest: The digest of its JSON text, for values that are equal to no other object; "" before the first value.
        tokens: Its estimate.
    """

    copy: object = None
    digest: str = ""
    tokens: int = 0


class Sizes:
    """The sizes known in one conversation.

    Attributes:
        baseline: The last usage report that could be believed, or None.
        largest_count: The largest count of the view so far, from which on its growth is compared with its counts, or None.
        last_checked: The view when usage inside answers was last checked, and the piece of the newest such answer.
        models: By name, the models of this conversation; None is the controller's own.
        fixed: The system prompt and the tools last passed next to the list.
    """

    def __init__(self) -> None:
        self.baseline: UsageBaseline | None = None
        self.largest_count: UsageBaseline | None = None
        self.last_checked: tuple[ViewKey, int] | None = None
        self.models: dict[str | None, ModelCounts] = {}
        self.fixed = [FixedPart(), FixedPart()]

    def counts_of(self, model: str | None) -> ModelCounts:
        """Return what is known of a model."""
        return self.models.get(model, ModelCounts())

    def calibration_of(self, model: str | None) -> Calibration | None:
        """Return the calibration learned for a model in this conversation, or None."""
        return self.counts_of(model).calibration

    def learn(self, model: str | None, calibration: Calibration | None) -> None:
        """Replace the calibration of a model; None forgets it."""
        self.models[model] = self.counts_of(model)._replace(calibration=calibration)

    def count_native_refusal(self, model: str | None) -> None:
        """Count that a model's provider refused its native items once more."""
        known = self.counts_of(model)
        self.models[model] = known._replace(native_refusals=known.native_refusals + 1)

    def baseline_of(self, key: ViewKey) -> UsageBaseline | None:
        """Return the provider's count of this view or of a beginning of it, or None."""
        baseline = self.baseline
        return baseline if baseline is not None and baseline.key.is_prefix_of(key) else None

    def drop_other_lists(self, key: ViewKey) -> None:
        """Drop what is known of other lists than this view's: none of them comes back, and it would keep their messages."""
        if self.baseline is not None and self.baseline.key.log is not key.log:
            self.baseline = None
        if self.largest_count is not None and self.largest_count.key.log is not key.log:
            self.largest_count = None
        if self.last_checked is not None and self.last_checked[0].log is not key.log:
            self.last_checked = None

    def export_calibration(self, model: str | None, estimator: str, format: str) -> dict[str, object]:
        """Return the calibration of a model for a record, with its estimator and format; an empty dict if there is none."""
        learned = self.calibration_of(model)
        if learned is None:
            return {}
        return {"estimator": estimator, "format": format, "model": model, **learned.to_dict()}

    def learn_from_records(self, records: Sequence[CompactionRecord], estimator: str, format: str) -> None:
        """Load the newest calibration in the records for each model that has none yet.

        A calibration is valid for the estimator that it was learned with. In the same format the host is assumed to be the same,
        restarted: it sends the same hidden prefix (system prompt, tools) in front of the messages, and without that overhead the
        first request would be estimated too small. If the prefix is smaller by now, the overhead is too high until a smaller view
        is counted: the cost is an early compaction, never an overflow. In another format only the ratio is valid, since another
        framework hides another prefix.
        """
        for record in reversed(records):
            saved = record.calibration
            model, learned = saved.get("model"), Calibration.from_dict(saved)
            if saved.get("estimator") != estimator or not isinstance(model, str | None):
                continue
            if saved.get("format") != format:
                learned = learned.for_another_conversation()
            if learned != UNTAUGHT and self.calibration_of(model) is None:
                self.learn(model, learned)
