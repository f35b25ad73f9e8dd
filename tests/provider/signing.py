"""Signed reasoning as bound by Anthropic: a block is valid only after the same content as when the model made it.

The rules are those of https://platform.claude.com/docs/en/build-with-claude/preserved-thinking, read 2026-11.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.provider.validation import blocks
from tests.provider.wordings import Rejection, anthropic_error

_REASONING = ("thinking", "redacted_thinking")
THOUGHT = "The last result is what was expected, so the next part is to be read. "


class _Placed(NamedTuple):
    """A block of reasoning in a request.

    Attributes:
        before: The digest of everything before it, without reasoning.
    """

    message: int
    place: int
    block: Mapping[str, Any]
    before: str

    @property
    def seal(self) -> str:
        """Its signature: `<digest of the block before it>.<signature>`."""
        return str(self.block.get("signature") or self.block.get("data") or "")

    @property
    def path(self) -> str:
        """Its path in error texts."""
        return f"messages.{self.message}.content.{self.place}"


@dataclass(slots=True)
class Signer:
    """Signs the reasoning of answers, and rejects reasoning of other requests.

    Attributes:
        account: Names the account and the route; reasoning of others is rejected.
        redacted_every: Every so many answers, one has a redacted block after its thinking; 0: none.
        chat_field: The field of chat messages with the reasoning: "thinking_blocks" (LiteLLM) or "reasoning_details" (OpenRouter).
        enforces: Whether reasoning of other requests is rejected; not for accounts of before September 2026: answers report it.
        refusals: The paths of rejected blocks.
        unsigned: The paths of chat messages with a copy of reasoning, and without its signature.
        sent: For each accepted request, the number of answers with reasoning, and of all answers in it.
    """

    account: str = "first"
    redacted_every: int = 3
    chat_field: str = "thinking_blocks"
    enforces: bool = True
    refusals: list[str] = field(default_factory=list)
    unsigned: list[str] = field(default_factory=list)
    sent: list[tuple[int, int]] = field(default_factory=list)
    _answers: int = 0
    _together: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _written: dict[int, tuple[object, bytes]] = field(default_factory=dict)
    _last: tuple[object, tuple[list[_Placed], str]] = (None, ([], ""))

    @property
    def reasoning_share(self) -> float:
        """Share of the answers in requests that had their reasoning."""
        return sum(whole for whole, _ in self.sent) / max(1, sum(answers for _, answers in self.sent))

    def refusal(self, body: Mapping[str, Any]) -> Rejection | None:
        """Return the rejection of the first block of another request; None if all are valid."""
        placed, _ = self._read(body)
        self.unsigned += [f"messages.{n}" for n, one in enumerate(body["messages"]) if _has_unsigned_copy(one)]
        stale = self._first_stale(placed)
        if stale is not None and self.enforces and not _allows_dropping(body):
            return self._reject(placed[stale], _BOUND)
        placed = placed[:stale]
        broken = self._broken_run(placed, body) if stale is None else None
        if broken is not None:
            return self._reject(broken, _CHANGED)
        answers = sum(message["role"] == "assistant" for message in body["messages"])
        self.sent.append((len({one.message for one in placed}), answers))
        return None

    def _reject(self, block: _Placed, why: str) -> Rejection:
        self.refusals.append(block.path)
        return Rejection(400, anthropic_error("invalid_request_error", f"{block.path}: {why}"))

    def sign(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the reasoning of the answer to a request."""
        placed, before = self._read(body)
        good = placed[: self._first_stale(placed)]
        last = _name(good[-1].seal) if good else ""
        self._answers += 1
        thinking = {"type": "thinking", "thinking": THOUGHT, "signature": self._seal(before, last)}
        made = [thinking]
        if self.redacted_every and self._answers % self.redacted_every == 0:
            made.append({"type": "redacted_thinking", "data": self._seal(before, _name(str(thinking["signature"])))})
        seals = tuple(str(block.get("signature") or block.get("data")) for block in made)
        self._together.update(dict.fromkeys(seals, seals))
        return made

    def dropped(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the stale reasoning that was dropped or allowed, in the form of Anthropic's `input_transformations`."""
        placed, _ = self._read(body)
        stale = self._first_stale(placed)
        gone = [] if stale is None else placed[stale:]
        kind = "thinking_dropped" if _allows_dropping(body) else "thinking_mismatch_allowed"
        return [{"type": kind, "reason": "prefix_binding_mismatch", "path": block.path} for block in gone]

    def _first_stale(self, placed: list[_Placed]) -> int | None:
        last = ""
        for number, one in enumerate(placed):
            previous = one.seal.partition(".")[0]
            # Reasoning may be left out at the start, so the first block may lack the one before it.
            if one.seal != self._seal(one.before, previous) or (last and previous != last):
                return number
            last = _name(one.seal)
        return None

    def _broken_run(self, placed: list[_Placed], body: Mapping[str, Any]) -> _Placed | None:
        """Return the reasoning of the latest answer if a part of it is missing."""
        answers = [index for index, message in enumerate(body["messages"]) if message["role"] == "assistant"]
        latest = [one for one in placed if answers and one.message == answers[-1]]
        if not latest or tuple(one.seal for one in latest) == self._together[latest[0].seal]:
            return None
        return latest[0]

    def _seal(self, before: str, previous: str) -> str:
        signed = hmac.new(self.account.encode(), f"{previous}:{before}".encode(), hashlib.sha256).hexdigest()
        return f"{previous}.{signed}"

    def _read(self, body: Mapping[str, Any]) -> tuple[list[_Placed], str]:
        """Return the reasoning in a request, and the digest of the whole request, cached for the request under way."""
        if self._last[0] is not body:
            self._last = body, self._digest(body)
        return self._last[1]

    def _digest(self, body: Mapping[str, Any]) -> tuple[list[_Placed], str]:
        """Read a request: its digest is of the system prompt, the tools, and blocks by speaker, whatever the message borders."""
        given = [[_plain(block) for block in blocks(body.get("system"))], body.get("tools") or []]
        digest = hashlib.sha256(_json(given))
        found, speaker = list[_Placed](), ""
        for index, message in enumerate(body["messages"]):
            for place, block in enumerate(_blocks(message)):
                if block["type"] in _REASONING:
                    found.append(_Placed(index, place, block, digest.hexdigest()))
                    continue
                if message["role"] != speaker:
                    speaker = message["role"]
                    digest.update(_json(speaker))
                digest.update(self._write(block))
        return found, digest.hexdigest()

    def _write(self, block: Mapping[str, Any]) -> bytes:
        """Return a block as JSON, cached: a history is read again in each of its requests."""
        known = self._written.get(id(block))
        if known is None or known[0] is not block:
            known = self._written[id(block)] = block, _json(_plain(block))
        return known[1]


_BOUND = (
    "Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or set "
    '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)
_CHANGED = (
    "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must remain as "
    "they were in the original response."
)


def _allows_dropping(body: Mapping[str, Any]) -> bool:
    """Return whether a request asks to drop reasoning of other requests, instead of an error."""
    binding = (body.get("thinking") or {}).get("block_binding") or {}
    return bool(binding.get("prefix_mismatch_behavior") == "drop_block")


def _blocks(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the blocks of a message, and the reasoning and tool calls of a chat message."""
    return [*_chat_reasoning(message), *blocks(message.get("content")), *(message.get("tool_calls") or ())]


def _chat_reasoning(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the signed reasoning of a chat message, in any of its fields, as Anthropic's blocks."""
    everywhere = {**(message.get("provider_specific_fields") or {}), **message}
    details = everywhere.get("reasoning_details") or ()
    return everywhere.get("thinking_blocks") or [
        {"type": "redacted_thinking", "data": detail["data"]}
        if detail["type"] == "reasoning.encrypted"
        else {"type": "thinking", "thinking": detail["text"], "signature": detail["signature"]}
        for detail in details
    ]


def _has_unsigned_copy(message: Mapping[str, Any]) -> bool:
    everywhere = {**(message.get("provider_specific_fields") or {}), **message}
    is_copied = any(everywhere.get(name) for name in ("reasoning_content", "reasoning"))
    return is_copied and not _chat_reasoning(message)


_ENCODER = json.JSONEncoder(sort_keys=True)


def _json(value: object) -> bytes:
    return _ENCODER.encode(value).encode()


def _plain(block: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in block.items() if key != "cache_control" and value is not None}
    if kept.get("type") == "tool_result":
        kept["content"] = [_plain(one) for one in blocks(kept.get("content"))]
    return kept


def _name(seal: str) -> str:
    return hashlib.sha256(seal.encode()).hexdigest()[:16]
