"""Generated histories with the providers' own summaries: all go on, sealed ones reach no other issuer, and no name is lost."""

from typing import Any

import pytest

from compaction_hooks import CompactionController
from compaction_hooks.formats import AnthropicFormat, OpenAIResponsesFormat
from tests.cases import sampled
from tests.conversations import prose
from tests.native_runs import GPT, OPUS, InlineBlocks, InlineItems, NativeRun, RequestedBlocks, RequestedItems
from tests.provider.counting import count, pieces_of
from tests.provider.item_compacting import ItemCompactor
from tests.provider.responses_wire import messages_of


@pytest.mark.parametrize("kind", sampled([InlineItems, RequestedItems, RequestedBlocks, InlineBlocks], 2))
def test_every_history_goes_on_whatever_its_user_changes(kind: type[NativeRun]) -> None:
    runs = {seed: kind(seed) for seed in range(12)}
    for run in runs.values():
        run.steps(16)
    assert {seed: faults for seed, run in runs.items() if (faults := run.faults)} == {}
    assert sum(run.natives for run in runs.values()) > 24


def block(text: str) -> dict[str, Any]:
    """Return Anthropic's summary as a message; its signature is no part of the count."""
    return {
        "role": "assistant",
        "content": [{"type": "compaction", "content": text, "signature": "EuYB" * 500}],
    }


def item(text: str) -> dict[str, Any]:
    """Return OpenAI's summary with this text."""
    return ItemCompactor().make_item({"model": GPT}, text)


@pytest.mark.parametrize(
    ("form", "model", "make", "most"),
    [(AnthropicFormat(), OPUS, block, 1.25), (OpenAIResponsesFormat(), GPT, item, 1.65)],
    ids=["block", "item"],
)
@pytest.mark.parametrize("tokens", [200, 1_000, 8_000])
def test_a_summary_alone_is_estimated_too_large_until_the_provider_has_counted_it(
    form: Any, model: str, make: Any, most: float, tokens: int
) -> None:
    summary, request = make(prose(tokens)), {"role": "user", "content": "Go."}
    sizes = list[tuple[int, int]]()

    def send(view: list[Any]) -> dict[str, Any]:
        read = messages_of({"input": view}) if model == GPT else view
        sizes.append((session.state().context_tokens or 0, count(pieces_of(None, "", read))))
        text = {"type": "text", "text": "Yes."}
        return {"content": [text], "output": [], "usage": {"input_tokens": sizes[-1][1], "output_tokens": 5}}

    session = CompactionController[Any](format=form, context_window=200_000).session("thread")
    said = {"role": "assistant", "content": "Yes."}
    for messages in ([summary, request], [summary, request, said, request]):
        session.call_sync(messages, send, model=model)
    (estimated, first), (known, second) = sizes
    assert first <= estimated <= first * most + 40
    assert abs(known - second) <= 10
