"""The shape of a report's data: the page and its script read it."""

from __future__ import annotations

from typing import Literal, TypeAlias, TypedDict

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
