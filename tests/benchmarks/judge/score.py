"""The scored tokens: which they are, and their bits behind each context."""

import time
from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypedDict

from tests.benchmarks.judge.names import find_needed
from tests.benchmarks.judge.texts import CALL, Moment, Turn, joined, part_of_next, shown

SHOWN_CHARS = 60


class JudgeModel(Protocol):
    """A model that tells the bits of tokens: `LlamaModel` or `ServerModel`."""

    @property
    def name(self) -> str: ...

    @property
    def room(self) -> int: ...

    def tokenize(self, text: str, *, marks: bool = False) -> list[int]: ...

    def pieces(self, tokens: Sequence[int]) -> list[bytes]: ...

    def bits(self, tokens: Sequence[int], places: Sequence[int]) -> tuple[list[float], int]: ...


class Result(TypedDict):
    """The bits of a moment's scored tokens in one context.

    Attributes:
        front: Tokens of the context, by the judge.
        evaluated: Those that were evaluated, with the next steps.
    """

    case: str
    name: str
    front: int
    evaluated: int
    seconds: float
    bits: list[float]


class Next(NamedTuple):
    """The agent's next steps, as the judge reads them.

    Attributes:
        tokens: All tokens, those of results too.
        places: The places of the scored ones.
        scored: Of each scored token its text, "call" or "prose", and its needed name.
    """

    tokens: list[int]
    places: list[int]
    scored: list[tuple[str, str, str | None]]


class Writer:
    """Writes messages as tokens: with Gemma's marks of turns if the model has them, else with ChatML's.

    Text is never joined to a mark before it is split into tokens, so the next steps have the same tokens behind every context.
    """

    def __init__(self, model: JudgeModel) -> None:
        self.model = model
        self._is_gemma = len(model.tokenize("<start_of_turn>", marks=True)) == 1

    def parts(self, role: str, text: str) -> tuple[list[int], list[int], list[int]]:
        """Return the tokens of a message: its opening mark, its text, its closing mark."""
        name = "user" if role == "tool" else role
        opening, closing = f"<|im_start|>{name}\n", "<|im_end|>\n"
        if self._is_gemma:
            opening, closing = f"<start_of_turn>{'model' if name == 'assistant' else 'user'}\n", "<end_of_turn>\n"
        read = self.model.tokenize
        return read(opening, marks=True), read(shown(role, text)), read(closing, marks=True)

    def tokens(self, messages: Sequence[Turn]) -> list[int]:
        """Return the tokens of a context."""
        start = self.model.tokenize("<bos>", marks=True) if self._is_gemma else []
        return start + [token for role, text in messages for part in self.parts(role, text) for token in part]


def read_next(moment: Moment, writer: Writer) -> Next:
    """Return the tokens of the agent's next steps."""
    kept, covered = joined(moment["head"] + moment["pins"] + moment["recent"]), joined(moment["covered"])
    found = Next([], [], [])
    seen = ""
    for role, text in ((role, part_of_next(role, text)) for role, text in moment["next"]):
        opening, body, closing = writer.parts(role, text)
        found.tokens.extend(opening)
        if role == "assistant":
            found.places.extend(range(len(found.tokens), len(found.tokens) + len(body)))
            names = find_needed(text, kept, covered, seen)
            found.scored.extend(_describe(text, writer.model.pieces(body), names))
        found.tokens.extend(body + closing)
        seen += f"\n{text}"
    return found


def _describe(text: str, pieces: Sequence[bytes], names: Sequence[str | None]) -> list[tuple[str, str, str | None]]:
    """Return of each token of a message its text, whether it is in a call, and its needed name."""
    in_calls = {at for call in CALL.finditer(text) for at in range(*call.span())}
    owners = [at for at, letter in enumerate(text) for _ in letter.encode("utf-8", "replace")]
    described: list[tuple[str, str, str | None]] = []
    start = 0
    for piece in pieces:
        own = owners[start : start + len(piece)]
        start += len(piece)
        kind = "call" if in_calls.intersection(own) else "prose"
        described.append(
            (piece.decode("utf-8", "replace"), kind, next((name for at in own if (name := names[at])), None))
        )
    return described


def score(case: str, name: str, front: Sequence[int], following: Next, model: JudgeModel) -> Result | None:
    """Return the result of a moment in one context; None if the model has no room for it."""
    length = len(front) + len(following.tokens)
    if length > model.room:
        print(f"{name}: {length:,} tokens, no room, left out: {case[:SHOWN_CHARS]}", flush=True)
        return None
    start = time.monotonic()
    places = [len(front) + place for place in following.places]
    bits, evaluated = model.bits([*front, *following.tokens], places)
    seconds = round(time.monotonic() - start, 1)
    print(f"{name:>16} {sum(bits):8.1f} bits, {evaluated:,} tokens in {seconds} s: {case[:SHOWN_CHARS]}", flush=True)
    return Result(
        case=case,
        name=name,
        front=len(front),
        evaluated=evaluated,
        seconds=seconds,
        bits=[round(value, 3) for value in bits],
    )
