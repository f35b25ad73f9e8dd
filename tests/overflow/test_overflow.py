"""`is_context_overflow()`, `parse_overflow()`: errors that are an overflow, similar ones that are none, and their numbers."""

import json
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from compaction_hooks.overflow import OverflowInfo, is_context_overflow, parse_overflow
from tests.cases import folded
from tests.data import DATA

ERRORS = [json.loads(line) for line in Path(__file__).with_name("errors.jsonl").read_text("utf-8").splitlines()]
"""Texts of providers, servers and gateways, as documentation and public issues quote them; limit and actual as in the text."""


@folded("error", {error["id"]: error for error in ERRORS if error["kind"] == "context_overflow"})
def test_recognizes_an_overflow_and_reads_its_numbers(error: dict[str, Any]) -> None:
    info = parse_overflow(error["text"])

    assert info is not None
    assert (info.kind, info.limit_tokens, info.actual_tokens) == (error["kind"], error["limit"], error["actual"])
    assert is_context_overflow(error["text"])


@folded("error", {error["id"]: error for error in ERRORS if error["kind"] != "context_overflow"})
def test_similar_errors_are_no_overflows(error: dict[str, Any]) -> None:
    info = parse_overflow(error["text"])

    assert (info.kind if info else None) == error["kind"]
    assert not is_context_overflow(error["text"])


# --- structured signs -------------------------------------------------------------------------------------------------


@folded(
    "error",
    {
        "code": {"error": {"code": "context_length_exceeded", "message": "no"}},
        "type": {"error": {"type": "exceed_context_size_error"}},
        "event": {"type": "response.failed", "response": {"error": {"code": "context_length_exceeded"}}},
        "copilot": {"error": {"code": "model_max_prompt_tokens_exceeded", "message": ""}},
        "anthropic stop reason": {"stop_reason": "model_context_window_exceeded", "content": []},
        "bedrock stop reason": {"stopReason": "model_context_window_exceeded"},
        "mistral finish": {"choices": [{"finish_reason": "model_length", "message": {"content": "so"}}]},
        "inside text": 'API returned error: 400 - {"error":{"code":"context_length_exceeded"}}',
        "server-sent": 'event: error\ndata: {"error":{"type":"exceed_context_size_error","code":400}}\n\n',
    },
)
def test_trusts_a_structured_code(error: object) -> None:
    """Codes and stop reasons that name the context need no sentence."""
    assert is_context_overflow(error)


def test_believes_the_sentence_where_a_code_serves_two_purposes() -> None:
    """Cohere sends TOO_MANY_TOKENS for a long prompt and for a large max_tokens."""
    cap = parse_overflow("max tokens must be less than or equal to 4096", code="TOO_MANY_TOKENS")

    assert cap == OverflowInfo(kind="output_cap")
    assert is_context_overflow("see the documentation", code="TOO_MANY_TOKENS")
    assert not is_context_overflow("Too many tokens, please wait before trying again.", code="TOO_MANY_TOKENS")


def test_believes_a_code_that_names_the_context_before_the_sentence() -> None:
    assert is_context_overflow("max_tokens is too large: 9000", code="context_length_exceeded")


@pytest.mark.parametrize(
    "response",
    [
        {"choices": [{"finish_reason": "length", "message": {"content": "prompt is too long"}}]},
        {"choices": [{"finish_reason": "stop", "message": {"tool_calls": [{"function": {"arguments": "prompt is too long"}}]}}]},
        {"type": "message", "stop_reason": "max_tokens", "content": [{"type": "text", "text": "context length exceeded"}]},
        {"candidates": [{"finishReason": "MAX_TOKENS", "content": {"parts": [{"text": "prompt is too long"}]}}]},
        {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": [{"text": "too many tokens"}]},
        {"model": "qwen3", "done": True, "done_reason": "length", "response": "the prompt is too long"},
    ],
    ids=["openai", "tool call", "anthropic", "gemini", "responses", "ollama"],
)  # fmt: skip
def test_never_reads_the_text_of_an_answer(response: dict[str, Any]) -> None:
    """A stop for length says nothing without numbers, and an answer may talk about overflows."""
    assert parse_overflow(response) is None
    assert parse_overflow(json.dumps(response)) is None


# --- status -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [401, 402, 403, 429])
def test_a_status_of_permission_or_rate_vetoes(status: int) -> None:
    text = "prompt is too long: 213462 tokens > 200000 maximum"

    assert parse_overflow(text, status=status) == OverflowInfo(kind="too_large")
    assert parse_overflow(f"Error code: {status} - {text}") == OverflowInfo(kind="too_large")
    assert parse_overflow({"error": {"code": status, "message": text}}) == OverflowInfo(kind="too_large")
    assert parse_overflow("Forbidden", status=status) is None


@pytest.mark.parametrize("status", [None, 200, 400, 404, 413, 422, 500, 503])
def test_any_other_status_leaves_the_sentence_its_say(status: int | None) -> None:
    """29 of 261 recorded overflows came with another status than 400."""
    assert is_context_overflow("Prompt is too long", status=status)


@pytest.mark.parametrize("text", ["Error code: {} - {}", "API returned error: {} - {}", "HTTP {}: {}", "{} {}"])
@pytest.mark.parametrize("status", [402, 429])
def test_a_status_that_the_text_states_vetoes(text: str, status: int) -> None:
    """Some clients tell the status in their text only; OpenRouter's credit limit is a 402 that compares token counts."""
    assert not is_context_overflow(
        text.format(status, '{"error":{"message":"prompt tokens limit exceeded: 5000 > 4000"}}')
    )


@folded(
    "text, status, is_bytes, limit",
    {
        "Anthropic": ("Request exceeds the maximum allowed number of bytes.", None, True, None),
        "Anthropic, shorter": ("Request exceeds the maximum size", 413, True, None),
        "Express": ("PayloadTooLargeError: request entity too large", None, True, None),
        "with a limit": ("Request body too large, max 32 MB, got 41.5 MB", 413, True, 32_000_000),
        "size alone named": ("request too large: 35,000,000 bytes > 33,554,432", 413, True, 35_000_000),
        "quota": ("Request too large on tokens per minute (TPM): Limit 6000, Requested 6294", 413, False, None),
        "rate limit": ("Request too large", 429, False, None),
        "a field": ("Invalid 'messages[4].content': string too long.", 400, False, None),
        "a number of messages": ("Request contains too many messages", 400, False, None),
    },
)
def test_too_many_bytes_are_told_from_quotas(text: str, status: int | None, is_bytes: bool, limit: int | None) -> None:
    info = parse_overflow(text, status=status)
    assert info is None or info.kind == "too_large"
    assert (info is not None and info.is_recoverable, info.limit_bytes if info else None) == (is_bytes, limit)


def test_a_number_of_tokens_is_no_status() -> None:
    assert is_context_overflow("Error: 429 tokens in the prompt exceed the context window of 400 tokens")


def test_413_means_bytes_unless_tokens_are_named() -> None:
    assert parse_overflow("", status=413) == OverflowInfo(kind="too_large", is_bytes=True)
    assert parse_overflow("whatever it says", status=413) == OverflowInfo(kind="too_large", is_bytes=True)
    page = "<html><title>413 Request Entity Too Large</title></html>"
    assert parse_overflow(page) == OverflowInfo(kind="too_large", is_bytes=True)
    assert is_context_overflow("Max size: 8000 tokens. Request body too large for gpt-4o model", status=413)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "400 status code (no body)",
        "Error code: 400",
        "413 Payload Too Large",
        "API returned error: 400 - ",
        "Request failed with status code 413",
    ],
)
def test_an_empty_answer_is_an_overflow_only_of_a_provider_known_for_it(text: str) -> None:
    status = 413 if "413" in text else 400

    assert is_context_overflow(text, status=status, provider="cerebras")
    assert not is_context_overflow(text, status=status, provider="openai")
    assert not is_context_overflow(text, status=status)


# --- numbers ----------------------------------------------------------------------------------------------------------


def test_tells_input_from_requested_output() -> None:
    info = parse_overflow("This model's maximum context length is 4096 tokens. However, you requested 4500 tokens (500 in the"
                          " messages, 4000 in the completion).")  # fmt: skip

    assert info == OverflowInfo(
        kind="context_overflow", limit_tokens=4096, actual_tokens=4500, input_tokens=500, output_tokens=4000
    )


@pytest.mark.parametrize(
    ("text", "is_curable"),
    [
        pytest.param("maximum context length is 4096 tokens. However, you requested 4596 tokens (500 in the messages, 4096 in"
                     " the completion).", False, id="answer as large as the window"),
        pytest.param("maximum context length is 4096 tokens. However, you requested 4596 tokens (4000 in the messages, 596 in"
                     " the completion).", True, id="long conversation"),
        pytest.param("prompt is too long", True, id="no numbers"),
        pytest.param("max_tokens: 21333 > 4096, which is the maximum allowed number of output tokens", False, id="cap"),
    ],
)  # fmt: skip
def test_says_whether_a_shorter_conversation_could_fit(text: str, is_curable: bool) -> None:
    """Where `max_tokens` alone fills the window, history is not to blame."""
    info = parse_overflow(text)

    assert info is not None
    assert info.is_curable is is_curable


def test_an_answer_larger_than_the_window_is_a_cap() -> None:
    """VLLM names the window, but max_tokens is too large."""
    text = "'max_tokens' or 'max_completion_tokens' is too large: {}. This model's maximum context length is 65536 tokens and your request has 52738 input tokens."  # noqa: E501  one sentence of vLLM's

    assert parse_overflow(text.format(70000)) == OverflowInfo(kind="output_cap")
    assert is_context_overflow(text.format(16384))
    assert is_context_overflow("max_tokens must be at least 1, got -123")


@folded(
    "text",
    {
        "contradiction": "prompt is too long: 4096 tokens, the limit is 8192 tokens",
        "code at the end": "Prompt exceeds max length (1261)",
        "request id": "prompt is too long, see request id 20240501123456789",
        "model name": "llama-3.3-70b-8192: prompt is too long",
        "log line": "2026-03-24 14:15:48 ERROR [serving.py:263] prompt is too long",
    },
)
def test_takes_no_number_that_is_no_amount(text: str) -> None:
    info = parse_overflow(text)

    assert info == OverflowInfo(kind="context_overflow")


# --- clients ----------------------------------------------------------------------------------------------------------

SENTENCE = "This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens."
READ = OverflowInfo(kind="context_overflow", limit_tokens=4096, actual_tokens=5000)


@dataclass
class HTTPResponse:
    status_code: int
    body: str

    @property
    def text(self) -> str:
        return self.body


class StreamedResponse:
    status_code = 400

    @property
    def text(self) -> str:
        raise RuntimeError("the body was not read")


class APIStatusError(Exception):
    """The attributes openai, anthropic, mistral and cohere give their errors."""

    def __init__(
        self, message: str = "bad request", *, response: object = None, body: object = None, code: object = None
    ):
        super().__init__(message)
        self.message = message
        self.response = response
        self.status_code = getattr(response, "status_code", None)
        self.body = body
        self.code = code


class BotoClientError(Exception):
    def __init__(self, response: dict[str, object]) -> None:
        super().__init__("An error occurred when calling the Converse operation")
        self.response = response


class ContextWindowExceededError(Exception):
    """litellm's and agno's name; pydantic-ai's and langchain's differ little."""


class RateLimitError(Exception):
    pass


@dataclass
class AgentMessage:
    """tinyagent ends a failed turn in such a message."""

    content: str
    stop_reason: str
    error_message: str


@folded("error", {
        "plain exception": Exception(SENTENCE),
        "body": APIStatusError(body={"message": SENTENCE}),
        "fewer numbers first": APIStatusError("context length of 4096 exceeded", body={"message": SENTENCE}),
        "body as text": APIStatusError(body=json.dumps({"message": SENTENCE})),
        "response": APIStatusError(response=HTTPResponse(400, json.dumps({"error": {"message": SENTENCE}}))),
        "response itself": HTTPResponse(400, SENTENCE),
        "response not read": APIStatusError(SENTENCE, response=StreamedResponse()),
        "botocore": BotoClientError({"Error": {"Code": "ValidationException", "Message": SENTENCE}}),
        "tinyagent": AgentMessage("", "error", f'API returned error: 400 - {{"message":"{SENTENCE}"}}'),
        "exception as argument": Exception(APIStatusError(SENTENCE)),
        "group": ExceptionGroup("all models failed", [RateLimitError("429"), APIStatusError(SENTENCE)]),
        "exception in a dict": {"error": APIStatusError(SENTENCE)},
        "list": [SENTENCE],
        "bytes": SENTENCE.encode(),
        "dict as text": repr({"error": {"message": SENTENCE, "code": None}}),
        "nested": json.dumps({"error": {"metadata": {"raw": json.dumps({"error": {"message": SENTENCE}})}}}),
        "nested in text": "BadRequestError: " + json.dumps({"raw": json.dumps({"raw": json.dumps({"message": SENTENCE})})}),
        "escaped comparison": "prompt is too long: 5000 tokens \\u003e 4096 maximum",
    })  # fmt: skip
def test_reads_the_errors_of_every_client(error: object) -> None:
    assert parse_overflow(error) == READ


@pytest.mark.parametrize(
    "error",
    [
        ContextWindowExceededError("request failed"),
        APIStatusError(code="context_length_exceeded"),
        APIStatusError(response=HTTPResponse(400, '{"error":{"code":"context_length_exceeded"}}')),
    ],
    ids=["class name", "code attribute", "code in the response"],
)
def test_needs_no_sentence_where_the_client_has_a_name_for_it(error: Exception) -> None:
    assert is_context_overflow(error)


def _from(cause: BaseException, error: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


def _during(context: BaseException, error: BaseException) -> BaseException:
    error.__context__ = context
    return error


def test_follows_causes_and_the_context_of_a_wrapper() -> None:
    step = _from(Exception(SENTENCE), ValueError("step"))
    assert parse_overflow(_from(step, RuntimeError("agent failed"))) == READ
    assert parse_overflow(_during(Exception(SENTENCE), RuntimeError("agent failed"))) == READ


def test_a_provider_that_the_caller_names_is_that_of_wrapped_errors_too() -> None:
    bare = APIStatusError("Error code: 400", response=HTTPResponse(400, ""))
    for error in (_from(bare, RuntimeError("agent failed")), ExceptionGroup("all models failed", [bare])):
        assert is_context_overflow(error, provider="cerebras")
        assert not is_context_overflow(error)


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError("summarizer"),
        ConnectionError(),
        RateLimitError("slow down"),
        APIStatusError("no", response=HTTPResponse(429, "")),
    ],
    ids=["timeout", "connection", "class of a rate limit", "status of a rate limit"],
)
def test_takes_no_later_trouble_for_the_overflow_it_came_after(error: Exception) -> None:
    """What fails while an overflow is handled has it as its context, and is none itself."""
    assert not is_context_overflow(_during(Exception(SENTENCE), error))


def test_ends_on_cycles() -> None:
    first, second = RuntimeError("first"), RuntimeError("second")
    _from(_from(first, second), first)
    body: dict[str, object] = {}
    body["error"] = {"details": body}

    assert parse_overflow(first) is None
    assert parse_overflow(body) is None


# --- the caller's own signs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", ["buffer is fuller", "BUFFER IS", re.compile(r"buffer is \w+ than")])
def test_the_callers_patterns_win_over_everything(pattern: str | re.Pattern[str]) -> None:
    """Also over a veto, for a gateway that answers with the wrong status."""
    text = "The buffer is fuller than 4096 tokens, namely 5000 tokens"

    assert not is_context_overflow(text, status=429)
    assert is_context_overflow(text, status=429, patterns=[pattern])
    assert not is_context_overflow("another error", patterns=[pattern])


def test_a_single_pattern_is_accepted_and_an_empty_one_is_ignored() -> None:
    assert is_context_overflow("kaputt", patterns="kaputt")
    assert not is_context_overflow("ok", patterns="kaputt")
    assert not is_context_overflow("ok", patterns=[""])


# --- size and data ----------------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize(
    "unit", ["prompt is too long, ", "max tokens ", "12345 ", "\\", "\"prompt' ", "[", "tokens limit ", "_a", "auth_"]
)
def test_reads_a_megabyte_in_linear_time(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))

    started = time.perf_counter()
    parse_overflow(text)

    assert time.perf_counter() - started < 2.0  # measured: below 0.05 s on two shared cores


def test_reads_both_ends_of_a_long_text() -> None:
    assert parse_overflow(SENTENCE + " " + "x " * 100_000) == READ
    assert parse_overflow("x " * 100_000 + SENTENCE) == READ
    assert parse_overflow("x " * 100_000 + SENTENCE + " x" * 100_000) is None


@pytest.mark.skipif(not (DATA / "overflow").is_dir(), reason="needs the labelled errors in ../shared/data")
def test_reaches_the_agreed_accuracy_on_recorded_errors() -> None:
    """Unambiguous errors and stream events: precision 0.98, recall 0.97, both numbers exact in 97 %."""
    recorded = map(json.loads, (DATA / "overflow" / "errors.jsonl").read_text(encoding="utf-8").splitlines())
    rows = [row for row in recorded if not row["ambiguous"] and row["channel"] in ("error", "stream_event")]

    def read(row: dict[str, Any]) -> OverflowInfo | None:
        return parse_overflow(row["message"], status=row["status"], code=row["code"], provider=row["provider"])

    said = [(row, info) for row in rows if (info := read(row)) is not None and info.kind == "context_overflow"]
    right = [(row, info) for row, info in said if row["label"] == "overflow"]
    exact = [
        1
        for row, info in right
        if (info.limit_tokens, info.actual_tokens) == (row["limit_tokens"], row["actual_tokens"])
    ]

    assert len(right) / len(said) >= 0.98
    assert len(right) / sum(row["label"] == "overflow" for row in rows) >= 0.97
    assert len(exact) / len(right) >= 0.97


def test_marks_a_lower_bound() -> None:
    info = parse_overflow(
        "maximum context length is 4096 tokens. However, your prompt contains at least 4097 input tokens"
    )

    assert info is not None
    assert (info.actual_tokens, info.is_lower_bound) == (4097, True)
