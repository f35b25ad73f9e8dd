"""Calls that agents write as XML into their answers, read as calls with results: Cline and Roo Code, for models without tools."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from compaction_hooks.messages import Message, Part, Text, ToolCall, ToolResult
from compaction_hooks.summary.harness import strip_harness

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
        said, tag, xml = asking.text.partition(f"<{head[1]}>")
        if not tag:
            continue
        result = strip_harness(answering.text[head.end() :])
        if head[1] in _ASKING:
            read[index + 1] = _with_words(answering, Text(_read_answer(result)))
            continue
        call = ToolCall(f"xml {index}", head[1], json.dumps(_read_parameters(xml.partition(f"</{head[1]}>")[0])))
        answered = ToolResult(call.id, result, head[1], result.startswith(_FAILED))
        read[index] = _with_words(asking, Text(said), call)
        read[index + 1] = _with_words(answering, answered)
    return read


def _read_answer(result: str) -> str:
    """Return the text between the first of the tags around answers and its last end; empty if there is none."""
    found: dict[int, str] = {}
    for tag in _ANSWERS:
        rest = result.partition(f"<{tag}>\n")[2]
        words, closing, _ = rest.rpartition(f"\n</{tag}>")
        found |= {len(rest): words} if closing else {}
    return found[max(found)] if found else ""


def _with_words(message: Message, *parts: Part) -> Message:
    """Return the message with other parts in the place of its texts."""
    return replace(message, parts=(*parts, *(part for part in message.parts if not isinstance(part, Text))))


def _read_parameters(xml: str, depth: int = 0) -> dict[str, object]:
    """Return the parameters by name; the last one of an interrupted call may have no end."""
    found: dict[str, object] = {}
    at = 0
    while opening := _OPENING.search(xml, at):
        name = opening[1]
        end = xml.find(f"</{name}>", opening.end())
        value = xml[opening.end() : end] if end >= 0 else xml[opening.end() :].partition(_INTERRUPTED)[0]
        at = end if end >= 0 else len(xml)
        if name in _CONTAINERS[depth:]:
            found.update(_read_parameters(value, depth + 1))
        else:
            found[name] = _read_todos(value) or value.strip("\r\n")
    return found


def _read_todos(value: str) -> list[dict[str, str]]:
    return [{"content": text, "status": _STATES.get(mark, "in_progress")} for mark, text in _TODO.findall(value)]
