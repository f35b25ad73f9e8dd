"""Compaction in line with OpenAI's Responses: an item that only the account and the model that made it take back.

The rules and wordings are those of https://developers.openai.com/api/docs/guides/compaction,
https://docs.x.ai/developers/advanced-api-usage/context-compaction and https://github.com/openai/codex/issues/36704, read 2026-11.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.provider.wordings import Rejection, openai_error


@dataclass(slots=True, kw_only=True)
class ItemSealer:
    """Puts a sealed summary in front of an answer after every few items, and rejects summaries that it did not make.

    Attributes:
        names: Texts that a summary keeps; all other words are lost.
        account: Names the account; summaries of earlier ones are rejected.
        every: Items after the newest summary from which on an answer brings another one.
        is_first: Whether a request with items before a summary is rejected, as by xAI.
        refusals: The texts of all rejections.
        read: For each accepted request, the names that the model could read in it.
        sealed: The number of summaries in each accepted request.
    """

    names: Sequence[str]
    account: str = "first"
    every: int = 20
    is_first: bool = False
    refusals: list[str] = field(default_factory=list[str])
    read: list[set[str]] = field(default_factory=list[set[str]])
    sealed: list[int] = field(default_factory=list[int])
    _made: int = 0

    def refusal(self, body: Mapping[str, Any]) -> Rejection | None:
        """Return the rejection of a request; None if its summaries are valid."""
        items = body["input"]
        places = [place for place, item in enumerate(items) if item.get("type") == "compaction"]
        for place in places:
            if self._open(items[place], body["model"]) is None:
                text = _UNREADABLE.format(items[place].get("id"))
                return self._reject(text, "invalid_encrypted_content")
            if place and self.is_first:
                return self._reject("A compaction item must be the first item of the input.")
        self.read.append(self._names_in(body))
        self.sealed.append(len(places))
        return None

    def sign(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the summary in front of the answer to a request, if one is due."""
        places = [place for place, item in enumerate(body["input"]) if item.get("type") == "compaction"]
        if len(body["input"]) - (places[-1] if places else 0) < self.every:
            return []
        self._made += 1
        content = json.dumps(sorted(self._names_in(body))).encode()
        sealed = f"gAAAA{self._digest(content, body['model'])}{base64.b64encode(content).decode()}"
        return [{"type": "compaction", "id": f"cmp_{self._made:04}", "encrypted_content": sealed}]

    def dropped(self, _: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the reasoning that the provider leaves out: none."""
        return []

    def _names_in(self, body: Mapping[str, Any]) -> set[str]:
        """Return the names that the model can read: those of the newest summary, and of the items after it."""
        items = body["input"]
        first = max((place for place, item in enumerate(items) if item.get("type") == "compaction"), default=-1)
        text = json.dumps(items[first + 1 :])
        kept: list[str] = json.loads(self._open(items[first], body["model"]) or b"[]") if first >= 0 else []
        return {*kept, *(name for name in self.names if name in text)}

    def _open(self, item: Mapping[str, Any], model: str) -> bytes | None:
        """Return the content of a summary; None if another account or model made it."""
        sealed = item["encrypted_content"].removeprefix("gAAAA")
        content = base64.b64decode(sealed[64:])
        return content if sealed[:64] == self._digest(content, model) else None

    def _digest(self, content: bytes, model: str) -> str:
        return hmac.new(f"{self.account}:{model}".encode(), content, hashlib.sha256).hexdigest()

    def _reject(self, text: str, code: str | None = None) -> Rejection:
        self.refusals.append(text)
        return Rejection(400, openai_error(text, None if code else "input", code))


_UNREADABLE = (
    "The encrypted content for item {} could not be verified. "
    "Reason: Encrypted content could not be decrypted or parsed."
)
