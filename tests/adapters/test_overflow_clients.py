"""Overflow errors as the providers' own clients raise them, over real HTTP: known in every wording, with limit and actual count."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import anthropic
import openai
import pytest

from compaction_hooks import OverflowInfo, is_context_overflow, parse_overflow
from compaction_hooks.testing import Answer
from tests.cases import folded
from tests.conversations import prose, user
from tests.provider import WORDINGS, LoopbackProvider, Rejection, Side

WINDOW = 1_000
SAID = [user(prose(2_000))]
HELLO = [user("Hello.")]


class Client:
    """One provider's client library, with retries off; its API key is its name."""

    def __init__(self, provider: LoopbackProvider, name: str, key: str = "") -> None:
        self.name = name
        self.client: Any = (
            openai.OpenAI(base_url=provider.openai_url, api_key=key or name, max_retries=0)
            if name == "openai"
            else anthropic.Anthropic(base_url=provider.anthropic_url, api_key=key or name, max_retries=0)
        )

    def plain(self, messages: Any, **options: Any) -> Any:
        chat = self.client.chat.completions if self.name == "openai" else self.client.messages
        return chat.create(model="m", messages=messages, max_tokens=50, **options)

    def streamed(self, messages: Any) -> list[Any]:
        if self.name == "openai":
            return list(self.plain(messages, stream=True))
        with self.client.messages.stream(model="m", messages=messages, max_tokens=50) as stream:
            return list(stream)


@pytest.fixture(scope="module", params=["openai", "anthropic"])
def client(provider: LoopbackProvider, request: pytest.FixtureRequest) -> Iterator[Client]:
    opened = Client(provider, request.param)
    yield opened
    opened.client.close()


def error_of(call: Callable[[], object]) -> Any:
    with pytest.raises((openai.APIError, anthropic.APIError)) as caught:
        call()
    return caught.value


def wrap(error: Exception) -> Exception:
    try:
        raise RuntimeError("the agent failed") from error
    except RuntimeError as outer:
        return outer


def forms(error: Any) -> dict[str, object]:
    """Return the error in all forms in which a host may hold it."""
    return {
        "as raised": error,
        "wrapped": wrap(error),
        "in a group": ExceptionGroup("one of several", [ValueError("unrelated"), error]),
        "as text": str(error),
        "as body": error.body,
        "as JSON in a text": f"the provider said {error.response.text}",
        "as response": error.response,
    }


def expected(wording: str, side: Side) -> tuple[str, int | None, int | None]:
    """Return kind, limit and actual count, as far as the wording states them; requested output if the provider includes it."""
    text, request = WORDINGS[wording].text, side.requests[-1]
    sent = request.input_tokens + request.max_tokens * ("{output}" in text)
    return "context_overflow", side.window if "{limit}" in text else None, sent if "{input}" in text else None


def read(info: OverflowInfo | None) -> tuple[str, int | None, int | None] | None:
    return (info.kind, info.limit_tokens, info.actual_tokens) if info else None


@pytest.mark.parametrize("mode", ["plain", "streamed"])
@pytest.mark.parametrize("wording", sorted(WORDINGS))
def test_an_overflow_is_read_from_every_form(
    wording: str, mode: str, client: Client, provider: LoopbackProvider
) -> None:
    side = provider.conversation(client.name, window=WINDOW, wording=wording)
    error = error_of(lambda: getattr(client, mode)(SAID))
    # Cerebras answers with a status and no body: only its name tells.
    named = "cerebras" if wording == "cerebras" else None
    held = {
        name: form
        for name, form in forms(error).items()
        if (named is None or name not in ("as body", "as JSON in a text"))
        and form != "Error code: 400"  # newer openai clients leave a body that is a list, as Gemini's, out of the text
    }
    found = {name: read(parse_overflow(form, provider=named)) for name, form in held.items()}
    assert found == dict.fromkeys(held, expected(wording, side))
    assert all(is_context_overflow(form, provider=named) for form in held.values())


IN_STREAMS = sorted(name for name, wording in WORDINGS.items() if wording.shape in ("openai", "anthropic"))
"""The other wordings come in no event that these clients take for an error."""


@pytest.mark.parametrize("wording", IN_STREAMS)
@pytest.mark.parametrize("chunks", [0, 2])
def test_an_overflow_inside_a_stream_is_read(
    chunks: int, wording: str, client: Client, provider: LoopbackProvider
) -> None:
    """The status was 200 by then, and the body is the stream's: only the event tells."""
    long = Answer("An answer long enough to come in several chunks, one after the other.")
    side = provider.conversation(client.name, answers=[long], window=WINDOW, wording=wording)
    side.stream_fail_after = chunks
    error = error_of(lambda: client.streamed(HELLO))
    for form in (error, wrap(error), ExceptionGroup("one of several", [error])):
        found = read(parse_overflow(form))
        assert found is not None
        assert found[:2] == expected(wording, side)[:2]


# -- other errors and answers


def rejection(status: int, kind: str, message: str, **fields: str) -> Rejection:
    return Rejection(status, {"type": "error", "error": {"type": kind, "message": message, **fields}})


RATE_LIMIT = (
    "Rate limit reached for m on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. "
    "Please reduce the length of the messages or try again in 2s."
)
OUTPUT_CAP = (
    "max_tokens is too large: 200000. This model supports at most 16384 completion tokens, whereas you provided 200000."
)
ORPHANS: Mapping[str, Any] = {
    "openai": [*HELLO, {"role": "tool", "tool_call_id": "gone", "content": "42"}],
    "anthropic": [
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "gone", "content": "42"}]},
    ],
}


@folded(
    "answer, kinds",
    {
        "rate limit": (
            rejection(429, "rate_limit_error", RATE_LIMIT, code="rate_limit_exceeded"),
            {None, "too_large"},
        ),
        "output cap": (rejection(400, "invalid_request_error", OUTPUT_CAP), {"output_cap"}),
        "outage": (rejection(500, "api_error", "Internal server error"), {None, "too_large"}),
        "bytes": (
            rejection(413, "request_too_large", "Request exceeds the maximum allowed number of bytes."),
            {"too_large"},
        ),
        "orphaned tool result": (None, {None}),
    },
)
def test_another_refusal_is_no_overflow_in_any_form(
    answer: Rejection | None, kinds: set[str | None], client: Client, provider: LoopbackProvider
) -> None:
    side = provider.conversation(client.name, answers=[answer] if answer else [])
    error = error_of(lambda: client.plain(HELLO if answer else ORPHANS[client.name]))
    assert side.requests[-1].status >= 400
    for name, form in forms(error).items():
        info = parse_overflow(form)
        assert not is_context_overflow(form), name
        assert (info.kind if info else None) in kinds, name
