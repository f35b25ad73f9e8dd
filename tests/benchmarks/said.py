"""The user's constraints, which a summary must keep, and the words of refused calls, which their results tell for two summaries.

They are found by patterns of this file, not the library's.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from compaction_hooks import CompactionSettings, SummaryRequest
from tests.benchmarks.replays import ESTIMATOR, Chat, Tally, message_text

AGES = (1, 3, 10)
"""Compactions since a constraint was first summarized."""
CARRIED = 2
"""The most summaries that have the words of a refusal."""
SHARE = 0.25
"""The part of the target up to which all constraints must be kept."""

_CARELESS = (
    "## Goal\n- go on\n## Progress\n- [x] worked\n- [ ] more\n### Blocked\n(none)\n"
    "## Key Decisions\n(none)\n## Next Steps\n(none)"
)
_REFUSED = re.compile(
    r"The user doesn't want to proceed with this tool use\. The tool use was rejected \(eg\. [^\n]{1,100}\)\. To tell you how to "
    r"proceed, the user said:\n"
)
_NOTE = "\n\nNote: The user's next message may contain a correction"
_CONSTRAINT = re.compile(
    r"(?:^|(?<=[.!?] ))(?:(?:[Pp]lease |[Aa]nd |[Bb]ut |[Yy]ou |[Ww]e |[Ii]t )*(?:never|always|do not|don't|must|should|make sure)"
    r"|Never|Always|Do not|Don't|Must|Make sure) [a-z][^.!?\n]{8,200}[.!?]?(?=\s|$)",
    re.MULTILINE,
)
_HARNESS = re.compile(r"\s*(?:[<\[{/#]|This session is being continued|Caveat:|Base directory)")


def forget_all(request: SummaryRequest) -> str:
    """Return the summary of a model that drops all of the user's words."""
    return request.prompt and _CARELESS


class Said:
    """The user's words in one replay."""

    def __init__(self, name: str, window: int, tally: Tally) -> None:
        self._name, self._tally = name, tally
        self._most = SHARE * CompactionSettings().budget(window).target
        self._ages = Counter[str]()
        self._refused = Counter[str]()

    def judge(self, case: tuple[object, ...], covered: Sequence[Chat], view: Sequence[Chat]) -> None:
        """Look up the words of the user in summarized messages, after one compaction."""
        shown = _plain("\n".join(map(message_text, view)))

        def count(measure: str, words: str) -> None:
            self._tally[f"{measure}{self._name}"][*case, words] = _plain(words) in shown

        for words in dict.fromkeys(words for message in covered for words in refusals(message)):
            self._refused[words] += 1
            count("words in refusals" if self._refused[words] <= CARRIED else "words in older refusals", words)
        wanted = dict.fromkeys(text for message in covered for text in constraints(message))
        self._ages.update(wanted.keys())
        if sum(map(ESTIMATOR.estimate_tokens, wanted)) > self._most:
            return
        for text in wanted:
            count("constraints", text)
            if self._ages[text] in AGES:
                count(f"constraints after {self._ages[text]}", text)


def refusals(message: Chat) -> Iterator[str]:
    """Yield the words with which the user refused a call of Claude Code."""
    if message["role"] == "tool" and (found := _REFUSED.match(text := message_text(message))):
        yield text[found.end() :].partition(_NOTE)[0].strip()


def constraints(message: Chat) -> Iterator[str]:
    """Yield sentences that begin as constraints do, in short messages: long ones are pasted, and are requests as a whole."""
    text = message_text(message) if message["role"] == "user" else ""
    if len(text) < 2_000 and "```" not in text and not _HARNESS.match(text):
        yield from (found[0].strip() for found in _CONSTRAINT.finditer(text))


def _plain(text: str) -> str:
    """Return a text without escapes and line breaks."""
    return " ".join(text.replace("\\", "").replace("‹", "<").split())
