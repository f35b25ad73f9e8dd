"""What holds for every sentence about an overflow, however it is worded and wrapped."""

import json

import pytest

from compaction_hooks.overflow import OverflowInfo, is_context_overflow, parse_overflow

pytest.importorskip("hypothesis")

from hypothesis import example, given
from hypothesis import strategies as st

# Nouns, relations and bounds, half without a known provider; each template is one way to build the sentence.
SUBJECTS = [
    "The prompt", "Your input", "The conversation", "Your messages", "The chat history", "The request's prompt",
    "The input sequence", "Input text", "This dialogue", "The whole transcript",
]  # fmt: skip
RELATIONS = [
    "exceeds", "exceeded", "is larger than", "is longer than", "is greater than", "is above", "goes beyond",
    "surpasses", "has exceeded", "is over",
]  # fmt: skip
BOUNDS = [
    "the model's context window", "the maximum context length", "the context size limit",
    "the maximum sequence length", "the token limit", "the maximum number of input tokens",
    "the maximum allowed tokens", "the model limit", "the context limit of this model", "the maximum prompt length",
]  # fmt: skip
WITH_BOTH_NUMBERS = (
    "{subject} ({actual} tokens) {relation} {bound} ({limit} tokens)",
    "{subject} of about {actual} tokens {relation} {bound} of {limit} tokens.",
    "{subject} has {actual:,} tokens, which {relation} {bound} of {limit:,}.",
    "{subject} contains {actual} tokens but {bound} is {limit}.",
    "{bound} is {limit} tokens. {subject} has {actual} tokens.",
    "{bound} is {limit} tokens, but you sent {actual} tokens.",
    "{bound}: {limit} tokens; received: {actual} tokens.",
    "You asked for {actual} tokens but only {limit} are available.",
    "You used {actual} tokens; the model allows at most {limit} tokens.",
    "{subject} must be at most {limit} tokens, got {actual} tokens.",
    "{subject} cannot exceed {limit} tokens (received {actual} tokens).",
    "{subject} is too long for this model: {actual} tokens, limit {limit} tokens.",
    "{subject} is too long: {actual} tokens > {limit} tokens",
    "{actual} tokens {relation} {bound} ({limit}).",
    "{subject} does not fit into {bound} of {limit} tokens: it has {actual} tokens.",
)
WITHOUT_NUMBERS = (
    "{subject} {relation} {bound}",
    "{subject} {relation} {bound}. Please shorten it and try again.",
    "{subject} is too long",
    "{subject} is too large for {bound}",
    "Too many tokens: {subject} {relation} {bound}",
    "please reduce the length of the prompt: {subject} {relation} {bound}",
)
OTHERS = (
    "Rate limit reached: {actual} tokens per minute, limit {limit}. Please try again later.",
    "You exceeded your current quota of {limit} tokens, used {actual}.",
    "The daily token limit of {limit} is exhausted ({actual} used).",
    "max_tokens ({actual}) cannot exceed {limit}",
    "max_tokens: {actual} > {limit}, which is the maximum number of output tokens",
    "This model supports at most {limit} completion tokens, whereas you provided {actual}.",
    "The requested output of {actual} tokens is larger than the output limit of {limit}",
    "The file is too large: {actual} bytes, the limit is {limit} bytes",
    "Request body of {actual} bytes exceeds the limit of {limit} bytes",
    "Invalid 'name': string too long. Expected a string with maximum length {limit}, but got a string with length {actual}",
    "Too many images in the request: {actual} > {limit}",
    "You have {actual} API tokens, the limit is {limit}",
    "Unexpected token at position {actual}",
    "Maximum number of retries ({limit}) exceeded",
    "temperature must be less than {limit}, got {actual}",
)
limits = st.integers(min_value=512, max_value=10_000_000)
excesses = st.integers(min_value=1, max_value=10_000_000)


@st.composite
def sentences(draw: st.DrawFn, templates: tuple[str, ...]) -> tuple[str, int, int]:
    """Return a sentence, the limit it states and the actual count it states."""
    limit = draw(limits)
    actual = limit + draw(excesses)
    text = draw(st.sampled_from(templates)).format(
        subject=draw(st.sampled_from(SUBJECTS)),
        relation=draw(st.sampled_from(RELATIONS)),
        bound=draw(st.sampled_from(BOUNDS)),
        limit=limit,
        actual=actual,
    )
    return text, limit, actual


def _as_json(text: str) -> str:
    return json.dumps({"error": {"message": text, "type": "invalid_request_error", "code": 400}})


def _as_raw(text: str) -> str:
    return json.dumps({"error": {"message": "Provider returned error", "metadata": {"raw": text}}})


def _as_client(text: str) -> str:
    return f"litellm.BadRequestError: OpenAIException - Error code: 400 - {{'error': {{'message': {text!r}, 'param': None}}}}"


def _as_stream(text: str) -> str:
    return f"event: error\ndata: {_as_json(text)}\n\n"


def _as_bytes(text: str) -> str:
    return f"VertexAIException - b'{_as_json(text)}'"


def _as_prose(text: str) -> str:
    return f"Agent step 7 failed: {text}"


def _hard_wrapped(text: str) -> str:
    return "\n  ".join(text.split(" "))


wrappers = st.lists(
    st.sampled_from([_as_json, _as_raw, _as_client, _as_stream, _as_bytes, _as_prose, _hard_wrapped]), max_size=3
)


@given(sentences(WITH_BOTH_NUMBERS))
def test_reads_limit_and_actual_however_they_are_put(sentence: tuple[str, int, int]) -> None:
    text, limit, actual = sentence

    info = parse_overflow(text)

    assert info is not None
    assert (info.kind, info.limit_tokens, info.actual_tokens) == ("context_overflow", limit, actual)


@given(sentences(WITHOUT_NUMBERS))
def test_needs_no_numbers(sentence: tuple[str, int, int]) -> None:
    assert parse_overflow(sentence[0]) == OverflowInfo(kind="context_overflow")


@given(sentences(OTHERS))
def test_takes_nothing_else_with_two_numbers_for_an_overflow(sentence: tuple[str, int, int]) -> None:
    assert not is_context_overflow(sentence[0])


@given(sentences(WITH_BOTH_NUMBERS), wrappers)
def test_wrapping_changes_nothing(sentence: tuple[str, int, int], layers: list[object]) -> None:
    """Gateways and clients nest each other's errors as JSON in JSON, dicts in text and lines in terminals."""
    text, limit, actual = sentence
    for layer in layers:
        assert callable(layer)
        text = layer(text)

    info = parse_overflow(text)

    assert info is not None
    assert (info.kind, info.limit_tokens, info.actual_tokens) == ("context_overflow", limit, actual)


@given(sentences(WITH_BOTH_NUMBERS), st.sampled_from(["text", "content", "arguments", "input", "default"]))
def test_quoted_text_in_another_error_is_no_overflow(sentence: tuple[str, int, int], key: str) -> None:
    quoted = json.dumps({key: sentence[0]})

    assert not is_context_overflow(f"Invalid schema for function 'report': expected a string, got {quoted}")
    assert not is_context_overflow({"choices": [{"finish_reason": "stop", "message": {key: sentence[0]}}]})


@given(sentences(WITH_BOTH_NUMBERS), st.sampled_from([401, 402, 403, 429]))
def test_a_veto_holds_for_every_sentence(sentence: tuple[str, int, int], status: int) -> None:
    assert not is_context_overflow(sentence[0], status=status)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.binary()
    | st.sampled_from(["prompt is too long", "413"]),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["error", "message", "code", "raw"]), inner)
    ),
    max_leaves=20,
)
letters = st.text(alphabet="prompt tokens exceed limit 0123456789,.:;\"'{}[]()<>\\\n\u8d85\u957f")


@given(values | letters, st.integers() | st.none(), st.text() | st.none(), st.text() | st.none())
@example("1" * 5_000, None, None, None)
@example("(" * 3_000, None, None, None)
@example("\\u0000\\ud800 prompt is too long: \u0661\u0662 tokens", None, "\u00b2", None)
def test_never_raises(error: object, status: int | None, code: str | None, provider: str | None) -> None:
    info = parse_overflow(error, status=status, code=code, provider=provider)

    assert info is None or info.limit_tokens is None or info.kind == "context_overflow"
    assert parse_overflow(Exception(error), status=status, code=code, provider=provider) is not info or info is None


@given(st.integers(min_value=1, max_value=10_000_000), st.integers(min_value=1, max_value=10_000_000))
def test_never_reports_less_than_the_limit(limit: int, actual: int) -> None:
    """A window learned from a contradiction would be wrong: both numbers are left out."""
    info = parse_overflow(f"prompt is too long: {actual} tokens > {limit} maximum")

    assert info is not None
    assert (info.limit_tokens is None) == (info.actual_tokens is None) == (actual < limit)
