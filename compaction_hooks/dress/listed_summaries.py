"""The provider's own summaries in the host's list: which of them a request may send, and who made those that are sealed.

1. A readable one may be sent to the family of models that makes such, a sealed one to the model that made it, and none that was
   refused.
2. The first request that has a sealed one in its list notes its issuer, for other processes and models.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence, Set
from itertools import takewhile
from typing import Any

from compaction_hooks.history import History
from compaction_hooks.history.digests import message_digest, text_digest
from compaction_hooks.messages import Message, NativeSummary
from compaction_hooks.reasoning import find_family
from compaction_hooks.tokens.windows import same_model
from compaction_hooks.view.record import NATIVE_MARK, UNKNOWN_RUN, CompactionRecord, Pin, issuer_note
from compaction_hooks.view.references import NOWHERE, Beginning

_FAMILY = "Claude"
"""The names of families that take a readable summary of the provider's own begin so: only Anthropic makes such."""


def native_of(message: Message) -> NativeSummary:
    """Return the newest of the provider's own summaries in a message that has one."""
    return [part for part in message.parts if isinstance(part, NativeSummary)][-1]


def find_start(
    history: History[Any],
    may_send: Callable[[int], bool] = lambda _: True,
) -> Beginning | None:
    """Return the start of a view: the newest summary that the request may send; None if the list has no summary.

    Without such a summary, a view begins at the text of the newest one whose messages the list has not.

    Args:
        may_send: Whether the request may send the summary in the piece with this index.
    """
    natives = history.natives()
    if not natives:
        return None

    sent = [*filter(may_send, natives)]
    left_out = tuple(piece for piece in natives if piece not in sent)
    starts = sent or [piece for piece in natives if not _is_whole(history, piece, natives)]
    if not starts:
        return Beginning(NOWHERE, is_sent=False, left_out=left_out)

    newest = starts[-1]
    item = native_of(history.piece(newest).message)
    return Beginning(
        newest,
        is_sent=bool(sent),
        is_sealed=bool(item.sealed),
        text=item.content,
        left_out=left_out,
        covered=history.piece(newest).host,
        pins=_pin_words(history, newest, is_sent=bool(sent)) if item.sealed else (),
    )


def _pin_words(history: History[Any], piece: int, *, is_sent: bool) -> tuple[Pin, ...]:
    """Return pins of the user's messages before a sealed summary: if it is sent, of the request that is being answered there.

    If it is not, of all: nothing else tells what it covers.
    """
    pieces = history.pieces_of_user(piece)
    if is_sent:  # with a request right behind it, the one before was answered
        pieces = [] if history.request_after(piece) == piece + 1 else pieces[-1:]
    return tuple(Pin(max(history.run_of(index), 0), message_digest(history.piece(index).message)) for index in pieces)


def _is_whole(history: History[Any], piece: int, natives: Sequence[int]) -> bool:
    """Return whether the list has the messages that a sealed summary covers, or our own summary of them.

    A readable one is taken for their only copy: its text can be shown.
    """
    if piece < (history.summary_piece or 0):
        return True
    # Hosts that drop messages keep at most the user's words: an answer before it shows that nothing was dropped.
    answers = takewhile(lambda index: index < piece, history.log.answers)
    return bool(native_of(history.piece(piece).message).sealed) and any(index not in natives for index in answers)


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
) -> Beginning | None:
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
    pieces = (index for index in reversed(range(end)) if digest == message_digest(history.piece(index).message))
    return next(map(history.run_of, pieces), UNKNOWN_RUN)


def _may_be_model(issuer: str, model: str) -> bool:
    """Whether a model may be the issuer: the names mean one model, and gateways that are named are the same."""
    if not issuer or not model:
        return True
    gateways = {name.rpartition("/")[0] for name in (issuer, model)} - {""}
    return same_model(issuer, model) and len(gateways) <= 1
