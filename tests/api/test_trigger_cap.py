"""`trigger_cap_tokens`: the default threshold of large windows, which spares the user's present turn."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compaction_hooks import CompactionController, CompactionSettings, CompactionStarted
from compaction_hooks.events import CompactionEvent, CompactionSkipped
from compaction_hooks.strategies import ClearToolResults
from compaction_hooks.tokens import CharacterEstimator
from compaction_hooks.tokens.budget import TRIGGER_CAP_TOKENS
from compaction_hooks.tokens.windows import find_price_step
from compaction_hooks.triggers import RatioTrigger
from tests.conversations import Chat, Controller, Numbered, assistant, controller, prose, steps, tool, user
from tests.strategies import examples

WINDOW = 1_000_000


def turns(count: int, size: int, first: int = 0) -> list[Chat]:
    """Return finished turns of about so many tokens each: a request, steps with tools, and an answer."""
    listed = range(first, first + count)
    parts = [[user(f"Turn {n}."), *steps(4, size // 4, first=4 * n), assistant(f"Turn {n} is done.")] for n in listed]
    return [message for part in parts for message in part]


def begin_turn(size: int) -> list[Chat]:
    """Return the turn under way, of about so many tokens: the last step's result is there, the answer is not."""
    return [user("The present turn."), *steps(10, size // 10, first=9_000)]


def at_cap(cap: int = 20_000, **options: Any) -> Controller:
    return controller(WINDOW, settings=CompactionSettings(trigger_cap_tokens=cap), **options)


def kept_of(view: list[Chat], messages: list[Chat]) -> list[Chat]:
    """Return the messages of the list that the view has as they are."""
    own = {id(message) for message in messages}
    return [message for message in view if id(message) in own]


# -- where it holds


@pytest.mark.parametrize(
    ("window", "fields", "trigger"),
    [
        (100_000, {}, 83_616),
        (200_000, {}, 120_000),
        (1_000_000, {}, 120_000),
        (1_000_000, {"trigger_cap_tokens": None}, 983_616),
        (1_000_000, {"trigger_cap_tokens": 300_000}, 300_000),
        (1_000_000, {"keep_recent_tokens": 100_000}, 200_000),
        (1_000_000, {"reserve_tokens": 16_384}, 983_616),
        (1_000_000, {"trigger_ratio": 0.9}, 900_000),
        (1_000_000, {"trigger_tokens": 500_000}, 500_000),
        (1_000_000, {"trigger": RatioTrigger(0.8)}, 800_000),
    ],
)
def test_it_is_the_threshold_of_larger_windows_unless_the_host_says_when(
    window: int, fields: dict[str, Any], trigger: int
) -> None:
    hooks = CompactionController(context_window=window, settings=CompactionSettings(**fields))
    hooks.transform_context_sync([user("Hello.")])
    assert hooks.state().trigger_tokens == trigger


@pytest.mark.parametrize(
    ("options", "trigger"),
    [({}, 80_000), ({"trigger_tokens": 500_000}, 500_000), ({"trigger_ratio": 0.9}, 900_000)],
)
def test_a_calls_own_threshold_goes_before_it(options: Any, trigger: int) -> None:
    hooks = CompactionController(context_window=WINDOW, settings=CompactionSettings.cheap())
    hooks.transform_context_sync([user("Hello.")], **options)
    assert hooks.state().trigger_tokens == trigger


@pytest.mark.parametrize(
    "name", ["claude-haiku-5-5", "anthropic/claude-haiku-5.5", "global.anthropic.claude-haiku-5-5"]
)
def test_a_model_whose_longer_requests_are_dearer_has_a_lower_one(name: str) -> None:
    hooks = CompactionController(model=name, context_window=WINDOW)
    hooks.transform_context_sync([user("Hello.")])
    assert hooks.state().trigger_tokens == 100_000


def test_every_model_that_is_dearer_above_less_than_the_cap_is_known() -> None:
    """Of the providers that make models: resellers have prices of their own."""
    prices = pytest.importorskip("genai_prices.data_snapshot")
    for provider in prices.get_snapshot().providers:
        for model in provider.models if provider.id in ("openai", "anthropic", "google", "x-ai", "deepseek") else ():
            tiers = (
                [price.prices.input_mtok for price in model.prices]
                if isinstance(model.prices, list)
                else [model.prices.input_mtok]
            )
            starts = [tier.start for price in tiers for tier in getattr(price, "tiers", ())]
            if starts and (model.context_window or WINDOW) > min(starts) < TRIGGER_CAP_TOKENS:
                assert find_price_step(model.id) == min(starts), model.id


# -- the present turn


def test_finished_turns_are_summarized_and_the_present_one_stays_as_it_is() -> None:
    events: list[CompactionEvent] = []
    messages = [*turns(6, 2_500), *begin_turn(8_000)]
    hooks = at_cap(events=events)
    view = hooks.transform_context_sync(messages)
    present = messages[-len(begin_turn(8_000)) :]
    assert view[-len(present) :] == present
    assert all(one is other for one, other in zip(view[-len(present) :], present, strict=True))
    assert len(view) < len(messages)
    (started,) = (event for event in events if isinstance(event, CompactionStarted))
    assert started.why == "above 20,000 tokens, the default threshold of larger windows"
    assert started.trigger_tokens == 20_000


@given(
    finished=st.lists(st.integers(100, 4_000), min_size=1, max_size=8),
    present=st.integers(100, 20_000),
    clears=st.booleans(),
)
@settings(examples(60), deadline=None)
def test_no_message_of_a_present_turn_below_it_is_touched(finished: list[int], present: int, clears: bool) -> None:
    policy = CompactionSettings(trigger_cap_tokens=12_000, clear_tool_results=clears)
    hooks, alone = (
        controller(WINDOW, settings=policy),
        controller(WINDOW, settings=CompactionSettings(auto_compact=False)),
    )
    turn = begin_turn(present)
    alone.transform_context_sync(turn)
    size = alone.state().context_tokens or 0
    messages = [*(message for n, tokens in enumerate(finished) for message in turns(1, tokens, first=n)), *turn]
    view = hooks.transform_context_sync(messages)
    if size <= 12_000:
        assert all(one is other for one, other in zip(view[-len(turn) :], turn, strict=True))
    else:
        assert (hooks.state().context_tokens or 0) <= 12_000


def test_if_finished_turns_are_not_enough_the_list_goes_out_whole_and_is_asked_for_once_in_a_turn() -> None:
    events: list[CompactionEvent] = []
    hooks = at_cap(events=events)
    messages = [*turns(1, 1_200), *begin_turn(17_600)]
    for added in range(1, 4):
        assert hooks.transform_context_sync(messages) is messages
        messages = [*messages, *steps(1, 20, first=9_500 + added)]
    assert len([event for event in events if isinstance(event, CompactionSkipped)]) == 1

    messages = [*messages, assistant("Done."), user("The next turn.")]
    view = hooks.transform_context_sync(messages)
    assert len(view) < len(messages)
    assert view[-1] is messages[-1]


def test_a_turn_that_is_above_it_alone_is_compacted_as_at_any_threshold() -> None:
    messages = [*turns(1, 2_000), *begin_turn(26_000)]
    view = at_cap().transform_context_sync(messages)
    tokens = CharacterEstimator().estimate_tokens
    assert sum(tokens(str(message)) for message in view) < 20_000
    assert view[-1] is messages[-1]


def test_results_that_the_model_has_not_seen_stay_whole() -> None:
    """It is a matter of money: the window has room."""
    seen, new = begin_turn(14_000), tool_step(13_000)
    view = at_cap().transform_context_sync([*seen, *new])
    assert len(view) < len(seen) + 2
    assert view[-2:] == new


def test_a_view_that_is_above_it_for_the_present_request_alone_is_made_all_the_same() -> None:
    messages = [*turns(20, 2_000), user("Here is the log: " + prose(25_000))]
    hooks = at_cap()
    view = hooks.transform_context_sync(messages)
    assert view[-1] is messages[-1]
    assert (hooks.state().context_tokens or 0) < 45_000
    by_hand = controller(WINDOW, settings=CompactionSettings(trigger_cap_tokens=20_000, auto_compact=False))
    assert by_hand.compact_sync(messages).outcome == "compacted"


def test_a_summary_in_vain_is_paid_for_once() -> None:
    asked = Numbered()
    settings = CompactionSettings(trigger_cap_tokens=20_000, clear_tool_results=False, keep_user_tokens=0)
    hooks, pinned = controller(WINDOW, summarizer=asked, settings=settings), user("Spec " + prose(22_000))
    hooks.pin(pinned)
    messages = [pinned, assistant("Read."), *turns(1, 3_000)]
    for number in range(6):
        messages = [*messages, user(f"And {number}?"), *steps(1, 100, first=500 + number)]
        hooks.transform_context_sync(messages)
        messages = [*messages, assistant(f"So {number}.")]
    assert len(asked.requests) == 1


@pytest.mark.parametrize(
    "settings",
    [
        CompactionSettings.cheap(trigger_tokens=50_000),
        CompactionSettings.cheap(keep_recent_ratio=0.2),
        CompactionSettings.safe(strategies=[ClearToolResults()]),
        CompactionSettings.balanced(keep_turns=2),
    ],
    ids=str,
)
def test_the_hosts_own_fields_go_before_those_of_a_profile(settings: CompactionSettings) -> None:
    assert CompactionController(context_window=WINDOW, settings=settings).transform_context_sync([user("Hello.")])


def test_a_session_of_one_turn_is_compacted_again_and_again() -> None:
    hooks, messages = at_cap(), [user("Port the parser.")]
    sizes: list[int] = []
    for number in range(60):
        messages = [*messages, *steps(1, 1_000, first=number)]
        hooks.transform_context_sync(messages)
        sizes.append(hooks.state().context_tokens or 0)
    assert max(sizes) <= 20_000
    assert len(hooks.history()) >= 3


def test_the_input_limit_binds_as_ever() -> None:
    hooks = controller(24_000, settings=CompactionSettings(trigger_cap_tokens=12_000))
    messages = [*turns(1, 2_000), *begin_turn(11_000)]
    hooks.transform_context_sync(messages)
    messages = [*messages, tool_step(14_000)[0], tool_step(14_000)[1]]
    hooks.transform_context_sync(messages)
    assert (hooks.state().context_tokens or 0) <= 24_000


def tool_step(tokens: int) -> list[Chat]:
    (asked, _) = steps(1, 10, first=9_999)
    return [asked, tool(asked["tool_calls"][0]["id"], prose(tokens))]
