"""Errors of langchain-openai and langchain-anthropic are recognized, for every wording of a provider."""

import langchain_core.exceptions
import pytest

from compaction_hooks import is_context_overflow, parse_overflow
from tests.adapters.langchain_core_stage import Stage, asked
from tests.provider import WORDINGS

WINDOW = 4_000
NAMED = {"cerebras": "cerebras"}
"""Providers whose rejection has no text: recognized by their name."""


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


def test_an_error_of_langchain_itself_is_recognized() -> None:
    assert is_context_overflow(langchain_core.exceptions.ContextOverflowError("too much"))
