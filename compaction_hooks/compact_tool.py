"""The tool by which a model asks that its own conversation be compacted, with a focus and a note to itself.

1. The tool gives an order, no more: its call is open while it runs. The next call of the conversation compacts.
2. An order is taken if the view last sent has the least part of its limit, if the user's turn has orders left, and if none is
   pending. Else the answer says why not, and when to ask again. The limit is the trigger; if nothing triggers, the window.
3. An order is kept in this process, on the conversation. It ends with the attempt that it causes, unless that is aborted; with a
   view under another record (after any other compaction, which has its note, or an undo); and with a list without the request that
   it was given in.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from compaction_hooks.foreign import describe_error
from compaction_hooks.history import UserRequest
from compaction_hooks.telling import write_section
from compaction_hooks.text.shortening import shorten_to
from compaction_hooks.view.snapshot import Snapshot
from compaction_hooks.view.texts import COMPACT_TOOL

__all__ = ["CompactTool"]

logger = logging.getLogger("compaction_hooks")

MOST_TOKENS: Final = 500
"""The most tokens of a note, and of a focus: a longer one is shortened in its middle."""
NOTE_HEADING: Final = "## Note of the assistant to itself"
"""The heading above the note in a summary: the words are neither the user's nor the application's."""


class CompactTool:
    """A tool for the model of one conversation: it asks for a compaction. Made by `session.compact_tool`.

    Call it with the arguments that the model gave. It raises nothing: a refusal is said in its answer. It is safe to call from any
    thread.

    Attributes:
        name: The name under which the model calls it.
        description: Tells the model what it is for.
        parameters: JSON schema of its arguments.
    """

    name: Final = COMPACT_TOOL
    description: Final = (
        "Ask that this conversation be compacted: your next step then begins with a summary in place of the older messages. "
        "Useful when a part of the work is done and its details are no longer needed. "
        "Early and repeated requests are refused."
    )
    parameters: Final[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "focus": {"type": "string", "description": "The subject that the summary should pay attention to."},
            "note": {"type": "string", "description": "A note to yourself, which the summary has word for word."},
        },
    }

    def __init__(self, ask: Callable[[str, str], str], session_id: str) -> None:
        self._ask = ask
        self._session_id = session_id

    def __call__(self, /, focus: object = "", note: object = "", **others: object) -> str:
        """Return the answer to a call of the model: whether its next step begins with the compacted view.

        Models misname arguments: those of other names are taken for the note.
        """
        try:
            return self._ask(_join([focus]), _join([note, *others.values()]))
        except Exception as error:  # noqa: BLE001 - the model's run must go on
            logger.warning("session %s: %s failed (%s)", self._session_id, self.name, describe_error(error))
            return f"{self.name} failed: {describe_error(error)}"


def _join(values: list[object]) -> str:
    return " ".join(str(value).strip() for value in values if value)


class ToolRequest(NamedTuple):
    """A request of the model for a compaction, and the state of the conversation at that moment.

    Attributes:
        snapshot: The view last sent; None before the first one.
        tokens: Its size; None before the first one.
        limit: The size above which it is compacted without the tool, or the window; None while the window is unknown.
        is_vetoed: Whether the host does not want a compaction before the user's next message.
        min_fraction: The least part of the limit.
        max_per_turn: The most orders since the user's last request.
    """

    focus: str
    note: str
    snapshot: Snapshot[Any] | None
    tokens: int | None
    limit: int | None
    is_vetoed: bool
    min_fraction: float
    max_per_turn: int


class ToolOrder(NamedTuple):
    """An order to compact before the next call.

    Attributes:
        focus: The subject that the summary should pay attention to, or None.
        sections: The section of the summary with the model's note to itself, if it gave one.
        request: The user's request that the order was given in.
        record_id: The record of the view that it was given in, or None.
    """

    focus: str | None
    sections: tuple[str, ...]
    request: UserRequest
    record_id: str | None


class ToolOrders:
    """The order of the model of one conversation, and the number of its orders in a turn of the user.

    Attributes:
        pending: The order that no call has carried out yet, or None.
    """

    def __init__(self) -> None:
        self.pending: ToolOrder | None = None
        self._request: UserRequest | None = None
        self._count = 0

    def add(self, asked: ToolRequest) -> str:
        """Take an order if it is time for one; return the answer for the model."""
        snapshot, tokens = asked.snapshot, asked.tokens
        if snapshot is None or tokens is None:
            return "Not now: the size of this conversation is not known yet. Ask again after your next step."
        if self.pending is not None:
            return "You have asked already: your next step begins with the compacted view."

        request = UserRequest.of(snapshot.history)
        if not request.is_same(self._request):
            self._request, self._count = request, 0
        refusal = self._refuse(asked, tokens)
        if refusal:
            return refusal

        estimate = snapshot.estimator.estimate_tokens
        focus = shorten_to(asked.focus, MOST_TOKENS, estimate)
        note = write_section(NOTE_HEADING, [asked.note], MOST_TOKENS, estimate)
        self._count += 1
        self.pending = ToolOrder(focus or None, (note,) if note else (), request, snapshot.key.record_id)
        answer = "Your next step begins with the compacted view: a summary in place of the older messages"
        return f"{answer}, with your note." if note else f"{answer}."

    def _refuse(self, asked: ToolRequest, tokens: int) -> str:
        """Return why an order is not taken, and when to ask again, or an empty string."""
        if self._count >= asked.max_per_turn:
            count = "once" if self._count == 1 else f"{self._count} times"
            return f"Not now: you have asked {count} since the user's last message. Ask again after the next one."
        if asked.is_vetoed:
            return "Not now: the application does not want it before the user's next message."
        if asked.limit is None:
            return "Not possible: the size of the context window is not known."

        least = math.ceil(asked.limit * asked.min_fraction)
        if tokens < least:
            share = f"{tokens:,} tokens, {100 * tokens // asked.limit} % of the limit of {asked.limit:,}"
            return f"Not now: this conversation has {share}. Go on; ask again from {least:,} tokens on."
        return ""

    def end_unless_of(self, snapshot: Snapshot[Any]) -> None:
        """End the pending order if it is not one of this list under this record."""
        order = self.pending
        if order is not None and not (
            order.record_id == snapshot.key.record_id and order.request.is_in(snapshot.history)
        ):
            self.pending = None

    def end(self) -> None:
        """End the pending order: it was carried out, or nothing came of it."""
        self.pending = None
