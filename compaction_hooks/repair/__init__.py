"""Repair of histories that a provider would reject: the problems that `validity` finds are corrected, the rest stays.

A tool call without a result gets one that says so. A result without a call is dropped, and so is a second result of the same
call. A result far from its call moves up behind it. A tool call with the id of an earlier one, or without an id, gets another
id. Empty parts are dropped. Tool calls get an empty reasoning, if their model refuses them without. The same messages are
always repaired the same way, in every process.

When new messages are only appended, the earlier ones are repaired as before, so the provider's cached prefix stays valid. The
exception is a new result for a tool call taken for interrupted: the real result replaces ours, also if the host stored the
repaired list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

from compaction_hooks.errors import ConfigurationError
from compaction_hooks.formats.pairing import pair_all
from compaction_hooks.messages import Format, M, Message, MessageFormat, Role, ToolCall, as_format, can
from compaction_hooks.reasoning import find_family
from compaction_hooks.repair.plan import INTERRUPTED, Place, plan_repair, read_piece
from compaction_hooks.repair.rebuilding import NO_REQUEST, NO_WORDS, Rebuilder
from compaction_hooks.validity import RuleId, problems, rules_of

__all__ = ["INTERRUPTED", "NO_REQUEST", "NO_WORDS", "repaired"]

_NOT_OURS: Final[frozenset[RuleId]] = frozenset(
    {
        "empty_list",
        "only_system",
        "role_repeated",
        "split_results",
        "call_out_of_turn",
        "unsigned_call",
        "missing_reasoning",
    }
)
"""Rules whose breaches are no reason for a repair: the first two need a request that only the host can make, the last one reasoning
that only the model can; client libraries join messages and supply signatures when they translate them."""


def repaired(messages: list[M], format: MessageFormat[Any], *, model: str | None = None) -> list[M]:
    """Return a list that the format's provider accepts; the very same list if there is nothing to repair.

    Pure, and linear in the messages. Messages that need no change are the same objects, in their order. The rules are those of
    the format's provider; for formats that a client translates further, all rules that no client resolves (`rules_of(None)`),
    but a system message keeps its place. An empty list and a list of system messages stay as they are: to repair them would
    mean to invent a request.

    Args:
        model: The model that will read the messages; None: any model of the provider. Claude on Bedrock refuses unsigned reasoning,
            and other models there sign none.

    Raises:
        ConfigurationError: the format lacks a method that repairs need; also raised if there is nothing to repair.
        FormatError: a message cannot be read.
    """
    writer = _require_repairing(format)
    messages = _change_each(messages, writer.tidy)
    family = find_family(model)
    if family is not None and family.takes_empty:
        messages = _change_each(messages, writer.fill_reasoning)
    provider = writer.provider
    read = [
        (host, number, piece)
        for host, message in enumerate(messages)
        for number, piece in enumerate(writer.read(message))
    ]
    paired = pair_all([piece for _, _, piece in read])

    rules = rules_of(provider, model) - _NOT_OURS
    if provider is None:
        rules -= {"system_inside"}  # the place of a system message has a meaning, and most providers accept it there

    faults = problems(paired, provider, model=model)
    unnamed: set[Place] = set()
    if "call_id_form" in rules:
        unnamed = _find_unnamed(messages, read, writer)
    if not unnamed and all(problem.rule not in rules for problem in faults):
        return messages

    pieces = [read_piece(host, number, piece) for (host, number, _), piece in zip(read, paired, strict=True)]

    plan = plan_repair(pieces, rules, provider, faults, unnamed)
    rebuilt: list[M] = Rebuilder(messages, pieces, writer, rules, plan).run()
    return _join_rows(rebuilt, messages, writer) if "split_results" in rules_of(provider, model) else rebuilt


def _join_rows(messages: list[M], before: list[M], format: Format[M]) -> list[M]:
    """Return the messages with results in a row as one, a stand-in among them, and the assistant's around a dropped result.

    Rows that the repair did not make stay, so that a list that grows is repaired as before.
    """
    neighbors = {(id(one), id(other)) for one, other in pairwise(before)}
    joined: list[M] = []
    last: Role | None = None

    for number, message in enumerate(messages):
        roles: list[Role] = [piece.role for piece in format.read(message)]
        if last == roles[0] in ("assistant", "tool") and (id(messages[number - 1]), id(message)) not in neighbors:
            joined[-1:] = format.merge([joined[-1], message])
        else:
            joined.append(message)
        last = roles[-1]

    return joined


def _change_each(messages: list[M], change: Callable[[M], M]) -> list[M]:
    """Return the messages as a function changes each of them; the very same list if it changes none."""
    changed = [change(message) for message in messages]
    return changed if any(new is not old for new, old in zip(changed, messages, strict=True)) else messages


def _find_unnamed(messages: Sequence[M], read: Iterable[tuple[int, int, Message]], format: Format[M]) -> set[Place]:
    """Return the tool calls without an id that can get one: those of OpenAI's legacy API cannot."""
    unnamed = [
        Place(host, number, at)
        for host, number, piece in read
        for at, part in enumerate(piece.parts)
        if isinstance(part, ToolCall) and not part.id
    ]
    return {
        place for place in unnamed if format.rename(messages[place.host], {place[1:]: "id"}) is not messages[place.host]
    }


def _require_repairing(format: MessageFormat[Any]) -> Format[Any]:
    writer = as_format(format)
    missing = [name for name in ("request", "answer", "drop", "rename") if not can(writer, name)]
    if missing:
        raise ConfigurationError(
            f"repair=True needs a format that can mend messages: {format.name} lacks {', '.join(missing)} "
            "(see compaction_hooks.messages.Format)"
        )
    return writer
