"""The record of one compaction: plain JSON, versioned, portable between frameworks and machines."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar, cast, get_args

from compaction_hooks.arguments import format_value
from compaction_hooks.errors import RecordError
from compaction_hooks.history import Known, Origin
from compaction_hooks.history.digests import text_digest
from compaction_hooks.messages import Provider, Usage
from compaction_hooks.native import Issuer, NativeItems
from compaction_hooks.view.parts import PartKind, Reduction

T = TypeVar("T")

RECORD_VERSION = 1
"""The version of the record format. It changes if an old reader could misread a new record; not for new optional fields."""


NATIVE_MARK = "/native"
"""The end of the name of a record's view that shows its native items."""

UNKNOWN_RUN = -1
"""The run of a pin whose place is not known: the content alone decides."""


def other_view(name: str) -> str:
    """Return the name of a record's view of native items from that of its text, and the reverse."""
    return name.removesuffix(NATIVE_MARK) if name.endswith(NATIVE_MARK) else name + NATIVE_MARK


class CompactionReason(StrEnum):
    """The occasion of a compaction."""

    THRESHOLD = "threshold"
    OVERFLOW = "overflow"
    MANUAL = "manual"


class Pin(NamedTuple):
    """A message from before the cut that the view still shows word for word.

    Attributes:
        run: The run it is in; `UNKNOWN_RUN` if the host pinned a message that was not in the list.
        digest: The digest of its content (`history.message_digest`).
        is_users: Whether the host pinned it for good; otherwise it was the current request.
    """

    run: int
    digest: str
    is_users: bool = False


class StaleRuns(NamedTuple):
    """The runs whose reasoning a view leaves out: from `first` to `end` (excluded); none if `end` is 0."""

    first: int = 0
    end: int = 0


class ParentSummary(NamedTuple):
    """The earlier summary at the head of the list that a record was made from.

    With it the record alone is enough to read such a list: the runs that the summary covers, and the reduced texts after it.

    Attributes:
        text_digest: Digest of the earlier summary's rendered text.
        runs, digest: Runs it covers, and the chain after them.
        pins: Digests of the messages that follow it and repeat what it covers.
        reductions: The reductions that were active then.
    """

    text_digest: str
    runs: int
    digest: str
    pins: tuple[str, ...] = ()
    reductions: tuple[Reduction, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRecord:
    """One compaction. Applies to every list whose first `covered_runs` runs have the digest `covered_digest`.

    Attributes:
        id: Names the record; derived from its content.
        parent: `id` of the record this one builds on, or None.
        prompt_version: Version of the summarizer's instructions.
        reason: The occasion.
        summary: The summarizer's text, all rounds merged; empty if results were only cleared.
        previous_summary: The summary this one replaced, with the words of refusals that it carried on; or None.
        rendered: The text of the message in place of the covered messages; empty if none are covered.
        compacted_message_count: Host messages covered.
        unseen_message_count: The part of these that no summarizer read, because its window, its time or its answers did not
            suffice: they are summarized by rule.
        covered_runs: Runs covered, from the start of the conversation.
        covered_digest: Digest chain after them.
        seen_runs: Runs in the history at the time; a provider's count of an earlier run measured another view.
        tokens_before, tokens_after: Estimated size of the context in tokens.
        compaction_count: Compactions in the chain of parents, this one included.
        last_compacted_at: UTC, ISO 8601, as in "2026-02-10T21:30:00Z".
        pins: Messages before the cut that stay.
        reductions: Parts after the cut that are shown smaller, and media that are left out.
        base: The earlier summary at the head of the list that the record was made from; None for a whole list.
        read_files, modified_files: Paths, in the order they were last touched; cumulative.
        digest: The actions in the covered messages, as plain JSON (`files.digest`).
        usage: The tokens that the summary cost, or None.
        calibration: The calibration learned from usage when it was made: `Calibration.to_dict()`, with the names of its
            estimator, format and model; empty if nothing was learned.
        takes_back: Ids of records that were undone; only a note has them.
        stale_runs: The runs whose reasoning was made behind other views: of the record `parent` if this is a note. None:
            all runs before `seen_runs`.
        binding_models: Models whose provider refused reasoning in this conversation, "" is the controller's own; as above.
            If this is a note without `stale_runs`: the model that made the sealed summary with the name `parent`.
        native: The provider's own summary of the covered messages, or None. Its issuer is shown it in place of `rendered`.
        extra: Fields of a later version, kept as they came.
    """

    id: str
    parent: str | None = None
    prompt_version: int
    reason: CompactionReason
    summary: str
    previous_summary: str | None = None
    rendered: str
    compacted_message_count: int
    covered_runs: int
    covered_digest: str
    seen_runs: int
    tokens_before: int
    tokens_after: int
    compaction_count: int
    last_compacted_at: str
    pins: tuple[Pin, ...] = ()
    reductions: tuple[Reduction, ...] = ()
    base: ParentSummary | None = None
    read_files: tuple[str, ...] = ()
    modified_files: tuple[str, ...] = ()
    digest: Mapping[str, object] = field(default_factory=dict[str, object])
    usage: Usage | None = None
    calibration: Mapping[str, object] = field(default_factory=dict[str, object])
    takes_back: tuple[str, ...] = ()
    unseen_message_count: int = 0
    stale_runs: StaleRuns | None = None
    binding_models: tuple[str, ...] = ()
    native: NativeItems | None = None
    extra: Mapping[str, object] = field(default_factory=dict[str, object])

    def __repr__(self) -> str:
        """Return the id, the reason and the sizes, without text of the conversation."""
        size = (
            f"{self.tokens_before:,} to {self.tokens_after:,} tokens, {self.compacted_message_count:,} messages covered"
        )
        return f"CompactionRecord({self.id!r}, {str(self.reason)!r}, {size})"

    @property
    def native_id(self) -> str:
        """The name of the view that shows the native items; `id` is the name of the view that shows the text."""
        return other_view(self.id)

    def native_for(self, issuer: Issuer | None) -> NativeItems | None:
        """Return the native items if this issuer made them, else None."""
        return self.native if self.native is not None and self.native.issuer == issuer else None

    def as_shown_to(self, issuer: Issuer | None, run_count: int) -> CompactionRecord:
        """Return the record as the record of the one view that an issuer is shown, of native items or of the text.

        The view of native items has a name of its own. Reasoning before the other view may have been made behind the items.
        """
        if self.native is None:
            return self
        return replace(self, id=self.native_id) if self.native_for(issuer) else replace(self, seen_runs=run_count)

    @property
    def is_note(self) -> bool:
        """Whether it is true of no list and only keeps pins or the ids of undone records."""
        return not self.covered_digest

    @property
    def origin(self) -> Origin:
        """The beginning of the digest chain of a list that starts with this record's summary."""
        return Origin(self.covered_runs, self.covered_digest, tuple(pin.digest for pin in self.pins))

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON, unknown fields included."""
        usage = None if self.usage is None else dataclasses.asdict(self.usage)
        given: dict[str, object] = {"reason": self.reason.value, "usage": usage}
        fields = {name: value for name in _NAMES if (value := getattr(self, name)) or name not in _RARE_FIELDS}
        return {**self.extra, "version": RECORD_VERSION, **_plain(fields | given)}

    def to_json(self) -> str:
        """Return `to_dict()` as JSON text; lone surrogates are escaped, so it is always valid UTF-8."""
        return json.dumps(self.to_dict(), ensure_ascii=True)

    @staticmethod
    def from_json(text: str) -> CompactionRecord:
        """Read a record.

        Raises:
            RecordError: the text is damaged, or from a version this one cannot read.
        """
        try:
            fields: object = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise RecordError(f"not JSON: {error}") from error
        return CompactionRecord.from_dict(_mapping(fields, "a record"))

    @staticmethod
    def from_dict(fields: Mapping[str, object]) -> CompactionRecord:
        """Read a dict of `to_dict`, also of an earlier version; absent optional fields get their defaults.

        Raises:
            RecordError: a field is missing or of the wrong type, or the version is newer than this reader.
        """
        fields = _mapping(fields, "a record")
        version = _field(fields, "version", int, 1)
        if version > RECORD_VERSION:
            raise RecordError(
                f"version={format_value(version)} is newer than {RECORD_VERSION}: update compaction-hooks to read it"
            )
        learned = fields.get("calibration")
        reason = _field(fields, "reason", str)
        if reason not in tuple(CompactionReason):
            raise RecordError(f"reason={format_value(reason)} is not one of {', '.join(CompactionReason)}")
        return CompactionRecord(
            id=_field(fields, "id", str),
            parent=_optional_text(fields, "parent"),
            prompt_version=_field(fields, "prompt_version", int, 0),
            reason=CompactionReason(reason),
            summary=_field(fields, "summary", str),
            previous_summary=_optional_text(fields, "previous_summary"),
            rendered=_field(fields, "rendered", str),
            compacted_message_count=_field(fields, "compacted_message_count", int),
            covered_runs=_field(fields, "covered_runs", int),
            covered_digest=_field(fields, "covered_digest", str),
            seen_runs=_field(fields, "seen_runs", int, 0),
            tokens_before=_field(fields, "tokens_before", int, 0),
            tokens_after=_field(fields, "tokens_after", int, 0),
            compaction_count=_field(fields, "compaction_count", int, 1),
            last_compacted_at=_field(fields, "last_compacted_at", str, ""),
            pins=tuple(_pin(item) for item in _objects(fields, "pins")),
            reductions=tuple(_reduction(item) for item in _objects(fields, "reductions")),
            base=_optional(fields, "base", _parent_summary),
            read_files=_texts(fields, "read_files"),
            modified_files=_texts(fields, "modified_files"),
            digest=_mapping(fields.get("digest") or {}, "digest"),
            usage=_optional(fields, "usage", _usage),
            # A damaged calibration is dropped: the record is true without it.
            calibration=_mapping(fields["calibration"], "calibration") if isinstance(learned, Mapping) else {},
            takes_back=_texts(fields, "takes_back"),
            unseen_message_count=_field(fields, "unseen_message_count", int, 0),
            stale_runs=_optional(fields, "stale_runs", _stale_runs),
            binding_models=_texts(fields, "binding_models"),
            native=_native(fields.get("native")),
            extra={name: value for name, value in fields.items() if name not in _KNOWN_FIELDS},
        )


_NAMES = [each.name for each in dataclasses.fields(CompactionRecord) if each.name != "extra"]
_RARE_FIELDS = frozenset({"takes_back", "stale_runs", "binding_models", "handle", "source", "native"})
"""Fields that are left out if they are empty."""
_KNOWN_FIELDS = frozenset((*_NAMES, "version"))


def _plain(value: Any) -> Any:
    """Return a value as plain JSON: an object for named fields, a list for a tuple."""
    if hasattr(value, "_asdict"):
        value = {name: item for name, item in value._asdict().items() if item or name not in _RARE_FIELDS}
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in cast("Mapping[str, object]", value).items()}
    return [*map(_plain, cast("Sequence[object]", value))] if isinstance(value, tuple | list) else value


def _field(fields: Mapping[str, object], name: str, kind: type[T], default: T | None = None) -> T:
    value = fields.get(name, default)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise RecordError(f"{name} must be {kind.__name__}, not {type(value).__name__}")
    return value


def _optional_text(fields: Mapping[str, object], name: str) -> str | None:
    return None if fields.get(name) is None else _field(fields, name, str)


def _optional(fields: Mapping[str, object], name: str, read: Callable[[Mapping[str, object]], T]) -> T | None:
    return None if fields.get(name) is None else read(_mapping(fields[name], name))


def _mapping(value: object, name: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise RecordError(f"{name} must be an object, not {type(value).__name__}")
    return {str(key): item for key, item in cast("Mapping[object, object]", value).items()}


def _objects(fields: Mapping[str, object], name: str) -> list[Mapping[str, object]]:
    value = fields.get(name, [])
    if not isinstance(value, list):
        raise RecordError(f"{name} must be a list, not {type(value).__name__}")
    return [_mapping(item, name) for item in cast("list[object]", value)]


def _texts(fields: Mapping[str, object], name: str) -> tuple[str, ...]:
    value = fields.get(name, [])
    items = cast("list[object]", value) if isinstance(value, list) else [None]
    if not all(isinstance(item, str) for item in items):
        raise RecordError(f"{name} must be a list of texts")
    return tuple(map(str, items))


def _pin(item: Mapping[str, object]) -> Pin:
    return Pin(run=_field(item, "run", int), digest=_field(item, "digest", str), is_users=item.get("is_users") is True)


def _reduction(item: Mapping[str, object]) -> Reduction:
    kind = item.get("kind")
    if kind not in get_args(PartKind):
        raise RecordError(f"reductions: kind={format_value(kind)} is not one of {', '.join(get_args(PartKind))}")
    return Reduction(
        kind=cast("PartKind", kind),
        run=_field(item, "run", int),
        ordinal=_field(item, "ordinal", int),
        digest=_field(item, "digest", str),
        shown_digest=_field(item, "shown_digest", str),
        head_chars=_field(item, "head_chars", int),
        tail_chars=_field(item, "tail_chars", int),
        handle=_field(item, "handle", str, ""),
        source=_field(item, "source", str, ""),
    )


def _stale_runs(fields: Mapping[str, object]) -> StaleRuns:
    return StaleRuns(first=_field(fields, "first", int), end=_field(fields, "end", int))


def _native(item: object) -> NativeItems | None:
    """Return a record's native items; None if they are damaged: the record is true without them."""
    try:
        native = _mapping(item, "native")
        issuer = _mapping(native["issuer"], "issuer")
        made_by = Issuer(
            cast("Provider", issuer["provider"]), _field(issuer, "address", str), _field(issuer, "model", str)
        )
        return NativeItems(made_by, tuple(_objects(native, "items")), _field(native, "tokens", int))
    except (KeyError, RecordError):
        return None


def _parent_summary(fields: Mapping[str, object]) -> ParentSummary:
    return ParentSummary(
        text_digest=_field(fields, "text_digest", str),
        runs=_field(fields, "runs", int),
        digest=_field(fields, "digest", str),
        pins=_texts(fields, "pins"),
        reductions=tuple(_reduction(item) for item in _objects(fields, "reductions")),
    )


def _usage(fields: Mapping[str, object]) -> Usage:
    return Usage(**{each.name: _field(fields, each.name, int, 0) for each in dataclasses.fields(Usage)})


def record_id(covered_digest: str, rendered: str, reductions: Sequence[Reduction], parent: str | None) -> str:
    """Return the id of a record with this content; the same content has the same id on every machine."""
    shown = [item._replace(handle="", source="") for item in reductions]  # they follow from the parts of the run
    return text_digest(json.dumps([covered_digest, rendered, shown, parent]))[:24]


def precedence(record: CompactionRecord) -> tuple[int, int, str, str]:
    """Return the sort key of a conversation's records: the greatest of those that are true of a list is active.

    It is the content alone, so that all workers on one store agree: the most runs covered first, then the most compactions.
    """
    return record.covered_runs, record.compaction_count, record.last_compacted_at, record.id


def collect_products(records: Iterable[CompactionRecord], onto: Known | None = None) -> Known:
    """Collect the digests by which a reader recognizes the summaries and reduced texts of these records in a list.

    Args:
        onto: The collection of earlier records, to extend (a new one is returned).
    """
    origins: dict[str, Origin] = dict(onto.origins) if onto else {}
    originals: dict[tuple[str, int, int, str], str] = dict(onto.originals) if onto else {}
    for record in records:
        if record.rendered:
            origins[text_digest(record.rendered)] = record.origin
        base = record.base
        if base is not None:
            origins.setdefault(base.text_digest, Origin(base.runs, base.digest, base.pins))
        for item in (*record.reductions, *(base.reductions if base else ())):
            originals[item.kind, item.run, item.ordinal, item.shown_digest] = item.digest
    return Known(origins, originals)
