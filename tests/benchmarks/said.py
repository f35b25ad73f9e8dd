"""The user's words that compactions keep: constraints, and the words with which a call was refused: a table of docs/probes.md.

    python -m tests.benchmarks.said [FOLDER] [--windows 16000 32000 64000 128000 200000]

Replays every recorded conversation call by call, with the default summarizer and with a model that drops all of it. After each
compaction the user's words in the summarized messages are looked up in summary and pins. Constraints count as long as all so far
take at most a quarter of the target. They are found by a pattern of this file, not the library's.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from compaction_hooks import (
    CompactionController,
    CompactionFinished,
    CompactionSettings,
    ContextOverflowError,
    Summarizer,
)
from tests.benchmarks.recall import (
    ESTIMATOR,
    NEVER_DUE,
    Chat,
    Counts,
    conversations,
    interval,
    make_parser,
    message_text,
)
from tests.benchmarks.tables import print_table

CARELESS = (
    "## Goal\n- go on\n## Progress\n- [x] worked\n- [ ] more\n### Blocked\n(none)\n"
    "## Key Decisions\n(none)\n## Next Steps\n(none)"
)
SUMMARIZERS: dict[str, Summarizer | None] = {
    "default": None,
    "a careless model": lambda request: request.prompt and CARELESS,
}
AGES = (1, 3, 10)
"""Compactions since a constraint was first summarized."""
SHARE = 0.25
"""The part of the target up to which all constraints must be kept."""

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


def refusals(message: Chat) -> Iterator[str]:
    """Yield the words with which the user refused the call that a message answers."""
    text = message_text(message) if message["role"] == "tool" else ""
    if found := _REFUSED.match(text):
        yield text[found.end() :].partition(_NOTE)[0].strip()


def constraints(message: Chat) -> Iterator[str]:
    """Yield sentences that begin as constraints do, in short messages: long ones are pasted, and are requests as a whole."""
    text = message_text(message) if message["role"] == "user" else ""
    if len(text) < 2_000 and "```" not in text and not _HARNESS.match(text):
        yield from (found[0].strip() for found in _CONSTRAINT.finditer(text))


def plain(text: str) -> str:
    """Return a text without escapes and line breaks."""
    return " ".join(text.replace("\\", "").replace("‹", "<").split())


def measure(messages: list[Chat], window: int, summarizer: Summarizer | None) -> Counts:
    """Replay one conversation, and look up the user's words after each compaction."""
    counts, ages = Counts(), Counter[str]()
    events: list[Any] = []
    hooks = CompactionController(context_window=window, summarizer=summarizer, on_event=events.append)
    session = hooks.session("said")
    most = SHARE * CompactionSettings().budget(window).target
    for index in (index for index, message in enumerate(messages) if index and message["role"] == "assistant"):
        view = session.transform_context_sync(messages[:index])
        records = [event.record for event in events if isinstance(event, CompactionFinished)]
        events.clear()
        if records and records[-1].rendered:
            _judge(messages[: records[-1].compacted_message_count], view, ages, most, counts)
    return counts


def _judge(covered: Sequence[Chat], view: Sequence[Chat], ages: Counter[str], most: float, counts: Counts) -> None:
    shown = plain("\n".join(map(message_text, view)))
    for words in (words for message in covered for words in refusals(message)):
        counts.add("words in refusals", plain(words) in shown)
    wanted = dict.fromkeys(text for message in covered for text in constraints(message))
    ages.update(wanted.keys())
    if sum(map(ESTIMATOR.estimate_tokens, wanted)) <= most:
        for text in wanted:
            counts.add("constraints", plain(text) in shown)
            if ages[text] in AGES:
                counts.add(f"after {ages[text]}", plain(text) in shown)


def main() -> None:
    logging.getLogger("compaction_hooks").setLevel(logging.CRITICAL)
    chosen = make_parser(__doc__ or "").parse_args()
    results: dict[str, list[Counts]] = {}
    for _, messages in conversations(chosen.folder, chosen.half):
        if not any(True for message in messages for _ in (*refusals(message), *constraints(message))):
            continue
        tokens = sum(ESTIMATOR.estimate_tokens(message_text(message)) for message in messages)
        for window in chosen.windows:
            for name, summarizer in SUMMARIZERS.items() if tokens >= NEVER_DUE * window else ():
                try:
                    results.setdefault(f"{name}, {window:,}", []).append(measure(messages, window, summarizer))
                except ContextOverflowError:
                    continue
    rows = ("words in refusals", "constraints", *(f"after {age}" for age in AGES))
    print_table(
        ("", *rows),
        (
            (title, *(f"{interval(column, row)}, n = {sum(c.all[row] for c in column)}" for row in rows))
            for title, column in results.items()
        ),
    )


if __name__ == "__main__":
    main()
