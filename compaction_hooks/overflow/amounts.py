"""The numbers in a sentence about overflow: the limit, the size of the request, or neither."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from compaction_hooks.overflow.words import Word

_Role: TypeAlias = Literal["limit", "total", "output", "excess"] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """The amounts of a statement, in tokens; None for an amount that it does not state.

    Attributes:
        limit: The most that the model or the endpoint accepts.
        total: The size of the request: input and requested output together if both are stated, else the input.
        input: The input's part of `total`.
        output: The requested output's part of `total`.
        is_lower_bound: Whether the provider stopped counting, so that `total` is "at least" that much.
        begins_with_output: Whether the output is named before the input, as in a complaint about the output.
    """

    limit: int | None = None
    total: int | None = None
    input: int | None = None
    output: int | None = None
    is_lower_bound: bool = False
    begins_with_output: bool = False

    @property
    def fullness(self) -> int:
        """The number of stated amounts, 0 to 3; the limit counts double, since it tells the window."""
        return 2 * (self.limit is not None) + (self.total is not None)


NOTHING: Final = Amounts()


def read_amounts(words: list[Word], source: str) -> Amounts:
    """Return the amounts in these words, one statement of a few sentences, taken from `source`.

    Return no amounts if the unit is not tokens, or if limit and total contradict an overflow.
    """
    letters = "".join(word.tag for word in words)
    if not set("TC") & set(letters) and (set("bB") & set(letters) or "I" not in letters):
        return NOTHING
    if _is_code(words, letters, source):
        return NOTHING
    return _Reader(words, letters, source).read()


def _is_code(words: list[Word], letters: str, source: str) -> bool:
    """Return whether the only number is an error code: MiniMax and Zhipu end their sentence in "(2013)", without a unit."""
    if letters.count("N") != 1 or "T" in letters:
        return False
    start = words[letters.index("N")].start
    return source[start - 1 : start] == "(" and letters.rstrip(".").endswith("N")


class _Reader:
    """Reader of the words in order; `role` is the kind of amount that the words before a number announce."""

    def __init__(self, words: list[Word], letters: str, source: str) -> None:
        self.words, self.letters, self.source = words, letters, source
        self.role: _Role = None
        self.names_input = self.is_lower_bound = self.begins_with_output = False

        self.limits: list[int] = []
        self.totals: list[int] = []
        self.inputs: list[int] = []
        self.outputs: list[int] = []
        self.unnamed: list[int] = []

    def read(self) -> Amounts:
        for place, word in enumerate(self.words):
            if word.tag in "NU":
                self._assign(place, word)
                self.role, self.names_input = None, False
            else:
                self._listen(word.tag, self.letters[place - 1 : place])
        return self._amounts()

    def _listen(self, tag: str, before: str) -> None:
        """Update the role of the next number from one word and the tag before it."""
        if tag in ".,":
            self.role, self.names_input = None, False
        elif tag in "MXGQ":
            self.role = "limit"
        elif tag in "Cc":  # but "input sequence length M exceeds", "requires a sequence length of M"
            is_total = self.role == "total" and (self.names_input or before == "D")
            self.role = "total" if is_total else "limit"
        elif tag == "Y":
            self.role = "excess"
        elif tag in "VD" and before != "M":  # but "maximum total tokens N"
            self.role = "total"
        elif tag in "xy" and self.role != "output":  # "does not fit into a window of N"
            self.role, self.names_input = "total", False
        elif tag == "O" and not self.names_input:
            self.role = "output"
        elif tag == "I":
            self.role = self.role if self.role in ("limit", "excess") else "total"
            self.names_input = True
        elif tag in "RT":
            self.role = self.role or "total"

    def _assign(self, place: int, word: Word) -> None:
        """Add one number to its list; words behind it ("N maximum", "N in the completion") win over words before it."""
        after, before = self.letters[place + 1 :], self.letters[place - 1 : place]
        label = self._find_label(place)

        if after[:1] in ("B", "b", "u", "Z") or self.role == "excess" or before == "+":
            return
        if after[:2] == "+N":
            second = self.words[place + 2].value
            self.inputs.append(word.value)
            self.outputs.append(second)
            self.totals.append(word.value + second)
        elif after.lstrip("TIRL")[:2] == "XN":
            self.totals.append(word.value)
        elif label in ("M", "C") or word.tag == "U":
            self.limits.append(word.value)
        elif label == "O" and before not in ("", "."):
            self._assign_output(word.value)
        elif label == "I" and self.role != "limit" and before not in ("", ".", ","):
            self.inputs.append(word.value)
            self.is_lower_bound |= before == "A"
        elif label in ("V", "D") and before not in ("", "."):
            self.totals.append(word.value)
        elif self.role == "limit":
            self.limits.append(word.value)
        elif self.role == "output":
            self._assign_output(word.value)
        elif self.role == "total" or after.lstrip("T")[:1] in ("X", "x"):
            self.totals.append(word.value)
            self.is_lower_bound |= before == "A"
        elif after[:1] == "T":  # "cannot encode M tokens": a verb without a tag
            self.unnamed.append(word.value)

    def _find_label(self, place: int) -> str:
        """Return the tag behind the number at `place` that names it; "" if the tag names the next number or statement."""
        after = self.letters[place + 1 :]
        label = after.lstrip("TRL") if after[:1] in ("T", "R") else after
        label_place = place + 1 + len(after) - len(label)
        if not label or (label[1:2] in ("N", "U") and label[2:3] not in ("I", "O")):
            return ""
        return "" if ":" in self.source[self.words[place].end : self.words[label_place].start] else label[0]

    def _assign_output(self, value: int) -> None:
        self.begins_with_output |= not (self.totals or self.inputs)
        self.outputs.append(value)

    def _amounts(self) -> Amounts:
        limit, output = _first_positive(self.limits), _first_positive(self.outputs)
        total, input_tokens = _first_positive(self.totals), _first_positive(self.inputs)

        if total is None and input_tokens is not None:
            total = input_tokens + (output or 0)
        if total is None:
            total = _first_positive(self.unnamed)
        if total is None and "b" not in self.letters and len(self.limits) > 1 and self.limits[0] > self.limits[1]:
            total, limit = self.limits[0], self.limits[1]

        if limit is not None and total is not None and total < limit:
            return NOTHING
        return Amounts(
            limit=limit,
            total=total,
            input=input_tokens,
            output=output,
            is_lower_bound=self.is_lower_bound,
            begins_with_output=self.begins_with_output,
        )


def _first_positive(values: list[int]) -> int | None:
    return next(filter(None, values), None)
