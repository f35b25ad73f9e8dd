"""Overflow errors as the providers' own clients raise them, over real HTTP: known in every wording, with limit and actual count."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias

import pytest

pytest.importorskip("starlette")
pytest.importorskip("anthropic")
pytest.importorskip("openai")

import anthropic
import openai

from compaction_hooks import OverflowInfo, is_context_overflow, parse_overflow
from compaction_hooks.testing import Answer
from tests.conversations import prose
from tests.provider import WORDINGS, LoopbackProvider, Rejection, Side

WINDOW = 1_000
MAX_TOKENS = 50
Messages: TypeAlias = Any
"""A list of dicts; each client has types of its own for them."""
SAID: Messages = [{"role": "user", "content": prose(2_000)}]


class Client(Protocol):
    """One provider's client library, with retries off.

    Attributes:
        key: Its API key, which names its conversation.
    """

    key: str

    def __init__(self, provider: LoopbackProvider, key: str) -> None: ...

    def plain(self, messages: Messages) -> Any:
        """Return the whole answer."""
        ...

    def streamed(self, messages: Messages) -> list[Any]:
        """Return the chunks of a streamed answer."""
        ...

    def close(self) -> None: ...


class OpenAI:
    def __init__(self, provider: LoopbackProvider, key: str) -> None:
        self.key = key
        self._client = openai.OpenAI(base_url=provider.openai_url, api_key=key, max_retries=0)

    def plain(self, messages: Messages) -> Any:
        return self._client.chat.completions.create(model="m", messages=messages, max_tokens=MAX_TOKENS)

    def streamed(self, messages: Messages) -> list[Any]:
        return list(
            self._client.chat.completions.create(model="m", messages=messages, max_tokens=MAX_TOKENS, stream=True)
        )

    def close(self) -> None:
        self._client.close()


class Anthropic:
    def __init__(self, provider: LoopbackProvider, key: str) -> None:
        self.key = key
        self._client = anthropic.Anthropic(base_url=provider.anthropic_url, api_key=key, max_retries=0)

    def plain(self, messages: Messages) -> Any:
        return self._client.messages.create(model="m", messages=messages, max_tokens=MAX_TOKENS)

    def streamed(self, messages: Messages) -> list[Any]:
        with self._client.messages.stream(model="m", messages=messages, max_tokens=MAX_TOKENS) as stream:
            return list(stream)

    def close(self) -> None:
        self._client.close()


@pytest.fixture(scope="module")
def provider() -> Iterator[LoopbackProvider]:
    with LoopbackProvider() as running:
        yield running


@pytest.fixture(scope="module", params=["openai", "anthropic"])
def client(provider: LoopbackProvider, request: pytest.FixtureRequest) -> Iterator[Client]:
    """Each client in turn."""
    libraries: Mapping[str, type[Client]] = {"openai": OpenAI, "anthropic": Anthropic}
    made = libraries[request.param](provider, request.param)
    yield made
    made.close()


def raised(call: Callable[[], object]) -> Exception:
    """The exception of the client."""
    with pytest.raises((openai.APIError, anthropic.APIError)) as caught:
        call()
    error: Exception = caught.value
    return error


def wrapped(error: Exception) -> Exception:
    """The error as a framework passes it on."""
    try:
        raise RuntimeError("the agent failed") from error
    except RuntimeError as outer:
        return outer


def forms(error: Any) -> dict[str, object]:
    """The error in all forms in which a host may hold it."""
    return {
        "as raised": error,
        "wrapped": wrapped(error),
        "in a group": ExceptionGroup("one of several", [ValueError("unrelated"), error]),
        "as text": str(error),
        "as body": error.body,
        "as JSON in a text": f"the provider said {error.response.text}",
        "as response": error.response,
    }


def expected(wording: str, side: Side) -> tuple[str, int | None, int | None]:
    """Kind, limit and actual count, as far as the wording states them."""
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
    """The whole of what is sent, requested output included where the provider includes it."""
    side = provider.conversation(client.key, window=WINDOW, wording=wording)
    error = raised(lambda: getattr(client, mode)(SAID))
    # Cerebras answers with a status and no body: only who it is tells.
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
    side = provider.conversation(client.key, answers=[long], window=WINDOW, wording=wording)
    side.stream_fail_after = chunks
    error = raised(lambda: client.streamed([{"role": "user", "content": "Hello."}]))
    kind, limit, _ = expected(wording, side)
    for form in (error, wrapped(error), ExceptionGroup("one of several", [error])):
        info = parse_overflow(form)
        assert info is not None
        assert (info.kind, info.limit_tokens) == (kind, limit)


# -- what is none

RATE_LIMIT = Rejection(
    429,
    {
        "type": "error",
        "error": {
            "type": "rate_limit_error",
            "code": "rate_limit_exceeded",
            "message": "Rate limit reached for m on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. "
            "Please reduce the length of the messages or try again in 2s.",
        },
    },
)
OUTPUT_CAP = Rejection(
    400,
    {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "max_tokens is too large: 200000. This model supports at most 16384 completion tokens, whereas you "
            "provided 200000.",
        },
    },
)
OUTAGE = Rejection(500, {"type": "error", "error": {"type": "api_error", "message": "Internal server error"}})
TOO_MANY_BYTES = Rejection(
    413,
    {
        "type": "error",
        "error": {"type": "request_too_large", "message": "Request exceeds the maximum allowed number of bytes."},
    },
)


@pytest.mark.parametrize(
    ("rejection", "kind"),
    [
        pytest.param(RATE_LIMIT, None, id="rate limit"),
        pytest.param(OUTPUT_CAP, "output_cap", id="output cap"),
        pytest.param(OUTAGE, None, id="outage"),
        pytest.param(TOO_MANY_BYTES, "too_large", id="bytes"),
    ],
)
def test_another_refusal_is_no_overflow_in_any_form(
    rejection: Rejection, kind: str | None, client: Client, provider: LoopbackProvider
) -> None:
    provider.conversation(client.key, answers=[rejection])
    error = raised(lambda: client.plain([{"role": "user", "content": "Hello."}]))
    for name, form in forms(error).items():
        info = parse_overflow(form)
        assert not is_context_overflow(form), name
        assert (info.kind if info else None) in ({kind} if kind else {None, "too_large"}), name


ORPHANS: Mapping[str, Messages] = {
    "openai": [{"role": "user", "content": "Hello."}, {"role": "tool", "tool_call_id": "gone", "content": "42"}],
    "anthropic": [
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "gone", "content": "42"}]},
    ],
}


def test_an_orphaned_tool_result_is_no_overflow(client: Client, provider: LoopbackProvider) -> None:
    side = provider.conversation(client.key)
    error = raised(lambda: client.plain(ORPHANS[client.key]))
    assert side.requests[-1].status == 400
    assert {name: parse_overflow(form) for name, form in forms(error).items()} == dict.fromkeys(forms(error))


def test_a_wrong_key_is_no_overflow(client: Client, provider: LoopbackProvider) -> None:
    stranger = type(client)(provider, "nobody")
    error = raised(lambda: stranger.plain(SAID))
    stranger.close()
    assert not any(map(is_context_overflow, forms(error).values()))


@pytest.mark.parametrize("text", ["prompt is too long: 20000 tokens > 16384 maximum", "Done."])
def test_what_the_model_says_is_no_overflow(text: str, client: Client, provider: LoopbackProvider) -> None:
    provider.conversation(client.key, answers=[Answer(text)])
    response = client.plain([{"role": "user", "content": "What did it say?"}])
    assert not is_context_overflow(response)
    assert not is_context_overflow(response.model_dump())


def test_an_answer_that_ran_into_the_window_says_so(client: Client, provider: LoopbackProvider) -> None:
    """A stop reason that names the window; `length` alone names nothing."""
    stops = ("model_context_window_exceeded", "length")
    provider.conversation(client.key, answers=[Answer("So far", stop=stop) for stop in stops])
    told = [client.plain([{"role": "user", "content": "Go on."}]) for _ in stops]
    assert [is_context_overflow(response) for response in told] == [True, False]
    assert [is_context_overflow(response.model_dump()) for response in told] == [True, False]
