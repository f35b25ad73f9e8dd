"""The host's answers for one compaction.

1. Each function is asked once: `before_compact` when the work begins, if anything would change; `carry` before the first summary is
   planned. Attempts that repeat one have its answers.
2. A function that fails has no answer: an event tells the error, but of a preview only the log.
3. A veto does not count above the input limit, nor after an overflow; one of a compaction by hand counts for that one alone.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from compaction_hooks.events import CompactionEvent
from compaction_hooks.runtime.effects import Emit, Flow, RunningCompaction
from compaction_hooks.runtime.tellers import Asking, Tellers, ask_advice, ask_carry
from compaction_hooks.telling import FOCUS_TOKENS, Advice, CarryRequest, CompactionPlan, Told, write_facts
from compaction_hooks.text.shortening import shorten_to
from compaction_hooks.view import CompactionReason
from compaction_hooks.view.snapshot import Snapshot

logger = logging.getLogger("compaction_hooks")


class HostAnswers:
    """The answers for one compaction and for the attempts that repeat it.

    Args:
        all_tellers: The functions of the controller, then those of the conversation.
        seconds: After this a function counts as failed.
        reason: The occasion of the compaction.
        focus: The subject of the summary, as the order says.

    Attributes:
        advice: What `before_compact` answered; None: it was not asked.
        texts: What `carry` answered; None: it was not asked.
    """

    def __init__(
        self,
        session_id: str,
        all_tellers: Sequence[Tellers],
        seconds: float,
        reason: CompactionReason,
        focus: str | None,
        *,
        is_preview: bool,
    ) -> None:
        self._session_id, self._tellers, self._seconds = session_id, all_tellers, seconds
        self._reason, self._focus, self._is_preview = reason, focus, is_preview
        self.advice: Advice | None = None
        self.texts: Told | None = None

    @property
    def _is_manual(self) -> bool:
        return self._reason is CompactionReason.MANUAL

    # -- questions

    @property
    def lacks_advice(self) -> bool:
        """Whether the host is to be asked before the compaction."""
        return self.advice is None and any(tellers.before_compact is not None for tellers in self._tellers)

    def ask_advice(self, plan: CompactionPlan, running: RunningCompaction | None) -> Flow[None]:
        """Ask before the compaction."""
        self.advice, failures = yield from ask_advice(self._begin_asking(running), plan)
        yield from self._report(failures)

    @property
    def lacks_texts(self) -> bool:
        """Whether the host is to be asked which texts come back."""
        return self.texts is None and any(tellers.carry is not None for tellers in self._tellers)

    def ask_texts(
        self, snapshot: Snapshot[Any], messages: Sequence[Any], running: RunningCompaction | None
    ) -> Flow[None]:
        """Ask which texts come back.

        Args:
            messages: The list of the call.
        """
        request = CarryRequest(
            session_id=self._session_id, reason=self._reason, model=snapshot.model, messages=tuple(messages)
        )
        self.texts, failures = yield from ask_carry(self._begin_asking(running), request)
        yield from self._report(failures)

    def _begin_asking(self, running: RunningCompaction | None) -> Asking:
        return Asking(self._session_id, self._tellers, self._seconds, running)

    def _report(self, failures: Sequence[CompactionEvent]) -> Flow[None]:
        for event in failures:
            logger.warning("%s", event)
            if not self._is_preview:
                yield Emit(event)

    # -- answers

    @property
    def veto(self) -> str:
        """The veto, or ""."""
        return (self.advice.veto if self.advice is not None else None) or ""

    def overrules(self, snapshot: Snapshot[Any]) -> bool:
        """Return whether a veto does not count for this view: it was refused, or is so large that it would be (rule 3)."""
        is_too_large = snapshot.exceeds_input_limit and not self._is_manual
        return is_too_large or self._reason is CompactionReason.OVERFLOW

    def find_focus(self, snapshot: Snapshot[Any]) -> str | None:
        """Return the subject of the summary: that of a call by hand, else the host's advice, else that of the order."""
        advised = self.advice.focus if self.advice is not None else None
        if advised is not None:
            advised = shorten_to(advised, FOCUS_TOKENS, snapshot.estimator.estimate_tokens)
        return (self._focus or advised) if self._is_manual else (advised or self._focus)

    def add_to(self, told: Told, snapshot: Snapshot[Any]) -> Told:
        """Return what a summary is told, with the answers so far."""
        if self.advice is not None:
            facts = write_facts(self.advice.facts, snapshot.estimator.estimate_tokens)
            told = told._replace(sections=(*told.sections, *filter(None, [facts])))
        if self.texts is not None:
            told = told._replace(carried=self.texts.carried, keeps_last=self.texts.keeps_last)
        return told
