"""Rejections of too long requests by providers: status, body and text, from real reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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


_TOO_LONG = {"type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}
_BAD = {"type": "invalid_request_error", "param": None, "code": None}

WORDINGS: dict[str, Wording] = {
    "openai": Wording(
        "This model's maximum context length is {limit} tokens. However, your messages resulted in {input} tokens. "
        "Please reduce the length of the messages.",
        _TOO_LONG,
    ),
    "openai_new": Wording(
        "Input tokens exceed the configured limit of {limit} tokens. Your messages resulted in {input} tokens. "
        "Please reduce the length of the messages.",
        _TOO_LONG,
    ),
    "openai_responses": Wording(
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        {**_TOO_LONG, "param": "input"},
    ),
    "azure": Wording(
        "This model's maximum context length is {limit} tokens. However, your messages resulted in {input} tokens. "
        "Please reduce the length of the messages.",
        _TOO_LONG,
    ),
    "deepseek": Wording(
        "This model's maximum context length is {limit} tokens. However, you requested {total} tokens "
        "({input} in the messages, {output} in the completion). Please reduce the length of the messages or completion.",
        {**_BAD, "code": "invalid_request_error"},
        counts_output=True,
    ),
    "anthropic": Wording("prompt is too long: {input} tokens > {limit} maximum", _BAD, shape="anthropic"),
    "anthropic_sum": Wording(
        "input length and `max_tokens` exceed context limit: {input} + {output} > {limit}, decrease input length or "
        "`max_tokens` and try again",
        _BAD,
        shape="anthropic",
        counts_output=True,
    ),
    "vllm": Wording(
        "This model's maximum context length is {limit} tokens. However, you requested {output} output tokens and your "
        "prompt contains at least {input} input tokens, for a total of at least {total} tokens. Please reduce the length "
        "of the input prompt or the number of requested output tokens. (parameter=input_tokens, value={input})",
        {"type": "BadRequestError", "param": "input_tokens", "code": 400},
        counts_output=True,
    ),
    "sglang": Wording(
        "The input ({input} tokens) is longer than the model's context length ({limit} tokens).",
        {"type": "BadRequestError", "param": None, "code": 400},
    ),
    "llamacpp": Wording(
        "request ({input} tokens) exceeds the available context size ({limit} tokens), try increasing it",
        {"code": 400, "type": "exceed_context_size_error"},
        numbers={"n_prompt_tokens": "input", "n_ctx": "limit"},
    ),
    "openrouter": Wording(
        "This endpoint's maximum context length is {limit} tokens. However, you requested about {total} tokens "
        "({input} of text input, {output} in the output). Please reduce the length of either one, or use the "
        '"middle-out" transform to compress your prompt automatically.',
        {"code": 400, "metadata": {"provider_name": None}},
        counts_output=True,
    ),
    "groq": Wording("Please reduce the length of the messages or completion.", _TOO_LONG),
    "cerebras": Wording("", shape="empty"),
    "mistral": Wording(
        "Prompt contains {input} tokens and 0 draft tokens, too large for model with {limit} maximum context length",
        {"type": "invalid_request_invalid_args", "param": None, "code": "3051"},
        shape="flat",
    ),
    "gemini": Wording(
        "The input token count ({input}) exceeds the maximum number of tokens allowed ({limit}).",
        {"code": 400, "status": "INVALID_ARGUMENT"},
        shape="list",
    ),
    "xai": Wording(
        "This model's maximum prompt length is {limit} but the request contains {input} tokens.",
        {"code": "Client specified an invalid argument"},
    ),
    "moonshot": Wording(
        "Invalid request: Your request exceeded model token limit: {limit} (requested: {input})",
        {"type": "invalid_request_error"},
    ),
    "together": Wording(
        "The input ({input} tokens) is longer than the model's context length ({limit} tokens).", _BAD, status=422
    ),
    "bedrock": Wording("Input is too long for requested model.", {"type": "ValidationException"}),
}


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
