"""Stored conversations, read for the command, and printed as a table or record by record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, cast

from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from compaction_hooks import CompactionRecord
from compaction_hooks.command.terminal import clean
from compaction_hooks.errors import RecordError
from compaction_hooks.replay.numbers import pluralize, short
from compaction_hooks.stores import ListingStore, is_tombstone

SHOWN_FILES: Final = 10
"""Names of files in one line of a record; the others are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredConversation:
    """The records of one conversation, and what cannot be read.

    Attributes:
        id: As the store lists it: of a very long id some stores have only the beginning and a digest.
        records: Compactions, oldest first, and then notes of pins and of refused reasoning.
        unreadable: The number of entries that are damaged, or that a newer version wrote.
        size_bytes: The size of all entries in UTF-8.
    """

    id: str
    records: tuple[CompactionRecord, ...]
    unreadable: int
    size_bytes: int

    @property
    def entries(self) -> int:
        """The number of all entries."""
        return len(self.records) + self.unreadable

    @property
    def newest(self) -> CompactionRecord | None:
        """The compaction made last, or None."""
        made = [record for record in self.records if not record.is_note]
        return made[-1] if made else None


def read_stored(store: ListingStore, id: str) -> StoredConversation:
    """Read the entries of a conversation.

    Raises:
        RecordError: the store failed.
    """
    loaded = cast("Sequence[str]", store.load(id))  # the command opens stores with sync methods only
    texts = [text for text in loaded if not is_tombstone(text)]
    records = [record for record in map(_read, texts) if record is not None]
    records.sort(key=lambda record: (record.is_note, record.last_compacted_at, record.compaction_count))
    return StoredConversation(
        id=id,
        records=tuple(records),
        unreadable=len(texts) - len(records),
        size_bytes=sum(len(text.encode("utf-8", "surrogatepass")) for text in texts),
    )


def _read(text: str) -> CompactionRecord | None:
    try:
        return CompactionRecord.from_json(text)
    except RecordError:
        return None


# -- all conversations


def print_table(console: Console, conversations: Sequence[StoredConversation]) -> None:
    """Print one row for each conversation, and the sums."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("\nconversation", overflow="fold", min_width=len("conversation"))
    for heading in ("\nrecords", "last\ncompaction", "messages\ncovered", "tokens\nbefore", "\nafter"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("summary\nby")
    table.add_column("\nbytes", justify="right", no_wrap=True)

    for each in conversations:
        table.add_row(Text(clean(each.id)), str(len(each.records)), *_newest_cells(each.newest), f"{each.size_bytes:,}")
    if conversations:
        console.print(table)
        console.print()

    console.print(Text(_count(conversations)))


def _newest_cells(record: CompactionRecord | None) -> Iterable[str]:
    if record is None:
        return ("none", "", "", "", "")
    return (
        _minute(record),
        str(record.compacted_message_count),
        short(record.tokens_before),
        short(record.tokens_after),
        clean(_author(record)),
    )


def _minute(record: CompactionRecord) -> str:
    return clean(record.last_compacted_at[:16].replace("T", " "))


def _count(conversations: Sequence[StoredConversation]) -> str:
    unreadable = sum(each.unreadable for each in conversations)
    size = sum(each.size_bytes for each in conversations)
    sums = f"{pluralize(len(conversations), 'conversation')}, {count_records(conversations)}, {size:,} bytes."
    return f"{sums} {pluralize(unreadable, 'entry')} cannot be read." if unreadable else sums


def count_records(conversations: Iterable[StoredConversation]) -> str:
    """Return the number of records in words."""
    return pluralize(sum(len(each.records) for each in conversations), "record")


# -- one conversation


def print_records(console: Console, conversation: StoredConversation, *, shows_text: bool) -> None:
    """Print each record in words."""
    for record in conversation.records:
        console.print(Rule(Text(_title(record), style="dim"), align="left", style="dim", characters="-"))

        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="bold", no_wrap=True)
        grid.add_column(overflow="fold")
        for heading, text in _note_facts(record) if record.is_note else _facts(record):
            grid.add_row(heading, Text(clean(text)))
        console.print(grid)

        if shows_text and record.summary:
            console.print()
            console.print(Text(clean(record.summary)))
        console.print()

    console.print(Text(_count([conversation])))


def _title(record: CompactionRecord) -> str:
    return "Note" if record.is_note else f"{_minute(record)} UTC, {record.reason.value}"


def _facts(record: CompactionRecord) -> Iterator[tuple[str, str]]:
    yield "Tokens", f"{record.tokens_before:,} before, {record.tokens_after:,} after"
    covered = pluralize(record.compacted_message_count, "message")
    unseen = f", {record.unseen_message_count:,} of them by rule" if record.unseen_message_count else ""
    yield "Summarized", covered + unseen
    yield "Summary by", _author(record)

    if record.usage is not None and record.usage.input_tokens:
        usage = record.usage
        yield (
            "Cost",
            f"{usage.input_tokens:,} tokens read ({usage.cache_read_tokens:,} cached), {usage.output_tokens:,} written"
            + (", by estimate" if usage.is_estimate else ""),
        )

    if shortened := _describe_reductions(record):
        yield "Made smaller", shortened
    older = sum(pin.is_optional for pin in record.pins)
    if len(record.pins) > older:
        yield "Pinned", pluralize(len(record.pins) - older, "message")
    if older:
        yield "Older", f"{pluralize(older, 'message')} of the user"
    if record.read_files:
        yield "Files read", _list_files(record.read_files)
    if record.modified_files:
        yield "Files changed", _list_files(record.modified_files)
    yield "Record", record.id if record.parent is None else f"{record.id}, built on {record.parent}"


def _note_facts(record: CompactionRecord) -> Iterator[tuple[str, str]]:
    if record.pins:
        yield "Pinned", pluralize(len(record.pins), "message")
    elif record.takes_back:
        yield "Taken back", ", ".join(record.takes_back)
    else:
        yield "Of", "reasoning or summaries that only one model can read"
    yield "Record", record.id


def _author(record: CompactionRecord) -> str:
    if record.native is not None:
        return f"provider ({record.native.issuer.model or record.native.issuer.provider})"
    if not record.summary:
        return "none"
    if record.usage is None:
        return "not told"
    return "model" if record.usage.input_tokens else "rule"


def _describe_reductions(record: CompactionRecord) -> str:
    media = [item for item in record.reductions if item.kind == "media"]
    cleared = [item for item in record.reductions if item not in media and not (item.head_chars or item.tail_chars)]
    counts = (
        (len(cleared), "cleared result"),
        (len(record.reductions) - len(cleared) - len(media), "shortened part"),
        (len(media), "left out image or file"),
    )
    return ", ".join(pluralize(count, noun) for count, noun in counts if count)


def _list_files(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - SHOWN_FILES} more" if len(paths) > SHOWN_FILES else ""
    return ", ".join(paths[-SHOWN_FILES:]) + more
