"""Shrinking without a model: which tool results to clear, which parts to shorten, and what stands in their place.

Every reduction names its part by its place in the conversation (run, ordinal) and by its content, so that it is applied to
exactly that part in any list, and it says how the new text is made, so that the view is the same each time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal, TypeAlias

from compaction_hooks.errors import RecordError
from compaction_hooks.history import History, canonical_arguments, text_digest
from compaction_hooks.messages import M, Message, ToolCall, ToolResult
from compaction_hooks.settings import ToolRule
from compaction_hooks.transcript import shortened

PartKind: TypeAlias = Literal["result", "arguments"]
Estimate: TypeAlias = Callable[[Message], int]

MINIMUM_KEPT_CHARS = 400
"""Shortening leaves at least this many characters: enough for an error message and its last line."""
HEAD_RATIO = 0.6
"""Of what is kept of a shortened text, the part from its beginning. Codex and OpenHands keep both ends too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """One part of a message that the view shows smaller.

    Attributes:
        run: The run the part stands in, counted from the start of the conversation.
        ordinal: Of a call, its place among the calls of its run; of a result, the place of its call.
        digest: SHA-256 of the part's full text (arguments in canonical form).
        shown_digest: The same of the text that stands in its place.
        head_chars: Characters kept from the beginning; 0 together with `tail_chars` 0 is a cleared result.
        tail_chars: Characters kept from the end.
    """

    kind: PartKind
    run: int
    ordinal: int
    digest: str
    shown_digest: str
    head_chars: int = 0
    tail_chars: int = 0

    def apply(self, text: str) -> str:
        """Return what stands in the place of `text`."""
        return _reduced(self.kind, text, self.head_chars, self.tail_chars)

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON."""
        return asdict(self)

    @staticmethod
    def from_dict(fields: Mapping[str, object]) -> Reduction:
        """Read back what `to_dict` gave.

        Raises:
            RecordError: a field is missing or of the wrong type.
        """
        kind, digest, shown = (fields.get(name) for name in ("kind", "digest", "shown_digest"))
        numbers = [fields.get(name) for name in ("run", "ordinal", "head_chars", "tail_chars")]
        run, ordinal, head, tail = (n if isinstance(n, int) else None for n in numbers)
        if kind not in ("result", "arguments") or not isinstance(digest, str) or not isinstance(shown, str):
            raise RecordError(
                f"reductions: kind={kind!r}, digest={digest!r}, shown_digest={shown!r} is not a reduction"
            )
        if run is None or ordinal is None or head is None or tail is None:
            raise RecordError(f"reductions: run, ordinal, head_chars and tail_chars must be numbers, not {numbers}")
        return Reduction(
            kind="result" if kind == "result" else "arguments",
            run=run,
            ordinal=ordinal,
            digest=digest,
            shown_digest=shown,
            head_chars=head,
            tail_chars=tail,
        )


def _reduced(kind: PartKind, text: str, head_chars: int, tail_chars: int) -> str:
    if kind == "arguments":
        return shorten_arguments(text, head_chars, tail_chars)
    return shortened(text, head_chars, tail_chars) if head_chars or tail_chars else cleared(text)


def part_digest(kind: PartKind, text: str) -> str:
    """Return the digest of a result's text, or of a call's arguments in canonical form."""
    return text_digest(canonical_arguments(text) if kind == "arguments" else text)


def cleared(text: str) -> str:
    """Return the marker for a result that was cleared.

    >>> cleared("x" * 12345)
    '[Old tool result cleared: 12,345 characters]'
    """
    return f"[Old tool result cleared: {len(text):,} characters]"


def shorten_arguments(arguments: str, head_chars: int, tail_chars: int) -> str:
    """Return tool arguments as valid JSON whose every long string keeps only its head and tail.

    Arguments that are no JSON object are wrapped as `{"shortened_arguments": ...}`, because providers want an object.
    """
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        return json.dumps({"shortened_arguments": shortened(arguments, head_chars, tail_chars)}, ensure_ascii=False)
    small = json.dumps(_shorten_strings(value, head_chars, tail_chars), ensure_ascii=False)
    if len(small) <= max(2 * (head_chars + tail_chars), MINIMUM_KEPT_CHARS):
        return small
    return json.dumps({"shortened_arguments": shortened(arguments, head_chars, tail_chars)}, ensure_ascii=False)


def _shorten_strings(value: object, head_chars: int, tail_chars: int) -> object:
    match value:
        case str():
            return shortened(value, head_chars, tail_chars)
        case dict():
            return {key: _shorten_strings(item, head_chars, tail_chars) for key, item in value.items()}
        case list():
            return [_shorten_strings(item, head_chars, tail_chars) for item in value]
        case _:
            return value


@dataclass(frozen=True, slots=True)
class Reducible:
    """A result or call that could be shown smaller.

    Attributes:
        piece: Index of its piece.
        part: Index into that piece's parts.
        tokens: Its estimate in tokens, before calibration, as the view shows it now.
        text: Its full text.
    """

    kind: PartKind
    run: int
    ordinal: int
    piece: int
    part: int
    tool: str
    text: str
    tokens: int

    def reduction(self, head_chars: int = 0, tail_chars: int = 0) -> Reduction:
        """Return the reduction that clears this part, or keeps these many characters of it."""
        shown = _reduced(self.kind, self.text, head_chars, tail_chars)
        return Reduction(
            kind=self.kind,
            run=self.run,
            ordinal=self.ordinal,
            digest=part_digest(self.kind, self.text),
            shown_digest=part_digest(self.kind, shown),
            head_chars=head_chars,
            tail_chars=tail_chars,
        )


def reducible_parts(
    history: History[M], first_run: int, estimate: Estimate, reductions: Sequence[Reduction] = ()
) -> list[Reducible]:
    """Return the results and call arguments from run `first_run` on, oldest first, as the view shows them.

    Args:
        estimate: Size of one neutral message in tokens, before calibration.
        reductions: Those already in force; what a cleared part still weighs is the weight of its marker.
    """
    in_force = {(item.kind, item.run, item.ordinal): item for item in reductions}
    found: list[Reducible] = []
    tools: dict[str, str] = {}
    for run in range(max(first_run, history.base), history.run_count):
        ordinals = history.call_ordinals(run) or history.call_ordinals(run - 1)
        for index in history.run_pieces(run):
            for number, part in enumerate(history.piece(index).message.parts):
                if not isinstance(part, ToolCall | ToolResult):
                    continue
                call_id, kind, text = _essence(part)
                ordinal = ordinals.get(call_id, -1)
                if isinstance(part, ToolCall):
                    tools[call_id] = part.name
                applied = in_force.get((kind, run, ordinal))
                tokens = estimate(_alone(part, applied))
                tool = part.name or tools.get(call_id, "")
                found.append(Reducible(kind, run, ordinal, index, number, tool, text, tokens))
    return found


def _essence(part: ToolCall | ToolResult) -> tuple[str, PartKind, str]:
    if isinstance(part, ToolCall):
        return part.id, "arguments", part.arguments
    return part.call_id, "result", part.text


def _alone(part: ToolCall | ToolResult, applied: Reduction | None) -> Message:
    if isinstance(part, ToolCall):
        shown: ToolCall | ToolResult = replace(part, arguments=applied.apply(part.arguments)) if applied else part
        return Message(role="assistant", parts=(shown,))
    return Message(role="tool", parts=(replace(part, text=applied.apply(part.text), media=()) if applied else part,))


def results_to_clear(
    parts: Iterable[Reducible], *, protect_tokens: int, rules: Mapping[str, ToolRule], last_run: int
) -> list[Reducible]:
    """Choose the tool results to clear, oldest first.

    Protected are the newest `protect_tokens` of results, the results of run `last_run` (the model has not seen them yet),
    and what the tools' rules say. A result the size of its marker is not worth clearing.
    """
    results = [part for part in parts if part.kind == "result"]
    chosen: list[Reducible] = []
    newer_tokens = 0
    newer_of_tool: dict[str, int] = {}
    for part in reversed(results):
        rule = rules.get(part.tool)
        seen = newer_of_tool.get(part.tool, 0)
        newer_of_tool[part.tool] = seen + 1
        is_protected = newer_tokens < protect_tokens if rule != "first" else False
        newer_tokens += part.tokens
        if part.run >= last_run or rule == "never" or is_protected or part.ordinal < 0:
            continue
        if isinstance(rule, int) and seen < rule:
            continue
        if len(part.text) > 2 * len(cleared(part.text)) and part.tokens > len(cleared(part.text)) // 2:
            chosen.append(part)
    return chosen[::-1]


def shortening(parts: Sequence[Reducible], *, excess_tokens: int, rules: Mapping[str, ToolRule]) -> list[Reduction]:
    """Choose how much of each part to keep so that together they lose at least `excess_tokens`, the largest first.

    All that are shortened end up about equally long: the smallest cap, in characters, that gains enough. Parts of tools
    whose rule is "never", and parts of `MINIMUM_KEPT_CHARS` or less, stay whole. When even that floor does not gain
    enough, the reductions to the floor come back: the caller checks the size.
    """
    able = [p for p in parts if len(p.text) > MINIMUM_KEPT_CHARS and p.ordinal >= 0 and rules.get(p.tool) != "never"]
    low, high = MINIMUM_KEPT_CHARS, max((len(part.text) for part in able), default=MINIMUM_KEPT_CHARS)
    while low < high:
        middle = (low + high + 1) // 2
        if _gain(able, middle) >= excess_tokens:
            low = middle
        else:
            high = middle - 1
    head = int(low * HEAD_RATIO)
    return [part.reduction(head, low - head) for part in able if len(part.text) > low]


def _gain(parts: Iterable[Reducible], cap_chars: int) -> int:
    """Tokens saved by a cap on characters, each part's density taken as even."""
    return sum(int(p.tokens * (1 - cap_chars / len(p.text))) - 12 for p in parts if len(p.text) > cap_chars)
