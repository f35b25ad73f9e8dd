"""The message of a summary: its text, written and read, and the row of messages behind it that some providers want as one."""

from __future__ import annotations

from collections.abc import Sequence

from compaction_hooks.history.digests import message_digest, text_digest
from compaction_hooks.history.history import Known
from compaction_hooks.messages import Format, M, Message, Text, can

PROMPT_VERSION = 6
"""The version of the texts here and of a summarizer's prompts; every record has it."""

SUMMARY_MARKER = "[Conversation summary]"
"""The beginning of every rendered summary."""


_PREFACE = (
    "The conversation history before this point was compacted into the summary below. It is a record, not a request."
)


_CONTINUATION = (
    "The messages after this summary are the latest ones. Go on from where they end: what is done stays done, "
    "and the summary needs no answer."
)


_RECALL = (
    "The messages that the summary covers can be read again: the recall tool finds them by their words, such as names, paths "
    "and errors."
)


_PREFIXES = (
    "[Conversation summary",
    "The conversation history before this point was compacted",
    "This session is being continued from a previous conversation",
    "Another language model started to solve this problem and produced a summary",
    "Here is a summary of the conversation to date:",
)
"""The beginnings of summaries: ours, Opal's and many more; pi's and klaude-code's; Claude Code's; Codex's; LangChain's."""


_OPEN, _CLOSE = "<summary>\n", "\n</summary>"


def render_summary(
    summary: str, *, file_tags: str, continuation: bool, covered: int, unseen: int, has_recall: bool = False
) -> str:
    """Return the text of a summary's message.

    Args:
        summary: Escaped here, so that it can neither close its tag nor pose as another summary.
        file_tags: The lists of read and modified files, appended as they are; empty for none.
        continuation: Whether to end with a line that tells the model to go on.
        covered: Host messages that it covers.
        unseen: The part of these that no summarizer read; mentioned if above zero.
        has_recall: Whether to say that the recall tool reads them again.
    """
    from compaction_hooks.text.escaping import neutralize  # its patterns are long to compile

    excerpts = f"; of {unseen:,} of them only excerpts, not shown to the summarizer" if unseen else ""
    count = f"[The summary covers {covered:,} message{'' if covered == 1 else 's'}{excerpts}]"
    blocks = [f"{SUMMARY_MARKER}\n{_PREFACE}", f"{_OPEN}{neutralize(summary.strip())}{_CLOSE}", count]
    if file_tags:
        blocks.append(file_tags)
    if has_recall:
        blocks.append(_RECALL)
    if continuation:
        blocks.append(_CONTINUATION)
    return "\n\n".join(blocks)


def parse_summary(text: str) -> str | None:
    """Return the summary inside a rendered one, or inside one that another system rendered; None for any other text.

    The summary comes back stripped and escaped, as it was shown to the model; rendering it again changes nothing more.
    For another system's text without `<summary>` tags, return the text after its first line, or a single line whole.
    """
    if not text.startswith(_PREFIXES):
        return None
    start, end = text.find(_OPEN), text.rfind(_CLOSE)
    if start >= 0 and end >= start:
        return text[start + len(_OPEN) : end].strip()
    first_line, _, rest = text.partition("\n")
    return rest.strip() or first_line


def join_rows(view: list[M], format: Format[M]) -> list[M]:
    """Return a view as the format's provider takes it: the very list if the provider takes messages in a row."""
    from compaction_hooks.validity import needs_merging  # its rules are needed only after a compaction

    return format.merge(view) if needs_merging(format) else view


def part_row(message: M, format: Format[M], known: Known) -> list[M]:
    """Return our summary, its pins and the words behind them, which `join_rows` wrote as one message; else that message alone.

    Only by itself is a summary recognized, and the message behind it the user's request.
    """
    first, *later = format.read(message)
    if later or first.role != "user" or len(first.parts) < 2 or not can(format, "drop"):
        return [message]
    summary = first.parts[0]
    if not isinstance(summary, Text) or not summary.text.startswith(SUMMARY_MARKER):
        return [message]
    from compaction_hooks.validity import needs_merging  # its rules are needed only after a compaction

    if not needs_merging(format):
        return [message]
    origin = known.origins.get(text_digest(summary.text))
    starts = [0, 1, *_pin_ends(first, origin.pins if origin else ())]
    spans = [
        range(start, end) for start, end in zip(starts, [*starts[1:], len(first.parts)], strict=True) if start < end
    ]
    addresses = [(0, index) for index in range(len(first.parts))]
    return [format.drop(message, [one for one in addresses if one[1] not in span]) for span in spans]


def _pin_ends(message: Message, pins: Sequence[str]) -> list[int]:
    """Return for each pin that follows the summary the index of the first part behind it."""
    parts, ends = message.parts, [1]
    for pin in pins:
        tries = range(ends[-1] + 1, len(parts) + 1)
        pinned = (end for end in tries if pin == message_digest(Message(role="user", parts=parts[ends[-1] : end])))
        end = next(pinned, None)
        if end is None:
            break
        ends.append(end)
    return ends[1:]
