"""The promises about a view, checked against the host's list."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, Literal, TypeAlias

from compaction_hooks import Message, MessageFormat
from compaction_hooks.messages import (
    M,
    Media,
    NativeSummary,
    Part,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    as_format,
    is_blank,
)
from compaction_hooks.validity import binds_reasoning, is_reasoning, provider_of, worsened

Promise: TypeAlias = Literal[
    "fits",
    "valid",
    "smaller",
    "same objects",
    "host list unchanged",
    "current request",
    "system messages",
    "pins",
    "deterministic",
    "idempotent",
    "stable prefix",
    "calm",
    "summarized once",
    "loss",
]
"""The promises about every view, in the words of the README and the architecture."""

_SHORTENED: Final = "characters left out"
"""Part of every shortened text."""
_LEFT_OUT: Final = "[Left out, the request was too large with it: "
"""How the placeholder of an image, a document or a sound begins."""


class BrokenPromise(AssertionError):  # noqa: N818 - a failed assertion, as tests raise them, not an error of the package
    """A promise of this library is broken.

    Attributes:
        promise: The broken promise.
    """

    def __init__(self, promise: Promise, text: str) -> None:
        super().__init__(f"{promise}: {text}")
        self.promise: Promise = promise


def demand(holds: object, promise: Promise, text: str) -> None:
    """Raise `BrokenPromise` unless `holds` is true."""
    if not holds:
        raise BrokenPromise(promise, text)


def check_view(
    messages: Sequence[M],
    view: Sequence[M],
    *,
    format: MessageFormat[M],
    summaries: Collection[str] = (),
    model: str | None = None,
) -> None:
    """Check that a view is valid and has all required parts of a list: system messages, summary, pins, the newest messages.

    Args:
        messages: The host's list.
        view: The view to check.
        format: The format of both; its name selects the provider whose rules apply, else all rules apply.
        summaries: Texts of summary messages (`CompactionRecord.rendered`).
        model: The model of the view. If it binds reasoning, kept messages may be without theirs. The rules for reasoning are those
            of the model's family (`validity.problems`).

    Raises:
        BrokenPromise: a system message or the current request is missing or changed; kept messages are not the host's own
            objects in their order; a message is neither the host's nor a summary; a provider rejects more than in `messages`; a
            message has a part of its reasoning, or an item of OpenAI Responses its id and not the reasoning before it; a summary
            of the provider's own that must be first is not, or there are several.
    """
    _check_natives(messages, view, format)
    host, shown = ([one for one in listed if not is_native(one, format)] for listed in (messages, view))
    _Comparison(host, shown, format, summaries, model, is_cut=len(host) > 0 and host[-1] is not messages[-1]).check()


def is_native(message: M, format: MessageFormat[M]) -> bool:
    """Return whether a message has a summary of the provider's own that must be first in a request."""
    parts = [part for piece in format.read(message) for part in piece.parts]
    return any(isinstance(part, NativeSummary) and part.is_first for part in parts)


def _check_natives(messages: Sequence[M], view: Sequence[M], format: MessageFormat[M]) -> None:
    shown = [place for place, message in enumerate(view) if is_native(message, format)]
    if list(view) == list(messages[: len(view)]):
        return
    systems = next((n for n, one in enumerate(view) if any(piece.role != "system" for piece in format.read(one))), 0)
    demand(shown in ([], [0], [systems]), "same objects", f"summaries of the provider's own are at {shown} of the view")
    unknown = [place for place in shown if not any(view[place] is message for message in messages)]
    demand(not unknown, "same objects", "a summary of the provider's own is not the host's object")


@dataclass(slots=True)
class _Comparison(Generic[M]):
    """A list and its view, without summaries of the provider's own.

    Attributes:
        is_cut: Whether such a summary is the newest message, so that it may stand for all others.
    """

    messages: Sequence[M]
    view: Sequence[M]
    format: MessageFormat[M]
    summaries: Collection[str]
    model: str | None
    is_cut: bool

    def check(self) -> None:
        host = [self.format.read(message) for message in self.messages]
        shown = [self.format.read(message) for message in self.view]
        broken = worsened(_flat(host), _flat(shown), provider_of(self.format), model=self.model)
        demand(not broken, "valid", str(broken[:3]))
        self._check_reasoning(host, shown)
        self._check_systems(host, shown)
        request = self._request(host)
        if request is not None:
            self._check_request(host[request[0]][request[1]], request[0], shown)
        self._check_kept(host, shown, request)

    def _check_reasoning(self, host: Sequence[Sequence[Message]], shown: Sequence[Sequence[Message]]) -> None:
        """Check that each message has all its reasoning or none, and that no item of Responses names reasoning that is missing."""
        whole = {_reasoning(pieces) for pieces in host}
        for at, pieces in enumerate(shown):
            demand(_reasoning(pieces) in {*whole, ()}, "valid", f"message {at} of the view has a part of its reasoning")

        form = as_format(self.format)
        if form.provider != "openai_responses":
            return

        there = {id(message) for message in self.view}
        missing = False
        for message, pieces in zip(self.messages, host, strict=True):
            if pieces[0].role != "assistant":
                missing = False
            elif _reasoning(pieces):
                missing = id(message) not in there
            else:
                is_lone = missing and id(message) in there and form.untie(message) is not message
                demand(
                    not is_lone, "valid", f"an item is shown with its id, and without its reasoning: {pieces!r:.200}"
                )

    def _check_systems(self, host: Sequence[Sequence[Message]], shown: Sequence[Sequence[Message]]) -> None:
        wanted = [piece for piece in _flat(host) if piece.role == "system"]
        found = [piece for piece in _flat(shown) if piece.role == "system"]
        demand(wanted == found, "system messages", f"{len(found)} are shown of {len(wanted)}, or changed")

    def _request(self, host: Sequence[Sequence[Message]]) -> tuple[int, int] | None:
        """Return the indexes of the current request: host message and piece."""
        spoken = [(i, n) for i, pieces in enumerate(host) for n, piece in enumerate(pieces) if piece.role != "system"]
        if spoken and host[spoken[0][0]][spoken[0][1]].text in self.summaries:
            spoken.pop(0)
        asked = [(i, n) for i, n in spoken if host[i][n].role == "user" and _says_something(host[i][n])]
        return asked[-1] if asked else None

    def _check_request(self, request: Message, place: int, shown: Sequence[Sequence[Message]]) -> None:
        if not any(message is self.messages[place] for message in self.view):
            is_alone = len(self.format.read(self.messages[place])) == 1
            demand(not is_alone, "current request", "is not in the view as the object it was")
            is_shown = any(_has_in_row(pieces, request) for pieces in shown)
            demand(is_shown, "current request", "is not in the view word for word")

    def _check_kept(
        self, host: Sequence[Sequence[Message]], shown: Sequence[Sequence[Message]], request: tuple[int, int] | None
    ) -> None:
        """Check from the end: each message of the view is the host's or its reduced copy; pins come before."""
        place, at = len(host), len(shown)
        while place and at:
            asked = request[1] if request is not None and request[0] == place - 1 else None
            original = _without_reasoning(host[place - 1]) if self._lacks_reasoning(shown[at - 1]) else host[place - 1]
            if self.view[at - 1] is self.messages[place - 1] or _is_copy_of(shown[at - 1], original, asked):
                at -= 1
            elif not self._may_be_left_out(host[place - 1]):
                break
            place -= 1

        demand(at < len(shown) or not host or self.is_cut, "same objects", "the newest message is missing")
        self._check_head(host, shown, at, place, request)

    def _may_be_left_out(self, pieces: Sequence[Message]) -> bool:
        """Return whether a message holds reasoning and nothing else, and the model refuses it."""
        parts = [part for piece in pieces for part in piece.parts]
        return binds_reasoning(self.model) and all(is_reasoning(part) or is_blank(part) for part in parts)

    def _lacks_reasoning(self, shown: Sequence[Message]) -> bool:
        return binds_reasoning(self.model) and not _reasoning(shown)

    def _check_head(
        self,
        host: Sequence[Sequence[Message]],
        shown: Sequence[Sequence[Message]],
        end: int,
        host_end: int,
        request: tuple[int, int] | None,
    ) -> None:
        """Check the messages before the newest ones: system messages, then one summary, then pins in their order.

        Older messages and pieces of the current request may be shortened.
        """
        places: dict[int, list[int]] = {}
        for place, message in enumerate(self.messages):
            places.setdefault(id(message), []).append(place)

        last_system = last_pin = -1
        has_summary = False
        for at in range(end):
            pieces = shown[at]
            is_system = all(piece.role == "system" for piece in pieces)
            after = last_system if is_system else last_pin
            found = next((p for p in places.get(id(self.view[at]), ()) if p > after), None)
            if found is None:
                found = next((p for p in range(after + 1, len(host)) if _is_part(pieces, host[p])), None)
            text = pieces[0].text if len(pieces) == 1 else ""
            if found is None and request is not None and text not in self.summaries:
                asked = {request[0]: request[1]}
                older = range(after + 1, request[0] + 1)
                found = next((p for p in older if _is_reduced_part(pieces, host[p], asked.get(p))), None)

            if is_system:
                demand(found is not None, "system messages", "one of them is in another order")
                last_system = found if found is not None else last_system
            elif found is not None:
                demand(found < host_end, "same objects", f"message {found} is shown twice")
                last_pin = found
            else:
                demand(
                    text in self.summaries,
                    "same objects",
                    f"message {at} of the view is neither the host's nor a summary: {pieces!r:.300}",
                )
                demand(not has_summary and last_pin < 0, "same objects", "the summary is not first")
                has_summary = True


def _reasoning(pieces: Sequence[Message]) -> tuple[Part, ...]:
    return tuple(part for piece in pieces for part in piece.parts if is_reasoning(part))


def _without_reasoning(pieces: Sequence[Message]) -> list[Message]:
    return [replace(one, parts=tuple(part for part in one.parts if not is_reasoning(part))) for one in pieces]


def _is_copy_of(shown: Sequence[Message], original: Sequence[Message], asked: int | None) -> bool:
    """Whether a message is a copy with fewer pieces or shorter parts; `asked` is the index of the request's piece."""
    if len(shown) < len(original):
        return _is_part(shown, original)
    return len(shown) == len(original) and all(
        _is_reduced(_parts([one]), _parts([other]), number == asked)
        for number, (one, other) in enumerate(zip(shown, original, strict=True))
    )


def _flat(pieces: Sequence[Sequence[Message]]) -> list[Message]:
    return [piece for several in pieces for piece in several]


def _parts(pieces: Sequence[Message]) -> list[tuple[Role, Part]]:
    """Return the parts with their speakers: neighboring pieces of one speaker may be read as one."""
    return [(piece.role, part) for piece in pieces for part in piece.parts]


def _has_in_row(pieces: Sequence[Message], piece: Message) -> bool:
    there, wanted = _parts(pieces), _parts([piece])
    return any(there[at : at + len(wanted)] == wanted for at in range(len(there)))


def _says_something(message: Message) -> bool:
    return any(not isinstance(part, Thinking) and part != Text("") for part in message.parts)


def _is_part(some: Sequence[Message], whole: Sequence[Message]) -> bool:
    """Whether `some` is a proper part of `whole`, part by part, word for word, in the same order."""
    wanted, there = _parts(some), _parts(whole)
    rest = iter(there)
    return 0 < len(wanted) < len(there) and all(part in rest for part in wanted)


def _is_reduced_part(some: Sequence[Message], whole: Sequence[Message], asked: int | None) -> bool:
    """Whether `some` are pieces of `whole`, in the same order, with shorter parts; `asked` is as in `_is_copy_of`."""
    shown, ends = _parts(some), {0}  # the parts that some of the pieces so far explain
    for number, piece in enumerate(whole):
        size = len(piece.parts)
        ends |= {end + size for end in ends if _is_reduced(shown[end : end + size], _parts([piece]), number == asked)}
    return len(shown) in ends


def _is_reduced(shown: Sequence[tuple[Role, Part]], original: Sequence[tuple[Role, Part]], is_request: bool) -> bool:
    return len(shown) == len(original) and all(
        role == of_role
        and _is_shorter(one, other, role in ("user", "assistant") and not (is_request and role == "user"))
        for (role, one), (of_role, other) in zip(shown, original, strict=True)
    )


def _is_shorter(shown: Part, original: Part, may_shorten: bool) -> bool:
    match shown, original:
        case ToolResult(), ToolResult():
            is_less = len(shown.text) <= len(original.text) or not shown.media
            return shown.call_id == original.call_id and shown.name == original.name and is_less
        case ToolCall(), ToolCall():
            return (shown.id, shown.name) == (original.id, original.name)
        case Text(), Text():
            is_shortened = may_shorten and _SHORTENED in shown.text and len(shown.text) < len(original.text)
            return shown == original or is_shortened
        case Text(), Media():
            return may_shorten and shown.text.startswith(_LEFT_OUT)
        case _:
            return shown == original
