"""The sizes of views: the view last sent, and the usage that the provider reported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple

from compaction_hooks.messages import M
from compaction_hooks.tokens.budget import Budget
from compaction_hooks.tokens.calibration import UNTAUGHT, Calibration
from compaction_hooks.view.record import CompactionRecord
from compaction_hooks.view.snapshot import Snapshot, ViewKey


class LastSent(NamedTuple, Generic[M]):
    """The view last handed out: a usage report that names no view measures this one.

    Attributes:
        view: The list to send.
        unmerged: The same list for hosts to store: with the text in place of native items, and without merging user messages unless
            the provider refuses them in a row; `view` itself if it has neither.
        snapshot: The snapshot it is the view of.
        is_by_hand: Whether a compaction by hand made it: the host may have sent the view before it instead.
    """

    view: list[M]
    unmerged: list[M]
    snapshot: Snapshot[M]
    is_by_hand: bool = False


class UsageBaseline(NamedTuple):
    """The provider's own count of a view.

    Attributes:
        cached_tokens: The part of `input_tokens` that came from the provider's cache; None: not reported.
    """

    key: ViewKey
    input_tokens: int
    cached_tokens: int | None = None


class Sizes:
    """The sizes known in one conversation.

    Attributes:
        baseline: The last usage report that could be believed, or None.
        last_checked: The view when usage inside answers was last checked, and the piece of the newest such answer.
        calibrations: By model, the calibration learned in this conversation, in this process or (from its records) an earlier one.
        fixed: The system prompt and the tools last passed next to the list, and the estimate of each.
        budget: The last budget and its inputs.
        models: The models for which views were handed out.
    """

    def __init__(self) -> None:
        self.baseline: UsageBaseline | None = None
        self.last_checked: tuple[ViewKey, int] | None = None
        self.calibrations: dict[str | None, Calibration] = {}
        self.fixed: tuple[object, object, int, int] | None = None
        self.budget: tuple[object, Budget | None] | None = None
        self.models: set[str] = set()

    def baseline_of(self, key: ViewKey) -> UsageBaseline | None:
        """Return the provider's count of this view or of a beginning of it, or None."""
        baseline = self.baseline
        return baseline if baseline is not None and baseline.key.is_prefix_of(key) else None

    def drop_other_lists(self, key: ViewKey) -> None:
        """Drop what is known of other lists than this view's: none of them comes back, and it would keep their messages."""
        if self.baseline is not None and self.baseline.key.log is not key.log:
            self.baseline = None
        if self.last_checked is not None and self.last_checked[0].log is not key.log:
            self.last_checked = None

    def export_calibration(self, model: str | None, estimator: str, format: str) -> dict[str, object]:
        """Return the calibration of a model for a record, with its estimator and format; an empty dict if there is none."""
        learned = self.calibrations.get(model)
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
            if learned != UNTAUGHT:
                self.calibrations.setdefault(model, learned)
