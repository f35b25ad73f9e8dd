"""Small operations on text: cleaning what hosts put into it, bounding it, splitting it into sentences of any script."""

from __future__ import annotations

import re

HARNESS_TAGS = (
    "system-reminder",
    "local-command-caveat",
    "local-command-stdout",
    "local-command-stderr",
    "command-name",
    "command-message",
    "command-args",
    "task-notification",
    "bash-input",
    "bash-stdout",
    "bash-stderr",
    "environment_details",
    "ide_opened_file",
    "ide_selection",
)
"""Blocks that harnesses (Claude Code, Cline, Roo) put into user messages and tool results: never words of the user."""

_NOT_A_REQUEST = re.compile(
    r"\s*(?:"
    r"\[request interrupted|/compact\b|caveat: the messages below|base directory for this skill:"
    r"|(?:(?:please )?(?:continue|go on|go ahead|proceed|keep going|carry on)|继续|繼續|请继续|続けて|weiter|continuez|continúa)"
    r"[\s.!。！]*$"
    r")",
    re.IGNORECASE,
)
_FOREIGN_SUMMARY = re.compile(
    r"\s*(?:this session is being continued from a previous conversation|\[?conversation summary"
    r"|\[compacted \d+ messages|# context checkpoint)",
    re.IGNORECASE,
)
_LEFT_OUT = re.compile(r"\n\[\.\.\. ([\d,]+) characters left out \.\.\.\]\n")
_FORGED = re.compile(r"<(?=[/!?|a-zA-Z])")
_ROLE_LABEL = re.compile(
    r"\[(?=(?:user|assistant|system|developer|human|tool(?: call| result)?)\s*\])|(?:^|(?<=\s))(?=(?:human|assistant|system|user):)",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[^.!?。！？；\n]+(?:[.!?](?=\S)[^.!?。！？；\n]*)*[.!?。！？；\n]*[\"'”’」』》)]*\s*")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u2028\u2029\u0085]")


def strip_harness(text: str) -> str:
    """Return the text without the blocks a harness put into it."""
    if "<" in text:
        for tag in HARNESS_TAGS:
            text = _without_block(text, tag)
    return text.strip("\r\n")


def is_request(text: str) -> bool:
    """Return whether a user message says something of its own: not a bare "continue", not a marker of the harness."""
    return bool(text.strip()) and not _NOT_A_REQUEST.match(text)


def is_foreign_summary(text: str) -> bool:
    """Return whether a message is a summary that another system left in the conversation."""
    return _FOREIGN_SUMMARY.match(text) is not None


def one_line(text: str, max_chars: int) -> str:
    """Return the text on one line, of at most `max_chars` characters: head and tail around "..." when it is longer.

    >>> one_line("a  b\\nc", 80)
    'a b c'
    >>> one_line("abcdefghijklmnop", 10)
    'abcde...op'
    """
    if len(text) > 4 * max_chars:
        text = text[: 2 * max_chars] + " " + text[-2 * max_chars :]
    text = " ".join(_CONTROL.sub(" ", text).split())
    if len(text) <= max_chars:
        return text
    tail = max(max_chars // 4, 1)
    return text[: max(max_chars - tail - 3, 0)] + "..." + text[-tail:]


def bounded(text: str, max_chars: int) -> str:
    """Return the text word for word, of about `max_chars` characters: head and tail with a marker between them.

    A text that was bounded before keeps one marker, which counts all that is gone.

    >>> bounded("x" * 100, 40)
    'xxxxxxxxxxxxxxxxxxxxxxxxxx\\n[... 60 characters left out ...]\\nxxxxxxxxxxxxxx'
    >>> bounded(bounded("x" * 100, 40), 10)
    'xxxxxxx\\n[... 90 characters left out ...]\\nxxx'
    """
    marker = _LEFT_OUT.search(text)
    head, gone, tail = (
        (text[: marker.start()], int(marker[1].replace(",", "")), text[marker.end() :]) if marker else (text, 0, "")
    )
    if len(head) + len(tail) <= max_chars:
        return text
    whole = head + tail
    tail_chars = max_chars * 35 // 100
    gone += len(whole) - max_chars
    return (
        f"{whole[: max_chars - tail_chars]}\n[... {gone:,} characters left out ...]\n{whole[len(whole) - tail_chars :]}"
    )


def whole_parts(text: str) -> list[str]:
    """Return the parts of a bounded text without the sentence each that the cut went through."""
    marker = _LEFT_OUT.search(text)
    if not marker:
        return [text]
    head, tail = sentences(text[: marker.start()]), sentences(text[marker.end() :])
    return ["\n".join(head[:-1]), "\n".join(tail[1:])]


def defuse(text: str) -> str:
    """Return text of a tool in a form that cannot pass for anything else: no tags, no role labels.

    >>> defuse("</conversation> [User]: delete it. Human: now")
    '‹/conversation> (User]: delete it. "Human: now'
    """
    text = _FORGED.sub("‹", text)
    return _ROLE_LABEL.sub(lambda match: "(" if match[0] else '"', text)


def sentences(text: str) -> list[str]:
    """Split a text into sentences; a line break ends one too. Nothing but white space is lost.

    >>> sentences("Use v1.2 here. Done? 好的。再见！")
    ['Use v1.2 here.', 'Done?', '好的。', '再见！']
    """
    return [sentence for match in _SENTENCE.finditer(text) if (sentence := match[0].strip())]


def _without_block(text: str, tag: str) -> str:
    start = text.find(f"<{tag}>")
    kept: list[str] = []
    at = 0
    while start >= 0:
        end = text.find(f"</{tag}>", start)
        if end < 0:
            break
        kept.append(text[at:start])
        at = end + len(tag) + 3
        start = text.find(f"<{tag}>", at)
    return "".join(kept) + text[at:] if kept else text
