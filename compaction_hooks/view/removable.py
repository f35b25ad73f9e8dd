"""Media that a view could leave out, and the size that this saves."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from compaction_hooks.history import History
from compaction_hooks.messages import M, Message
from compaction_hooks.tokens.media import describe_left_out, find_media
from compaction_hooks.view.reductions import Estimate, Place, Reduction, by_place, part_digest, places, with_text


class Removable(NamedTuple):
    """Media that could be left out of a view.

    Attributes:
        tokens: The estimate that this saves, before calibration.
        chars: The characters of a request that this saves.
    """

    reduction: Reduction
    tokens: int
    chars: int


def removable_media(
    history: History[M],
    first_run: int,
    estimate: Estimate,
    reductions: Sequence[Reduction] = (),
    *,
    excluded: Collection[int] = (),
) -> list[Removable]:
    """Return the media of users and tools that a view shows from run `first_run` on, oldest first.

    Never media of the current request, nor of a reduced result: it has dropped them. The other arguments are
    those of `reducible_texts`.
    """
    active = by_place(reductions)
    found: list[Removable] = []
    reduced: set[tuple[int, int]] = set()
    for run, place in places(history, range(first_run, history.run_count)):
        if (place.kind, run, place.ordinal) in active:
            reduced.add((place.piece, place.number))
        is_free = place.piece != history.request and place.piece not in excluded
        is_assistants = history.piece(place.piece).message.role == "assistant"
        if place.kind == "media" and is_free and not is_assistants and (place.piece, place.number) not in reduced:
            found.append(_removable(place, run, estimate))
    return found


def _removable(place: Place, run: int, estimate: Estimate) -> Removable:
    digest = part_digest("media", place.text)
    left = with_text(place.part, describe_left_out(place.part))
    before, after = (estimate(Message(role="other", parts=(part,))) for part in (place.part, left))
    return Removable(
        Reduction(kind="media", run=run, ordinal=place.ordinal, digest=digest, shown_digest=digest),
        tokens=before - after,
        chars=sum(media.data_chars for media in find_media(place.part)),
    )
