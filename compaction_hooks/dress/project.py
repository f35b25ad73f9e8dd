"""`project`: the view of a list under a record, as any process and framework makes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from compaction_hooks import arguments
from compaction_hooks.dress import Request, dress
from compaction_hooks.dress.listed_summaries import find_start
from compaction_hooks.formats import OpenAIChatFormat, format_of
from compaction_hooks.history import History, HistoryReader
from compaction_hooks.messages import Format, M, Message, MessageFormat, as_format, can
from compaction_hooks.reasoning import binds_reasoning
from compaction_hooks.validity import needs_merging
from compaction_hooks.view.parts import Reduction
from compaction_hooks.view.reasoning import NOT_STALE, stale_runs_of
from compaction_hooks.view.record import CompactionRecord, StaleRuns, collect_own_texts
from compaction_hooks.view.references import Beginning, View
from compaction_hooks.view.texts import SUMMARY_MARKER
from compaction_hooks.view.view_of import is_true, view_of
from compaction_hooks.view.write import write


def project(
    messages: Sequence[M],
    record: CompactionRecord | None,
    *,
    format: MessageFormat[Any] | None = None,
    model: str | None = None,
) -> list[M]:
    """Return the view of a list under a record: system messages, summary, pins, then the recent messages.

    It is to be sent, not stored: for a provider that refuses user messages in a row they are one. A sealed summary of the
    provider's own is in front, as if it were this request's: the record does not tell who made it.

    Kept messages are the same objects; the input is not changed. Without a record, or with one that is not true of these
    messages (a rewind before the cut, an edit of a covered message), the view is a copy of the list as it came.

    Args:
        format: The format of the messages; None: found by their parts, among those of `compaction_hooks.formats`.
        model: The model of the view. If it binds reasoning to the messages before it, the view leaves out reasoning from before
            the compaction.

    Raises:
        ConfigurationError: an argument is of the wrong kind.
        FormatError: a message cannot be read.
    """
    found = find_view(messages, record, format=format, model=model)
    if found is None:
        return list(messages)
    history, view, chosen = found
    return write(view, history.hosts(), chosen, joins_rows=needs_merging(chosen))


def find_view(
    messages: Sequence[M],
    record: CompactionRecord | None,
    *,
    format: MessageFormat[Any] | None = None,
    model: str | None = None,
) -> tuple[History[M], View[M], Format[M]] | None:
    """Return a list as it reads, the view of a record, and the format; None if the record is not true of the list.

    Raises:
        ConfigurationError: an argument is of the wrong kind.
        FormatError: a message cannot be read.
    """
    arguments.check_messages(messages)
    given = {"record": record, "format": format, "model": model}
    arguments.check(_KINDS, given, given)

    chosen = as_format(cast("MessageFormat[M]", format or format_of(messages) or OpenAIChatFormat()))  # it reads these
    known = collect_own_texts([] if record is None else [record])
    history = HistoryReader(chosen, _weigh_nothing, SUMMARY_MARKER).read(messages, known)
    if record is None or not is_true(history, record):
        return None

    stale = stale_runs_of(record) if binds_reasoning(model) and can(chosen, "drop") else NOT_STALE
    return history, make_view(history, record, chosen, find_start(history), stale), chosen


def make_view(
    history: History[M],
    record: CompactionRecord | None,
    format: Format[M],
    start: Beginning | None,
    stale: StaleRuns = NOT_STALE,
    large: Iterable[Reduction] = (),
) -> View[M]:
    """Return the view of a record as `dress` makes it, without sizes.

    Args:
        large: As in `view_of`.
    """
    request = Request(history, record, format, _weigh_nothing, start, stale)
    return dress(view_of(history, record, _weigh_nothing, large=large), request)


def _weigh_nothing(_: Message) -> int:
    return 0


_KINDS = {**arguments.KINDS, "record": arguments.instance_of(CompactionRecord)}
