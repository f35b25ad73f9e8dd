"""How large views are, and for which view that is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple

from compaction_hooks.messages import M
from compaction_hooks.tokens.budget import Budget
from compaction_hooks.tokens.calibration import Calibration
from compaction_hooks.view.record import CompactionRecord
from compaction_hooks.view.snapshot import ViewKey


class LastSent(NamedTuple, Generic[M]):
    """The view a caller last got: what a usage report measures when it names no other.

    Attributes:
        view: The list to send.
        unmerged: The same list for hosts to store: its user messages are not merged. The very list unless some were.
        key: What it was made from.
        tokens: Its size in tokens of the model, by estimate.
        budget: What the model's window allowed for it, or None while that is unknown.
    """

    view: list[M]
    unmerged: list[M]
    key: ViewKey
    tokens: int
    budget: Budget | None


class UsageBaseline(NamedTuple):
    """A usage report: what the provider counted, and for which view.

    Attributes:
        cached_tokens: The part of `input_tokens` that came from the provider's cache; None: not reported.
    """

    key: ViewKey
    input_tokens: int
    cached_tokens: int | None = None


class Sizes:
    """What one conversation knows of sizes.

    Attributes:
        baseline: The last usage report that could be believed, or None.
        last_checked: The view at hand when the usage inside answers was last checked, and the piece of the newest of them.
        calibrations: By model, what usage taught in this conversation: in this process or, as its records say, in an earlier one.
        fixed: System prompt and tools last handed over next to the list, and the estimate of each.
        budget: The last budget, and what it was computed from.
        models: The models that views were handed out for.
    """

    def __init__(self) -> None:
        self.baseline: UsageBaseline | None = None
        self.last_checked: tuple[ViewKey, int] | None = None
        self.calibrations: dict[str | None, Calibration] = {}
        self.fixed: tuple[object, object, int, int] | None = None
        self.budget: tuple[object, Budget | None] | None = None
        self.models: set[str] = set()

    def export_calibration(self, model: str | None, estimator: str, format: str) -> dict[str, object]:
        """Return what usage taught of a model as a record keeps it, with what it is true of; empty when it taught nothing."""
        learned = self.calibrations.get(model)
        if learned is None:
            return {}
        return {"estimator": estimator, "format": format, "model": model, **learned.to_dict()}

    def learn_from_records(self, records: Sequence[CompactionRecord], estimator: str, format: str) -> None:
        """Take over what usage had taught when the records were made, the newest for each model that nothing is known of yet.

        It holds for the estimator it was learned with. In the same format it is taken for the same host, restarted: what that
        hides in front of the messages is there again, and without it the first request would be taken for too small. Where it
        hides less by now, the overhead stays too high until a smaller view is counted, as within one process: that costs an
        early compaction, never an overflow. Another framework hides something else: of its records the ratio holds.
        """
        for record in reversed(records):
            saved = record.calibration
            model, learned = saved.get("model"), Calibration.from_dict(saved)
            if saved.get("estimator") != estimator or not isinstance(model, str | None):
                continue
            if saved.get("format") != format:
                learned = learned.for_another_conversation()
            if learned != _UNTAUGHT:
                self.calibrations.setdefault(model, learned)


_UNTAUGHT = Calibration()
