"""Errors of langchain-openai and langchain-anthropic are recognized, for every wording of a provider."""

from __future__ import annotations

import langchain_core.exceptions
import pytest

from compaction_hooks import is_context_overflow, parse_overflow
from tests.adapters.langchain_core_stage import Stage, asked
from tests.provider import WORDINGS, Rejection

WINDOW = 4_000
NAMED = {"cerebras": "cerebras"}
"""Providers whose rejection has no text: recognized by their name."""
OTHERS = {
    429: "Rate limit reached: 30000 tokens per min.",
    500: "Internal server error",
    401: "Bad key",
    400: "Bad role",
}


@pytest.mark.parametrize("way", ["plain", "stream"])
@pytest.mark.parametrize("client", ["openai", "anthropic"])
async def test_every_wording_is_recognized(stage: Stage, client: str, way: str) -> None:
    model = getattr(stage, client)(max_tokens=256)
    read: dict[str, tuple[bool, int | None]] = {}
    for wording in WORDINGS:
        stage.side(window=WINDOW, wording=wording)
        with pytest.raises(Exception) as caught:  # noqa: PT011 - each integration raises errors of its own
            await (anext(model.astream(asked(8))) if way == "stream" else model.ainvoke(asked(8)))
        found = parse_overflow(caught.value, provider=NAMED.get(wording))
        is_overflow = is_context_overflow(caught.value, provider=NAMED.get(wording))
        read[wording] = (is_overflow, found.limit_tokens if found else None)
    assert read == {name: (True, WINDOW if "{limit}" in one.text else None) for name, one in WORDINGS.items()}


@pytest.mark.parametrize("client", ["openai", "anthropic"])
async def test_other_errors_are_no_overflow(stage: Stage, client: str) -> None:
    for status, text in OTHERS.items():
        stage.side(Rejection(status, {"type": "error", "error": {"type": "api_error", "message": text}}))
        with pytest.raises(Exception, match=text.split(":")[0]) as caught:
            await getattr(stage, client)().ainvoke("Hi.")
        assert not is_context_overflow(caught.value)


def test_an_error_of_langchain_itself_is_recognized() -> None:
    assert is_context_overflow(langchain_core.exceptions.ContextOverflowError("too much"))
