"""The record of one compaction: plain JSON, versioned, portable between frameworks and machines.

And notes: records of pins, of undone compactions, of stale reasoning and of issuers, which cover no message. A note has the form of
a record, so that every store keeps it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from inspect import signature
from types import NoneType
from typing import Any, Literal, NamedTuple, cast, get_args, get_origin, get_type_hints

from compaction_hooks.arguments import format_value
from compaction_hooks.errors import RecordError
from compaction_hooks.history import Origin, OwnTexts
from compaction_hooks.history.digests import text_digest
from compaction_hooks.messages import Usage, Value
from compaction_hooks.native import Issuer, NativeItems
from compaction_hooks.view import CompactionReason
from compaction_hooks.view.parts import Reduction

RECORD_VERSION = 1
"""The version of the record format. It changes if an old reader could misread a new record; not for new optional fields."""


NATIVE_MARK = "/native"
"""The end of the name of a record's view that shows its native items."""

UNKNOWN_RUN = -1
"""The run of a pin whose place is not known: the content alone decides."""


def other_view(name: str) -> str:
    """Return the name of a record's view of native items from that of its text, and the reverse."""
    return name.removesuffix(NATIVE_MARK) if name.endswith(NATIVE_MARK) else name + NATIVE_MARK


class Pin(NamedTuple):
    """A message from before the cut that the view still shows.

    Attributes:
        run: The run it is in; `UNKNOWN_RUN` if the host pinned a message that was not in the list.
        digest: The digest of its content (`history.message_digest`).
        is_users: Whether the host pinned it for good; otherwise it was of the current request, found tools, or is optional.
        shown_digest: The digest of the shortened message in the view; "" if it is shown word for word.
        is_optional: Whether it is an older message of the user, which stays only because there is room (`keep_user_tokens`). A
            request with native items does not have it.
    """

    run: int
    digest: str
    is_users: bool = False
    shown_digest: str = ""
    is_optional: bool = False

    @property
    def digests(self) -> tuple[str, ...]:
        """The digests of the message in a list of the host's, and in one that the view was stored as."""
        return (self.digest, self.shown_digest) if self.shown_digest else (self.digest,)


class StaleRuns(NamedTuple):
    """The runs whose reasoning a view leaves out: from `first` to `end` (excluded); none if `end` is 0."""

    first: int = 0
    end: int = 0


class ParentSummary(NamedTuple):
    """What the list that a record was made from had of an earlier view: the summary at its head, and reduced texts.

    With it the record alone is enough to read such a list.

    Attributes:
        text_digest: Digest of the earlier summary's rendered text; "" if the list had no summary, but reduced texts.
        runs, digest: Runs it covers, and the chain after them.
        pins: Digests of the messages that follow it and repeat what it covers.
        reductions: The reductions that were active then.
        optional: Those of the pins that stayed only because there was room.
    """

    text_digest: str
    runs: int
    digest: str
    pins: tuple[str, ...] = ()
    reductions: tuple[Reduction, ...] = ()
    optional: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CompactionRecord(Value):
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
        reductions: Parts after the cut, and of pins, that are shown smaller, and media that are left out.
        base: What the list that the record was made from had of an earlier view; None for a whole list.
        read_files, modified_files: Paths, in the order they were last touched; cumulative.
        digest: The actions in the covered messages, as plain JSON (`files.digest`).
        usage: The tokens that the summary cost, or None. A part may be estimated; only then its JSON has `is_estimate`.
        calibration: The calibration learned from usage when it was made: `Calibration.to_dict()`, with the names of its
            estimator, format and model; empty if nothing was learned.
        takes_back: Ids of records that were undone; only a note has them.
        stale_runs: The runs whose reasoning was made behind other views. If this is a note, `parent` names the view that was sent
            last. None: all runs before `seen_runs`.
        binding_models: Models whose provider refused reasoning in this conversation, "" is the controller's own; as above.
            If this is a note without `stale_runs`: the model that made the sealed summary with the name `parent`.
        native: The provider's own summary of the covered messages, or None. Its issuer is shown it in place of `rendered`.
        extra: Fields of a later version, kept as they came.
    """

    id: str
    parent: str | None = None
    prompt_version: int = 0
    reason: CompactionReason
    summary: str
    previous_summary: str | None = None
    rendered: str
    compacted_message_count: int
    covered_runs: int
    covered_digest: str
    seen_runs: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    compaction_count: int = 1
    last_compacted_at: str = ""
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
        shown = [(pin.shown_digest or pin.digest, pin.is_optional) for pin in self.pins]
        optional = tuple(digest for digest, is_optional in shown if is_optional)
        return Origin(self.covered_runs, self.covered_digest, tuple(digest for digest, _ in shown), optional)

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON, unknown fields included."""
        counts = {} if self.usage is None else dataclasses.asdict(self.usage)
        usage = {name: count for name, count in counts.items() if count or name not in _RARE_FIELDS} or None
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
        """Read a dict of `to_dict`; absent optional fields get their defaults.

        Raises:
            RecordError: a field is missing or of the wrong type, or the version is newer than this reader.
        """
        fields = _mapping(fields, "a record")
        version = _read(int, fields.get("version"), "version", "a record")
        if version > RECORD_VERSION:
            raise RecordError(
                f"version={format_value(version)} is newer than {RECORD_VERSION}: update compaction-hooks to read it"
            )

        known = {name: value for name, value in fields.items() if name in _NAMES}
        for name in ("calibration", "native"):  # the record is true without a damaged one
            try:
                _read(_parameters(CompactionRecord)[name][0], fields.get(name), name, "a record")
            except RecordError:
                known.pop(name, None)

        later = {name: value for name, value in fields.items() if name not in _KNOWN_FIELDS}
        return cast("CompactionRecord", _read_fields(CompactionRecord, {**known, "extra": later}, "a record"))


_NAMES = [each.name for each in dataclasses.fields(CompactionRecord) if each.name != "extra"]
_RARE_FIELDS = frozenset(
    {
        "takes_back",
        "stale_runs",
        "binding_models",
        "handle",
        "source",
        "native",
        "is_estimate",
        "shown_digest",
        "is_optional",
        "optional",
    }
)
"""Fields that are left out if they are empty."""
_KNOWN_FIELDS = frozenset((*_NAMES, "version"))


def _plain(value: Any) -> Any:
    """Return a value as plain JSON: an object for named fields, a list for a tuple."""
    if hasattr(value, "_asdict"):
        value = {name: item for name, item in value._asdict().items() if item or name not in _RARE_FIELDS}
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in cast("Mapping[str, object]", value).items()}
    return [*map(_plain, cast("Sequence[object]", value))] if isinstance(value, tuple | list) else value


def _mapping(value: object, name: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise RecordError(f"{name} must be an object, not {type(value).__name__}")
    return {str(key): item for key, item in cast("Mapping[object, object]", value).items()}


@cache
def _parameters(kind: type) -> dict[str, tuple[Any, bool]]:
    """Return the types of a class's fields by name, and whether they must be given."""
    hints = get_type_hints(kind)
    return {each.name: (hints[each.name], each.default is each.empty) for each in signature(kind).parameters.values()}


def _read_fields(kind: type, fields: Mapping[str, object], name: str) -> object:
    """Return an object of plain JSON as one of our own; absent optional fields get their defaults."""
    wanted = ((field, hint) for field, (hint, is_needed) in _parameters(kind).items() if is_needed or field in fields)
    return kind(**{field: _read(hint, fields.get(field), field, name) for field, hint in wanted})


def _read(kind: Any, value: Any, name: str, owner: str) -> Any:
    """Return plain JSON as a value of a type.

    Args:
        name: The name of the field.
        owner: The name of the field that has it.

    Raises:
        RecordError: it is of another type.
    """
    options, origin = get_args(kind), get_origin(kind)
    if NoneType in options:
        return None if value is None else _read(options[0], value, name, owner)
    if origin is Mapping:
        return _mapping(value, name)

    if kind is CompactionReason or origin is Literal:
        names = options or (*CompactionReason,)
        if value not in names:
            raise RecordError(f"{owner}: {name}={format_value(value)} is not one of {', '.join(names)}")
        return value if options else CompactionReason(value)

    if origin is tuple and isinstance(value, list):
        return tuple(_read(options[0], item, name, owner) for item in cast("list[object]", value))
    if isinstance(kind, type) and (hasattr(kind, "_fields") or dataclasses.is_dataclass(kind)):
        return _read_fields(kind, _mapping(value, name), name)

    if origin is tuple or not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        wanted = "a list" if origin is tuple else cast("type", kind).__name__
        raise RecordError(f"{name} must be {wanted}, not {type(value).__name__}")
    return value


def record_id(
    covered_digest: str, rendered: str, reductions: Sequence[Reduction], parent: str | None, pins: Sequence[Pin]
) -> str:
    """Return the id of a record with this content; the same content has the same id on every machine."""
    shown = [item[:-2] for item in reductions]  # handle and source follow from the parts of the run
    # Which ones stay because there is room depends on a setting, which another worker may have otherwise.
    optional = [(pin.run, pin.digest) for pin in pins if pin.is_optional]
    return text_digest(json.dumps([covered_digest, rendered, shown, parent, *optional]))[:24]


def precedence(record: CompactionRecord) -> tuple[int, int, str, str]:
    """Return the sort key of a conversation's records: the greatest of those that are true of a list is active.

    It is the content alone, so that all workers on one store agree: the most runs covered first, then the most compactions.
    """
    return record.covered_runs, record.compaction_count, record.last_compacted_at, record.id


def collect_own_texts(records: Iterable[CompactionRecord], onto: OwnTexts | None = None) -> OwnTexts:
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
        if base is not None and base.text_digest:
            origins.setdefault(base.text_digest, Origin(base.runs, base.digest, base.pins, base.optional))
        for item in (*record.reductions, *(base.reductions if base else ())):
            originals[item.shown_name] = item.digest

    return OwnTexts(origins, originals)


def pin_note(pins: Sequence[Pin]) -> CompactionRecord:
    """Return a note of pinned messages."""
    return _note([[pin.run, pin.digest] for pin in pins], pins=tuple(pins))


def undo_note(record_ids: Iterable[str], cooldown_tokens: int, cooldown_window: int) -> CompactionRecord:
    """Return a note of records that were undone.

    Args:
        cooldown_tokens: While the context is smaller than this (tokens), there is no threshold compaction; 0: no cooldown. The note
            has it as `tokens_before`.
        cooldown_window: The window for which the cooldown applies (tokens), as `tokens_after`.
    """
    ids, sizes = tuple(sorted(record_ids)), (cooldown_tokens, cooldown_window if cooldown_tokens else 0)
    return _note([ids, sizes], takes_back=ids, tokens_before=sizes[0], tokens_after=sizes[1])


def reasoning_note(record_id: str | None, stale: StaleRuns, models: Iterable[str | None]) -> CompactionRecord:
    """Return a note of the reasoning that is stale, of the record whose view was sent last, and of the models that refused such."""
    names = tuple(sorted(model or "" for model in models))
    return _note([record_id, stale, names], parent=record_id, stale_runs=stale, binding_models=names)


def issuer_note(name: str, model: str) -> CompactionRecord:
    """Return a note of the model that made a sealed summary of the provider's own with this name."""
    return _note([name, model], parent=name, binding_models=(model,))


def _note(content: object, **fields: Any) -> CompactionRecord:
    """Return a note that is named by its content."""
    return CompactionRecord(
        id=f"note-{text_digest(json.dumps(content))[:24]}",
        reason=CompactionReason.MANUAL,
        summary="",
        rendered="",
        compacted_message_count=0,
        covered_runs=0,
        covered_digest="",
        compaction_count=0,
        **fields,
    )
