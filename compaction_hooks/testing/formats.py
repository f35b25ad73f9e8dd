"""Check of the contract of `MessageFormat`, for the author of a format, on samples of its messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final, TypeVar, cast

from compaction_hooks.messages import (
    Media,
    Message,
    MessageFormat,
    Part,
    PartAddress,
    Text,
    ToolCall,
    ToolResult,
    as_format,
    can,
)
from compaction_hooks.testing.demands import demand
from compaction_hooks.testing.shapes import Watched

M = TypeVar("M")

SUMMARY_TEXTS: Final = (
    "Goal: mend the parser.\n\n- [x] read it\n- [ ] test it",
    " leading and trailing space\n",
    '<summary lang="zh">修复解析器 🔧 "quoted" \\ {braces}</summary>',
)
"""Texts of summaries: several lines, outer white space, tags, characters beyond the basic plane."""

SHORTER_TEXT: Final = "[shortened]\n12 lines left out ✂"
CALL_ARGUMENTS: Final[Mapping[str, object]] = {"path": "a b/ü.py", "lines": [1, 2], "note": "left out"}


def check_format(message_format: MessageFormat[M], samples: Sequence[M]) -> None:
    """Check that a format keeps the contract of `MessageFormat` on these samples.

    Give real messages of your framework with everything they can have: unknown fields, cache marks, images, signed
    reasoning, parallel tool calls, results as text and as lists. At least one user text, one tool call and one tool result are
    required, or most checks would have nothing to check.

    For each sample:

    - `read` gives the same pieces every time, also for a deep copy and for a copy through JSON (dicts only), never changes the
      message, and never mixes speakers: results, and only results, in "tool" pieces, tool calls in "assistant" pieces;
    - `take` of all pieces has the same content, `take` of one has only this piece, and everything kept is the same object as
      before, including unknown fields;
    - `rewrite` changes only the addressed text, result or tool call, drops a rewritten result's media, and never
      changes the message;
    - `summary` reads back as one user message with exactly its text.

    If the format can repair messages, its methods for `repair=True` are checked too: `request` reads back as one user message
    that is no summary, `answer` as the result of its tool call, `drop` leaves out only the named part, `rename` changes only the
    named ids, and none of them changes the message.

    Raises:
        AssertionError: the contract is broken; the text names the broken rule and the sample.
    """
    can_repair = _check_methods(message_format)
    untouched = deepcopy(list(samples))
    watched = Watched(message_format)
    _check_coverage(watched, samples)

    for number, sample in enumerate(samples):
        where = watched.where = f"sample {number} ({_short(sample)})"
        _check_read(watched, sample, where)
        _check_take(watched, sample, where)
        _check_rewrite(watched, sample, where)
        demand(_same(sample, untouched[number]), f"{where}: the message itself was changed")

    for text in SUMMARY_TEXTS:
        _check_summary(watched, text)
    if can_repair:
        _check_repairing(watched, samples)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:120]}…"


def _same(one: object, other: object) -> bool:
    return one == other or repr(one) == repr(other)  # not every framework's messages compare by content


def _check_methods(message_format: object) -> bool:
    """Check that a format has all its methods; return whether it can repair messages too."""
    kind = type(message_format).__name__
    if isinstance(message_format, type):
        raise AssertionError(f"give a format, not the class {message_format.__name__}: {message_format.__name__}()")
    lacks = [name for name in ("read", "take", "rewrite", "summary") if not _has(message_format, name)]
    demand(not lacks, f"{kind} is no MessageFormat: it lacks {', '.join(lacks)}")

    name = cast("object", getattr(message_format, "name", None))
    demand(isinstance(name, str) and name != "", "name must be a non-empty string")

    own = as_format(cast("MessageFormat[Any]", message_format))
    repairs = [name for name in REPAIR_METHODS if can(own, name)]
    demand(
        not repairs or len(repairs) == len(REPAIR_METHODS),
        f"a format that repairs messages has {', '.join(REPAIR_METHODS)}; this one has only {', '.join(repairs)}",
    )
    return bool(repairs)


def _has(message_format: object, method: str) -> bool:
    return callable(getattr(message_format, method, None))


def _check_coverage(watched: Watched[M], samples: Sequence[M]) -> None:
    pieces: list[Message] = []
    for number, sample in enumerate(samples):
        watched.where = f"sample {number} ({_short(sample)})"
        pieces.extend(watched.read(sample))

    has_text = any(piece.role == "user" and piece.text for piece in pieces)
    has_call = any(piece.calls for piece in pieces)
    has_result = any(piece.results for piece in pieces)
    demand(
        has_text and has_call and has_result,
        "samples must hold a user text, a tool call and a tool result: "
        f"user text {has_text}, call {has_call}, result {has_result}",
    )


def _check_read(message_format: MessageFormat[M], sample: M, where: str) -> None:
    pieces = tuple(message_format.read(sample))
    demand(bool(pieces), f"{where}: read() gave no piece")
    demand(pieces == tuple(message_format.read(sample)), f"{where}: read() differs from one call to the next")
    demand(pieces == tuple(message_format.read(deepcopy(sample))), f"{where}: read() of an equal copy differs")

    through_json = _through_json(sample)
    if through_json is not None:
        again = tuple(message_format.read(cast(M, through_json)))  # JSON of a dict is a dict of the same fields
        demand(pieces == again, f"{where}: read() differs after the message went through JSON")

    for piece in pieces:
        for part in piece.parts:
            is_result = isinstance(part, ToolResult)
            demand(
                is_result == (piece.role == "tool"),
                f'{where}: a "{piece.role}" piece holds a {type(part).__name__}: results, and only they, are role "tool"',
            )
            demand(
                not isinstance(part, ToolCall) or piece.role == "assistant",
                f'{where}: a "{piece.role}" piece holds a tool call: only the assistant calls tools',
            )


def _through_json(sample: object) -> object:
    if not isinstance(sample, dict):
        return None
    try:
        return cast(object, json.loads(json.dumps(sample)))
    except (TypeError, ValueError):
        return None


def _check_take(message_format: MessageFormat[M], sample: M, where: str) -> None:
    pieces = tuple(message_format.read(sample))
    whole = message_format.take(sample, range(len(pieces)))
    demand(tuple(message_format.read(whole)) == pieces, f"{where}: take() of all pieces reads differently")
    _check_kept(sample, whole, f"{where}: take() of all pieces")
    for index, piece in enumerate(pieces):
        taken = message_format.take(sample, [index])
        demand(
            tuple(message_format.read(taken)) == (piece,), f"{where}: take() of piece {index} alone reads differently"
        )
        _check_kept(sample, taken, f"{where}: take() of piece {index}")


def _check_kept(sample: object, made: object, what: str) -> None:
    """Check that at most one field differs, and that the items of this field are the old objects."""
    before, after = _fields(sample), _fields(made)
    changed = [name for name in {**before, **after} if before.get(name) is not after.get(name)]
    demand(len(changed) <= 1, f"{what} lost or copied the fields {sorted(map(str, changed))}")
    for name in changed:
        old = {id(item) for item in _items(before.get(name))}
        demand(all(id(item) in old for item in _items(after.get(name))), f'{what} copied the parts in "{name}"')


def _fields(message: object) -> Mapping[str, object]:
    if isinstance(message, Mapping):
        return cast(Mapping[str, object], message)  # the fields of a message have names
    return cast(Mapping[str, object], getattr(message, "__dict__", {}))


def _items(value: object) -> Sequence[object]:
    return cast(Sequence[object], value) if isinstance(value, (list, tuple)) else ()


def _check_rewrite(message_format: MessageFormat[M], sample: M, where: str) -> None:
    pieces = tuple(message_format.read(sample))
    addresses = [
        (index, number)
        for index, piece in enumerate(pieces)
        for number, part in enumerate(piece.parts)
        if isinstance(part, (ToolCall, ToolResult))
        or (isinstance(part, Text) and piece.role in ("user", "assistant"))
        or (isinstance(part, Media) and piece.role == "user")
    ]

    for address in addresses:
        what = f"{where}: rewrite() at {address}"
        made = message_format.rewrite(sample, _new_texts(pieces, [address]))
        _check_rewritten(pieces, tuple(message_format.read(made)), [address], what)
        lost = sorted(
            name for name, value in _fields(sample).items() if value is not None and name not in _fields(made)
        )
        demand(not lost, f"{what} lost the fields {lost}")

    if len(addresses) > 1:
        made = message_format.rewrite(sample, _new_texts(pieces, addresses))
        _check_rewritten(pieces, tuple(message_format.read(made)), addresses, f"{where}: rewrite() of all")


def _new_texts(pieces: Sequence[Message], addresses: Iterable[PartAddress]) -> dict[PartAddress, str]:
    def text(address: PartAddress) -> str:
        is_call = isinstance(pieces[address[0]].parts[address[1]], ToolCall)
        return json.dumps(CALL_ARGUMENTS) if is_call else SHORTER_TEXT

    return {address: text(address) for address in addresses}


def _check_rewritten(
    before: Sequence[Message], after: Sequence[Message], addresses: Sequence[PartAddress], what: str
) -> None:
    shape = [len(piece.parts) for piece in before]
    demand([len(piece.parts) for piece in after] == shape, f"{what} changed the number of pieces or parts")

    for index, piece in enumerate(before):
        parts = list(piece.parts)
        for number, part in enumerate(parts):
            if (index, number) not in addresses:
                continue
            made = after[index].parts[number]
            if isinstance(part, ToolResult):
                parts[number] = replace(part, text=SHORTER_TEXT, media=())
            elif isinstance(part, Text | Media):
                parts[number] = Text(SHORTER_TEXT)
            elif isinstance(part, ToolCall) and isinstance(made, ToolCall):
                demand(_parse(made.arguments) == CALL_ARGUMENTS, f"{what} gave the arguments {made.arguments!r}")
                parts[number] = replace(part, arguments=made.arguments)

        wanted = replace(piece, parts=tuple(parts))
        demand(after[index] == wanted, f"{what} reads as {_short(after[index])} instead of {_short(wanted)}")


def _parse(arguments: str) -> object:
    try:
        return cast(object, json.loads(arguments))
    except ValueError:
        return None


def _check_summary(message_format: MessageFormat[M], text: str) -> None:
    pieces = tuple(message_format.read(message_format.summary(text)))
    demand(
        len(pieces) == 1 and pieces[0].role == "user" and pieces[0].parts == (Text(text),),
        f"summary({text!r}) reads as {_short(pieces)}: it must be one user message with exactly this text",
    )


# -- methods for `repair=True`


REPAIR_METHODS: Final = ("request", "answer", "drop", "rename")
RESULT_TEXT: Final = "[no result \u2702]"
CALL_ID: Final = "call_0123456789abcdef"


def _check_repairing(repairing: Watched[M], samples: Sequence[M]) -> None:
    for number, sample in enumerate(samples):
        where = repairing.where = f"sample {number} ({_short(sample)})"
        untouched = deepcopy(sample)
        _check_answers(repairing, sample, where)
        _check_drop(repairing, sample, where)
        _check_rename(repairing, sample, where)
        demand(_same(sample, untouched), f"{where}: the message itself was changed")
    for text in SUMMARY_TEXTS:
        _check_request(repairing, text)


def _list_parts(pieces: Sequence[Message]) -> list[tuple[PartAddress, Part]]:
    return [((n, index), part) for n, piece in enumerate(pieces) for index, part in enumerate(piece.parts)]


def _check_answers(repairing: Watched[M], sample: M, where: str) -> None:
    for address, call in _list_parts(repairing.read(sample)):
        if not isinstance(call, ToolCall):
            continue
        pieces = tuple(repairing.read(repairing.answer(sample, address, RESULT_TEXT)))
        results = [result for piece in pieces for result in piece.results]
        is_result = len(pieces) == 1 and pieces[0].role == "tool" and len(results) == len(pieces[0].parts) == 1
        demand(
            is_result and results[0].call_id == call.id and (results[0].text == RESULT_TEXT or bool(results[0].media)),
            f"{where}: answer() at {address} reads as {_short(pieces)}: it must be one result of the call {call.id!r}",
        )


def _check_drop(repairing: Watched[M], sample: M, where: str) -> None:
    pieces = tuple(repairing.read(sample))
    addressed = _list_parts(pieces)
    for address, part in addressed:
        if isinstance(part, ToolCall) or len(addressed) < 2:
            continue

        what = f"{where}: drop() at {address}"
        made = repairing.drop(sample, [address])
        # Neighboring pieces may have become one, so parts and their speakers are compared.
        wanted = [(pieces[n].role, other) for (n, index), other in addressed if (n, index) != address]
        found = [(piece.role, other) for piece in repairing.read(made) for other in piece.parts]
        demand(found == wanted, f"{what} reads as {_short(found)} instead of {_short(wanted)}")

        kept = {id(item) for value in _fields(sample).values() for item in _items(value)}
        new = [item for value in _fields(made).values() for item in _items(value) if id(item) not in kept]
        demand(len(new) < 2, f"{what} copied parts: only the one that contained the dropped part may be new")


def _check_rename(repairing: Watched[M], sample: M, where: str) -> None:
    pieces = tuple(repairing.read(sample))
    for address, part in _list_parts(pieces):
        if isinstance(part, ToolCall):
            renamed: Part = replace(part, id=CALL_ID)
        elif isinstance(part, ToolResult):
            renamed = replace(part, call_id=CALL_ID)
        else:
            continue

        made = tuple(repairing.read(repairing.rename(sample, {address: CALL_ID})))
        parts = list(pieces[address[0]].parts)
        parts[address[1]] = renamed
        wanted = tuple(
            replace(piece, parts=tuple(parts)) if n == address[0] else piece for n, piece in enumerate(pieces)
        )

        id_ = part.id if isinstance(part, ToolCall) else part.call_id
        demand(
            made == wanted or (id_ == "" and made == pieces),  # OpenAI's legacy function calls have no id
            f"{where}: rename() at {address} reads as {_short(made)} instead of {_short(wanted)}",
        )


def _check_request(repairing: Watched[M], text: str) -> None:
    pieces = tuple(repairing.read(repairing.request(text)))
    demand(
        pieces == (Message(role="user", parts=(Text(text),)),),
        f"request({text!r}) reads as {_short(pieces)}: it must be one user message with exactly this text, and no summary",
    )
