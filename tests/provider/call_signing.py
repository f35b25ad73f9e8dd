"""Thought signatures of Gemini: bound to an account and a route, and not to the messages before them.

The rules are those of https://ai.google.dev/gemini-api/docs/thought-signatures, read 2026-11.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.provider.wordings import Rejection, openai_error

PLACEHOLDER = "skip_thought_signature_validator"
_PLACEHOLDERS = (PLACEHOLDER, base64.b64encode(PLACEHOLDER.encode()).decode())


@dataclass(slots=True)
class CallSigner:
    """Signs the first call of each answer; rejects foreign signatures, and a step of the present turn whose first call has none.

    Attributes:
        account: Names the account and the route; signatures of others are rejected.
        refusals: The texts of all rejections.
        sent: For each accepted request, the number of valid signatures in it.
    """

    account: str = "first"
    refusals: list[str] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    _made: int = 0

    def refusal(self, body: Mapping[str, Any]) -> Rejection | None:
        """Return the rejection of the first such signature; None if all are valid."""
        messages = body["messages"]
        present = max(
            (n for n, one in enumerate(messages) if one["role"] == "user" and _says_something(one)), default=-1
        )
        found = 0
        for number, message in enumerate(messages):
            calls = [block for block in message["content"] if block["type"] == "tool_use"]
            if number > present and calls and not calls[0]["signature"]:
                return self._reject(_MISSING.format(**calls[0], number=number))
            for signature in filter(None, (block["signature"] for block in message["content"])):
                if signature not in _PLACEHOLDERS and not self._is_own(signature):
                    return self._reject("Corrupted thought signature.")
                found += signature not in _PLACEHOLDERS
        self.sent.append(found)
        return None

    def sign(self, _: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the signature of the answer to a request."""
        self._made += 1
        return [{"signature": self._signature(self._made)}]

    def dropped(self, _: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the reasoning that the provider leaves out: none."""
        return []

    def _reject(self, text: str) -> Rejection:
        self.refusals.append(text)
        return Rejection(400, openai_error(text))

    def _is_own(self, signature: str) -> bool:
        plain = signature.replace("-", "+").replace("_", "/")
        return plain in {self._signature(number) for number in range(1, self._made + 1)}

    def _signature(self, number: int) -> str:
        return base64.b64encode(hmac.new(self.account.encode(), bytes(number), hashlib.sha256).digest()).decode()


def _says_something(message: Mapping[str, Any]) -> bool:
    return any(block["type"] == "text" for block in message["content"])


_MISSING = (
    "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and "
    "missing thought_signature may lead to degraded model performance. Additional data, function call "
    "`default_api:{name}`, position {number}."
)
