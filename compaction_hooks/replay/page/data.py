"""The content of a report, as plain data that JSON can hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby
from typing import Final, Literal, TypeAlias, TypedDict

from compaction_hooks.messages import Media, Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from compaction_hooks.recall import CoveredPart
from compaction_hooks.replay.bills import read_blocks
from compaction_hooks.replay.needs import is_in, plain, text_of
from compaction_hooks.replay.page.texts import visible
from compaction_hooks.replay.recorded import Fields, RecordedSession
from compaction_hooks.replay.replayed import CompactionDetails, Cost, Replay, ReplayedCompaction

SAME_CHARS: Final = 20
"""A shortened text begins or ends with at least as many characters of the original; a marker has none of them."""

SHOWN_FILES: Final = 30
"""Of the files that a summary has, as many are named; a long session has thousands, again at each compaction."""

Done: TypeAlias = tuple[str, RecordedSession, Replay]
"""A file, a session in it, and its replay with details."""
State: TypeAlias = Literal["summary", "cleared", "shortened"]
"""What a message of a view is that is not in the list: a summary, or a copy with a result replaced, or with less text or parts."""


class PartData(TypedDict):
    """One part of a message: its kind (text, thinking, media, call, result, other), and the name of a tool."""

    kind: str
    name: str
    text: str


class MessageData(TypedDict):
    """A message. `tokens` is its estimate."""

    role: str
    tokens: int
    parts: list[PartData]


class ChangedData(TypedDict):
    """A message of a view that is not in the list. `index`: of the message it is a copy of; None for a summary, and if unknown."""

    index: int | None
    state: State
    message: MessageData


class ViewData(TypedDict):
    """The view of the call that a compaction was made for.

    Later calls send it and the messages since, up to the next compaction. `covered` is the number of summarized messages. `sent`
    has ranges of indexes (first, end), for messages that are sent as they are, and changed messages.
    """

    call: int
    covered: int
    sent: list[list[int] | ChangedData]


class ConversationData(TypedDict):
    """All messages, and what is needed to tell the view of any call. `calls` has the indexes of the answers."""

    system: MessageData | None
    messages: list[MessageData]
    calls: list[int]
    sent: list[int]
    without: list[int]
    views: list[ViewData]


class LostData(TypedDict):
    """A text that is nowhere in a view, and the handle by which the agent could recall it; empty if no covered part has it."""

    text: str
    handle: str


class FilesData(TypedDict):
    """Files that a summary has as read or modified: how many, and the first ones."""

    count: int
    names: list[str]


class CompactionData(TypedDict):
    """One compaction. `messages` has the ranges of message numbers, from 1, by what was done to them."""

    call: int
    reason: str
    tokens_before: int
    tokens_after: int
    counts: dict[str, int]
    messages: dict[str, str]
    used_fallback: bool
    summary: str
    files: dict[str, FilesData]
    names_kept: list[str]
    names_lost: list[LostData]
    constraints_lost: list[LostData]
    reasons: list[str]


class CostData(TypedDict):
    """Dollars by the prices of one model, summed up call by call."""

    model: str
    is_recorded: bool
    sent: list[float]
    without: list[float]
    summaries: float


class ProbeData(TypedDict):
    """A probe; `outcome` is kept, lost, or not in the session."""

    question: str
    outcome: str


class SessionData(TypedDict):
    """One session. `totals` are those of its replay."""

    name: str
    file: str
    format: str
    model: str
    messages: int
    window: int
    trigger: int
    totals: dict[str, int]
    saving: float
    compactions: list[CompactionData]
    costs: list[CostData]
    probes: list[ProbeData]
    unfit: list[dict[str, str | int]]
    put_off: dict[str, int]
    notes: list[str]
    used_recorded_usage: bool
    conversation: ConversationData


class ReportData(TypedDict):
    """All sessions of a report. `has_text`: whether it holds text of the conversations."""

    has_text: bool
    sessions: list[SessionData]


def read_report(replays: Sequence[Done], *, with_text: bool = True) -> ReportData:
    """Return the content of a report of these replays, in their order.

    Args:
        with_text: Whether to include the text of the conversations. Without it, the report has numbers, roles, the names of models
            and of file formats, and the controller's reasons: no message, summary, identifier, file, tool, probe or note.
    """
    sources = [_Source(number, *done, with_text) for number, done in enumerate(replays, 1)]
    return {"has_text": with_text, "sessions": [_session(each) for each in sources]}


class _Source:
    """One replay, its messages as they are read, and the rule for its texts."""

    def __init__(self, number: int, file: str, session: RecordedSession, replay: Replay, has_text: bool) -> None:
        self.session, self.replay, self.has_text = session, replay, has_text
        self.name = visible(session.id) if has_text else f"session {number}"
        self.file = self.text(file)
        self.pieces = [session.format.read(message) for message in session.messages]
        self.systems = {n for n, pieces in enumerate(self.pieces) if all(piece.role == "system" for piece in pieces)}
        self.index_of = {id(message): index for index, message in enumerate(session.messages)}

    def text(self, text: str) -> str:
        """Return a text of the conversation as it is shown: nothing of it in a report without text."""
        return visible(text) if self.has_text else ""

    def texts(self, texts: Iterable[str]) -> list[str]:
        return [visible(text) for text in texts] if self.has_text else []


def _session(of: _Source) -> SessionData:
    session, replay, totals = of.session, of.replay, of.replay.totals
    views = [_view(of, compaction) for compaction in replay.compactions]
    return {
        "name": of.name,
        "file": of.file,
        "format": session.format_name,
        "model": visible(session.model or ""),
        "messages": len(session.messages),
        "window": replay.window,
        "trigger": replay.trigger,
        "totals": {
            "calls": totals.calls,
            "compactions": totals.compactions,
            "overflows_without": totals.overflows_without,
            "tokens_sent": totals.tokens_sent,
            "tokens_without": totals.tokens_without,
            "used_later": totals.used_later,
            "names_lost": totals.used_later - totals.kept,
            "constraints": totals.constraints,
            "constraints_lost": totals.lost_constraints,
            "probes": totals.probes,
            "probes_kept": totals.probes_kept,
        },
        "saving": totals.saving,
        "compactions": [_compaction(of, *each) for each in zip(replay.compactions, views, strict=True)],
        "costs": [_cost(cost) for cost in replay.costs],
        "probes": [
            {
                "question": of.text(probe.question),
                "outcome": "kept" if probe.is_kept else "lost" if probe.is_in_session else "not in the session",
            }
            for probe in replay.probes
        ],
        "unfit": [{"call": call.call, "tokens": call.tokens, "error": of.text(call.error)} for call in replay.unfit],
        "put_off": replay.put_off,
        "notes": of.texts(session.skipped),
        "used_recorded_usage": replay.used_recorded_usage,
        "conversation": _conversation(of, views),
    }


def _cost(cost: Cost) -> CostData:
    return {
        "model": visible(cost.model),
        "is_recorded": cost.is_recorded,
        "sent": [round(amount, 6) for amount in accumulate(cost.calls)],
        "without": [round(amount, 6) for amount in accumulate(cost.calls_without)],
        "summaries": cost.summaries,
    }


# -- the conversation, and what was sent of it


def _conversation(of: _Source, views: list[ViewData]) -> ConversationData:
    session, replay = of.session, of.replay
    system = None if session.system is None else Message(role="system", parts=(Text(session.system),))
    return {
        "system": None if system is None else _message(of, [system]),
        "messages": [_message(of, pieces) for pieces in of.pieces],
        "calls": [call.index for call in replay.calls],
        "sent": [call.tokens_sent for call in replay.calls],
        "without": [call.tokens_without for call in replay.calls],
        "views": views,
    }


def _message(of: _Source, pieces: Sequence[Message]) -> MessageData:
    return {
        "role": ", ".join(dict.fromkeys(piece.role for piece in pieces)),
        "tokens": sum(block.tokens for block in read_blocks(pieces)),
        "parts": [_part(of, part) for piece in pieces for part in piece.parts],
    }


def _part(of: _Source, part: Part) -> PartData:
    match part:
        case Text(text=text):
            kind, name = "text", ""
        case Thinking(text=text):
            kind, name = "thinking", ""
        case Media(name=name, media_type=text):
            kind = "media"
        case ToolCall(name=name, arguments=text):
            kind = "call"
        case ToolResult(name=name, text=text):
            kind = "result"
        case Opaque(name=name, content=text):
            kind = "other"
    return {"kind": kind, "name": of.text(name), "text": of.text(text)}


def _view(of: _Source, compaction: ReplayedCompaction) -> ViewData:
    sent: list[list[int] | ChangedData] = []
    for message, origin in zip(_details(compaction).view, _find_origins(of, compaction), strict=True):
        if id(message) not in of.index_of:
            sent.append(_changed(of, message, origin, compaction.summary))
        elif sent and isinstance(last := sent[-1], list) and last[1] == origin:
            last[1] += 1
        else:
            index = of.index_of[id(message)]
            sent.append([index, index + 1])
    return {"call": compaction.call, "covered": compaction.summarized_messages, "sent": sent}


def _details(compaction: ReplayedCompaction) -> CompactionDetails:
    if compaction.details is None:
        raise ValueError("a report needs replays with details: replay(..., details=True)")
    return compaction.details


def _find_origins(of: _Source, compaction: ReplayedCompaction) -> list[int | None]:
    """Return by message of a view the index of the message that it is, or is a copy of; None for a summary."""
    view, cut = _details(compaction).view, compaction.summarized_messages
    end = of.replay.calls[compaction.call - 1].index
    found = [of.index_of.get(id(message)) for message in view]
    # The end of a view has a message for each one after the cut.
    start = len(view) - (end - cut)
    tail = [*range(cut, end)]
    if start < 0 or any(have not in (None, want) for have, want in zip(found[start:], tail, strict=True)):
        start, tail = len(view), []
    head = [
        _find_whole(of, of.session.format.read(message), compaction) if index is None else index
        for message, index in zip(view[:start], found[:start], strict=True)
    ]
    return [*head, *tail]


def _find_whole(of: _Source, pieces: Sequence[Message], compaction: ReplayedCompaction) -> int | None:
    """Return the index of the newest summarized message that has all parts of this one; None for a summary."""
    if text_of(pieces) == compaction.summary:
        return None
    parts = {part for piece in pieces for part in piece.parts}
    summarized = reversed(of.pieces[: compaction.summarized_messages])
    back = (n for n, whole in enumerate(summarized, 1) if parts <= {part for piece in whole for part in piece.parts})
    found = next(back, None)
    return None if found is None else compaction.summarized_messages - found


def _changed(of: _Source, message: Fields, index: int | None, summary: str) -> ChangedData:
    pieces = of.session.format.read(message)
    state: State = "summary" if text_of(pieces) == summary else _state(of, pieces, index)
    return {"index": index, "state": state, "message": _message(of, pieces)}


def _state(of: _Source, pieces: Sequence[Message], index: int | None) -> State:
    if index is None:  # a pinned message that is shortened itself
        return "shortened"
    before, after = ([part.text for one in each for part in one.results] for each in (of.pieces[index], pieces))
    has_marker = any(
        not new.startswith(old[:SAME_CHARS]) and not new.endswith(old[-SAME_CHARS:])
        for old, new in zip(before, after, strict=False)
    )
    return "cleared" if has_marker else "shortened"


# -- compactions


def _compaction(of: _Source, compaction: ReplayedCompaction, view: ViewData) -> CompactionData:
    details, later = _details(compaction), compaction.used_later
    return {
        "call": compaction.call,
        "reason": compaction.reason.value,
        "tokens_before": compaction.tokens_before,
        "tokens_after": compaction.tokens_after,
        "counts": {
            "summarized": compaction.summarized_messages,
            "as_is": compaction.kept_messages,
            "pinned": compaction.pinned_messages,
            "cleared": compaction.cleared_results,
            "shortened": compaction.shortened_parts,
            "names_kept": len(later.kept),
            "names_lost": len(later.lost),
            "constraints": len(compaction.constraints),
            "constraints_lost": len(compaction.lost_constraints),
        },
        "messages": {name: write_ranges(found) for name, found in _sort_messages(of, view).items()},
        "used_fallback": compaction.used_fallback,
        "summary": of.text(compaction.summary),
        "files": {"read": _files(of, compaction.read_files), "modified": _files(of, compaction.modified_files)},
        "names_kept": of.texts(later.kept),
        "names_lost": _find_lost(of, later.lost, details.covered),
        "constraints_lost": _find_lost(of, compaction.lost_constraints, details.covered),
        "reasons": _reasons(of, details.reasons),
    }


def _files(of: _Source, names: Sequence[str]) -> FilesData:
    return {"count": len(names), "names": of.texts(names[:SHOWN_FILES])}


def _sort_messages(of: _Source, view: ViewData) -> dict[str, list[int]]:
    """Return the numbers of the messages from 1, by what was done to them; system messages are in none."""
    found: dict[str, list[int]] = {"summarized": [], "pinned": [], "as_is": [], "cleared": [], "shortened": []}
    states = dict[int, str]()
    for entry in view["sent"]:
        if isinstance(entry, list):
            states.update((index, "pinned" if index < view["covered"] else "as_is") for index in range(*entry))
        elif entry["index"] is not None:
            states[entry["index"]] = entry["state"]
    for index in range(of.replay.calls[view["call"] - 1].index):
        if index not in of.systems:
            found[states.get(index, "summarized")].append(index + 1)
    return found


def write_ranges(numbers: Iterable[int]) -> str:
    """Return ascending numbers as text.

    >>> write_ranges([1, 2, 3, 7, 9, 10])
    '1–3, 7, 9–10'
    """
    runs = [[number for _, number in run] for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)


def _find_lost(of: _Source, texts: Sequence[str], covered: Sequence[CoveredPart]) -> list[LostData]:
    """Return lost identifiers or constraints, each with the handle of the newest covered part that has it."""
    if not of.has_text:
        return []
    return [
        {
            "text": visible(text),
            "handle": next((part.handle for part in reversed(covered) if _has(part, text)), ""),
        }
        for text in texts
    ]


def _has(part: CoveredPart, text: str) -> bool:
    return is_in(text, part.text) or (part.role == "user" and text in plain(part.text))


def _reasons(of: _Source, lines: Iterable[str]) -> list[str]:
    """Return the controller's log lines without the session's name, and without the last one, which has a time.

    They hold no text of messages.
    """
    name = of.session.id
    return [
        visible(line.removeprefix(f"session {name}: ")) for line in lines if not line.startswith(f"{name}: compacted")
    ]
