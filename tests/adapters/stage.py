"""A side of the provider for one test, and a summarizer: shared by the stages of all frameworks."""

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from importlib import import_module
from typing import Any

import pytest

from compaction_hooks import CompactionController, Summary, SummaryRequest
from compaction_hooks.testing import Script
from tests.cases import sampled
from tests.provider import Answer, LoopbackProvider, Rejection, Side
from tests.provider.recorded import read_scripts

WINDOW = 16_384
SECRET = "KINGFISHER"
"""A word of summaries only."""


@contextmanager
def own_event_loop() -> Iterator[None]:
    """For `run_sync`, which leaves a loop that it makes itself open."""
    with closing(asyncio.new_event_loop()) as loop:
        asyncio.set_event_loop(loop)
        yield
        asyncio.set_event_loop(None)


class ProviderStage:
    """A provider's side for one test. Each framework adds models that talk to it."""

    window = WINDOW

    def __init__(self, provider: LoopbackProvider, key: str) -> None:
        self.provider = provider
        self.key = key
        self._boto: list[Any] = []
        self._genai: list[Any] = []

    def side(self, *answers: Answer | Rejection, window: int | None = None, key: str = "", **options: Any) -> Side:
        side = self.provider.conversation(self.key + key, window=window or self.window, answers=answers, **options)
        side.summary_text = f"## Goal\n- {SECRET}"
        return side

    def bedrock_client(self) -> Any:
        """Return boto3's client of Converse."""
        boto3: Any = import_module("boto3")
        client = boto3.client(
            "bedrock-runtime",
            endpoint_url=self.provider.anthropic_url,
            region_name="us-east-1",
            aws_access_key_id=self.key,
            aws_secret_access_key="secret",
        )
        self._boto.append(client)
        return client

    def google_client(self) -> Any:
        """Return google-genai's client."""
        genai: Any = import_module("google.genai")
        client = genai.Client(api_key=self.key, http_options={"base_url": self.provider.anthropic_url})
        self._genai.append(client)
        return client

    async def close(self) -> None:
        """Close the clients."""
        for google in self._genai:
            await google.aio.aclose()
            google.close()
        for client in self._boto:
            client.close()


class CountingSummarizer:
    """Writes summaries and keeps the requests for them."""

    def __init__(self) -> None:
        self.asked: list[SummaryRequest] = []

    def __call__(self, request: SummaryRequest) -> Summary:
        self.asked.append(request)
        return Summary(text=f"## Goal\n- {SECRET} {len(self.asked)}")


DENIED = "Never push to main. Rebase first!"
"""What a person says who denies a call of `push`."""


def check_denied_call(messages: list[Any], message_format: Any, result: str) -> None:
    """Check that the words of a denied call are its result in a summary, and no request of the user."""
    hooks = CompactionController(context_window=64_000, format=message_format)
    record = hooks.compact_sync(messages, keep_recent_tokens=0).record
    assert record is not None
    assert f"- [x] push(branch=main) -> FAILED: {result}" in record.summary
    assert DENIED not in record.summary.partition("## Progress")[0]


MINIMUM_TOKENS = 24_000
MOST_ANSWERS = 60
"""In all: every model call of a loop costs some milliseconds of its framework's own."""

PATTERNS = sampled(["openhands*", "miniswe*", "kimi*"], 1)
"""One session of each source: an editor, a terminal, many turns in Chinese."""


@cache
def recorded_script(pattern: str) -> Script:
    """The first long session of a source; skips where it has none."""
    for _, script in read_scripts(pattern, minimum_tokens=MINIMUM_TOKENS):
        if len(script.answers) <= MOST_ANSWERS and max(len(turn.user) for turn in script.turns) < 20_000:
            return script
    pytest.skip(f"no session of {pattern} has {MINIMUM_TOKENS:,} tokens")
