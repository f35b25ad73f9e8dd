"""The provider's own summaries in the host's list: their issuers, and readable twins of those that only the provider can read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from compaction_hooks.engine.model_names import same_model
from compaction_hooks.history import History
from compaction_hooks.history.digests import message_digest, text_digest
from compaction_hooks.messages import NativeSummary, Provider
from compaction_hooks.reasoning import find_family
from compaction_hooks.view.native import NOWHERE, NativeStart, find_start, native_of
from compaction_hooks.view.notes import seal_note
from compaction_hooks.view.record import UNKNOWN_RUN, CompactionRecord, Pin, Seal

_FAMILY = "Claude"
"""The families of models that take a readable summary of the provider's own: only Anthropic makes such."""


MOST_REFUSALS = 2
"""So many refusals in a row of a provider's own items are no rotated key: each further item would be paid for and refused too."""


class NativeSummaries:
    """The issuers and twins of one conversation's summaries of the provider's own, as notes, by digest of the summary.

    Attributes:
        refusals: By model, how often in a row its provider refused the native items that it had made for us.
    """

    def __init__(self) -> None:
        self.refusals: Counter[str | None] = Counter()
        self._notes: dict[str, CompactionRecord] = {}
        self._left_out: set[tuple[int, str | None]] = set()

    def learn_from_note(self, note: CompactionRecord) -> None:
        """Learn from a note of this or another process; a refusal stays."""
        assert note.seal is not None
        known = self._notes.get(note.seal.digest)
        if known is None or known.seal is None or not known.seal.is_refused:
            self._notes[note.seal.digest] = note

    def find_new(self, history: History[Any]) -> list[int]:
        """Return the pieces with a sealed summary that was not seen before."""
        pieces = ((index, native_of(history.piece(index).message)) for index in history.natives())
        return [index for index, item in pieces if item.sealed and _digest(item) not in self._notes]

    def find_start(
        self, history: History[Any], model: str | None, provider: Provider | None, pins: Mapping[str, int]
    ) -> NativeStart | None:
        """Return the summary at which the view of a request begins, or None.

        Args:
            model: The model of the request; None is the controller's own.
            provider: The provider of the format.
            pins: By digest, the run of each message that the host pinned.
        """
        start = find_start(
            history,
            lambda piece: self._may_send(_item(history, piece), model or "", provider or ""),
            lambda piece: self._is_whole(history, piece),
        )
        if start is None or start.piece == NOWHERE:
            return start
        text, note = self._read(history, start.piece)
        users = tuple(
            Pin(_find_run(history, digest, start.piece) if run == UNKNOWN_RUN else run, digest, is_users=True)
            for digest, run in pins.items()
        )
        if note is None:
            return start._replace(text=text, pins=users)
        # The host may have dropped covered messages since.
        covered = max(start.covered, note.compacted_message_count)
        return start._replace(text=text, covered=covered, pins=(*note.pins, *users))

    def is_first_without(self, left_out: Sequence[int], model: str | None) -> bool:
        """Return whether a view for this model is the first one without these summaries, and remember it."""
        key = (left_out[-1], model)
        is_first = key not in self._left_out
        self._left_out.add(key)
        return is_first

    def text_before(self, history: History[Any], piece: int) -> tuple[int, str]:
        """Return the piece and the text of the newest summary before this one; 0 and "" if there is none."""
        earlier = [index for index in history.natives() if index < piece][-1:]
        return (earlier[0] + 1, self._read(history, earlier[0])[0]) if earlier else (0, "")

    def refuse(self, history: History[Any], piece: int) -> tuple[CompactionRecord | None, CompactionRecord]:
        """Send the summary in this piece no more; return the earlier note of it, if any, and the new one."""
        digest = _digest(_item(history, piece))
        note = self._notes.get(digest)
        seal = ((note.seal if note else None) or Seal(digest))._replace(is_refused=True)
        known = (note.summary, note.compacted_message_count, note.pins) if note else ("", 0, ())
        refused = seal_note(seal, *known)
        self._notes[digest] = refused
        return note, refused

    def _read(self, history: History[Any], piece: int) -> tuple[str, CompactionRecord | None]:
        """Return the text of the summary in a piece, or of its twin, and its note."""
        item = _item(history, piece)
        note = self._notes.get(_digest(item))
        return item.content or (note.summary if note else ""), note

    def _is_whole(self, history: History[Any], piece: int) -> bool:
        """Return whether the list has the messages that a sealed summary covers, or our own summary of them."""
        note = self._notes.get(_digest(_item(history, piece)))
        if piece < (history.summary_piece or 0):
            return True
        if note is None or note.seal is None or not note.seal.runs:
            return False
        return history.digest_before(note.seal.runs) == note.seal.chain

    def _may_send(self, item: NativeSummary, model: str, provider: str) -> bool:
        note = self._notes.get(_digest(item))
        seal = note.seal if note else None
        if seal is not None and seal.is_refused:
            return False
        if not item.sealed:
            family = find_family(model)
            return family is None or family.name.startswith(_FAMILY)
        return seal is None or (_may_be_same(seal.provider, provider) and _may_be_model(seal.model, model))


def _find_run(history: History[Any], digest: str, end: int) -> int:
    """Return the run of the newest message before piece `end` with this digest; `UNKNOWN_RUN` without one."""
    found = (index for index in reversed(range(end)) if digest == message_digest(history.piece(index).message))
    index = next(found, None)
    return UNKNOWN_RUN if index is None else history.run_of(index)


def make_seal(history: History[Any], piece: int, model: str | None, provider: Provider | None) -> Seal:
    """Return the issuer of a sealed summary that is seen for the first time.

    Args:
        model: The model of the last request, which this summary came with.
    """
    message, runs = history.piece(piece).message, history.run_of(piece)
    chain = history.digest_before(runs) if runs > history.base else None
    return Seal(
        _digest(native_of(message)), provider or "", message.model or model or "", runs if chain else 0, chain or ""
    )


def _item(history: History[Any], piece: int) -> NativeSummary:
    return native_of(history.piece(piece).message)


def _digest(item: NativeSummary) -> str:
    return text_digest(item.sealed or item.content)


def _may_be_same(one: str, other: str) -> bool:
    """Whether two names are equal, or one is unknown."""
    return one == other or not one or not other


def _may_be_model(issuer: str, model: str) -> bool:
    """Whether a model may be the issuer: the names mean one model, and gateways that are named are the same."""
    return (
        not issuer
        or not model
        or (same_model(issuer, model) and _may_be_same(issuer.rpartition("/")[0], model.rpartition("/")[0]))
    )
