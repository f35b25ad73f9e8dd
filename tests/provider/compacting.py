"""Anthropic's compaction on demand: a signed summary, which only the account and the model that made it take back.

The rules are those of https://platform.claude.com/docs/en/build-with-claude/compaction-on-demand, read 2026-11.
"""

import hashlib
import hmac
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.provider.validation import blocks
from tests.provider.wordings import Rejection, anthropic_error

BETA = "compact-2026-09-04"
_FIELDS = frozenset({"type", "content", "signature", "tool_changes", "cache_control"})
_EXCLUDED = ("context_management", "stop_sequences")


class _Fault(NamedTuple):
    """The text of a rejection, and the code in its details; "" without one."""

    text: str
    code: str = ""


@dataclass(slots=True)
class Compactor:
    """Makes compaction blocks, and rejects those that the API would reject.

    Attributes:
        key: The account; blocks of another one are not accepted.
        failures: For the next requests that compact: a stop reason with empty content, or a rejection.
        refusals: The texts of the rejections so far.
    """

    key: str = "first account"
    failures: deque[str | Rejection] = field(default_factory=deque[str | Rejection])
    refusals: list[str] = field(default_factory=list[str])

    def refusal(self, body: Mapping[str, Any]) -> Rejection | None:
        """Return the rejection of a request; None if its block, and its wish to be compacted, are in order."""
        fault = next(self._faults(body), None)
        if fault is None:
            return None
        self.refusals.append(fault.text)
        error = anthropic_error("invalid_request_error", fault.text)
        if fault.code:
            error["error"]["details"] = {"error_code": fault.code}
        return Rejection(400, error)

    def _faults(self, body: Mapping[str, Any]) -> Iterator[_Fault]:
        has_header = BETA in body.get("betas", ())
        found = [
            (f"messages.{index}.content.{place}", block)
            for index, message in enumerate(body["messages"])
            for place, block in enumerate(blocks(message.get("content")))
            if block["type"] == "compaction"
        ]
        for path, block in found:
            if not has_header:
                yield _Fault(f"{path}: `compaction` is not one of the expected content block types")
            for name in (name for name, value in block.items() if name not in _FIELDS or value is None):
                yield _Fault(f"{path}.compaction.{name}: Extra inputs are not permitted")
            if path != "messages.0.content.0":
                yield _Fault(f"{path}: messages before the compaction block", "compaction_block_misplaced")
            digest, _, _ = block["signature"].partition(".")
            if digest != _digest(block["content"]):
                yield _Fault(f"{path}: the content was changed", "compaction_content_mismatch")
            if block["signature"] != self._sign(body, block["content"]):
                yield _Fault(f"{path}: Invalid `signature` in `compaction` block", "compaction_signature_invalid")
        if len(found) > 1:
            yield _Fault("messages: at most one compaction block is allowed")
        if body.get("compaction"):
            yield from self._wish_faults(body, has_header=has_header, has_block=bool(found))

    def _wish_faults(self, body: Mapping[str, Any], *, has_header: bool, has_block: bool) -> Iterator[_Fault]:
        if not has_header:
            yield _Fault(f"compaction: requires anthropic-beta: {BETA}")
        for name in (name for name in _EXCLUDED if body.get(name)):
            yield _Fault(f"{name}: not allowed with `compaction`")
        if any(block["type"] == "tool_use" for block in blocks(body["messages"][-1].get("content"))):
            yield _Fault("messages: a tool call is open")
        if has_block and len(body["messages"]) == 1:
            yield _Fault("messages: nothing to summarize", "compaction_nothing_to_summarize")

    def compact(self, body: Mapping[str, Any]) -> tuple[list[dict[str, Any]], str]:
        """Return the block for the messages of a request, and its text, which names the users' requests and the tools called."""
        lines = [f"The request asked to compact {len(body['messages'])} messages."]
        for message in body["messages"]:
            for block in blocks(message.get("content")):
                match block["type"]:
                    case "compaction":
                        lines += block["content"].splitlines()
                    case "text" if message["role"] == "user":
                        lines.append(f"User: {block['text'][:200]}")
                    case "tool_use":
                        lines.append(f"Called {block['name']}({block['input']})")
        content = "\n".join(dict.fromkeys(lines))
        return [{"type": "compaction", "content": content, "signature": self._sign(body, content)}], content

    def _sign(self, body: Mapping[str, Any], content: str) -> str:
        signed = hmac.new(self.key.encode(), f"{body['model']}:{content}".encode(), hashlib.sha256)
        return f"{_digest(content)}.{signed.hexdigest()}"


def _digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()[:16]
