"""What langchain-openai and langchain-anthropic raise is recognized, for every wording a provider may use."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langchain_core")

import langchain_core.exceptions
from compaction_adapters.langchain_core import ModelContextOverflowError
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableLambda

from compaction_hooks import ContextOverflowError, is_context_overflow, parse_overflow
from tests.adapters import langchain_core_stage
from tests.adapters.langchain_core_stage import Stage, spoken
from tests.provider import WORDINGS, Rejection

provider = langchain_core_stage.provider
stage = langchain_core_stage.stage

WINDOW = 4_000
NAMED = {"cerebras": "cerebras"}
"""Providers whose rejection says nothing: recognized by who it is."""


async def sent(model: Any, messages: list[Any], way: str) -> None:
    if way == "stream":
        async for _ in model.astream(messages):
            pass
    else:
        await model.ainvoke(messages)


@pytest.mark.parametrize("way", ["plain", "stream"])
@pytest.mark.parametrize("client", ["openai", "anthropic"])
async def test_every_wording_is_recognised(stage: Stage, client: str, way: str) -> None:
    model, messages = getattr(stage, client)(max_tokens=256), [*spoken(8), HumanMessage("And now?")]
    read: dict[str, tuple[bool, int | None]] = {}
    for wording in WORDINGS:
        stage.side(window=WINDOW, wording=wording)
        with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever the integration makes of it
            await sent(model, messages, way)
        found = parse_overflow(caught.value, provider=NAMED.get(wording))
        is_overflow = is_context_overflow(caught.value, provider=NAMED.get(wording))
        read[wording] = (is_overflow, found.limit_tokens if found else None)
    assert read == {name: (True, WINDOW if "{limit}" in one.text else None) for name, one in WORDINGS.items()}


@pytest.mark.parametrize("status", [429, 500, 401, 400])
@pytest.mark.parametrize("client", ["openai", "anthropic"])
async def test_other_errors_are_not(stage: Stage, client: str, status: int) -> None:
    said = {
        429: "Rate limit reached: 30000 tokens per min.",
        500: "Internal server error",
        401: "Bad key",
        400: "Bad role",
    }
    body = {"type": "error", "error": {"type": "api_error", "message": said[status]}}
    stage.side(Rejection(status, body))
    with pytest.raises(Exception, match=said[status].split(":")[0]) as caught:
        await getattr(stage, client)().ainvoke("Hi.")
    assert not is_context_overflow(caught.value)


async def test_an_error_that_a_chain_passes_on_is_recognised(stage: Stage) -> None:
    stage.side(window=100)
    chain: Any = RunnableLambda(lambda text: [HumanMessage(text)]) | stage.openai().with_retry(stop_after_attempt=1)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever the integration makes of it
        await chain.ainvoke("many words " * 200)
    assert is_context_overflow(caught.value)


def test_langchains_own_error_is_recognised() -> None:
    assert is_context_overflow(langchain_core.exceptions.ContextOverflowError("too much"))


def test_our_error_is_langchains_too() -> None:
    made = ModelContextOverflowError.of(ContextOverflowError("no", tokens=9, window=5, part="tools"))
    assert isinstance(made, langchain_core.exceptions.ContextOverflowError)
    assert (str(made), made.tokens, made.window, made.part) == ("no", 9, 5, "tools")
