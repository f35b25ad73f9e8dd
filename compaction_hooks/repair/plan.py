"""The plan of a repair: which parts are dropped, moved or get another id, decided on neutral messages alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from compaction_hooks.history.digests import canonical_arguments, text_digest
from compaction_hooks.messages import Message, Opaque, Part, Thinking, ToolCall, ToolResult, is_blank
from compaction_hooks.validity import (
    Provider,
    RuleId,
    foreign_rule,
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


Pieces: TypeAlias = Sequence[Sequence[Message]]
"""For each host message, the neutral messages that the format read from it."""


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


def plan_repair(pieces: Pieces, rules: frozenset[RuleId], provider: Provider | None) -> Plan:
    """Return the parts to drop, the result of each tool call, and the tool calls that get another id, by these rules."""
    plan = Plan()

    # A host that stored a repaired list may learn the real result later: real results are matched before our stand-ins.
    _match_results(pieces, plan, ours=False)
    _match_results(pieces, plan, ours=True)
    _assign_new_ids(pieces, plan, rules, provider)

    # Reasoning last: it is loose only if the parts after it are dropped.
    plan.dropped.update(place for place, part in _parts(pieces) if _is_refused(part, rules))
    if "open_server_call" in rules:
        _drop_server_parts(pieces, plan)
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


def _parts(pieces: Pieces) -> Iterator[tuple[Place, Part]]:
    for host, read in enumerate(pieces):
        for number, piece in enumerate(read):
            for index, part in enumerate(piece.parts):
                yield Place(host, number, index), part


def _match_results(pieces: Pieces, plan: Plan, *, ours: bool) -> None:
    """Match each result to an open tool call with its id: the oldest in the newest turn that has one.

    Args:
        ours: True to match the results that say INTERRUPTED, False to match all others.
    """
    waiting: dict[str, list[tuple[int, deque[Place]]]] = {}
    turn = 0
    speaker = ""
    for host, read in enumerate(pieces):
        for number, piece in enumerate(read):
            turn += piece.role == "assistant" and speaker != "assistant"
            speaker = piece.role
            for index, part in enumerate(piece.parts):
                place = Place(host, number, index)
                if isinstance(part, ToolCall) and place not in plan.results:
                    of_id = waiting.setdefault(part.id, [])
                    if not of_id or of_id[-1][0] != turn:
                        of_id.append((turn, deque()))
                    of_id[-1][1].append(place)
                elif isinstance(part, ToolResult) and (part.text == INTERRUPTED) is ours:
                    _match(plan, place, waiting.get(part.call_id))


def _match(plan: Plan, result: Place, waiting: list[tuple[int, deque[Place]]] | None) -> None:
    if not waiting:
        plan.dropped.add(result)
        return
    call = waiting[-1][1].popleft()
    if not waiting[-1][1]:
        waiting.pop()
    plan.results[call] = result


def _assign_new_ids(pieces: Pieces, plan: Plan, rules: frozenset[RuleId], provider: Provider | None) -> None:
    """Give a tool call another id if an earlier one has the same, or if the provider does not accept its form."""
    used: set[str] = set()
    counts: dict[str, int] = {}
    for place, part in _parts(pieces):
        if not isinstance(part, ToolCall):
            continue

        id_ = part.id
        is_taken = id_ != "" and id_ in used and not rules.isdisjoint(("duplicate_call", "twin_call"))
        if is_taken or ("call_id_form" in rules and not takes_call_id(provider, id_)):
            id_ = _fresh_id(part, used, counts)
            plan.ids[place] = id_
            if place in plan.results:
                plan.ids[plan.results[place]] = id_
        used.add(id_)


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


def _drop_server_parts(pieces: Pieces, plan: Plan) -> None:
    """Drop results of the provider's own tools without a call, and such calls still open at the next user message."""
    waiting: dict[str, Place] = {}
    for host, read in enumerate(pieces):
        for number, piece in enumerate(read):
            if piece.role == "user":
                plan.dropped.update(waiting.values())
                waiting.clear()
            for index, part in enumerate(piece.parts):
                if not isinstance(part, Opaque):
                    continue
                if is_server_call(part):
                    if (earlier := waiting.get(part.call_id)) is not None:
                        plan.dropped.add(earlier)
                    waiting[part.call_id] = Place(host, number, index)
                elif is_server_result(part) and waiting.pop(part.call_id, None) is None:
                    plan.dropped.add(Place(host, number, index))


def _drop_loose_reasoning(pieces: Pieces, plan: Plan, rules: frozenset[RuleId]) -> None:
    """Drop the reasoning at the end of an assistant turn: the text or tool call it led to is missing."""
    ends_turn = True
    for host in range(len(pieces) - 1, -1, -1):
        for number in range(len(pieces[host]) - 1, -1, -1):
            piece = pieces[host][number]
            kept = list_kept(plan, host, number, piece)
            if piece.role != "assistant":
                ends_turn = ends_turn or bool(kept) or piece.role != "tool"
                continue
            ends_turn = ends_turn or _ends_step(plan, kept, piece, rules)
            while ends_turn and kept and isinstance(piece.parts[kept[-1].part], Thinking):
                plan.dropped.add(kept.pop())
            ends_turn = ends_turn and not kept


def _ends_step(plan: Plan, kept: Sequence[Place], piece: Message, rules: frozenset[RuleId]) -> bool:
    """Return whether results may be written directly behind this assistant message."""
    calls = [place for place in kept if isinstance(piece.parts[place.part], ToolCall)]
    return bool(calls) if "split_step" in rules else any(place not in plan.results for place in calls)


def list_kept(plan: Plan, host: int, number: int, piece: Message) -> list[Place]:
    """Return the places of a piece's parts that are not dropped."""
    places = [Place(host, number, index) for index in range(len(piece.parts))]
    return [place for place in places if place not in plan.dropped]
