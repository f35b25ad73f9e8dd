"""The plan of a repair: which parts are dropped, moved or get another id, decided on neutral messages alone."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final, NamedTuple

from compaction_hooks.history.digests import canonical_arguments, text_digest
from compaction_hooks.messages import Message, Opaque, Part, Thinking, ToolCall, ToolResult, is_blank
from compaction_hooks.validity import (
    Problem,
    Provider,
    RuleId,
    foreign_rule,
    is_hosts_answer,
    is_server_call,
    is_server_result,
    takes_call_id,
)

_ID_DIGITS: Final = 24
"""Hexadecimal digits of an id that we make. With its prefix it has 29 characters, as many as OpenAI's own ids, all of them
accepted by every provider."""

INTERRUPTED: Final = (
    "[No result: the run was interrupted before this tool answered. "
    "Whether it did its work, in part or in full, is not known.]"
)
"""The result that the model reads for a tool call without one."""


class Place(NamedTuple):
    """The address of a part: index of the host message, of its piece, of the part in the piece."""

    host: int
    piece: int
    part: int


class Piece(NamedTuple):
    """A neutral message, and its place.

    Attributes:
        host: Index of its host message.
        number: Index among the messages that the format read from that.
        parts: Its parts, each with its place.
    """

    host: int
    number: int
    message: Message
    parts: Sequence[tuple[Place, Part]]


def read_piece(host: int, number: int, message: Message) -> Piece:
    """Return the message at a place."""
    return Piece(host, number, message, [(Place(host, number, at), part) for at, part in enumerate(message.parts)])


@dataclass(slots=True)
class Plan:
    """The changes of one repair, part by part.

    Attributes:
        dropped: Parts to leave out.
        ids: New ids of tool calls and of their results.
        results: For each tool call with a result, the place of that result.
    """

    dropped: set[Place] = field(default_factory=set[Place])
    ids: dict[Place, str] = field(default_factory=dict[Place, str])
    results: dict[Place, Place] = field(default_factory=dict[Place, Place])


def plan_repair(
    pieces: Sequence[Piece],
    rules: frozenset[RuleId],
    provider: Provider | None,
    faults: Iterable[Problem],
    unnamed: Collection[Place],
) -> Plan:
    """Return the parts to drop, the result of each tool call, and the tool calls that get another id, by these rules.

    Args:
        faults: The problems of these messages.
        unnamed: The tool calls without an id that can get one.
    """
    plan = Plan()

    # A host that stored a repaired list may learn the real result later: real results are matched before our stand-ins.
    _match_results(pieces, plan, ours=False)
    _match_results(pieces, plan, ours=True)
    _assign_new_ids(pieces, plan, rules, provider, unnamed)

    # Reasoning last: it is loose only if the parts after it are dropped.
    plan.dropped.update(place for place, part in _parts(pieces) if _is_refused(part, rules))
    for problem in faults:
        _drop_server_part(pieces, plan, problem)
    if "dangling_reasoning" in rules:
        _drop_loose_reasoning(pieces, plan, rules)
    return plan


def _is_refused(part: Part, rules: frozenset[RuleId]) -> bool:
    """Return whether the provider refuses the part in any place."""
    if isinstance(part, Thinking):
        return "unsigned_reasoning" in rules and not part.opaque_chars
    if isinstance(part, Opaque):
        return foreign_rule(part) in rules
    return "blank_text" in rules and is_blank(part)


def _parts(pieces: Iterable[Piece]) -> Iterator[tuple[Place, Part]]:
    for piece in pieces:
        yield from piece.parts


def _match_results(pieces: Sequence[Piece], plan: Plan, *, ours: bool) -> None:
    """Match each result to an open tool call with its id: the oldest in the newest turn that has one.

    Args:
        ours: True to match the results that say INTERRUPTED, False to match all others.
    """
    waiting: dict[str, list[tuple[int, Place]]] = {}
    turn = 0
    speaker = ""

    for piece in pieces:
        turn += piece.message.role == "assistant" and speaker != "assistant"
        speaker = piece.message.role
        for place, part in piece.parts:
            if isinstance(part, ToolCall) and place not in plan.results:
                waiting.setdefault(part.id, []).append((turn, place))
            elif isinstance(part, ToolResult) and (part.text == INTERRUPTED) is ours:
                if calls := waiting.get(part.call_id):
                    _, call = calls.pop(bisect_left(calls, calls[-1][0], key=itemgetter(0)))
                    plan.results[call] = place
                else:
                    plan.dropped.add(place)


def _assign_new_ids(
    pieces: Sequence[Piece],
    plan: Plan,
    rules: frozenset[RuleId],
    provider: Provider | None,
    unnamed: Collection[Place],
) -> None:
    """Give a tool call another id if an earlier one has the same, or if the provider does not accept its form."""
    calls = {result: call for call, result in plan.results.items()}
    used: set[str] = set()
    used_in_turn: set[str] = set()
    calls_in_turn: set[Place] = set()
    is_answered = False
    counts: dict[str, int] = {}

    for piece in pieces:
        if piece.message.role == "tool":
            # Results of other turns do not stay here, so the assistant's messages around them may become one turn.
            stays = "split_step" in rules or any(calls.get(place) in calls_in_turn for place, _ in piece.parts)
            is_answered = is_answered or stays
        elif is_answered or piece.message.role != "assistant":
            used_in_turn.clear()
            calls_in_turn.clear()
            is_answered = False

        for place, part in piece.parts:
            if not isinstance(part, ToolCall):
                continue

            id_ = part.id
            is_taken = id_ in (used if "duplicate_call" in rules else used_in_turn) and "twin_call" in rules
            is_refused = "call_id_form" in rules and not takes_call_id(provider, id_)
            if place in unnamed if not id_ else is_taken or is_refused:
                id_ = _fresh_id(part, used, counts)
                plan.ids[place] = id_
                if place in plan.results:
                    plan.ids[plan.results[place]] = id_
            used.add(id_)
            used_in_turn.add(id_)
            calls_in_turn.add(place)


def _fresh_id(call: ToolCall, used: set[str], counts: dict[str, int]) -> str:
    """Return an id made from the tool call's content and the count of equal ones before it.

    It depends on nothing that comes later, so that appended messages do not change it.
    """
    content = f"{call.id}\n{call.name}\n{canonical_arguments(call.arguments)}"
    while True:
        count = counts[content] = counts.get(content, 0) + 1
        id_ = "call_" + text_digest(f"{count}\n{content}")[:_ID_DIGITS]
        if id_ not in used:
            return id_


def _drop_server_part(pieces: Sequence[Piece], plan: Plan, problem: Problem) -> None:
    """Drop the part of a provider's own tool, or the host's answer to such a part, that a problem names."""
    wanted = _DROPPED.get(problem.rule)
    if wanted is None or problem.index is None:
        return

    places = [
        place
        for place, part in pieces[problem.index].parts
        if wanted(part) and isinstance(part, Opaque) and part.call_id == problem.call_id and place not in plan.dropped
    ]
    plan.dropped.update(places[:1])


_DROPPED: Final[Mapping[RuleId, Callable[[Part], bool]]] = {
    "open_server_call": is_server_call,
    "orphan_server_result": is_server_result,
    "orphan_answer": is_hosts_answer,
}
"""By rule, whether a part is the one to drop."""


def _drop_loose_reasoning(pieces: Sequence[Piece], plan: Plan, rules: frozenset[RuleId]) -> None:
    """Drop the reasoning at the end of an assistant turn: the text or tool call it led to is missing."""
    ends_turn = True
    for piece in reversed(pieces):
        kept = list_kept(plan, piece)
        if piece.message.role != "assistant":
            ends_turn = ends_turn or bool(kept) or piece.message.role != "tool"
            continue
        ends_turn = ends_turn or _ends_step(plan, kept, rules)
        while ends_turn and kept and isinstance(kept[-1][1], Thinking):
            plan.dropped.add(kept.pop()[0])
        ends_turn = ends_turn and not kept


def _ends_step(plan: Plan, kept: Sequence[tuple[Place, Part]], rules: frozenset[RuleId]) -> bool:
    """Return whether results may be written directly behind an assistant message with these parts."""
    calls = [place for place, part in kept if isinstance(part, ToolCall)]
    return bool(calls) if "split_step" in rules else any(place not in plan.results for place in calls)


def list_kept(plan: Plan, piece: Piece) -> list[tuple[Place, Part]]:
    """Return the parts of a piece that are not dropped, with their places."""
    return [(place, part) for place, part in piece.parts if place not in plan.dropped]
