"""Words that harnesses put into the user's messages, as data: each with the harness that writes it, read in November 2026.

A message is known by its very beginning. The same words anywhere else are the words of whoever wrote the message.
"""

from __future__ import annotations

import re

from compaction_hooks.messages import Message
from compaction_hooks.text.shortening import remove_blocks

BLOCKS = (
    # Claude Code
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
    "ide_opened_file",
    "ide_selection",
    # Cline, Roo Code
    "environment_details",
)
"""Tags around words that are never the user's, anywhere in messages and tool results."""
_NO_REQUESTS = (
    r"\[request interrupted|caveat: the messages below|base directory for this skill:",  # Claude Code
    r"/compact\b|/[\w-]+\s*$",  # commands to a host's own interface
    r"\[\w+(?: for (?:'[^'\n]{0,400}'[^\]\n]{0,400}|\d+ files))?\] result:|\[error\] you did not use a tool",  # Cline, Roo Code
    r"observation:|<returncode>",  # tool output: SWE-agent, mini-swe-agent
    r'\{\s*"type": "(?:heartbeat|login)"',  # Letta
    r"(?:(?:please )?(?:continue|go on|go ahead|proceed|keep going|carry on)|继续|繼續|请继续|续けて|weiter|continuez|continúa)"
    r"[\s.!。！]*$",  # bare calls to go on
)
_SUMMARIES = (
    r"this session is being continued from a previous conversation",  # Claude Code
    r"<(?:state_snapshot|scratchpad)>",  # Gemini CLI
    r"another language model started to solve this problem and produced a summary",  # Codex
    r"the conversation history before this point was compacted",  # pi, and views of this library
    r"\[?conversation summary|\[compacted \d+ messages|# context checkpoint",
)
_NO_REQUEST, _SUMMARY = (
    re.compile(rf"\s*(?:{'|'.join(marks)})", re.IGNORECASE) for marks in (_NO_REQUESTS, _SUMMARIES)
)
_DRAFT_TAGS = ("scratchpad", "analysis")
_DRAFT = re.compile(r"^Analysis:$.*?(?:(?=^Summary:$)|(\Z))", re.DOTALL | re.MULTILINE)
"""The notes that a model makes before its summary: Gemini CLI, Claude Code. The summary repeats them. With a group: no summary
follows."""


def strip_harness(text: str) -> str:
    """Return the text without the blocks a harness put into it."""
    if "<" in text:
        for tag in BLOCKS:
            text = remove_blocks(text, tag)
    return text.strip("\r\n")


def is_request(text: str) -> bool:
    """Return whether a user message is a request: not a bare "continue", not a marker of the harness."""
    return bool(text.strip()) and not _NO_REQUEST.match(text)


def is_foreign_summary(text: str) -> bool:
    """Return whether a text is a summary that another system, or an earlier run of this one, left in the conversation."""
    return _SUMMARY.match(text) is not None


def is_summary_message(message: Message) -> bool:
    """Return whether a message of the user is a summary: marked by the host or known by its first words."""
    return message.role == "user" and (message.is_summary or is_foreign_summary(strip_harness(message.text)))


def without_draft(summary: str) -> str:
    """Return another system's summary without the notes that its model made before.

    >>> without_draft("This session is being continued ...\\n\\nAnalysis:\\nThe user asked ...\\n\\nSummary:\\n1. Primary Request")
    'This session is being continued ...\\n\\nSummary:\\n1. Primary Request'
    """
    for tag in _DRAFT_TAGS:
        summary = remove_blocks(summary, tag)
    return _DRAFT.sub(lambda draft: "" if draft[1] is None else draft[0], summary)
