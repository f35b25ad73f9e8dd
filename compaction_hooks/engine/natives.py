"""The provider's own summaries in the host's list, and who made the ones that only their issuer can read."""

from __future__ import annotations

from collections.abc import Container, Mapping, Set
from typing import Any

from compaction_hooks.history import History
from compaction_hooks.history.digests import message_digest, text_digest
from compaction_hooks.messages import NativeSummary
from compaction_hooks.reasoning import find_family
from compaction_hooks.tokens.windows import same_model
from compaction_hooks.view.head import NOWHERE, NativeStart, find_start, native_of
from compaction_hooks.view.record import NATIVE_MARK, UNKNOWN_RUN, CompactionRecord, Pin, issuer_note

_FAMILY = "Claude"
"""The families of models that take a readable summary of the provider's own: only Anthropic makes such."""


MOST_REFUSALS = 2
"""So many refusals in a row of a provider's own items are no rotated key: each further item would be paid for and refused too."""


def note_issuers(history: History[Any], known: Container[str | None], model: str | None) -> list[CompactionRecord]:
    """Return notes of who made the sealed summaries that are seen for the first time.

    Args:
        known: The names of those whose issuer is known.
        model: The model of the request before, which they came with if their message names no other one.
    """
    messages = [history.piece(index).message for index in history.natives()]
    made = {native_name(native_of(one)): one.model or model or "" for one in messages if native_of(one).sealed}
    return [issuer_note(name, issuer) for name, issuer in made.items() if name not in known]


def find_native_start(
    history: History[Any],
    model: str | None,
    issuers: Mapping[str | None, str],
    refused: Set[str],
    pins: Mapping[str, int],
) -> NativeStart | None:
    """Return the summary at which the view of a request begins, or None.

    Args:
        model: The model of the request; None is the controller's own.
        issuers: By name, the model that made a sealed summary.
        refused: Names of the summaries that a provider refused, among other names.
        pins: By digest, the run of each message that the host pinned.
    """

    def may_send(piece: int) -> bool:
        item = native_of(history.piece(piece).message)
        name = native_name(item)
        if name in refused:
            return False
        if item.sealed:
            return _may_be_model(issuers[name], model or "")
        family = find_family(model or "")
        return family is None or family.name.startswith(_FAMILY)

    start = find_start(history, may_send)
    if start is None or start.piece == NOWHERE:
        return start
    users = tuple(
        Pin(_find_run(history, digest, start.piece) if run == UNKNOWN_RUN else run, digest, is_users=True)
        for digest, run in pins.items()
    )
    return start._replace(pins=(*start.pins, *users))


def native_name(item: NativeSummary) -> str:
    """Return the name of a summary of the provider's own in any list; it ends with the mark of native items."""
    return text_digest(item.sealed or item.content) + NATIVE_MARK


def _find_run(history: History[Any], digest: str, end: int) -> int:
    """Return the run of the newest message before piece `end` with this digest; `UNKNOWN_RUN` without one."""
    found = (index for index in reversed(range(end)) if digest == message_digest(history.piece(index).message))
    index = next(found, None)
    return UNKNOWN_RUN if index is None else history.run_of(index)


def _may_be_model(issuer: str, model: str) -> bool:
    """Whether a model may be the issuer: the names mean one model, and gateways that are named are the same."""
    if not issuer or not model:
        return True
    gateways = {name.rpartition("/")[0] for name in (issuer, model)} - {""}
    return same_model(issuer, model) and len(gateways) <= 1
