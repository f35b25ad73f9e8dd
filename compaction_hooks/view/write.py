"""`write` makes the messages of a view, of the list of the call. Nothing else makes host messages for a request.

1. A message that is shown as it is, is the host's own object of this very list, not an equal one of before.
2. A reference to a host message that is written twice is the same copy; so is the summary, but for a marked copy of it.
3. Joining user messages in a row is the last step: sizes are those of the messages apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from operator import is_

from compaction_hooks.messages import Format, M, can
from compaction_hooks.view.parts import text_of
from compaction_hooks.view.references import Kept, Made, View, WrittenBeginning


def write(
    view: View[M], messages: Sequence[M], format: Format[M], *, for_store: bool = False, joins_rows: bool = False
) -> list[M]:
    """Return the messages of a view, of the list that its history was read from or of one with copies of the same messages.

    Args:
        for_store: Whether the list is for a host to store: with the text of the summary in place of the provider's own items.
        joins_rows: Whether user messages in a row become one.
    """
    own, mark = [*map(messages.__getitem__, view.own)], _find_mark(view, messages, format)
    known = view.written.beginnings.get(for_store)
    if known is None or known.view is not view or known.mark != mark or not all(map(is_, known.own, own)):
        known = view.written.beginnings[for_store] = WrittenBeginning(
            view, own, mark, _write_beginning(view, messages, format, mark, for_store=for_store)
        )

    written = [*known.messages, *messages[view.tail_start :]]
    return format.merge(written) if joins_rows else written


def _write_beginning(
    view: View[M], messages: Sequence[M], format: Format[M], mark: object | None, *, for_store: bool
) -> list[M]:
    other_list = "request" if for_store else "store"
    written: list[M] = []
    for each in view.references:
        if each.only == other_list:
            continue
        if isinstance(each, Kept):
            written.append(write_kept(each, view, messages, format))
        elif each.items is not None:
            written += format.native(deepcopy(each.items.items))
        else:
            if each not in view.written.copies:
                view.written.copies[each] = _make(each, format)
            made = view.written.copies[each]
            written.append(made if mark is None or each.before is not None else format.with_cache_mark(made, mark))
    return written


def _make(made: Made, format: Format[M]) -> M:
    """Return the message of a text of ours; among the host's messages it looks like no summary, if the format can do that."""
    is_summary = made.before is None or not can(format, "request")
    return format.summary(made.text) if is_summary else format.request(made.text)


def write_kept(kept: Kept, view: View[M], messages: Sequence[M], format: Format[M]) -> M:
    """Return the message of one reference: the host's own object, or the same copy each time."""
    copies = view.written.copies
    if kept.is_own:
        return messages[kept.host]
    if kept not in copies:
        copies[kept] = _copy(kept, messages[kept.host], format)
    return copies[kept]


def _find_mark(view: View[M], messages: Sequence[M], format: Format[M]) -> object | None:
    """Return the mark that the summary has. Providers allow few: it has one only while the covered message still has it."""
    summary = view.summary
    return None if summary is None or summary.mark is None else format.cache_mark(messages[summary.mark])


def _copy(kept: Kept, message: M, format: Format[M]) -> M:
    """Return a copy of a host message as the view shows it."""
    if kept.reductions:
        at = {number: place for place, number in enumerate(kept.numbers or range(len(kept.shown)))}
        texts = {(number, part): text_of(kept.shown[at[number]].parts[part]) for number, part in kept.reductions}
        message = format.rewrite(message, texts)
    if kept.numbers is not None:
        message = format.take(message, kept.numbers)
    if kept.left_out:
        message = format.drop(message, sorted(kept.left_out))
    return format.untie(message) if kept.is_untied else message
