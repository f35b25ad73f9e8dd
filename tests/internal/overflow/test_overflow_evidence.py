"""Where in an error the words about size are found, which of several errors speaks, and which numbers are read."""

from __future__ import annotations

import pytest

from compaction_hooks.overflow import is_context_overflow, parse_overflow
from compaction_hooks.overflow.evidence import read_evidence

SENTENCE = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens."


class SilentError(Exception):
    def __str__(self) -> str:
        return "failed"


class ContextWindowExceededError(SilentError):
    pass


class Response:
    def __init__(self, text: str, status_code: object = 400) -> None:
        self.text = text
        self.status_code = status_code


# -- where it stands


def test_the_names_of_an_errors_own_classes_count_and_pythons_do_not() -> None:
    assert read_evidence(ContextWindowExceededError()).codes == ["ContextWindowExceededError", "SilentError"]


def test_a_responses_text_is_read_but_not_that_of_anything_else() -> None:
    """The text of what is no response may be what a model wrote."""
    assert is_context_overflow(Response(SENTENCE))
    assert not is_context_overflow(Response(SENTENCE, status_code=None))
    error = SilentError()
    error.text, error.status_code = SENTENCE, 400  # type: ignore[attr-defined]
    assert not is_context_overflow(error)


@pytest.mark.parametrize("name", ["error_message", "errorMessage", "error-message", "ErrorMessage"])
def test_a_field_is_known_however_it_is_spelled(name: str) -> None:
    assert is_context_overflow({name: SENTENCE})


def test_a_sentence_that_is_repeated_is_read_once_and_others_up_to_a_bound() -> None:
    errors = [{"message": "one"}, {"message": "one"}, {"message": ""}, *({"message": f"text {n}"} for n in range(40))]
    texts = read_evidence({"errors": errors}).texts
    assert texts == ["one", *(f"text {n}" for n in range(15))]


def test_switches_and_gaps_are_no_numbers() -> None:
    assert read_evidence({"status": True, "code": None}).statuses == set()


def test_a_code_is_a_code_up_to_its_longest() -> None:
    code = "context_length_exceeded".ljust(80, "_")
    assert read_evidence({"code": code}).codes == [code]
    assert read_evidence({"code": code + "_"}).codes == []


# -- status


@pytest.mark.parametrize(("number", "is_status"), [(99, False), (100, True), (599, True), (600, False)])
def test_a_number_is_a_status_where_http_has_one(number: int, is_status: bool) -> None:
    assert read_evidence({"status_code": number}).statuses == ({number} if is_status else set())


def test_a_code_of_three_digits_is_a_status() -> None:
    assert read_evidence({"code": "429"}).statuses == {429}
    assert parse_overflow({"code": "429", "message": SENTENCE}) == parse_overflow(SENTENCE, status=429)
    assert parse_overflow(SENTENCE, code=429) == parse_overflow(SENTENCE, status=429)


def test_a_status_is_read_from_the_beginning_of_a_text_only() -> None:
    assert read_evidence("Error code: 429 - slow down").statuses == {429}
    assert read_evidence("x" * 300 + " error code: 429").statuses == set()


# -- who says it


def test_an_answer_without_a_body_is_an_overflow_by_the_providers_name_in_the_error() -> None:
    """Cerebras answers an overflow with a bare 400 or 413."""
    bare = {"status_code": 400, "message": "400 status code (no body)"}
    assert not is_context_overflow(bare)
    assert is_context_overflow(bare, provider="cerebras")
    assert is_context_overflow({**bare, "llm_provider": "Cerebras"})
    assert is_context_overflow({**bare, "provider": "gateway"}, provider="cerebras")


# -- which of several


def test_of_several_errors_the_one_with_the_most_numbers_speaks() -> None:
    limit = "This model's maximum prompt length is 131072."
    actual = "prompt is too long: 9001 tokens"
    group = ExceptionGroup("several", [ValueError(actual), ValueError(limit), ValueError(SENTENCE), ValueError(limit)])
    found = parse_overflow(group)
    assert found is not None
    assert (found.limit_tokens, found.actual_tokens) == (8192, 9001)


def test_the_same_error_met_twice_is_read_once_and_the_others_are_still_read() -> None:
    same = SilentError()
    group = ExceptionGroup("several", [same, same, ValueError(SENTENCE)])
    assert is_context_overflow(group)


# -- numbers


@pytest.mark.parametrize(
    ("text", "limit", "actual"),
    [
        pytest.param("maximum context length is 8_192 tokens, got 9_001 tokens", 8192, 9001, id="underscores"),
        pytest.param("maximum context length is 128k tokens, got 130.5k tokens", 128_000, 130_500, id="thousands"),
        pytest.param("prompt is too long: 1.2M tokens > 1M maximum", 1_000_000, 1_200_000, id="millions"),
        pytest.param("prompt is too long: 9,001 tokens &gt; 8,192 maximum", 8192, 9001, id="escaped for HTML"),
        pytest.param(r"prompt is too long: 9001 tokens \u003e 8192 maximum", 8192, 9001, id="escaped for JSON"),
    ],
)
def test_numbers_are_read_as_they_are_written(text: str, limit: int, actual: int) -> None:
    found = parse_overflow(text)
    assert found is not None
    assert (found.limit_tokens, found.actual_tokens) == (limit, actual)
