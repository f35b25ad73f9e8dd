"""The snapshot: a conversation at one moment. Triggers, strategies and checks read nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, NamedTuple, NoReturn

from compaction_hooks.foreign import are_equal
from compaction_hooks.history import History, Piece
from compaction_hooks.history.digests import message_digest
from compaction_hooks.messages import Format, M, Message, Opaque, Provider, Text, ToolResult
from compaction_hooks.native import Issuer
from compaction_hooks.tokens.budget import Budget
from compaction_hooks.tokens.calibration import Calibration
from compaction_hooks.tokens.estimator import TokenEstimator
from compaction_hooks.tokens.windows import Prices, find_prices
from compaction_hooks.view.head import whole_step
from compaction_hooks.view.parts import Reduction
from compaction_hooks.view.reasoning import ALL_READ, NOT_STALE, UnreadReasoning, find_unread, spare_open_turn
from compaction_hooks.view.record import CompactionRecord, StaleRuns
from compaction_hooks.view.references import Beginning, Dressed, Kept, View
from compaction_hooks.view.texts import parse_summary
from compaction_hooks.view.view_of import view_until, without_texts_of_ours
from compaction_hooks.view.write import write, write_kept


class ViewKey(NamedTuple):
    """The identity of the view that a number of tokens belongs to.

    Attributes:
        log: The log of its history; a history that grows keeps it, an edited one gets a new one.
        piece_count: Pieces of that history.
        record_id: The active record, or None.
        estimated: The view's estimate, system prompt and tools included, before calibration.
        model: The model of the call, or None for the controller's own.
        dressed: What dressers did to it.
    """

    log: object
    piece_count: int
    record_id: str | None
    estimated: int
    model: str | None
    dressed: Dressed = Dressed()

    def is_prefix_of(self, later: ViewKey) -> bool:
        """Whether `later` is this view with more messages at its end, for the same model."""
        return (
            self.log is later.log
            and self.piece_count <= later.piece_count
            and self.record_id == later.record_id
            and self.model == later.model
            and self.dressed.begins(later.dressed, self.piece_count)
        )

    def before(self, piece: int, tokens: int) -> ViewKey:
        """Return the identity of this view as it was before a piece; from it on, the list has so many tokens."""
        known = tuple(each for each in self.dressed.inserted if each.before <= piece)
        later = sum(each.tokens for each in self.dressed.inserted[len(known) :])
        estimated, dressed = self.estimated - tokens - later, self.dressed._replace(inserted=known)
        return self._replace(piece_count=piece, estimated=estimated, dressed=dressed)


class CallFrame(NamedTuple):
    """What a model call has next to its messages, as the host gave it.

    Attributes:
        request: Its other options, by the names of its client or framework; None if the host gave none.
    """

    system: object = None
    tools: object = None
    request: Mapping[str, object] | None = None


SEARCHES_RATIO = 0.25
"""The most of the room under the threshold that searches take which found tools, from before a cut."""


class Reading(NamedTuple, Generic[M]):
    """The list of a call as it was read, and the view of it.

    Attributes:
        messages: The list of the call, or the copy of it; with `repair`, the repaired list.
        record: The newest record that is true of the history, or None.
        shown_record: The same as the record of this very view: it may have another one, with or without native items.
        view: That record applied, as the request shows it.
        key: The identity of the view, with its estimate before calibration.
        budget: The budget of the model's window, or None while the window is unknown.
        system_tokens, tools_tokens: Estimates of the system prompt and of the tools that are not in the list.
        issuer: The API and the model whose native items the view may have; None: no items.
        binds_reasoning: Whether the model refuses reasoning that it made after other messages.
        is_changed: Whether the view may be another list than the host's.
    """

    messages: list[M]
    history: History[M]
    record: CompactionRecord | None
    shown_record: CompactionRecord | None
    view: View[M]
    key: ViewKey
    budget: Budget | None
    system_tokens: int
    tools_tokens: int
    issuer: Issuer | None
    binds_reasoning: bool
    is_changed: bool

    def find_stale(self) -> StaleRuns:
        """Return the runs whose reasoning a compaction made now leaves out of the view."""
        if not self.binds_reasoning:
            return NOT_STALE
        return spare_open_turn(StaleRuns(0, self.history.run_count), self.history, self.key.model)

    def find_unread(self, provider: Provider | None) -> UnreadReasoning:
        """Return the reasoning that a compaction made now leaves in the view, and the provider ignores there."""
        if self.binds_reasoning:
            return ALL_READ
        return find_unread(self.history, self.history.run_count, self.key.model, provider)


class Snapshot(NamedTuple, Generic[M]):
    """One conversation at one moment: what was read, and the size of the view.

    Attributes:
        reading: The list, the active record and the view.
        tokens: Size of the view in tokens of the model: the provider's count, plus an estimate of newer messages.
        most_tokens: The same with the newer messages at no less than their estimate: a ratio below 1 was learned from other texts.
        cached_tokens: Tokens of the view that the provider read from its cache in the last call, or None if it reported none.
        seconds_since_last_call: Seconds since the last call began, or None if unknown.
        estimator: Sizes texts and messages, before calibration.
        calibration: How the model's counts differ from the estimator's, as learned from usage.
        user_pins: By digest, the run of each message that the host pinned; `UNKNOWN_RUN` if that is not known.
        has_recall: Whether the model has the recall tool, so that markers name handles.
        dress: Returns a plain view of this history under a record as the request shows it, without the reasoning of these runs.
        joins_rows: Whether user messages in a row are sent as one.
        may_be_shortened: Whether the request lets the server shorten it, so that its count may be less than the view.
        call_frame: What the call has next to its messages.
        frozen: The list of the call and a copy of it, if the snapshot outlasts a wait; else None.
    """

    reading: Reading[M]
    tokens: int
    most_tokens: int
    format: Format[M]
    estimator: TokenEstimator
    calibration: Calibration
    cached_tokens: int | None
    seconds_since_last_call: float | None
    user_pins: Mapping[str, int]
    has_recall: bool
    dress: Callable[[View[M], CompactionRecord, StaleRuns], View[M]]
    joins_rows: bool
    may_be_shortened: bool = False
    call_frame: CallFrame = CallFrame()
    frozen: tuple[list[M], list[M]] | None = None

    @property
    def messages(self) -> list[M]:
        """The list of the call, or the copy of it; with `repair`, the repaired list."""
        return self.reading.messages

    @property
    def history(self) -> History[M]:
        """The list as it reads."""
        return self.reading.history

    @property
    def record(self) -> CompactionRecord | None:
        """The newest record that is true of the history, or None."""
        return self.reading.record

    @property
    def view(self) -> View[M]:
        """That record applied, as the request shows it."""
        return self.reading.view

    @property
    def projection(self) -> NoReturn:
        """The former name of `view`."""
        raise AttributeError("`projection` has a new name: `snapshot.view`; the messages are in `snapshot.to_send`")

    @property
    def key(self) -> ViewKey:
        """The identity of the view, with its estimate before calibration."""
        return self.reading.key

    @property
    def budget(self) -> Budget | None:
        """The budget of the model's window, or None while the window is unknown."""
        return self.reading.budget

    @property
    def binds_reasoning(self) -> bool:
        """Whether the model refuses reasoning that it made after other messages."""
        return self.reading.binds_reasoning

    @property
    def ratio(self) -> float:
        """The model's tokens per estimated token, as learned from usage."""
        return self.calibration.ratio

    @property
    def fixed_tokens(self) -> int:
        """Estimated tokens of the system prompt and the tools that are not in the list."""
        return self.reading.system_tokens + self.reading.tools_tokens

    def freeze(self, given: list[M]) -> Snapshot[M]:
        """Return the snapshot with a copy of the call's list: the host may change its list while the call waits."""
        copied = [*given]
        messages = copied if self.messages is given else self.messages
        return self._replace(frozen=(given, copied), reading=self.reading._replace(messages=messages))

    @property
    def is_current(self) -> bool:
        """Whether the host's list still has the messages of the copy."""
        return self.frozen is None or are_equal(*self.frozen)  # lists compare by identity first

    @property
    def to_send(self) -> list[M]:
        """The view as a list to send: the host's own list while nothing is compacted or repaired."""
        return self.write(self.view, joins_rows=self.joins_rows)

    @property
    def to_store(self) -> list[M]:
        """The view as a list for any store and provider: with the text of the summary in place of the provider's own items."""
        return self.write(self.view, for_store=True)

    def write(self, view: View[M], *, for_store: bool = False, joins_rows: bool = False) -> list[M]:
        """Return the messages of a view of this list."""
        if not view.is_identity and not (for_store and view.is_stored_as_listed):
            return write(view, self.messages, self.format, for_store=for_store, joins_rows=joins_rows)

        given, copied = self.frozen or (self.messages, self.messages)
        listed = given if self.messages is copied else self.messages
        return self.format.merge(listed) if joins_rows else listed

    @property
    def window(self) -> int:
        """The model's window in tokens; 0 while it is unknown."""
        return self.budget.window if self.budget is not None else 0

    @property
    def input_limit(self) -> int:
        """The part of the window that the input may take, in tokens; 0 while the window is unknown."""
        return self.budget.input_limit if self.budget is not None else 0

    @property
    def exceeds_input_limit(self) -> bool:
        """Whether the view is larger than that; False while the window is unknown."""
        return self.budget is not None and self.tokens > self.budget.input_limit

    @property
    def model(self) -> str | None:
        """The name of the call's model, or None."""
        return self.key.model

    @property
    def message_count(self) -> int:
        """Messages in the view."""
        return len(self.write(self.view))

    @property
    def prices(self) -> Prices | None:
        """The model's prices, or None if they are unknown."""
        return find_prices(self.model) if self.model is not None else None

    @property
    def fits_window(self) -> bool:
        """Whether the view fits the model's window by estimate; true while the window is unknown."""
        return self.budget is None or self.tokens <= self.budget.window

    @property
    def surely_fits_window(self) -> bool:
        """Whether even `most_tokens` fit the model's window, so that a compaction that is due may wait."""
        return self.budget is None or self.most_tokens <= self.budget.window

    def model_tokens(self, estimated: int) -> int:
        """Return the model's tokens for a view of `estimated` tokens, rounded up."""
        return self.calibration.predict(estimated + self.fixed_tokens)

    def room(self, tokens: int) -> int:
        """Return the largest estimate whose view takes at most `tokens` of the model; may be negative."""
        return math.floor((tokens - self.calibration.overhead_tokens) / self.ratio) - self.fixed_tokens

    @property
    def reductions(self) -> tuple[Reduction, ...]:
        """The reductions of the active record, and those that its view shows: a later record goes on with them.

        One whose part was edited meanwhile, or went in a rewind, is applied to nothing.
        """
        recorded = self.record.reductions if self.record else ()
        return tuple(dict.fromkeys((*recorded, *self.view.reductions)))

    @property
    def estimated(self) -> int:
        """The present view's estimate in tokens, before calibration."""
        return self.view.tokens(self.history)

    @property
    def estimated_tokens(self) -> int:
        """Size of the view in tokens of the model, by estimate alone."""
        return self.model_tokens(self.estimated)

    @property
    def covered_runs(self) -> int:
        """Runs at the beginning that are no longer in the view, or weigh nothing in it."""
        native, runs = self.native, self.record.covered_runs if self.record else 0
        return max(self.history.runs_before_list, runs, 0 if native is None else self.history.run_of(native.piece))

    @property
    def native(self) -> Beginning | None:
        """The provider's own summary that the view begins with, if it is newer than ours; else None."""
        start = self.view.start
        return start if start is not None and start.is_newer else None

    @property
    def readable_native(self) -> Beginning | None:
        """The same, if its text is readable."""
        return self.native if self.native is not None and self.native.text else None

    def user_pinned_pieces(self) -> set[int]:
        """Return the pieces that the host pinned, so that they are neither cleared nor shortened."""
        history, places = self.history, self._locate_pins()
        pinned = set[int]()
        for digest, run in self.user_pins.items():
            here = [index for index in places[digest] if index < history.piece_count]
            # After a summary at the head of a list, or after an edit, runs have other numbers: there the content alone decides.
            pinned.update([index for index in here if history.runs_before_list <= run == history.run_of(index)] or here)
        return pinned

    def _locate_pins(self) -> Mapping[str, tuple[int, ...]]:
        """Return the pieces with the digest of each pin. Each piece is hashed once, as long as no pin is new."""
        history = self.history
        first, known = history.log.pinned
        if known.keys() != self.user_pins.keys():
            first, known = 0, dict.fromkeys(self.user_pins, ())

        places = dict(known)
        for index, piece in enumerate(history.pieces(first) if places else (), first):
            if (digest := message_digest(piece.message)) in places:
                places[digest] += (index,)

        history.log.pinned = max(first, history.piece_count), places
        return places

    @property
    def turn_start(self) -> int | None:
        """The first run of the user's present turn; None if no user spoke yet."""
        requests = self.history.requests
        return self.history.run_of(requests[0]) if requests else None

    @property
    def turn_tokens(self) -> int:
        """Size of the present turn with the fixed parts, in tokens of the model; of all if a summary covers its beginning."""
        start = self.turn_start
        if start is None or start < self.covered_runs:
            return self.tokens
        return self.model_tokens(self.kept_tokens()(self.history.run_start(start)))

    @property
    def older_requests(self) -> list[int]:
        """The pieces of the current request before its newest one; a summary at the head of the list is none.

        Neither are older messages that follow it: in a stored view no answer may be between them and the request.
        """
        history, older = self.history, self.history.requests[:-1]
        optional = history.origin.optional if history.origin else ()

        def is_own(piece: Piece) -> bool:
            is_older = bool(optional) and piece.side is None and message_digest(piece.message) in optional
            return not is_older and not piece.message.is_summary and parse_summary(piece.message.text) is None

        return [index for index in older if is_own(history.piece(index))]

    def pinned_pieces(self, start: int, requests: Iterable[int] = ()) -> list[int]:
        """Return the pieces before `start` that stay, with their calls and results: the current request, messages that the host
        pinned, and searches that found tools.

        Args:
            requests: The older pieces of the request that stay whole.
        """
        chosen = {self.history.request, *requests} | self.user_steps(start) | self._find_searches(start)
        return sorted(i for i in chosen if i is not None and i < start)

    def user_steps(self, start: int) -> set[int]:
        """Return the pieces before `start` that the host pinned, with their calls and results."""
        return {i for pin in self.user_pinned_pieces() if pin < start for i in whole_step(self.history, pin)}

    def _find_searches(self, start: int) -> set[int]:
        """Return the pieces before `start` without which the provider hides tools that the model has found: of each tool the last.

        Only those that have room, the newest first: the model can search again.
        """
        history, known, chosen = self.history, set[str](), set[int]()
        room = self.room(self.budget.trigger) * SEARCHES_RATIO if self.budget else math.inf
        for index in reversed(history.finders()):
            parts = history.piece(index).message.parts
            found = {name for part in parts if isinstance(part, ToolResult | Opaque) for name in part.finds}
            step = whole_step(history, index) if index < start and not found <= known else set[int]()
            tokens = sum(history.piece(i).tokens for i in step - chosen)
            if tokens <= room:
                room -= tokens
                chosen |= step
                known |= found
        return chosen

    def tokens_above(self, start: int, requests: Iterable[int] = ()) -> int:
        """Return the tokens of the system messages, pins and the provider's sealed summary that stay from before piece `start`.

        Args:
            requests: As in `pinned_pieces`.
        """
        history, native = self.history, self.view.start
        pieces = [*history.systems(start), *self.pinned_pieces(start, requests)]
        if native is not None and native.always_stays:
            pieces.append(native.piece)
        return sum(history.piece(i).tokens for i in pieces if i < start)

    def kept_tokens(self) -> Callable[[int], int]:
        """Return a function that sizes the messages from a piece on, as they would be behind a new summary, before calibration.

        Without reasoning that the view leaves out or the provider ignores there. Each piece is read once.
        """
        history, estimate = self.history, self.estimator.estimate_message_tokens
        stale = self.reading.find_stale()
        weightless = UnreadReasoning(0, stale.end) if stale.end else self.reading.find_unread(self.format.provider)
        ignored = [0]  # from the piece after the last on, and from each one before

        def tokens(start: int) -> int:
            while len(ignored) <= history.piece_count - start:
                piece = history.piece_count - len(ignored)
                ignored.append(ignored[-1] + weightless.weigh(history, (piece,), estimate))
            return history.tokens(start) - ignored[history.piece_count - start]

        return tokens

    def neutral_view(self, view: View[M]) -> list[Message]:
        """Return how a view of this list reads; messages that the format unties are read as they are written."""
        shown: list[Message] = []
        for each in view.references:
            if isinstance(each, Kept) and each.is_untied:
                shown += self.format.read(write_kept(each, view, self.history.hosts(), self.format))
            else:
                shown += each.messages
        return shown + [piece.message for piece in self.history.pieces(self.history.first_piece(view.tail_start))]

    def write_before(self, run: int) -> list[M]:
        """Return the messages of the view before a run that it keeps: of a message that the run begins in, the pieces before.

        Without texts of ours that are no one's words, unless the model binds reasoning to them: who compacts may keep all that a
        user says word for word, as OpenAI does, and then a text that comes back would never go.
        """
        history, estimate = self.history, self.estimator.estimate_message_tokens
        view = view_until(self.view, history, history.run_start(run), estimate, self.format)
        return self.write(view if self.binds_reasoning else without_texts_of_ours(view))

    def text_tokens(self, text: str) -> int:
        """Return the estimate of a user message with this text, before calibration."""
        return self.estimator.estimate_message_tokens(Message(role="user", parts=(Text(text),)))
