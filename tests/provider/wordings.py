"""Rejections of too long requests by providers: status, body and text, from real reports."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Rejection:
    """An error response. Among the answers of a conversation it takes the place of an answer."""

    status: int
    body: object
    """JSON; None: no body at all."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The numbers a rejection may state, in tokens."""

    limit: int
    input: int
    output: int

    @property
    def total(self) -> int:
        """Input and requested output."""
        return self.input + self.output


@dataclass(frozen=True, slots=True)
class Wording:
    """One provider's error text and its surroundings.

    Attributes:
        counts_output: Whether the requested output must fit as well.
        shape: The form of the body around the error.
    """

    text: str
    fields: Mapping[str, object] = field(default_factory=dict)
    status: int = 400
    shape: Literal["openai", "anthropic", "flat", "list", "empty"] = "openai"
    counts_output: bool = False
    numbers: Mapping[str, str] = field(default_factory=dict)
    """Fields with numbers, each with its name in `Sizes`."""


FILE = Path(__file__).resolve().parents[1] / "fixtures" / "overflow_wordings.json"
WORDINGS = {name: Wording(**fields) for name, fields in json.loads(FILE.read_text(encoding="utf-8")).items()}


def build_rejection(name: str, sizes: Sizes) -> Rejection:
    """Return the rejection a provider gives for a request of these sizes."""
    wording = WORDINGS[name]
    numbers = {key: getattr(sizes, key) for key in ("limit", "input", "output", "total")}
    text = wording.text.format(**numbers)
    extra = {name: numbers[number] for name, number in wording.numbers.items()}
    return Rejection(wording.status, _body(wording, {"message": text, **wording.fields, **extra}))


def _body(wording: Wording, error: dict[str, Any]) -> object:
    match wording.shape:
        case "openai":
            return {"error": error}
        case "anthropic":
            return anthropic_error(str(error["type"]), str(error["message"]))
        case "flat":
            return {"object": "error", **error}
        case "list":
            return [{"error": error}]
        case "empty":
            return None


def openai_error(message: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """Return the body of an ordinary rejection by OpenAI."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def anthropic_error(kind: str, message: str) -> dict[str, Any]:
    """Return the body of an error by Anthropic."""
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_loopback"}
