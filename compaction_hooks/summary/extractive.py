"""The default summarizer: deterministic, no model, no network."""

from __future__ import annotations

from dataclasses import dataclass, field

from compaction_hooks.digest import facts, write
from compaction_hooks.messages import Usage, Value
from compaction_hooks.summary.request import Summary, SummaryRequest
from compaction_hooks.tokens.estimator import CharacterEstimator, TokenEstimator


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ExtractiveSummarizer(Value):
    """A summarizer that chooses and does not write: the same messages give the same summary, without a model or a network.

    It keeps the user's requests and constraints word for word, the newest steps with the beginning of their results, open tasks,
    what the assistant said last, and the identifiers that later steps are likely to need. Its own earlier summary is read back,
    merged, and aged out item by item; one by a model or by hand is kept line by line.

    Attributes:
        estimator: Measures the summary against `max_tokens`.
    """

    estimator: TokenEstimator = field(default_factory=CharacterEstimator)

    def __call__(self, request: SummaryRequest, /) -> Summary:
        """Return a summary of at most `request.max_tokens` tokens; empty when there is nothing to say or no room to say it."""
        told = facts(request.messages, request.previous_summary, request.kept_messages)
        text = write(told, request.max_tokens, focus=request.focus, estimator=self.estimator)
        return Summary(text=text, usage=Usage(input_tokens=0, output_tokens=0), finish_reason="stop", is_by_rule=True)
