"""Which rungs, in which order, until the view fits: pure functions from a situation to a plan, and from a plan to a record.

The rungs: clear old tool results; summarise up to a cut; shorten what is oversized; drop oldest whole steps, marked; shorten
what was said.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, get_args

from compaction_hooks.cut_point import find_cut
from compaction_hooks.files import FileOperations, HiddenBlock, digest, file_operations, file_tags, merge
from compaction_hooks.history import History, message_digest
from compaction_hooks.messages import M, Message, MessageFormat, Text, Usage
from compaction_hooks.projection import Projection, apply_record
from compaction_hooks.prompts import PROMPT_VERSION, parse_summary, render_summary
from compaction_hooks.record import CompactionReason, CompactionRecord, Pin, record_id
from compaction_hooks.reductions import (
    LEAST_KEPT_CHARS,
    MINIMUM_KEPT_CHARS,
    Reducible,
    Reduction,
    reducible_parts,
    reducible_texts,
    results_to_clear,
    shortening,
)
from compaction_hooks.settings import MINIMUM_GAIN_RATIO, Budget, CompactionSettings
from compaction_hooks.tokens import TokenEstimator
from compaction_hooks.validity import Provider, worsened

FILE_TAGS_RATIO = 0.2
"""Of a summary's allowance, the most the file lists may take."""
MINIMUM_SUMMARY_TOKENS = 160
"""A summary is allowed this much however little is left: below, it says nothing that a marker would not."""
RENDERING_RATIO = 0.05
"""What a summary may grow by when it is escaped and put beside the file lists, and what rounding adds."""
CRAMPED_RATIO = 0.3
"""Of what a system prompt larger than the trigger leaves of the window, a summary's share."""
TAG_CHARS_PER_TOKEN = 2.5
"""Characters of a path for each token: paths are dense, agents' traces measure 2.6 and more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """From the estimator's tokens to the model's.

    Attributes:
        ratio: The model's tokens per estimated token, as learned from usage.
        overhead: Tokens of every request that no message shows (a hidden prefix), as learned.
        fixed: Estimated tokens of the system prompt and tools handed over beside the list.
    """

    ratio: float = 1.0
    overhead: int = 0
    fixed: int = 0

    def tokens(self, estimated: int) -> int:
        """Return the model's tokens for a view of `estimated` tokens, rounded up."""
        return self.overhead + math.ceil(self.ratio * (estimated + self.fixed))

    def room(self, tokens: int) -> int:
        """Return the largest estimate whose view takes at most `tokens` of the model; may be negative."""
        return math.floor((tokens - self.overhead) / self.ratio) - self.fixed


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation(Generic[M]):
    """Everything a decision may look at.

    Attributes:
        record: The newest record true of the history, or None.
        projection: That record applied.
        pressure: The present view's size in tokens of the model, counted as far as it was.
        keep: Recent tokens to keep, of the model.
        estimator: Sizes texts and messages, before calibration.
        user_pins: Digests of messages the host pinned.
        host_files: Files the host itself keeps track of.
    """

    history: History[M]
    record: CompactionRecord | None
    projection: Projection[M]
    budget: Budget
    gauge: Gauge
    reason: CompactionReason
    pressure: int
    keep: int
    settings: CompactionSettings
    format: MessageFormat[M]
    estimator: TokenEstimator
    user_pins: frozenset[str] = frozenset()
    host_files: FileOperations = field(default_factory=FileOperations)

    @property
    def estimated(self) -> int:
        """The present view's estimate in tokens, before calibration."""
        return self.projection.tokens(self.history)

    @property
    def tokens(self) -> int:
        """The present view's size in tokens of the model, by estimate."""
        return self.gauge.tokens(self.estimated)

    @property
    def covered_runs(self) -> int:
        """Runs that no longer stand in the view."""
        return max(self.history.base, self.record.covered_runs if self.record else 0)

    def text_tokens(self, text: str) -> int:
        """Return the estimate of a user message with this text, before calibration."""
        return self.estimator.estimate_message_tokens(Message(role="user", parts=(Text(text),)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft(Generic[M]):
    """A record that is not yet in force, and what it would give.

    Attributes:
        tokens: Size of its view in tokens of the model, by estimate.
    """

    record: CompactionRecord
    projection: Projection[M]
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryPlan:
    """What is to be summarised and what stays.

    Attributes:
        cut: The first run that is kept.
        pins: Messages before it that stay.
        history: What the history summary is made of: everything newly covered, without a split turn's first part.
        prefix: The first part of the split turn, when it gets a summary of its own.
        previous_summary: The summary to update, or None.
        allowance: The most the summary may hold, in estimated tokens, before calibration.
        tags: The file lists that follow it.
        files: Files read and modified so far.
        digest: What the newly covered part did, as plain JSON.
        host_messages: Host messages covered in all.
    """

    cut: int
    pins: tuple[Pin, ...]
    history: tuple[Message, ...]
    prefix: tuple[Message, ...]
    previous_summary: str | None
    allowance: int
    tags: str
    files: FileOperations
    digest: Mapping[str, object]
    host_messages: int
    has_continuation: bool


# -- rung 1: clear


def plan_clearing(now: Situation[M]) -> tuple[Reduction, ...]:
    """Return the reductions that clear old tool results; empty when that gains too little to be worth a new prefix."""
    if not now.settings.clear_tool_results:
        return ()
    parts = reducible_parts(now.history, now.covered_runs, now.estimator.estimate_message_tokens, _reductions(now))
    chosen = results_to_clear(
        parts,
        protect_tokens=int(now.budget.protect_results / now.gauge.ratio),
        rules=now.settings.tool_rules,
        last_run=now.history.run_count - 1,
    )
    if sum(part.tokens for part in chosen) * now.gauge.ratio < now.budget.minimum_clear:
        return ()
    return tuple(part.reduction() for part in chosen)


def clearing_record(now: Situation[M], reductions: Sequence[Reduction], at: str) -> CompactionRecord:
    """Return the record in force with these reductions added: what it covers stays the same."""
    return _with_reductions(_continued(now, at), reductions)


# -- rung 2: summarise


def plan_summary(now: Situation[M]) -> SummaryPlan | None:
    """Choose the cut and gather what is to be summarised; None when nothing that may be left out lies before any cut."""
    allowance = int(now.budget.summary / now.gauge.ratio)
    wrapper = now.text_tokens(render_summary("", file_tags="", continuation=True))
    room = now.gauge.room(now.budget.target) - int(allowance * (1 + RENDERING_RATIO)) - wrapper
    keep = int(now.keep / now.gauge.ratio)

    def fits(run: int) -> bool:
        start = now.history.run_start(run)
        return _above(now, start) + now.history.tokens(start) <= room

    cut = find_cut(now.history, after=now.covered_runs, keep_tokens=keep, fits=fits)
    if cut is None:
        return None
    spare = _spare(now, cut) - wrapper
    return _gathered(now, cut, min(allowance, max(spare, MINIMUM_SUMMARY_TOKENS)))


def _above(now: Situation[M], start: int) -> int:
    """The estimate of the system messages and pins that stay from before piece `start`."""
    return sum(now.history.piece(i).tokens for i in (*now.history.systems(start), *_pinned(now, start)))


def _spare(now: Situation[M], cut: int) -> int:
    """What a summary may take beside the parts that cannot shrink: all that is left under the trigger.

    Where those parts alone pass the trigger, it is a share of what is left under the window: the next steps need the rest.
    """
    start = now.history.run_start(cut)
    parts = reducible_parts(now.history, cut, now.estimator.estimate_message_tokens)
    rigid = _above(now, start) + now.history.tokens(start) - sum(part.tokens for part in parts)
    spare = now.gauge.room(now.budget.trigger) - rigid
    if spare >= MINIMUM_SUMMARY_TOKENS:
        return spare
    return int((now.gauge.room(now.budget.window) - rigid) * CRAMPED_RATIO)


def _gathered(now: Situation[M], cut: int, allowance: int) -> SummaryPlan | None:
    history = now.history
    start = history.run_start(cut)
    pinned = _pinned(now, start)
    foreign = _foreign_summary(now)
    covered = [i for i in _newly_covered(now, start) if i != foreign]
    if all(index in pinned for index in covered):
        return None
    previous = _previous_summary(now, foreign)
    split = _split_turn(now, cut, covered)
    if previous is not None and covered[0] >= split:
        # The turn began before: an update carries the earlier summary on, a summary of this part alone would lose it.
        split = history.piece_count
    messages = [history.piece(i).message for i in covered]
    files = merge(merge(_known_files(now), now.host_files), file_operations(messages))
    tags = file_tags(files, max_chars=int(allowance * FILE_TAGS_RATIO * TAG_CHARS_PER_TOKEN))
    return SummaryPlan(
        cut=cut,
        pins=_pins(now, pinned),
        history=tuple(history.piece(i).message for i in covered if i < split),
        prefix=tuple(history.piece(i).message for i in covered if i >= split),
        previous_summary=previous,
        allowance=allowance - (now.text_tokens(tags) if tags else 0),
        tags=tags,
        files=files,
        digest=digest(messages, hidden=_hidden(now)).to_dict(),
        host_messages=history.piece(start).host
        + (now.record.compacted_message_count if now.record and history.base else 0),
        has_continuation=now.settings.add_continuation
        and history.piece(history.piece_count - 1).message.role != "user",
    )


def _newly_covered(now: Situation[M], start: int) -> list[int]:
    first = now.history.run_start(now.covered_runs) if now.covered_runs else 0
    return [i for i in range(first, start) if now.history.piece(i).message.role != "system"]


def _split_turn(now: Situation[M], cut: int, covered: Sequence[int]) -> int:
    """The piece from which on the covered part gets a summary of its own; the piece count when the cut splits no turn."""
    history = now.history
    none = history.piece_count
    if history.starts_turn(cut):
        return none
    turn = next((run for run in range(cut - 1, now.covered_runs - 1, -1) if history.starts_turn(run)), None)
    if turn is None:
        return none
    start = history.run_start(turn)
    hosts = {history.piece(i).host for i in covered if i >= start}
    return start if len(hosts) >= now.settings.split_turn_min_prefix else none


def _pinned(now: Situation[M], start: int) -> list[int]:
    """The pieces before `start` that stay: the current request, and whatever the host pinned, with its calls and results."""
    history = now.history
    request = history.request
    chosen = {request} if request is not None and request < start else set[int]()
    if now.user_pins:
        for index in range(start):
            if message_digest(history.piece(index).message) in now.user_pins:
                chosen.update(_whole_step(history, index))
    return sorted(i for i in chosen if i < start and history.piece(i).message.role != "system")


def _whole_step(history: History[M], index: int) -> Iterable[int]:
    """A message alone, or with the calls and results it cannot be shown without."""
    message = history.piece(index).message
    if not (message.calls or message.results) or history.piece(index).side is None:
        return [index]
    run = history.run_of(index) - (1 if message.results else 0)
    answers = (
        [i for i in history.run_pieces(run + 1) if history.piece(i).message.results]
        if run + 1 < history.run_count
        else []
    )
    return [*history.run_pieces(run), *answers]


def _pins(now: Situation[M], pieces: Iterable[int]) -> tuple[Pin, ...]:
    """The pins of these pieces. A pin that an earlier record made keeps its run: a trimmed list no longer shows it."""
    history = now.history
    earlier = {pin.digest: pin for pin in now.record.pins} if now.record else {}
    pins: list[Pin] = []
    for index in pieces:
        name = message_digest(history.piece(index).message)
        old = earlier.get(name) if history.piece(index).side is None else None
        run = old.run if old else max(history.run_of(index), 0)
        pins.append(Pin(run=run, digest=name, is_users=index != history.request or name in now.user_pins))
    return tuple(pins)


def _foreign_summary(now: Situation[M]) -> int | None:
    """The piece at the head of a list that is a summary nobody here has a record of, or None."""
    if now.history.base or (now.record is not None and now.record.rendered):
        return None
    first = next((i for i, p in enumerate(now.history.pieces()) if p.message.role != "system"), None)
    if first is None:
        return None
    message = now.history.piece(first).message
    is_summary = message.role == "user" and (message.is_summary or parse_summary(message.text) is not None)
    return first if is_summary else None


def _previous_summary(now: Situation[M], foreign: int | None) -> str | None:
    if now.record is not None and now.record.summary:
        return now.record.summary
    if foreign is None:
        return None
    text = now.history.piece(foreign).message.text
    return parse_summary(text) or text


def _known_files(now: Situation[M]) -> FileOperations:
    if now.record is None:
        return FileOperations()
    return FileOperations(read=now.record.read_files, modified=now.record.modified_files)


def summary_record(
    now: Situation[M], plan: SummaryPlan, summary: str, usage: Usage | None, at: str
) -> CompactionRecord:
    """Return the record of a summary: what the plan covers, rendered, with the reductions that still lie in what is kept."""
    history = now.history
    covered_digest = history.digest_before(plan.cut)
    assert covered_digest is not None  # a cut lies between runs of this very history
    rendered = render_summary(summary, file_tags=plan.tags, continuation=plan.has_continuation)
    record = replace(
        _continued(now, at),
        prompt_version=PROMPT_VERSION,
        summary=summary,
        previous_summary=plan.previous_summary,
        rendered=rendered,
        compacted_message_count=plan.host_messages,
        covered_runs=plan.cut,
        covered_digest=covered_digest,
        pins=plan.pins,
        read_files=plan.files.read,
        modified_files=plan.files.modified,
        digest=plan.digest,
        usage=usage,
    )
    kept = [reduction for reduction in _reductions(now) if reduction.run >= plan.cut]
    return _with_reductions(replace(record, reductions=()), kept)


# -- rung 3: shorten


def shortening_record(now: Situation[M], draft: Draft[M] | None, at: str) -> CompactionRecord | None:
    """Return the draft's record (or the one in force) with kept parts shortened until the target fits; None when none can be.

    Only as much is taken as is needed, the largest parts first; what was said and the system prompt are never shortened here.
    """
    base = _continued(now, at) if draft is None else draft.record
    return _shortened(now, draft, base, _parts(now, base), now.budget.target, MINIMUM_KEPT_CHARS)


def last_drafts(now: Situation[M], draft: Draft[M] | None, at: str) -> Iterator[Draft[M]]:
    """Yield the draft (or the view in force) shortened until the trigger fits, where nothing gentler fits the window.

    First tool results and arguments down to `LEAST_KEPT_CHARS`, then what was said too: never the current request, pinned
    messages, system messages and the summary.
    """
    base = _continued(now, at) if draft is None else draft.record
    for find in (_parts, _unpinned_texts):
        found = find(now, base)
        record = _shortened(now, draft, base, found, now.budget.trigger, LEAST_KEPT_CHARS)
        if record is not None:
            base, draft = record, drafted(now, record)
            yield draft


def _parts(now: Situation[M], base: CompactionRecord) -> list[Reducible]:
    return reducible_parts(now.history, base.covered_runs, now.estimator.estimate_message_tokens, base.reductions)


def _unpinned_texts(now: Situation[M], base: CompactionRecord) -> list[Reducible]:
    history = now.history
    pinned = [i for i, piece in enumerate(history.pieces()) if message_digest(piece.message) in now.user_pins]
    estimate = now.estimator.estimate_message_tokens
    return reducible_texts(history, base.covered_runs, estimate, base.reductions, spared=pinned)


def _shortened(
    now: Situation[M],
    draft: Draft[M] | None,
    base: CompactionRecord,
    parts: Sequence[Reducible],
    goal: int,
    least_chars: int,
) -> CompactionRecord | None:
    estimated = now.estimated if draft is None else draft.projection.tokens(now.history)
    excess = estimated - now.gauge.room(goal)
    chosen = shortening(parts, excess_tokens=excess, rules=now.settings.tool_rules, least_chars=least_chars)
    return _with_reductions(base, chosen) if chosen else None


# -- rung 4: drop


def dropped_marker(plan: SummaryPlan) -> str:
    """Return the line that says what was dropped without a summary: how many messages, by role (Opal's `truncate`)."""
    messages = [*plan.history, *plan.prefix]
    roles = Counter(message.role for message in messages)
    counts = ", ".join(f"{count} {role}" for role, count in sorted(roles.items()))
    return f"[Compacted {len(messages)} messages: {counts}]"


# -- records and their check


def _reductions(now: Situation[M]) -> tuple[Reduction, ...]:
    return now.record.reductions if now.record else ()


def _hidden(now: Situation[M]) -> list[HiddenBlock]:
    """The results that the view in force shows smaller, for the digest."""
    in_force = {(item.run, item.ordinal): item for item in _reductions(now) if item.kind == "result"}
    if not in_force:
        return []
    parts = [p for p in reducible_parts(now.history, now.covered_runs, lambda _: 0) if p.kind == "result"]
    hidden = [(part, in_force.get((part.run, part.ordinal))) for part in parts]
    return [HiddenBlock(tool=part.tool, replacement=by.apply(part.text)) for part, by in hidden if by]


def _continued(now: Situation[M], at: str) -> CompactionRecord:
    """The record that follows the one in force and changes nothing yet."""
    digest_before = now.history.digest_before(now.history.base) or ""
    first = CompactionRecord(
        id="",
        prompt_version=PROMPT_VERSION,
        reason=now.reason,
        summary="",
        rendered="",
        compacted_message_count=0,
        covered_runs=now.history.base,
        covered_digest=digest_before,
        seen_runs=0,
        tokens_before=0,
        tokens_after=0,
        compaction_count=0,
        last_compacted_at=at,
    )
    old = now.record or first
    return replace(
        old,
        parent=old.id or None,
        reason=now.reason,
        seen_runs=now.history.run_count,
        tokens_before=now.pressure,
        compaction_count=old.compaction_count + 1,
        last_compacted_at=at,
        usage=None,
    )


def _with_reductions(record: CompactionRecord, reductions: Iterable[Reduction]) -> CompactionRecord:
    merged = {(item.kind, item.run, item.ordinal): item for item in (*record.reductions, *reductions)}
    kept = tuple(merged.values())
    name = record_id(record.covered_digest, record.rendered, kept, record.parent)
    return replace(record, id=name, reductions=kept)


def drafted(now: Situation[M], record: CompactionRecord) -> Draft[M]:
    """Return a record with its view measured.

    The draft is judged by the estimate, which errs on the high side. What the record reports is put in proportion to what the
    provider counted for the view before, so that the two numbers can be compared.
    """
    projection = apply_record(now.history, record, now.format, now.estimator.estimate_message_tokens)
    tokens = now.gauge.tokens(projection.tokens(now.history))
    after = round(tokens * now.pressure / now.tokens)
    return Draft(record=replace(record, tokens_after=after), projection=projection, tokens=tokens)


def objection(now: Situation[M], draft: Draft[M], limit: int) -> str | None:
    """Return why a draft must not be handed out, or None: it fits `limit`, is smaller by 10 %, and breaks nothing.

    The 10 % are waived where the present view does not fit the window and the draft does.
    """
    if draft.tokens > limit:
        return "too large"
    is_rescue = now.pressure > now.budget.window
    if draft.tokens > now.tokens * (1 - MINIMUM_GAIN_RATIO) and not is_rescue:
        return "no gain"
    before = _neutral(now, now.projection)
    after = _neutral(now, draft.projection)
    broken = worsened(before, after, _provider(now.format.name))
    return f"invalid: {broken[0].rule}" if broken else None


def _provider(name: str) -> Provider | None:
    """The API a format writes for; None, and so every rule, for formats that are translated further on."""
    return next((provider for provider in get_args(Provider) if provider == name), None)


def _neutral(now: Situation[M], projection: Projection[M]) -> list[Message]:
    return [piece for message in projection.view(now.history) for piece in now.format.read(message)]


def largest_fixed_part(now: Situation[M]) -> tuple[str, int]:
    """Return the name and size (tokens of the model) of the largest part that cannot shrink."""
    history = now.history
    last = history.run_start(max((*history.boundaries(now.covered_runs), now.covered_runs)))
    request = history.request
    sizes = {
        "system prompt": sum(history.piece(i).tokens for i in history.systems()) + now.gauge.fixed,
        "current request": history.piece(request).tokens if request is not None else 0,
        "pins": sum(history.piece(i).tokens for i in _pinned(now, last) if i != request),
        "last step": sum(p.tokens for i, p in enumerate(history.pieces(last), last) if i != request),
    }
    part = max(sizes, key=lambda name: sizes[name])
    return part, math.ceil(sizes[part] * now.gauge.ratio)
