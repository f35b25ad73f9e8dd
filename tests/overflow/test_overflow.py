"""`is_context_overflow()`, `parse_overflow()`: errors that are an overflow, similar ones that are none, and their numbers."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from typing import Any

import pytest

from compaction_hooks.overflow import OverflowInfo, is_context_overflow, parse_overflow
from tests.cases import folded
from tests.data import DATA

OVERFLOWS = [
    # Hosted APIs, as their documentation and public issues quote them; limit and actual as the sentence states them.
    pytest.param("This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens (8800 in"
                 " the messages, 201 in the functions). Please reduce the length of the messages or functions.",
                 8192, 9001, id="openai chat"),
    pytest.param("This model's maximum context length is 4097 tokens, however you requested 4300 tokens (300 in your prompt;"
                 " 4000 for the completion). Please reduce your prompt; or completion length.", 4097, 4300,
                 id="openai completions"),
    pytest.param("Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 533603 tokens. Please"
                 " reduce the length of the messages.", 272000, 533603, id="openai configured limit"),
    pytest.param("Your input exceeds the context window of this model. Please adjust your input and try again.", None, None,
                 id="openai responses"),
    pytest.param("prompt is too long: 213462 tokens > 200000 maximum", 200000, 213462, id="anthropic"),
    pytest.param("input length and `max_tokens` exceed context limit: 198157 + 21333 > 200000, decrease input length or"
                 " `max_tokens` and try again", 200000, 219490, id="anthropic sum"),
    pytest.param("The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).", 1048575, 1196265,
                 id="gemini"),
    pytest.param("The input token count exceeds the maximum number of tokens allowed 1048576.", 1048576, None,
                 id="gemini without the count"),
    pytest.param("Unable to submit request because the input token count is 2000000 but model only supports up to 1048576."
                 " Reduce the input token count and try again.", 1048576, 2000000, id="vertex"),
    pytest.param("Your input context is too long. Reduce your input context or temporarily switch to another model.", None,
                 None, id="gemini prose"),
    pytest.param("Input is too long for requested model.", None, None, id="bedrock claude"),
    pytest.param("Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input to try"
                 " again.", None, None, id="bedrock nova"),
    pytest.param("Too many input tokens. Max input tokens: 8192, request input token count: 9279", 8192, 9279,
                 id="bedrock titan"),
    pytest.param("Malformed input request: expected maxLength: 50000, actual: 61234, please reformat your input and try"
                 " again.", None, None, id="bedrock titan in characters"),
    pytest.param("prompt tokens (300238) exceed model maximum (272000)", 272000, 300238, id="bedrock mantle"),
    pytest.param("Prompt contains 138345 tokens and 0 draft tokens, too large for model with 131072 maximum context length",
                 131072, 138345, id="mistral"),
    pytest.param("Please reduce the length of the messages or completion.", None, None, id="groq"),
    pytest.param("Please reduce the length of the messages or completion. Current length is 9100 while limit is 8192", 8192,
                 9100, id="cerebras"),
    pytest.param("too many tokens: size limit exceeded by 105 tokens. Try using shorter or fewer inputs. The limit for this"
                 " model is 8992 tokens.", 8992, None, id="cohere states the excess"),
    pytest.param("too many tokens: total number of tokens (prompt and prediction) cannot exceed 2048 - received 6354. Try"
                 " using a shorter prompt or a smaller max_tokens value.", 2048, 6354, id="cohere"),
    pytest.param("This model's maximum prompt length is 131072 but the request contains 537812 tokens.", 131072, 537812,
                 id="xai states the limit first"),
    pytest.param("prompt token count of 138898 exceeds the limit of 64000", 64000, 138898, id="copilot"),
    pytest.param("Message exceeds token limit.", None, None, id="copilot prose"),
    pytest.param("Request body too large for gpt-4o model. Max size: 8000 tokens.", 8000, None, id="github models"),
    pytest.param("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]", 129024, None,
                 id="dashscope"),
    pytest.param("Invalid request: Your request exceeded model token limit: 262144 (requested: 291351)", 262144, 291351,
                 id="kimi"),
    pytest.param("Prompt exceeds max length", None, None, id="zhipu"),
    pytest.param("tokens in request more than max tokens allowed", None, None, id="zhipu tokens"),
    pytest.param("Prompt \u8d85\u957f", None, None, id="zhipu in Chinese"),
    pytest.param("invalid params, context window exceeds limit (2013)", None, None, id="minimax ends in its error code"),
    pytest.param("The prompt is too long: 40000, model maximum context length: 32768", 32768, 40000, id="fireworks"),
    pytest.param("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 2019 `inputs` tokens"
                 " and 30 `max_new_tokens`", 2048, 2049, id="together and TGI"),
    pytest.param("The input (61709 tokens) is longer than the model's context length (40960 tokens).", 40960, 61709,
                 id="together and sglang"),
    pytest.param("Requested generation length 1 is not possible! The provided prompt is 9000 tokens long, so generating 1"
                 " tokens requires a sequence length of 9001, but the maximum supported sequence length is just 8192!", 8192,
                 9000, id="sambanova"),
    pytest.param("This endpoint's maximum context length is 32768 tokens. However, you requested about 42832 tokens (40000 of"
                 " text input, 832 of tool input, 2000 in the output). Please reduce the length of either one, or use the"
                 " \"middle-out\" transform to compress your prompt automatically.", 32768, 42832, id="openrouter"),
    pytest.param("5021: The estimated number of input and maximum output tokens (155740) exceeded this model context window"
                 " limit (128000).", 128000, 155740, id="cloudflare begins with its error code"),
    pytest.param("Requested input length 17000 exceeds maximum input length 16384", 16384, 17000, id="deepinfra"),
    pytest.param("Input length 131393 exceeds the maximum allowed input length of 131040 tokens.", 131040, 131393,
                 id="poolside"),
    pytest.param("the number of input tokens 9000 cannot exceed the total tokens limit 8192 for this model", 8192, 9000,
                 id="watsonx"),
    pytest.param("Number of input tokens must be no more than 8192, got 9000", 8192, 9000, id="yandex"),
    pytest.param("text length is 12000, which is outside the range (0, 10000]", None, None, id="yandex in characters"),
    pytest.param("Total tokens of image and text exceed max message tokens", None, None, id="volcengine"),
    pytest.param("Messages have 16865 tokens, which exceeds the max limit of 8192 tokens.", 8192, 16865, id="perplexity"),
    pytest.param("Request too many tokens: 1999 + 50 > 2048", 2048, 2049, id="ai21"),
    pytest.param("length of prompt_tokens (57535) must be less than max_seq_len (32768)", 32768, 57535, id="siliconflow"),
    pytest.param("number of input tokens (204703) has exceeded max_prompt_tokens (202752) limit.", 202752, 204703,
                 id="siliconflow limit"),
    pytest.param("Request to model 'voyage-3' failed. The example at index 0 in your batch has too many tokens and does not"
                 " fit into the model's context window of 32000 tokens.", 32000, None, id="voyage"),
    # Servers one runs oneself.
    pytest.param("This model's maximum context length is 131072 tokens. However, you requested 16000 output tokens and your"
                 " prompt contains at least 115073 input tokens, for a total of at least 131073 tokens. Please reduce the"
                 " length of the input prompt or the number of requested output tokens. (parameter=input_tokens,"
                 " value=115073)", 131072, 131073, id="vllm"),
    pytest.param("This model's maximum context length is 32768 tokens. However, you requested 4096 output tokens and your"
                 " prompt contains 200000 characters (more than 130688 characters, which is the upper bound for 28672 input"
                 " tokens). Please reduce the length of the input prompt.", 32768, None, id="vllm counts characters"),
    pytest.param("You passed 99073 input tokens and requested 32000 output tokens. However, the model's context length is only"
                 " 131072 tokens, resulting in a maximum input length of 99072 tokens.", 131072, 131073, id="vllm states parts"),
    pytest.param("The decoder prompt (length 21535) is longer than the maximum model length of 16384.", 16384, 21535,
                 id="vllm offline"),
    pytest.param("request (33056 tokens) exceeds the available context size (32768 tokens), try increasing it", 32768, 33056,
                 id="llama.cpp"),
    pytest.param("Context size has been exceeded.", None, None, id="llama.cpp while generating"),
    pytest.param("Requested tokens (2065) exceed context window of 1800", 1800, 2065, id="llama-cpp-python"),
    pytest.param("Trying to keep the first 10136 tokens when context the overflows. However, the model is loaded with context"
                 " length of only 7866 tokens, which is not enough.", 7866, 10136, id="lmstudio"),
    pytest.param("number of tokens to keep from the initial prompt is greater than the context length (n_keep: 12000 >="
                 " n_ctx: 8192)", 8192, 12000, id="lmstudio n_keep"),
    pytest.param("prompt too long; exceeded max context length by 4 tokens", None, None, id="ollama states the excess"),
    pytest.param("Input length (5000) must be smaller than the model context length (4096).", 4096, 5000, id="lmdeploy"),
    pytest.param("Request prompt has 5000 tokens in total, larger than the model input length limit 4096.", 4096, 5000,
                 id="mlc"),
    pytest.param("Prompt tokens exceed context window size: number of prompt tokens: 5000; context window size: 4096.", 4096,
                 5000, id="webllm"),
    pytest.param("Prompt has 5,958,968 tokens, but the configured context size is 256,000 tokens", 256000, 5958968,
                 id="thousands separators"),
    pytest.param("Prompt length (5056) exceeds maximum sequence length (2048)", 2048, 5056, id="tensorrt-llm"),
    pytest.param("Context length of 4096 was exceeded during singleExtend", 4096, None, id="apple"),
    # Wordings of gateways, and none that is known.
    pytest.param("Model context window is 128k tokens, you requested 256k tokens", 128000, 256000, id="k for thousands"),
    pytest.param("You asked for 40000 tokens but only 32768 are available", 32768, 40000, id="asked and available"),
    pytest.param("This conversation is too long for this model", None, None, id="no numbers, no tokens"),
    pytest.param("You've hit the maximum length for this conversation. Start a new chat to continue.", None, None,
                 id="hit the maximum"),
    pytest.param("\u8bf7\u6c42\u957f\u5ea6\u8d85\u8fc7\u6a21\u578b\u4e0a\u4e0b\u6587\u7a97\u53e3\uff1a\u5f53\u524d 140000"
                 " tokens\uff0c\u6700\u5927 131072", 131072, 140000, id="Chinese with numbers"),
    pytest.param("\u8f93\u5165\u7684token\u603b\u6570\u4e0d\u80fd\u8d85\u8fc78192\uff0c\u5f53\u524d\u4e3a9000", 8192, 9000,
                 id="Chinese constraint"),
]  # fmt: skip

NEAR_MISSES = [
    # Rate limits, quotas and bills speak of tokens too.
    pytest.param("Too many tokens, please wait before trying again.", None, id="bedrock throttling"),
    pytest.param("Rate limit reached for gpt-4o in organization org-X on tokens per min (TPM): Limit 30000, Used 29937,"
                 " Requested 385. Please try again in 644ms.", None, id="tokens per minute, for a moment"),
    pytest.param("Request too large for gpt-4o in organization org-X on tokens per min (TPM): Limit 30000, Requested 36278."
                 " The input or output tokens must be reduced in order to run successfully.", "too_large",
                 id="tokens per minute, for ever"),
    pytest.param("on tokens per minute (TPM): Limit 6000, Requested 6294, please reduce your message size and try again.",
                 "too_large", id="groq tokens per minute"),
    pytest.param("Tokens per minute limit exceeded - too many tokens processed.", None, id="cerebras tokens per minute"),
    pytest.param("Number of request tokens has exceeded your per-minute rate limit", None, id="per-minute"),
    pytest.param("Your credit balance is too low. Maximum request token limit exceeded.", None, id="balance"),
    pytest.param("Prompt tokens limit exceeded: 3944 > 3796. To increase, upgrade to a paid account", "too_large",
                 id="openrouter credits"),
    pytest.param("This request requires more credits, or fewer max_tokens. You requested up to 131072 tokens, but can only"
                 " afford 54095.", None, id="openrouter affords"),
    pytest.param("Extra usage is required for long context requests.", "too_large", id="plan without long context"),
    # The requested answer, not the conversation.
    pytest.param("max_tokens: 21333 > 4096, which is the maximum allowed number of output tokens for claude-3-opus-20240229",
                 "output_cap", id="anthropic cap"),
    pytest.param("max_tokens is too large: 32000. This model supports at most 16384 completion tokens, whereas you provided"
                 " 32000.", "output_cap", id="openai cap"),
    pytest.param("`max_completion_tokens` must be less than or equal to `40960`, the maximum value for"
                 " `max_completion_tokens` is less than the `context_window` for this model", "output_cap", id="groq cap"),
    pytest.param("too many tokens: max tokens must be less than or equal to 4096, the maximum output length for this model -"
                 " received 1000000.", "output_cap", id="cohere cap begins like cohere's overflow"),
    pytest.param("The maximum tokens you requested exceeds the model limit of 32768", "output_cap", id="bedrock cap"),
    pytest.param("Range of max_tokens should be [1, 8192]", "output_cap", id="dashscope cap"),
    pytest.param("max_tokens=131072 cannot be greater than max_model_len=max_total_tokens=28672. Please request fewer output"
                 " tokens.", "output_cap", id="deepinfra cap"),
    pytest.param("n_predict must be less than 4096", "output_cap", id="n_predict"),
    pytest.param("Model token limit (4096) exceeded while generating a tool call, resulting in incomplete arguments. Increase"
                 " the `max_tokens` model setting", None, id="an answer cut off"),
    pytest.param("The model stopped because it reached the maximum number of tokens allowed for the response.", None,
                 id="an answer that reached its end"),
    # Bytes, items and other things that can be too long.
    pytest.param("Request exceeds the maximum allowed number of bytes.", "too_large", id="bytes"),
    pytest.param("Prompt size (70000 bytes) exceeds maximum context (65536 bytes)", "too_large", id="a prompt in bytes"),
    pytest.param("Invalid 'messages[4].content': string too long. Expected a string with maximum length 1048576, but got a"
                 " string with length 1056035 instead.", "too_large", id="one message's characters"),
    pytest.param("Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length"
                 " 150 instead.", None, id="too many tools"),
    pytest.param("Too many messages: 2100, the maximum is 2048", "too_large", id="too many messages"),
    pytest.param("too many images and documents: 601 + 0 > 600", None, id="images, with the shape of an overflow"),
    pytest.param("Error: 400 messages.1.content.0.image.source.base64: image exceeds 5 MB maximum: 6507076 bytes > 5242880"
                 " bytes", None, id="an image"),
    pytest.param("File content (56176 tokens) exceeds maximum allowed tokens (25000).", None, id="a file"),
    pytest.param("The max allowed tokens per submitted batch is 120000. Your batch has 147910 tokens after truncation.",
                 "too_large", id="a batch"),
    pytest.param("String should have at most 64 characters", None, id="a field"),
    pytest.param("(1406, \"Data too long for column 'prompt' at row 1\")", None, id="a database column"),
    pytest.param("[Errno 36] File name too long: 'a-very-long-name.txt'", None, id="a file name"),
    pytest.param("bufio.Scanner: token too long", None, id="a scanner"),
    pytest.param("[Errno 90] Message too long", None, id="a datagram"),
    # Other tokens, other contexts, other limits.
    pytest.param("Your access token has expired. Please request a new token.", None, id="expired token"),
    pytest.param("You have reached the limit of 10 API tokens. Delete a token before you create another.", None,
                 id="API tokens"),
    pytest.param("Post \"https://api.openai.com/v1/chat/completions\": context deadline exceeded", None, id="deadline"),
    pytest.param("context window selection is unsupported", None, id="a window, no excess"),
    pytest.param("Model context window too small (minimum is 16000 tokens)", None, id="too small"),
    pytest.param("maximum recursion depth exceeded", None, id="recursion"),
    pytest.param("Max turns (10) exceeded", None, id="turns"),
    pytest.param("Too Many Requests", None, id="requests"),
    pytest.param("1 validation error for M\ntokens\n  Input should be less than or equal to 4096 [type=less_than_equal,"
                 " input_value=100000, input_type=int]", None, id="a validation error of pydantic"),
    # A user's text, quoted by another error.
    pytest.param("Invalid schema for function 'report': 'default' must be a string; got {\"text\": \"prompt is too long:"
                 " 213462 tokens > 200000 maximum\"}", None, id="quoted by a schema error"),
    pytest.param("Output blocked by content filtering policy while continuing: \"...then the API says prompt is too long\"",
                 None, id="quoted by a content filter"),
    pytest.param("AssertionError: assert classify('prompt is too long: 5 tokens > 4 maximum') is False", None,
                 id="quoted by an assertion"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "limit", "actual"), OVERFLOWS)
def test_recognises_an_overflow_and_reads_its_numbers(text: str, limit: int | None, actual: int | None) -> None:
    info = parse_overflow(text)

    assert info is not None
    assert (info.kind, info.limit_tokens, info.actual_tokens) == ("context_overflow", limit, actual)
    assert is_context_overflow(text)


@pytest.mark.parametrize(("text", "kind"), NEAR_MISSES)
def test_similar_errors_are_no_overflows(text: str, kind: str | None) -> None:
    info = parse_overflow(text)

    assert (info.kind if info else None) == kind
    assert not is_context_overflow(text)


@pytest.mark.parametrize(
    "text",
    [
        "connection reset by peer",
        "Request timed out. Try reducing the length of the prompt.",
        "CUDA out of memory. Reduce the input length.",
        "503 Service Unavailable",
        "Overloaded",
        "An internal error has occurred. Please retry",
        "The model `gpt-5.2-proo` does not exist or you do not have access to it.",
        "Incorrect API key provided",
        "tool_use ids were found without tool_result blocks immediately after: toolu_01",
        "",
    ],
)
def test_has_nothing_to_say_about_ordinary_errors(text: str) -> None:
    assert parse_overflow(text) is None


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
    """429 never counts as overflow, with any text."""
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


def test_reads_across_hard_wrapped_lines() -> None:
    wrapped = (
        "✕ [API Error: The input token count (154364) exceeds the maximum number of tokens \n\n  allowed\n│ (131072).]"
    )

    info = parse_overflow(wrapped)

    assert info is not None
    assert (info.limit_tokens, info.actual_tokens) == (131072, 154364)


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


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(Exception(SENTENCE), id="plain exception"),
        pytest.param(APIStatusError(body={"message": SENTENCE}), id="body"),
        pytest.param(APIStatusError(body=json.dumps({"message": SENTENCE})), id="body as text"),
        pytest.param(APIStatusError(response=HTTPResponse(400, json.dumps({"error": {"message": SENTENCE}}))), id="response"),
        pytest.param(HTTPResponse(400, SENTENCE), id="response itself"),
        pytest.param(APIStatusError(SENTENCE, response=StreamedResponse()), id="response not read"),
        pytest.param(BotoClientError({"Error": {"Code": "ValidationException", "Message": SENTENCE}}), id="botocore"),
        pytest.param(AgentMessage("", "error", f'API returned error: 400 - {{"message":"{SENTENCE}"}}'), id="tinyagent"),
        pytest.param(Exception(APIStatusError(SENTENCE)), id="exception as argument"),
        pytest.param(ExceptionGroup("all models failed", [RateLimitError("429"), APIStatusError(SENTENCE)]), id="group"),
        pytest.param({"error": APIStatusError(SENTENCE)}, id="exception in a dict"),
        pytest.param([SENTENCE], id="list"),
        pytest.param(SENTENCE.encode(), id="bytes"),
        pytest.param(repr({"error": {"message": SENTENCE, "code": None}}), id="dict as text"),
        pytest.param(json.dumps({"error": {"metadata": {"raw": json.dumps({"error": {"message": SENTENCE}})}}}), id="nested"),
        pytest.param("BadRequestError: " + json.dumps({"raw": json.dumps({"raw": json.dumps({"message": SENTENCE})})}),
                     id="nested in text"),
        pytest.param("prompt is too long: 5000 tokens \\u003e 4096 maximum", id="escaped comparison"),
    ],
)  # fmt: skip
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


def test_follows_causes() -> None:
    step = _from(Exception(SENTENCE), ValueError("step"))

    assert parse_overflow(_from(step, RuntimeError("agent failed"))) == READ


def test_follows_the_context_of_a_wrapper() -> None:
    assert parse_overflow(_during(Exception(SENTENCE), RuntimeError("agent failed"))) == READ


def test_a_provider_that_the_caller_names_is_that_of_wrapped_errors_too() -> None:
    bare = APIStatusError("Error code: 400", response=HTTPResponse(400, ""))
    for error in (_from(bare, RuntimeError("agent failed")), ExceptionGroup("all models failed", [bare])):
        assert is_context_overflow(error, provider="cerebras")
        assert not is_context_overflow(error)


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError("summariser"),
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


@pytest.mark.parametrize(
    "unit", ["prompt is too long, ", "max tokens ", "12345 ", "\\", "\"prompt' ", "[", "tokens limit "]
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
