"""Reads the transcripts that peers write for their summarizers, as messages that are cut like the transcript."""

import re
from collections.abc import Iterator
from typing import Final

from tests.benchmarks.peers.peer import Chat

_LINES: Final = re.compile(
    r"^(?:\[(?P<tuna>User|Assistant|Tool Call|Tool Result)\]:"
    r"|(?P<pai>User|Assistant|System|Tool Call|Tool)(?: \[(?P<tool>[^\]]*)\])?:) ",
    re.MULTILINE,
)
"""tunacode's "[Tool Call]: name({...})", summarization-pydantic-ai's "Tool Call [name]: {...}"."""
_ELEMENTS: Final = re.compile(r"<message (?P<attributes>[^>]*)>\n?(?P<text>.*?)\n?</message>", re.DOTALL)
"""pydantic-ai-harness's elements, which content cannot forge."""
_ATTRIBUTE: Final = re.compile(r"(\w+)=[\"']([^\"']*)[\"']")


def read(transcript: str) -> list[Chat]:
    """Return the messages of a transcript; each result belongs to the oldest tool call without one."""
    writer = _Writer()
    for kind, tool, text in _elements(transcript) if _ELEMENTS.search(transcript) else _lines(transcript):
        writer.add(kind, tool, text.strip())
    return writer.messages


def _lines(transcript: str) -> Iterator[tuple[str, str, str]]:
    heads = list(_LINES.finditer(transcript))
    for head, following in zip(heads, [*heads[1:], None], strict=True):
        text = transcript[head.end() : following.start() if following else len(transcript)]
        kind, tool = (head["tuna"] or head["pai"]).lower(), head["tool"] or ""
        if head["tuna"] == "Tool Call":
            tool, _, text = text.partition("(")
            text = text.strip().removesuffix(")")
        yield kind.replace("tool result", "tool"), tool, text


def _elements(transcript: str) -> Iterator[tuple[str, str, str]]:
    kinds = {"tool_call": "tool call", "tool_return": "tool", "retry_feedback": "tool"}
    for element in _ELEMENTS.finditer(transcript):
        attributes = dict(_ATTRIBUTE.findall(element["attributes"]))
        kind = attributes.get("type") or attributes.get("role") or ""
        yield kinds.get(kind, kind), attributes.get("name", ""), element["text"]


class _Writer:
    """Builder of the messages of a transcript."""

    def __init__(self) -> None:
        self.messages: list[Chat] = []
        self._open: list[str] = []
        self._calls = 0

    def add(self, kind: str, tool: str, text: str) -> None:
        """Add one item of the transcript; a result without its tool call is skipped."""
        match kind:
            case "tool call":
                self._calls += 1
                self._open.append(f"call_{self._calls}")
                function = {"name": tool, "arguments": text}
                call = {"id": self._open[-1], "type": "function", "function": function}
                self.messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            case "tool" if self._open:
                self.messages.append({"role": "tool", "tool_call_id": self._open.pop(0), "content": text})
            case "user" | "assistant":
                self.messages.append({"role": kind, "content": text})
            case _:
                pass
