"""`compaction-hooks records`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Annotated, Final, cast

import typer
from rich.console import Console

from compaction_hooks import CompactionController
from compaction_hooks.command.opening import open_store
from compaction_hooks.command.options import BAD_INPUT
from compaction_hooks.command.stored import (
    StoredConversation,
    count_records,
    print_records,
    print_table,
    read_stored,
)
from compaction_hooks.command.terminal import clean
from compaction_hooks.errors import CompactionError, ConfigurationError, RecordError
from compaction_hooks.replay.numbers import pluralize
from compaction_hooks.stores import ListingStore

NAMED: Final = 3
"""Ids in the question before a deletion; more are only counted."""

Store = Annotated[
    str,
    typer.Argument(
        metavar="STORE",
        help="A file of SQLiteStore; or env:NAME, an environment variable with the address of a RedisStore or PostgresStore "
        "(redis://..., postgresql://...).",
        show_default=False,
    ),
]
Id = Annotated[
    str | None, typer.Argument(metavar="[ID]", help="One conversation: show each of its records.", show_default=False)
]
Prefix = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="Only conversations whose id begins with this text.", show_default=False),
]
NoText = Annotated[bool, typer.Option("--no-text", help="Leave out the summaries.")]
AsJson = Annotated[
    bool,
    typer.Option(
        "--json", help="Print the records as JSON, as export_records() does: a list for an ID, else one for each id."
    ),
]
Delete = Annotated[
    bool, typer.Option("--delete", help="Delete the conversations of the ID or --prefix, after a question.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Delete without a question.")]
RedisPrefix = Annotated[str, typer.Option(metavar="TEXT", help="The prefix= of the RedisStore.")]


def records(
    store: Store,
    id: Id = None,
    prefix: Prefix = None,
    no_text: NoText = False,
    as_data: AsJson = False,
    delete: Delete = False,
    yes: Yes = False,
    redis_prefix: RedisPrefix = "compaction_records:",
) -> None:
    """Show, export or delete what a store holds of conversations: summaries, sizes, costs.

    Records are not encrypted: summaries and names of files are printed as they are.
    """
    try:
        if id is not None and prefix is not None:
            raise ConfigurationError("give an ID or --prefix, not both")
        if delete and id is None and not prefix:
            raise ConfigurationError(
                "--delete needs an ID or a --prefix; to delete everything, delete the file or table"
            )

        opened = open_store(store, redis_prefix)
        conversations = _select(opened, id, prefix)

        if delete:
            if _may_delete(conversations, is_confirmed=yes):
                _delete(opened, id, prefix)
        elif id is not None and not conversations:
            raise ConfigurationError(f"nothing is stored of conversation {id!r}: leave the ID out to see all ids")
        elif as_data:
            _print_json(conversations, is_one=id is not None)
        elif id is not None:
            print_records(Console(highlight=False), conversations[0], shows_text=not no_text)
        else:
            print_table(Console(highlight=False), conversations)
    except CompactionError as error:
        sys.stderr.write(f"error: {' '.join(clean(str(error)).split())}\n")
        raise typer.Exit(BAD_INPUT) from None


def _select(store: ListingStore, id: str | None, prefix: str | None) -> list[StoredConversation]:
    """Return the named conversation if it is stored, or all whose id begins with the prefix.

    Raises:
        RecordError: the store failed.
    """
    ids = [id] if id is not None else cast("Sequence[str]", store.session_ids(prefix or ""))  # no async store is opened
    return [found for each in sorted(ids) if (found := read_stored(store, each)).entries]


def _print_json(conversations: Sequence[StoredConversation], *, is_one: bool) -> None:
    """Print what can be read.

    Raises:
        RecordError: after printing, if some entries cannot be read.
    """
    exported = {each.id: [record.to_dict() for record in each.records] for each in conversations}
    sys.stdout.write(json.dumps(exported[conversations[0].id] if is_one else exported, indent=1) + "\n")
    damaged = [repr(each.id) for each in conversations if each.unreadable]
    if damaged:
        raise RecordError(
            f"entries of {', '.join(damaged)} cannot be read and are left out: damaged, or of a newer version"
        )


def _may_delete(conversations: Sequence[StoredConversation], *, is_confirmed: bool) -> bool:
    """Ask whether to delete conversations, unless there are none or it is confirmed.

    Raises:
        ConfigurationError: there is no terminal to ask.
    """
    if not conversations:
        typer.echo("Nothing is stored of such a conversation.")
        return False
    described = f"{count_records(conversations)} of {_name(conversations)}"
    if is_confirmed:
        typer.echo(f"Deleting {described}.")
        return True
    if not sys.stdin.isatty():
        raise ConfigurationError(f"not deleted: {described}; there is no terminal to ask, so add --yes")
    return typer.confirm(f"Delete {described}?")


def _delete(store: ListingStore, id: str | None, prefix: str | None) -> None:
    """Forget the conversations.

    Raises:
        RecordError: the store failed, or has entries that cannot be read.
    """
    controller = CompactionController(store=store)
    if id is not None:
        controller.forget_sync(id)
    elif prefix:
        controller.forget_prefix_sync(prefix)
    typer.echo("Deleted.")


def _name(conversations: Sequence[StoredConversation]) -> str:
    names = ", ".join(clean(repr(each.id)) for each in conversations[:NAMED])
    more = ", ..." if len(conversations) > NAMED else ""
    return f"{pluralize(len(conversations), 'conversation')} ({names}{more})"
