"""How large the context is: counted as far as the provider counted it, estimated beyond."""

import base64

import pytest

from compaction_hooks import CallOptions, CompactionController, Usage
from compaction_hooks.formats import AnthropicFormat
from tests.cases import folded
from tests.conversations import Chat, Scripted, assistant, controller, prose, steps, system, talk, tokens_of, user


def carrying(usage: int, stop_reason: str = "stop") -> Chat:
    counts = {"prompt_tokens": usage, "completion_tokens": 5, "total_tokens": usage + 5}
    return {**assistant("ok"), "usage": counts, "finish_reason": stop_reason}


def test_usage_that_messages_carry_is_followed_from_call_to_call() -> None:
    """As the list grows, the newest report counts, also if it is smaller and further from the estimate."""
    hooks = controller(200_000)
    messages: list[Chat] = [user(prose(12_000))]
    for counted in (12_000, 13_000, 9_000):
        messages = [*messages, carrying(counted), user("b")]
        hooks.transform_context_sync(messages)
        assert counted < tokens_of(hooks) < counted + 200


def test_usage_no_provider_can_have_counted_for_this_list_is_passed_over() -> None:
    """A sum over all calls, written to the message: the one before it counts."""
    hooks = controller(200_000)
    messages = [user("a"), carrying(50_000), user("b"), carrying(3_000_000), user("c")]
    assert hooks.transform_context_sync(messages) is messages
    assert 50_000 < tokens_of(hooks) < 50_400


@pytest.mark.parametrize("stop_reason", ["error", "aborted"])
def test_usage_of_a_failed_call_is_passed_over(stop_reason: str) -> None:
    """The last successful one counts."""
    hooks = controller(200_000)
    message = {**carrying(190_000), "stop_reason": stop_reason, "finish_reason": stop_reason}
    hooks.transform_context_sync([user("a"), carrying(50_000), user("b"), message, user("c")])
    assert 50_000 < tokens_of(hooks) < 51_000


def test_a_rest_for_a_large_model_does_not_hold_for_a_small_one() -> None:
    """The smaller window compacts before it is called, however recently the larger one did."""
    hooks = controller(16_384, summarizer=Scripted())
    messages = [system(), *talk(33)]
    hooks.transform_context_sync(messages)
    hooks.undo()
    error = ValueError("prompt is too long: 9000 tokens > 8192 maximum")
    hooks.session("elsewhere").recover_sync(error, messages, model="small")
    assert hooks.transform_context_sync(messages) is messages
    assert hooks.transform_context_sync(messages, model="small") is not messages


def test_usage_from_before_the_host_deleted_messages_is_not_believed() -> None:
    """After the host deleted old messages, the kept ones still carry the usage of the long list."""
    hooks = controller(200_000)
    messages = [*talk(10), user("more"), carrying(6_000), user("next")]
    hooks.transform_context_sync(messages)
    assert tokens_of(hooks) > 6_000
    hooks.transform_context_sync(messages[-5:])
    assert tokens_of(hooks) < 4_000


def test_usage_in_a_list_that_begins_with_an_unknown_summary_is_not_believed() -> None:
    """Another process opens the stored list without its record."""
    stored = controller(200_000, summarizer=Scripted()).compact_sync(talk(10), keep_recent_tokens=300).messages
    fresh = controller(200_000)
    fresh.transform_context_sync([*stored, user("more"), carrying(6_000), user("next")])
    assert tokens_of(fresh) < 4_000


def test_usage_of_a_compacted_view_is_not_taken_for_the_whole_list() -> None:
    """The record is lost or the history was edited: the newest answer's usage is of a view smaller than the list."""
    before = [user("go"), *steps(20, 300)]
    whole = controller(200_000)
    whole.transform_context_sync(before)
    size = tokens_of(whole)
    messages = [
        *before,
        carrying(size),
        user("on"),
        *steps(4, 300, first=20),
        carrying(size // 3),
        user("and on"),
    ]
    hooks = controller(200_000)
    for _ in range(3):
        hooks.transform_context_sync(messages)
        assert tokens_of(hooks) > size  # nor when the same list is looked at again
    hooks.transform_context_sync([*messages, carrying(size + 2_000), user("and on")])
    assert size + 2_000 < tokens_of(hooks) < size + 2_100


def test_usage_of_a_list_the_host_cut_short_is_taken_as_it_is() -> None:
    """The usage of answers from before the cut counted messages that are gone."""
    messages = [user("go"), carrying(90_000), *steps(4, 300), carrying(1_900), user("on")]
    hooks = controller(100_000)
    assert hooks.transform_context_sync(messages) is messages
    assert tokens_of(hooks) < 2_000


def test_usage_from_before_an_edit_of_the_past_is_not_of_the_present_list() -> None:
    """Another hook clears old results: the earlier answers' usage counted results that are gone."""
    large = [user("go"), *steps(20, 300), carrying(6_500), user("on")]
    hooks = controller(200_000)
    hooks.transform_context_sync(large)
    assert tokens_of(hooks) >= 6_500
    cleared = [{**message, "content": "(cleared)"} if message["role"] == "tool" else message for message in large[:-2]]
    hooks.transform_context_sync([*cleared, carrying(6_500), user("on")])
    assert tokens_of(hooks) < 3_000


def test_usage_of_reasoning_alone_is_used() -> None:
    """No run is there yet to which it could belong."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    messages: list[Chat] = [
        {"role": "assistant", "content": [thought], "usage": {"input_tokens": 2_000, "output_tokens": 5}}
    ]
    hooks = CompactionController(context_window=100_000, format=AnthropicFormat())
    hooks.transform_context_sync(messages)
    assert 2_000 < (hooks.state().context_tokens or 0) < 2_100


def test_after_a_report_that_cannot_be_true_usage_that_answers_carry_counts_again() -> None:
    hooks, messages = controller(200_000), [user("go"), carrying(5_000), user("on")]
    for _ in range(2):
        hooks.transform_context_sync(messages)
        assert 5_000 < tokens_of(hooks) < 5_100
        hooks.report_usage(Usage(input_tokens=50_000_000))
    hooks.transform_context_sync(messages)
    assert 5_000 < tokens_of(hooks) < 5_100


@pytest.mark.parametrize("seen_before", [False, True])
def test_usage_that_is_filled_in_after_a_call_saw_the_answer_is_taken_in(seen_before: bool) -> None:
    """It measured the messages before the answer, which are unchanged."""
    hooks = controller(200_000)
    answer: dict[str, object] = {"role": "assistant", "content": "Noted."}
    messages: list[Chat] = [user("go"), answer]
    if seen_before:
        hooks.transform_context_sync(messages)
    answer.update(carrying(5_000))
    hooks.transform_context_sync([*messages, user("on")])
    assert 5_000 < tokens_of(hooks) < 5_100


def test_usage_of_an_answer_that_comes_first_now_is_not_believed() -> None:
    """The host trims the oldest messages, and gives copies of the others, as a checkpoint does."""
    hooks = controller(200_000)
    messages = [*talk(10), user("more"), carrying(6_000), user("and"), carrying(6_100), user("next")]
    hooks.transform_context_sync(messages)
    hooks.transform_context_sync([{**message} for message in messages[-4:]])
    assert tokens_of(hooks) < 4_000


# -- counts of a part of the view


def thoughtful(tokens: int) -> Chat:
    return {**assistant("Well."), "reasoning_content": prose(tokens)}


def picture(number: int) -> Chat:
    url = f"data:image/png;base64,{base64.b64encode(b'picture %d' % number).decode()}"
    return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}


CLEARS = CallOptions(request={"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}})
TURN = [assistant("Yes."), user(prose(10_000))]


@folded(
    "parts, counts, options",
    {
        "a script of few tokens": ([[user(prose(10_000))], TURN, TURN, TURN], [2_000, 4_000, 6_000, 8_000], {}),
        "reasoning is left out when the user speaks": (
            [[user(prose(4_000)), thoughtful(6_000), user("On?")], [assistant("Yes."), user(prose(5_500))]],
            [10_100, 9_700],
            {},
        ),
        "pictures of few tokens": (
            [[picture(n) for n in range(30)], [assistant("Yes."), picture(31)]],
            [3_000, 3_000],
            {},
        ),
        "a host that leaves a quarter out": ([[user(prose(40_000))], TURN, TURN], [40_000, 38_000, 48_000], {}),
        "a server that was asked to clear results": (
            [[user("go"), *steps(20, 2_000)], steps(20, 2_000, first=20)],
            [4_000, 4_000],
            CLEARS,
        ),
    },
)
def test_a_small_count_with_another_reason_than_a_cut_prompt_is_believed(
    parts: list[list[Chat]], counts: list[int], options: CallOptions, caplog: pytest.LogCaptureFixture
) -> None:
    hooks, messages = controller(200_000), list[Chat]()
    for part, count in zip(parts, counts, strict=True):
        messages = [*messages, *part]
        hooks.report_usage(Usage(input_tokens=count), hooks.transform_context_sync(messages, **options))
        assert (tokens_of(hooks), hooks.state().is_estimate) == (count, False)
    assert caplog.records == []


def test_counts_of_cut_prompts_in_the_answers_of_a_list_are_not_believed(caplog: pytest.LogCaptureFixture) -> None:
    hooks = controller(200_000)
    messages: list[Chat] = [user("go")]
    for _ in range(6):
        messages += [user(prose(3_000)), carrying(4_096)]
    hooks.transform_context_sync([*messages, user("on")])
    assert hooks.state().is_estimate
    assert tokens_of(hooks) > 18_000
    assert [record.getMessage().count("at 4,096 tokens: set context_window=4096") for record in caplog.records] == [1]


def test_counts_of_compacted_views_in_a_list_whose_records_are_lost_accuse_no_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A restart without a store: the last counts are of views with a summary, and the list is whole again."""
    messages: list[Chat] = [user("go")]
    for counted in (3_000, 6_000, 9_000, 12_000, 5_000, 8_000, 11_000):
        messages += [user(prose(3_000)), carrying(counted)]
    hooks = controller(200_000)
    for more in ([user("on")], [assistant("Yes."), user("And on.")]):
        messages = [*messages, *more]
        hooks.transform_context_sync(messages)
        assert tokens_of(hooks) > 12_000
    assert caplog.records == []


def test_after_the_servers_setting_was_raised_its_counts_are_believed_again() -> None:
    hooks = controller(200_000)
    messages = [user(prose(40_000))]
    for counted, is_estimate in ((4_096, True), (4_096, True), (54_000, False)):
        hooks.report_usage(Usage(input_tokens=counted), hooks.transform_context_sync(messages))
        assert hooks.state().is_estimate is is_estimate
        messages = [*messages, *TURN]
    assert hooks.state().context_tokens == 54_000


def test_a_count_without_what_a_gateway_reads_from_its_cache_teaches_nothing(caplog: pytest.LogCaptureFixture) -> None:
    hooks = controller(200_000)
    messages = [user(prose(9_000))]
    hooks.report_usage(Usage(input_tokens=9_000), hooks.transform_context_sync(messages))
    messages = [*messages, assistant("Yes."), user(prose(1_000))]
    hooks.report_usage(Usage(input_tokens=1_100), hooks.transform_context_sync(messages))
    assert 10_000 < tokens_of(hooks) < 10_200

    resumed = hooks.session("resumed")
    resumed.report_usage(Usage(input_tokens=330), resumed.transform_context_sync(messages))
    assert resumed.state().is_estimate
    assert caplog.records == []
