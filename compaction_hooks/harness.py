"""Words and calls that harnesses write into messages, as data: each with the harness that writes it, read in November 2026.

A message is known by its very beginning, or by all of it. The same words anywhere else are the words of whoever wrote the message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from compaction_hooks.messages import Message, Part, Text, ToolCall, ToolResult
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
    # Gemini CLI; Codex
    "session_context",
    "environment_context",
)
"""Tags around words that are never the user's, anywhere in messages and tool results."""
_MARKERS = (
    r"\[request interrupted|caveat: the messages below|base directory for this skill:",  # Claude Code
    r"/compact\b",  # with words for the summary
    r"\[\w+(?: for (?:'[^'\n]{0,400}'[^\]\n]{0,400}|\d+ files))?\] result:|\[error\] you did not use a tool",  # Cline, Roo Code
    r"observation:|<returncode>|(?s:.*)\nbash-\$\s*$",  # tool output: SWE-agent, mini-swe-agent
    r'\{\s*"type": "(?:heartbeat|login|system_alert)"',  # Letta
    r"(?:full transcript available at|read the output file to retrieve the result): [^\n]*$",  # Claude Code, behind a notification
    r"please continue working on the task on whatever approach",  # OpenHands
    r"(?:>[^\n]*+(?:\n\s*+|$))+$",  # nothing but quotations: the output of Aider's commands
    r"(?:/(?:[\w-]++|(?:add|drop|read-only)(?: +[\w~-]*+[./]\S*+)+) *+(?:\n\s*+|$))+$",  # commands to a host's own interface: Aider
    r"###[A-Z-]+###\s*$",  # marks of tau-bench
)
_GO_ON = (
    r"(?:(?:please )?(?:continue|go on|go ahead|proceed|keep going|carry on)|继续|繼續|请继续|续けて|weiter|continuez|continúa)"
    r"[\s.!。！]*$"
)
"""A bare call to go on: an answer, but no request."""
_SUMMARIES = (
    r"this session is being continued from a previous conversation",  # Claude Code
    r"<(?:state_snapshot|scratchpad)>",  # Gemini CLI
    r"another language model started to solve this problem and produced a summary",  # Codex
    r"the conversation history before this point was compacted",  # pi, and views of this library
    r"\[?conversation summary|\[compacted \d+ messages|# context checkpoint",
)
_MARKER, _NO_REQUEST, _SUMMARY = (
    re.compile(rf"\s*+(?:{'|'.join(marks)})", re.IGNORECASE) for marks in (_MARKERS, (*_MARKERS, _GO_ON), _SUMMARIES)
)
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


def is_said(text: str) -> bool:
    """Return whether a user message is what the user said, a bare "continue" too: not a marker of the harness."""
    return bool(text.strip()) and not _MARKER.match(text)


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
    for tag in ("scratchpad", "analysis"):
        summary = remove_blocks(summary, tag)
    return _DRAFT.sub(lambda draft: "" if draft[1] is None else draft[0], summary)


_RESULT = re.compile(r"\s*\[(\w{1,60})(?: for (?:'.{0,2000}?'[^\]\n]{0,400}|\d+ files))?\] Result:\s*", re.DOTALL)
"""The beginning of the harness's message behind a call: `[read_file for 'a.py'] Result:`."""
_FAILED = "The tool execution failed with the following error:"
_ASKING = ("ask_followup_question", "attempt_completion")
"""Tools that show the user a text: their results are the user's answer, in tags."""
_ANSWERS = ("answer", "feedback", "user_message")
_OPENING = re.compile(r"<(\w{1,60})>")
_CONTAINERS = ("args", "file")
"""Tags around parameters, from outer to inner."""
_INTERRUPTED = "\n\n[Response interrupted by a tool use result."
_TODO = re.compile(r"^\[([ xX~-])\] (.+)$", re.MULTILINE)
_STATES = {" ": "pending", "x": "completed", "X": "completed"}


def read_xml_calls(messages: Sequence[Message]) -> list[Message]:
    """Return as many messages, with each call that is written as XML, and its result, as a part of its own.

    Only a call that the harness's next message answers by name is one: the same tags elsewhere are text.
    """
    read = list(messages)
    for index, (asking, answering) in enumerate(pairwise(messages)):
        if asking.role != "assistant" or answering.role != "user" or not (head := _RESULT.match(answering.text)):
            continue
        words, tag, xml = asking.text.partition(f"<{head[1]}>")
        if not tag:
            continue

        result = strip_harness(answering.text[head.end() :])
        if head[1] in _ASKING:
            read[index + 1] = _with_words(answering, Text(_read_answer(result)))
            continue

        call = ToolCall(f"xml {index}", head[1], json.dumps(_read_parameters(xml.partition(f"</{head[1]}>")[0])))
        answered = ToolResult(call.id, result, head[1], result.startswith(_FAILED))
        read[index] = _with_words(asking, Text(words), call)
        read[index + 1] = _with_words(answering, answered)
    return read


def _read_answer(result: str) -> str:
    """Return the text between the first of the tags around answers and its last end; empty if there is none."""
    answers: dict[int, str] = {}
    for tag in _ANSWERS:
        rest = result.partition(f"<{tag}>\n")[2]
        words, closing, _ = rest.rpartition(f"\n</{tag}>")
        answers |= {len(rest): words} if closing else {}
    return answers[max(answers)] if answers else ""


def _with_words(message: Message, *parts: Part) -> Message:
    """Return the message with other parts in the place of its texts."""
    return replace(message, parts=(*parts, *(part for part in message.parts if not isinstance(part, Text))))


def _read_parameters(xml: str, depth: int = 0) -> dict[str, object]:
    """Return the parameters by name; the last one of an interrupted call may have no end."""
    parameters: dict[str, object] = {}
    at = 0

    while opening := _OPENING.search(xml, at):
        name = opening[1]
        end = xml.find(f"</{name}>", opening.end())
        value = xml[opening.end() : end] if end >= 0 else xml[opening.end() :].partition(_INTERRUPTED)[0]
        at = end if end >= 0 else len(xml)

        if name in _CONTAINERS[depth:]:
            parameters.update(_read_parameters(value, depth + 1))
        else:
            parameters[name] = _read_todos(value) or value.strip("\r\n")
    return parameters


def _read_todos(value: str) -> list[dict[str, str]]:
    return [{"content": text, "status": _STATES.get(mark, "in_progress")} for mark, text in _TODO.findall(value)]
