"""The beginning of a view: the messages that stay from before the cut, and the provider's own summary in the host's list."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence, Set
from itertools import takewhile
from typing import Any, NamedTuple

from compaction_hooks.history import History
from compaction_hooks.history.digests import message_digest, text_digest
from compaction_hooks.history.history import answered_ids, call_ids, is_only_reasoning
from compaction_hooks.messages import M, Message, NativeSummary, Opaque
from compaction_hooks.native import Issuer, NativeItems
from compaction_hooks.reasoning import find_family
from compaction_hooks.tokens.windows import same_model
from compaction_hooks.view.record import NATIVE_MARK, UNKNOWN_RUN, CompactionRecord, Pin, issuer_note
from compaction_hooks.view.texts import SUMMARY_MARKER, render_summary

MISSING = "The messages before this point are missing: another provider or model compacted them, and only it can read the summary."
"""The words in place of a sealed summary that the request cannot send, and whose messages the list has not."""


_FAMILY = "Claude"
"""The families of models that take a readable summary of the provider's own: only Anthropic makes such."""
MOST_REFUSALS = 2
"""So many refusals in a row of a provider's own items are no rotated key: each further item would be paid for and refused too."""

NOWHERE = -1
"""The piece of no summary."""


class NativeStart(NamedTuple):
    """The provider's own summary at which a view begins.

    Attributes:
        piece: Index of the piece that holds it; `NOWHERE` if the request sends none, and the list has the messages that they cover.
        is_sent: Whether the request sends it; otherwise its text takes its place.
        text: Its text, which the next summary of ours updates; "" if it is sealed.
        left_out: Pieces of other summaries that the request cannot send.
        covered: Host messages that it covers.
        pins: Messages before it that stay: of a sealed one the request that it came with an answer to, or all words of the user if
            it is not sent; and messages that the host pinned.
    """

    piece: int
    is_sent: bool = True
    text: str = ""
    covered: int = 0
    left_out: tuple[int, ...] = ()
    pins: tuple[Pin, ...] = ()

    def is_newer(self, history: History[Any], record: CompactionRecord | None) -> bool:
        """Whether neither a record's summary nor ours at the head of the list covers it."""
        covered = record.covered_runs if record else 0
        return self.piece >= max(covered_pieces(history, covered), history.summary_piece or 0)

    @property
    def rendered(self) -> str:
        """The text of the message in its place."""
        if not self.text:
            return f"{SUMMARY_MARKER}\n{MISSING}"
        return render_summary(self.text, file_tags="", continuation=False, covered=self.covered, unseen=0)


def covered_pieces(history: History[Any], runs: int) -> int:
    """Return how many pieces of the list are before this run; 0 if the summary at the head of the list covers it."""
    return history.run_start(runs) if runs > history.runs_before_list else 0


def native_of(message: Message) -> NativeSummary:
    """Return the newest of the provider's own summaries in a message that has one."""
    return [part for part in message.parts if isinstance(part, NativeSummary)][-1]


def find_start(
    history: History[Any],
    may_send: Callable[[int], bool] = lambda _: True,
) -> NativeStart | None:
    """Return the start of a view: the newest summary that the request may send; None if the list has no summary.

    Without such a summary, a view begins at the text of the newest one whose messages the list has not.

    Args:
        may_send: Whether the request may send the summary in the piece with this index.
    """
    natives = history.natives()
    if not natives:
        return None

    sent = [*filter(may_send, natives)]
    start = [piece for piece in sent or natives if sent or not _is_whole(history, piece, natives)][-1:]
    left_out = tuple(piece for piece in natives if piece not in sent)
    if not start:
        return NativeStart(NOWHERE, is_sent=False, left_out=left_out)

    (piece,), item = start, native_of(history.piece(start[0]).message)
    pins = _pins(history, piece, is_sent=bool(sent)) if item.sealed else ()
    return NativeStart(piece, bool(sent), item.content, history.piece(piece).host, left_out, pins)


def _pins(history: History[Any], piece: int, *, is_sent: bool) -> tuple[Pin, ...]:
    """Return pins of the user's messages before a sealed summary: of the request that it came with an answer to, or of all."""
    pieces = history.pieces_of_user(piece)
    if is_sent:
        pieces = [] if history.request_after(piece) == piece + 1 else pieces[-1:]
    return tuple(Pin(max(history.run_of(index), 0), message_digest(history.piece(index).message)) for index in pieces)


def _is_whole(history: History[Any], piece: int, natives: Sequence[int]) -> bool:
    """Return whether the list has the messages that a summary covers, or our own summary of them.

    Before a sealed one that is an answer: hosts that drop messages keep at most the user's words.
    """
    if piece < (history.summary_piece or 0):
        return True
    answers = takewhile(lambda index: index < piece, history.log.answers)
    return bool(native_of(history.piece(piece).message).sealed) and any(index not in natives for index in answers)


class Head(NamedTuple):
    """The beginning of a view.

    Attributes:
        cut: The first piece after the covered ones; 0 if none are covered.
        rendered: The text of the summary; "" if there is none.
        pins: Messages before the cut that stay.
        items: The native items in place of the summary, or None.
    """

    cut: int = 0
    rendered: str = ""
    pins: tuple[Pin, ...] = ()
    items: NativeItems | None = None


def find_head(
    history: History[M], record: CompactionRecord | None, issuer: Issuer | None, start: NativeStart | None
) -> tuple[Head, Sequence[int]]:
    """Return the beginning of a view, and the pieces of the provider's own summary in it.

    Such a summary that is newer than ours takes the place of ours. A sealed one that ours covers stays in front of it.
    """
    cut = covered_pieces(history, record.covered_runs) if record else 0
    head = Head(cut, record.rendered, record.pins, record.native_for(issuer)) if record and cut else Head()
    if start is None or start.piece == NOWHERE:
        return head, ()

    item = native_of(history.piece(start.piece).message)
    if not start.is_newer(history, record):
        is_carried = start.is_sent and item.sealed and start.piece < cut and head.items is None
        return head, (start.piece,) if is_carried else ()

    if not start.is_sent:
        return Head(start.piece, start.rendered, start.pins), ()
    if not item.is_first or not start.piece:
        return head, ()

    end = max(whole_step(history, start.piece)) + 1 if history.piece(start.piece).message.calls else start.piece + 1
    kept = [index for index in range(start.piece, end) if history.piece(index).message.role != "system"]
    return Head(end, pins=start.pins), kept


def pin_pieces(history: History[M], pins: Iterable[Pin], cut: int) -> list[int]:
    """Return the indexes of the pieces before `cut` that the pins name, in order. Pins whose message is gone are skipped.

    The calls and results without which a pinned one cannot be shown stay with it: another format may cut a step into other
    messages, whose digests no pin names.
    """
    pieces: set[int] = set()
    named: dict[range, dict[str, int]] = {}  # of equal messages the last
    for pin in pins:
        within = _find_run_pieces(history, pin.run)
        if within not in named:
            named[within] = {message_digest(history.piece(i).message): i for i in within if i < cut}
        match = next((named[within][digest] for digest in pin.digests if digest in named[within]), None)
        if match is not None:
            pieces.update(i for i in whole_step(history, match) if i < cut)
    return sorted(pieces)


def _find_run_pieces(history: History[M], run: int) -> range:
    """Return the pieces of a run; of one before the list all pieces before its first run: the pins of a stored view are there."""
    if run >= history.runs_before_list:
        return history.run_pieces(run)
    return range(history.run_start(history.runs_before_list))


def whole_step(history: History[M], index: int) -> set[int]:
    """Return a piece with all tool calls and results that belong to it, directly or through others.

    One message may answer the calls of several messages (Anthropic's results of a step that was split).
    """
    step, waiting = {index}, [index]
    while waiting:
        fresh = {partner for partner in _partners(history, waiting.pop()) if partner not in step}
        step |= fresh
        waiting.extend(fresh)
    return step


def _partners(history: History[M], index: int) -> Iterator[int]:
    """Yield the pieces that hold the calls this piece answers, and the answers to the calls it makes; the nearest of each id.

    And the other items of an answer with an item of reasoning: OpenAI refuses these apart.
    """
    message = history.piece(index).message
    yield from _search_before(history, index)
    yield from _answer_items(history, index)
    yield from _nearest(history, answered_ids(message), reversed(range(index)), call_ids)
    yield from _nearest(history, call_ids(message), range(index + 1, history.piece_count), answered_ids)


def _nearest(
    history: History[M], wanted: Set[str], pieces: Iterable[int], read: Callable[[Message], Set[str]]
) -> Iterator[int]:
    """Yield the first pieces that have these ids, each of them once."""
    for index in pieces if wanted else ():
        if ids := wanted & read(history.piece(index).message):
            yield index
            wanted -= ids
            if not wanted:
                return


def _answer_items(history: History[M], index: int) -> list[int]:
    run = history.run_of(index)
    if run >= history.runs_before_list and history.run_side(run) != "assistant":
        return []

    items = [item for item in _find_run_pieces(history, run) if history.piece(item).message.role == "assistant"]
    return items if any(is_only_reasoning(history.piece(item).message) for item in items) else []


def _search_before(history: History[M], index: int) -> Iterator[int]:
    """Yield the piece with the search that found the tools in this one: what OpenAI searches itself has no id."""
    for piece, kind in ((index, "tool_search_output"), (index - 1, "tool_search_call")):
        parts = history.piece(piece).message.parts if piece >= 0 else ()
        if not any(isinstance(part, Opaque) and part.kind == kind for part in parts):
            return
    yield index - 1


# -- the provider's own summaries of a list, and who made those that only their issuer can read


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
    pieces = (index for index in reversed(range(end)) if digest == message_digest(history.piece(index).message))
    return next(map(history.run_of, pieces), UNKNOWN_RUN)


def _may_be_model(issuer: str, model: str) -> bool:
    """Whether a model may be the issuer: the names mean one model, and gateways that are named are the same."""
    if not issuer or not model:
        return True
    gateways = {name.rpartition("/")[0] for name in (issuer, model)} - {""}
    return same_model(issuer, model) and len(gateways) <= 1
