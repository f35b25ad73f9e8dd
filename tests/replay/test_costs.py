"""The bill of a replay, against providers' rules worked out by hand."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from compaction_hooks import ExtractiveSummarizer, Summary, SummaryRequest, Usage
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.messages import Media, Message, Text, ToolResult
from compaction_hooks.replay import RecordedCall, RecordedSession, replay
from compaction_hooks.replay.bills import Bill, Block, CacheRules, PromptCaches, read_blocks
from compaction_hooks.replay.prices import EXAMPLES, find_prices
from compaction_hooks.tokens import CharacterEstimator
from tests.cases import folded
from tests.conversations import assistant, prose, system, talk, user
from tests.replay.samples import forgetful_conversation, long_conversation, short_conversation


def blocks(*sizes: int, first: str = "") -> list[Block]:
    return [Block(f"user\n{first}{number}", size, is_system=number == 0) for number, size in enumerate(sizes)]


PREFIX = CacheRules(minimum_tokens=1_000, step_tokens=100)
MARKS = CacheRules(minimum_tokens=1_000, at_marks=True, marks_system=True, lookback_blocks=3)

KNOWN = "ab " * 4_000
KNOWN_TOKENS = CharacterEstimator().estimate_tokens(KNOWN) // 100 * 100


@folded(
    "rules, requests, bills",
    {
        "too short": (PREFIX, [blocks(900)], [Bill(plain=900)]),
        "a known beginning in steps": (
            PREFIX,
            [blocks(1_000, 150), blocks(1_000, 150, 500)],
            [Bill(written=1_150), Bill(read=1_100, written=550)],
        ),
        "a changed beginning": (
            PREFIX,
            [blocks(1_000, 500), blocks(1_000, 500, first="other ")],
            [Bill(written=1_500), Bill(written=1_500)],
        ),
        "up to the last mark": (
            MARKS,
            [blocks(1_000, 150), blocks(1_000, 150, 500)],
            [Bill(written=1_150), Bill(read=1_150, written=500)],
        ),
        "a known beginning in the middle of a block": (
            PREFIX,
            [[Block(f"user\n{KNOWN}{end}", 5_000, is_system=True)] for end in "cd"],
            [Bill(written=5_000), Bill(read=KNOWN_TOKENS, written=5_000 - KNOWN_TOKENS)],
        ),
        "a request that was sent before": (
            PREFIX,
            [blocks(1_000, 150), blocks(1_000, 150, 500), blocks(1_000, 150)],
            [Bill(written=1_150), Bill(read=1_100, written=550), Bill(read=1_100, written=50)],
        ),
        "the last mark at the end of what is searched": (
            MARKS,
            [blocks(1_000, 150), blocks(1_000, 150, *[10] * 3)],
            [Bill(written=1_150), Bill(read=1_150, written=30)],
        ),
        "the last mark one block before what is searched": (
            MARKS,
            [blocks(1_000, 150), blocks(1_000, 150, *[10] * 4)],
            [Bill(written=1_150), Bill(read=1_000, written=190)],
        ),
        "a mark at a beginning that is too short": (
            MARKS,
            [blocks(900, 50), blocks(900, 50, 100)],
            [Bill(plain=950), Bill(written=1_050)],
        ),
        "a mark too far back, so that of the system prompt": (
            MARKS,
            [blocks(1_000, 150), blocks(1_000, 150, *[10] * 5)],
            [Bill(written=1_150), Bill(read=1_000, written=200)],
        ),
    },
)
def test_the_parts_of_a_request_by_price(rules: CacheRules, requests: list[list[Block]], bills: list[Bill]) -> None:
    caches = PromptCaches([rules])
    assert [caches.request(request)[0] for request in requests] == bills


def test_blocks_add_up_to_the_estimate_of_a_message() -> None:
    estimate = CharacterEstimator().estimate_message_tokens
    for message in forgetful_conversation():
        pieces = OpenAIChatFormat().read(message)
        assert sum(block.tokens for block in read_blocks(pieces)) == sum(map(estimate, pieces))


def test_a_message_without_its_picture_or_with_another_one_is_another_block() -> None:
    """The tokens of a prefix are those of its blocks, so blocks of the same text have the same tokens."""
    picture, other = (Media("image/png", identity) for identity in ("a", "b"))
    messages = [
        Message(role="user", parts=(Text("Look."), picture)),
        Message(role="user", parts=(Text("Look."), other)),
        Message(role="user", parts=(Text("Look."),)),
        Message(role="tool", parts=(ToolResult("1", "Done.", media=(picture,)),)),
        Message(role="tool", parts=(ToolResult("1", "Done.", media=(other,)),)),
        Message(role="tool", parts=(ToolResult("1", "Done."),)),
    ]
    found = [read_blocks([message]) for message in messages]
    assert len({tuple(block.text for block in each) for each in found}) == len(messages)
    assert [block[0].tokens for block in found[:3]] == [found[2][0].tokens] * 3


def session(messages: Sequence[Mapping[str, Any]], model: str | None = None, **fields: Any) -> RecordedSession:
    return RecordedSession(
        id="s1", format_name="messages", format=OpenAIChatFormat(), messages=tuple(messages), model=model, **fields
    )


def test_a_session_that_is_not_compacted_costs_the_same_with_compaction() -> None:
    done = replay(session(short_conversation()), window=200_000)
    assert [cost.model for cost in done.costs] == [prices.model for prices in EXAMPLES]
    for cost in done.costs:
        assert cost.calls == cost.calls_without
        assert cost.with_compaction > 0 == cost.summaries


def test_a_compaction_breaks_the_cache_once_and_its_summary_has_a_price() -> None:
    done = replay(session([*long_conversation(), *talk(24, 250)]), window=8_000)
    first = done.compactions[0].call - 1
    assert any(compaction.summary for compaction in done.compactions)
    for cost in done.costs:
        assert len(cost.calls) == len(cost.calls_without) == len(done.calls)
        assert cost.summaries > 0
        assert cost.calls[:first] == cost.calls_without[:first]
        assert cost.sent.read < cost.sent_without.read


def test_a_call_that_does_not_fit_costs_nothing() -> None:
    done = replay(session([system(), user(prose(9_500)), assistant("Too long.")]), window=8_000)
    for cost in done.costs:
        assert cost.calls == cost.calls_without == (0.0,)


def test_a_cache_that_the_provider_had_lost_is_lost_in_the_replay_too() -> None:
    messages = short_conversation()
    first, second = (index for index, message in enumerate(messages) if message["role"] == "assistant")
    warm, cold = (
        replay(
            session(
                messages,
                system=prose(3_000),
                calls=(
                    RecordedCall(index=first, usage=Usage(input_tokens=3_100, cache_write_tokens=3_100)),
                    RecordedCall(index=second, usage=Usage(input_tokens=3_200, cache_read_tokens=read)),
                ),
            ),
            window=200_000,
        )
        for read in (1_550, 1_549)
    )
    for cost, lost in zip(warm.costs, cold.costs, strict=True):
        assert lost.sent.read == lost.sent_without.read == 0
        assert cost.sent.read + cost.sent.written + cost.sent.plain == lost.sent.written + lost.sent.plain
    assert [cost.model for cost in warm.costs if not cost.sent.read] == ["gemini-3.8-flash"], "too short for its cache"


def test_each_of_the_examples_has_the_rules_of_its_provider() -> None:
    """The newest mark is 26 blocks away in the second call, so with Anthropic's only that after the system prompt is found."""
    messages = [user("Begin."), assistant("Begun."), *(user(f"Note {n}.") for n in range(25)), assistant("Noted.")]
    recorded = session(messages, system=prose(1_500))
    begin = CharacterEstimator().estimate_tokens(prose(1_500))
    known = begin + CharacterEstimator().estimate_message_tokens(Message(role="user", parts=(Text("Begin."),)))
    found = {cost.model: cost.sent.read for cost in replay(recorded, window=200_000).costs}
    assert known % 128
    assert found == {
        "gpt-6.1-sol": known,
        "gpt-5.5": known // 128 * 128,
        "claude-sonnet-5": begin,
        "gemini-3.8-flash": 0,
    }


def test_a_summary_by_rule_has_the_price_of_what_a_model_would_read_and_write() -> None:
    requests: list[SummaryRequest] = []
    texts: list[str] = []

    def summarize(request: SummaryRequest) -> Summary:
        summary = ExtractiveSummarizer()(request)
        requests.append(request)
        texts.append(summary.text)
        return summary

    recorded = session([*long_conversation(), *talk(24, 250)])
    assert replay(recorded, window=8_000, summarizer=summarize).compactions
    bill = replay(recorded, window=8_000).costs[0].sent
    count = CharacterEstimator().estimate_tokens
    assert all(request.system for request in requests)
    assert bill.asked == sum(count(request.system) + count(request.prompt) for request in requests)
    assert bill.summaries == sum(map(count, texts))


# -- prices of real models


@folded(
    "name, model, dollars",
    {
        "dated": ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5", 3.0),
        "of Bedrock": ("bedrock/us.anthropic.claude-sonnet-4-5", "claude-sonnet-4-5", 3.0),
        "of a router": ("openrouter/anthropic/claude-sonnet-4.5:free", "claude-sonnet-4-5", 3.0),
        "of a framework": ("openai:gpt-5", "gpt-5", 1.25),
    },
)
def test_prices_of_a_model_by_any_of_its_names(name: str, model: str, dollars: float) -> None:
    pytest.importorskip("genai_prices")
    found = find_prices(name)
    assert found is not None
    assert found.model == model
    assert found.dollars(Bill(plain=100_000)) * 10 == pytest.approx(dollars)


def test_the_price_of_a_request_is_the_sum_of_its_parts() -> None:
    pytest.importorskip("genai_prices")
    found = find_prices("claude-sonnet-4-5")
    assert found is not None
    bill = Bill(read=10_000, written=20_000, plain=30_000, output=4_000, asked=5_000, summaries=600)
    dollars = (10_000 * 0.3 + 20_000 * 3.75 + 35_000 * 3 + 4_600 * 15) / 1e6
    assert found.dollars(bill) == pytest.approx(dollars)
    assert found.dollars(Bill()) == 0
    assert found.dollars(Bill(plain=400_000)) > 4 * found.dollars(Bill(plain=100_000)), "long requests are dearer"


@folded(
    "name, at_marks, minimum",
    {
        "Anthropic's marks": ("claude-opus-4-5", True, 1_024),
        "OpenAI's prefixes": ("gpt-5.5", False, 1_024),
        "OpenAI's marks": ("gpt-5.6", True, 1_024),
        "OpenAI's models of another kind": ("o3", False, 1_024),
        "Anthropic's marks in another cloud": ("us.anthropic.claude-sonnet-4-20250514-v1:0", True, 1_024),
        "Google's prefixes": ("gemini-2.5-pro", False, 4_096),
        "another provider's": ("deepseek-chat", False, 1_024),
    },
)
def test_each_family_has_its_rules_of_a_cache(name: str, at_marks: bool, minimum: int) -> None:
    pytest.importorskip("genai_prices")
    found = find_prices(name)
    assert found is not None
    assert (found.rules.at_marks, found.rules.minimum_tokens) == (at_marks, minimum)


@pytest.mark.parametrize("name", [None, "", "scripted", "a/b:c/", "ft::", "text-embedding-3-small"])
def test_prices_of_an_unknown_model_are_unknown(name: str | None) -> None:
    assert find_prices(name) is None


def test_the_recorded_model_has_its_own_prices_and_counts() -> None:
    pytest.importorskip("genai_prices")
    done = replay(session(short_conversation(), model="claude-opus-4-5"), window=200_000)
    (cost,) = done.costs
    assert (cost.model, cost.is_recorded) == ("claude-opus-4-5", True)


def test_system_prompt_and_tools_are_paid_and_counts_of_the_provider_believed() -> None:
    messages = short_conversation()
    plain = replay(session(messages), window=200_000).costs[0]
    answers = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
    counted, uncounted = (
        tuple(RecordedCall(index=i, usage=Usage(input_tokens=9, output_tokens=output)) for i in answers)
        for output in (5_000, 0)
    )
    assert replay(session(messages, calls=uncounted), window=200_000).costs[0].sent.output == plain.sent.output > 0
    tools = ({"name": "read", "description": prose(100)},)
    more = replay(session(messages, system=prose(900), tools=tools, calls=counted), window=200_000).costs[0]
    assert more.sent.output == 5_000 * len(answers)
    assert more.sent.plain + more.sent.written + more.sent.read > plain.sent.plain + 1_000 * len(answers)


def test_what_the_provider_counted_more_in_the_first_call_is_paid_in_each() -> None:
    messages = short_conversation()
    answers = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
    plain = replay(session(messages), window=200_000)
    counted = (RecordedCall(index=answers[0], usage=Usage(input_tokens=20_000)),)
    done = replay(session(messages, calls=counted), window=200_000)
    assert done.hidden_tokens == 20_000 - plain.calls[0].tokens_sent
    assert done.calls == plain.calls, "sizes are of what is recorded"
    for cost, less in zip(done.costs, plain.costs, strict=True):
        hidden = len(answers) * done.hidden_tokens
        assert cost.sent.plain + cost.sent.written + cost.sent.read == hidden + sum(
            (less.sent.plain, less.sent.written, less.sent.read)
        )


def test_the_recorded_calls_are_priced_by_the_providers_counts() -> None:
    pytest.importorskip("genai_prices")
    usage = Usage(input_tokens=10_000, output_tokens=100, cache_read_tokens=6_000, cache_write_tokens=3_000)
    recorded = session(short_conversation(), model="claude-sonnet-4-5", calls=(RecordedCall(index=2, usage=usage),))
    (cost,) = replay(recorded, window=200_000).costs
    assert cost.recorded == pytest.approx((6_000 * 0.3 + 3_000 * 3.75 + 1_000 * 3 + 100 * 15) / 1e6)
    assert [each.recorded for each in replay(session(short_conversation()), window=200_000).costs] == [None] * 4
