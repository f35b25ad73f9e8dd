"""What a stretch of conversation did, in numbers and names: for events, logs and whoever reads a record later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from compaction_hooks.errors import RecordError
from compaction_hooks.files.operations import (
    CallMade,
    FileOperations,
    as_fields,
    as_items,
    calls_made,
    touched_files,
)
from compaction_hooks.messages import Message

MAX_LISTED = 50
"""Of files, commands and hidden blocks each, the newest that a digest names: it is kept with the record."""
MAX_TEXT_CHARS = 200
"""Of one command or replacement text, so much is kept, in characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenBlock:
    """A tool result that the view shows smaller or not at all.

    Attributes:
        tool: The tool's name, empty when unknown.
        replacement: What stands in its place.
    """

    tool: str
    replacement: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """How often one tool was called, and how many of the answers were failures."""

    tool: str
    calls: int
    errors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOutcome:
    """One command line and whether it succeeded; None when it was never answered."""

    command: str
    succeeded: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionDigest:
    """What the compacted part did. Lists hold the newest `MAX_LISTED`, oldest first.

    Attributes:
        messages: Number of messages by role.
        tools: Use of each tool, by first use.
        files_written: Paths of modified files.
        commands: Shell commands with their outcome.
        hidden: Results that were cleared or shortened, with their replacement text.
    """

    messages: Mapping[str, int]
    tools: tuple[ToolUse, ...] = ()
    files_written: tuple[str, ...] = ()
    commands: tuple[CommandOutcome, ...] = ()
    hidden: tuple[HiddenBlock, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON."""
        return {
            "messages": dict(self.messages),
            "tools": [{"tool": use.tool, "calls": use.calls, "errors": use.errors} for use in self.tools],
            "files_written": list(self.files_written),
            "commands": [{"command": one.command, "succeeded": one.succeeded} for one in self.commands],
            "hidden": [{"tool": block.tool, "replacement": block.replacement} for block in self.hidden],
        }

    @staticmethod
    def from_dict(fields: Mapping[str, object]) -> CompactionDigest:
        """Read back what `to_dict` gave, or what JSON made of it.

        Raises:
            RecordError: a field is missing or of the wrong type.
        """
        messages = as_fields(fields.get("messages"))
        if messages is None:
            raise RecordError(f"digest: messages must be an object, not {fields.get('messages')!r}")
        return CompactionDigest(
            messages={role: _number(count, "messages") for role, count in messages.items()},
            tools=tuple(
                ToolUse(
                    tool=_text(row, "tool"),
                    calls=_number(row.get("calls"), "calls"),
                    errors=_number(row.get("errors"), "errors"),
                )
                for row in _rows(fields, "tools")
            ),
            files_written=tuple(str(path) for path in _items(fields, "files_written")),
            commands=tuple(
                CommandOutcome(command=_text(row, "command"), succeeded=_truth(row.get("succeeded")))
                for row in _rows(fields, "commands")
            ),
            hidden=tuple(
                HiddenBlock(tool=_text(row, "tool"), replacement=_text(row, "replacement"))
                for row in _rows(fields, "hidden")
            ),
        )


def digest(
    messages: Iterable[Message],
    hidden: Sequence[HiddenBlock] = (),
    *,
    calls: Sequence[CallMade] | None = None,
    operations: FileOperations | None = None,
) -> CompactionDigest:
    """Return what these messages did.

    Args:
        hidden: The blocks the view shows smaller; only the caller knows them.
        calls: The calls they made, when the caller has them already.
        operations: The files they touched, likewise.
    """
    messages = tuple(messages)
    roles: dict[str, int] = {}
    for message in messages:
        roles[message.role] = roles.get(message.role, 0) + 1
    made = calls_made(messages) if calls is None else calls
    counts: dict[str, list[int]] = {}
    commands: list[tuple[str, CallMade]] = []
    for one in made:
        count = counts.setdefault(one.call.name, [0, 0])
        count[0] += 1
        count[1] += one.has_failed
        if one.command is not None:
            commands.append((one.command, one))
    return CompactionDigest(
        messages=roles,
        tools=tuple([ToolUse(tool=name, calls=count, errors=errors) for name, (count, errors) in counts.items()]),
        files_written=(operations or touched_files(made)).modified[-MAX_LISTED:],
        commands=tuple([_command_outcome(command, one) for command, one in commands[-MAX_LISTED:]]),
        hidden=tuple([HiddenBlock(tool=b.tool, replacement=_short(b.replacement)) for b in hidden[-MAX_LISTED:]]),
    )


def _command_outcome(command: str, made: CallMade) -> CommandOutcome:
    return CommandOutcome(command=_short(command), succeeded=None if made.result is None else not made.has_failed)


def _short(text: str) -> str:
    text = " ".join(text[: 2 * MAX_TEXT_CHARS].split())
    return text if len(text) <= MAX_TEXT_CHARS else text[: MAX_TEXT_CHARS - 3] + "..."


def _items(fields: Mapping[str, object], name: str) -> Sequence[object]:
    items = as_items(fields.get(name, ()))
    if items is None:
        raise RecordError(f"digest: {name} must be a list, not {fields.get(name)!r}")
    return items


def _rows(fields: Mapping[str, object], name: str) -> list[Mapping[str, object]]:
    rows = [as_fields(item) for item in _items(fields, name)]
    if any(row is None for row in rows):
        raise RecordError(f"digest: {name} must hold objects, not {fields.get(name)!r}")
    return [row for row in rows if row is not None]


def _text(row: Mapping[str, object], name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str):
        raise RecordError(f"digest: {name} must be text, not {value!r}")
    return value


def _number(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise RecordError(f"digest: {name} must be a number, not {value!r}")
    return value


def _truth(value: object) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise RecordError(f"digest: succeeded must be true, false or null, not {value!r}")
    return value
