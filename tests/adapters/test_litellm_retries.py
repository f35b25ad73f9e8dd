"""Requests that litellm would send again: an overflow is compacted first, everything else is repeated as litellm would."""

import sys
from types import SimpleNamespace
from typing import Any

import openai
import pytest
from compaction_adapters.litellm import with_compaction, wrapping

from compaction_hooks import (
    CompactionController,
    CompactionSettings,
    ContextOverflowError,
    is_context_overflow,
    parse_overflow,
)
from tests.adapters import litellm_stage
from tests.adapters.litellm_stage import BOTH, EITHER, SECRET, WINDOW, Stage, got, litellm, said, statuses, task, whole
from tests.cases import crossed, folded, sampled
from tests.conversations import Scripted, talk, user
from tests.provider import WORDINGS, Answer, Rejection
from tests.provider.wordings import Sizes, build_rejection, openai_error

pytestmark = litellm_stage.QUIET
provider = litellm_stage.provider

BAD = Rejection(400, openai_error("temperature is out of range"))
DOWN = Rejection(500, {"error": {"message": "The server had an error", "type": "server_error"}})
LIMITED = Rejection(
    429, {"error": {"message": "Rate limit reached", "type": "requests", "code": "rate_limit_exceeded"}}
)
BELIEVED = 4 * WINDOW
"""More than the provider takes: the first request of a long list is rejected."""


def compacted(function: Any, window: int | None = BELIEVED, **keywords: Any) -> Any:
    return with_compaction(function, context_window=window, summarizer=Scripted(f"- {SECRET}"), **keywords)


# -- an overflow


@pytest.mark.parametrize("wording", sampled([name for name in WORDINGS if WORDINGS[name].text], 2))
@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_every_wording_is_recovered_by_one_resend(stage: Stage, api: str, wording: str) -> None:
    """Also those that litellm takes for any bad request; the limit is read if it is stated."""
    side = stage.side(wording=wording)
    arguments = getattr(stage, api)(messages=[*talk(40), user("And now?")], max_retries=0, max_tokens=256)
    with pytest.raises(openai.APIError) as raised:
        litellm.completion(**arguments)
    read = parse_overflow(raised.value)
    assert read is not None
    assert is_context_overflow(raised.value)
    assert read.limit_tokens == WINDOW or "{limit}" not in WORDINGS[wording].text
    side.requests.clear()
    assert said(compacted(litellm.completion, None)(**arguments, num_retries=2)) == "Done."
    assert statuses(side) == [WORDINGS[wording].status, 200]
    assert SECRET in str(side.requests[1].messages)


@crossed(function=[litellm.completion, litellm.acompletion], stream=[False, True])
async def test_retries_do_not_resend_an_overflow(stage: Stage, function: Any, stream: bool) -> None:
    side = stage.side()
    answer = await got(compacted(function)(messages=task(40), num_retries=2, stream=stream, **stage.openai()))
    assert (await whole(answer) if stream else said(answer)) == "Done."
    assert statuses(side) == [400, 200]


@BOTH
async def test_a_policy_for_bad_requests_does_not_resend_an_overflow(stage: Stage, function: Any) -> None:
    side = stage.side()
    made, policy = compacted(function), litellm.types.router.RetryPolicy(BadRequestErrorRetries=2)
    assert said(await got(made(messages=task(40), retry_policy=policy, **stage.openai()))) == "Done."
    assert statuses(side) == [400, 200]
    side.answers.extend([BAD, BAD])
    assert said(await got(made(messages=task(2), retry_policy=policy, **stage.openai()))) == "Done."
    assert statuses(side)[2:] == [400, 400, 200]


@EITHER
async def test_an_overflow_after_another_error_is_compacted(stage: Stage, function: Any) -> None:
    too_long = build_rejection("openai", Sizes(WINDOW, 2 * WINDOW, 0))
    side = stage.side(BAD, too_long, Answer("Ready."), window=BELIEVED)
    assert said(await got(compacted(function)(messages=task(40), num_retries=3, **stage.openai()))) == "Ready."
    sizes = [len(request.messages) for request in side.requests]
    assert sizes[0] == sizes[1] > sizes[2]


@EITHER
async def test_a_second_overflow_is_raised_with_the_providers_error(stage: Stage, function: Any) -> None:
    side = stage.side()
    side.reject_next = 5
    with pytest.raises(ContextOverflowError) as raised:
        await got(compacted(function)(messages=task(40), num_retries=2, **stage.openai()))
    assert isinstance(raised.value.__cause__, litellm.ContextWindowExceededError)
    assert statuses(side) == [400, 400]


# -- other errors


@BOTH
@folded(
    "error, number, sent",
    {
        "no retries": (BAD, None, 1),
        "bad request": (BAD, 2, 3),
        "server error, which the provider's client sends again first": (DOWN, 1, 3),
    },
)
async def test_other_errors_are_sent_again(
    stage: Stage,
    function: Any,
    error: Rejection,
    number: int | None,
    sent: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0)
    side = stage.side(*[error] * 9)
    with pytest.raises(openai.APIError):
        await got(compacted(function)(messages=task(2), num_retries=number, **stage.openai()))
    assert len(side.requests) == sent


@EITHER
async def test_the_providers_error_comes_also_if_litellms_rules_have_moved(
    stage: Stage, function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In litellm 1.109 the module of the rules was another one than in 1.108."""
    for name in ("get_num_retries_from_retry_policy", "reset_retry_policy"):
        getattr(litellm.utils, name, None)  # litellm itself imports the module when it first uses these
    for module in ("router_utils", "litellm_core_utils"):
        monkeypatch.setitem(sys.modules, f"litellm.{module}.get_retry_from_policy", None)
    made, options = compacted(function), stage.openai(num_retries=1)
    side = stage.side(*[BAD] * 4)
    with pytest.raises(litellm.BadRequestError):
        await got(made(messages=task(2), **options))
    larger = stage.openai(key="larger")
    stage.side(Answer("Ready."), key="larger")
    assert said(await got(made(messages=task(2), fallbacks=[larger], **options))) == "Ready."
    assert statuses(side) == [400] * 4

    def moved(**_: object) -> None:
        raise ImportError("litellm's rules")

    monkeypatch.setattr(litellm, "get_num_retries_from_retry_policy", moved, raising=False)
    side.answers.append(BAD)
    with pytest.raises(litellm.BadRequestError):
        await got(made(messages=task(2), retry_policy={"BadRequestErrorRetries": 1}, **options))


@EITHER
async def test_after_a_rate_limit_the_wait_grows(stage: Stage, function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(wrapping, "time", SimpleNamespace(sleep=waits.append))
    monkeypatch.setattr(wrapping, "asyncio", SimpleNamespace(sleep=sleep))
    side = stage.side(*[LIMITED] * 9)
    policy = litellm.types.router.RetryPolicy(RateLimitErrorRetries=6)
    with pytest.raises(litellm.RateLimitError):
        await got(compacted(function)(messages=task(2), max_retries=0, retry_policy=policy, **stage.openai()))
    assert waits == [0, 1, 2, 4, 8, 10]
    assert statuses(side) == [429] * 7


@BOTH
async def test_retries_of_the_whole_process_are_kept(
    stage: Stage, function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(litellm, "num_retries", 2)
    side = stage.side(BAD, BAD, Answer("Ready."))
    assert said(await got(compacted(function)(messages=task(2), **stage.openai()))) == "Ready."
    assert statuses(side) == [400, 400, 200]
    monkeypatch.setattr(litellm, "num_retries", 2)  # litellm resets it when a call fails
    assert said(await got(compacted(function)(messages=task(40), **stage.openai()))) == "Done."
    assert statuses(side)[3:] == [400, 200]


# -- fallbacks


@EITHER
async def test_an_overflow_is_compacted_before_anything_falls_back(stage: Stage, function: Any) -> None:
    side, other = stage.side(wording="groq"), stage.side(key="-other")
    fallbacks = {"fallbacks": [stage.openai("gpt-4o", key="-other")], "context_window_fallback_dict": {"x": "y"}}
    assert said(await got(compacted(function)(messages=task(40), **fallbacks, **stage.openai()))) == "Done."
    assert statuses(side) == [400, 200]
    assert not other.requests


@EITHER
async def test_another_error_falls_back_to_views_that_fit_each_model(
    stage: Stage, function: Any, caplog: pytest.LogCaptureFixture
) -> None:
    side, second = stage.side(BAD, window=BELIEVED), stage.side(BAD, key="-2", window=BELIEVED)
    third = stage.side(Answer("Here."), key="-3")
    smaller = stage.openai("nobody-knows", key="-3", model_info={"max_input_tokens": WINDOW})
    fallbacks = [stage.openai("gpt-4o", key="-2"), smaller]
    answer = await got(compacted(function, None)(messages=task(40), fallbacks=fallbacks, **stage.openai()))
    assert said(answer) == "Here."
    assert [statuses(one) for one in (side, second, third)] == [[400], [400], [200]]
    assert len(third.requests[0].messages) < len(second.requests[0].messages)
    assert [record.message for record in caplog.records if "falling back" in record.message] == [
        "falling back to openai/gpt-4o (BadRequestError)",
        "falling back to openai/nobody-knows (BadRequestError)",
    ]


@EITHER
async def test_a_larger_model_is_asked_if_compaction_did_not_help(stage: Stage, function: Any) -> None:
    """`context_window_fallback_dict`: model to larger model."""
    side = stage.side()
    side.reject_next = 2
    larger = {"openai/gpt-4o-mini": "openai/gpt-4.1"}
    made = compacted(function)
    answer = await got(made(messages=task(40), context_window_fallback_dict=larger, num_retries=1, **stage.openai()))
    assert said(answer) == "Done."
    assert [request.body["model"] for request in side.requests] == ["gpt-4o-mini", "gpt-4o-mini", "gpt-4.1"]
    assert statuses(side) == [400, 400, 200]


# -- a router

WAYS = ["completion", "acompletion"]
PLACES = ["router", "call"]
by_way = pytest.mark.parametrize("way", WAYS)
LARGER: dict[str, Any] = {"context_window_fallbacks": [{"small": ["large"]}]}


def routed(stage: Stage, **options: Any) -> Any:
    """Return a router with two names, "small" and "large", for a side of the provider each.

    "small" has two deployments: a router waits before it asks a single one again.
    """
    small, large = stage.deployment("small"), stage.deployment("large", key="-large", model="gpt-4.1")
    return litellm.Router(model_list=[small, stage.deployment("small", model="gpt-4o"), large], **options)


@crossed(way=WAYS, place=PLACES)
async def test_a_router_compacts_before_it_retries_and_falls_back(stage: Stage, way: str, place: str) -> None:
    side, large = stage.side(), stage.side(key="-large", window=100_000)
    at_router, at_call = (LARGER, {}) if place == "router" else ({}, LARGER)
    router = routed(stage, num_retries=2, fallbacks=[{"small": ["large"]}], **at_router)
    assert said(await got(compacted(getattr(router, way))("small", task(40), num_retries=2, **at_call))) == "Done."
    assert statuses(side) == [400, 200]
    assert not large.requests


@crossed(way=WAYS, place=PLACES)
async def test_a_router_falls_back_if_compaction_did_not_help(stage: Stage, way: str, place: str) -> None:
    side, large = stage.side(), stage.side(Answer("Large."), key="-large")
    side.reject_next = 2
    at_router, at_call = (LARGER, {}) if place == "router" else ({}, LARGER)
    assert (
        said(await got(compacted(getattr(routed(stage, **at_router), way))("small", task(40), **at_call))) == "Large."
    )
    assert statuses(side) == [400, 400]
    assert statuses(large) == [200]


@by_way
async def test_a_router_keeps_its_retries_and_fallbacks_for_other_errors(stage: Stage, way: str) -> None:
    side, large = stage.side(*[DOWN] * 9), stage.side(Answer("Large."), key="-large")
    router = routed(stage, fallbacks=[{"small": ["large"]}])
    made = with_compaction(getattr(router, way), context_window=WINDOW)
    assert said(await got(made("small", task(60), num_retries=1))) == "Large."
    assert [request.is_summary for request in [*side.requests, *large.requests]] == [True, False, False, False]
    assert (statuses(side), statuses(large)) == ([500, 500], [200])


@by_way
async def test_a_routers_own_check_is_an_overflow_too(stage: Stage, way: str) -> None:
    """`enable_pre_call_checks`: the router refuses a request without sending it; its names and windows are known."""
    side = stage.side()
    models = [stage.deployment("agent", model="checked-before", max_input_tokens=4_096)]
    router = litellm.Router(model_list=models, enable_pre_call_checks=True)
    hooks = CompactionController(summarizer=Scripted(f"- {SECRET}"), settings=CompactionSettings(auto_compact=False))
    assert said(await got(with_compaction(getattr(router, way), hooks)("agent", task(40)))) == "Done."
    assert statuses(side) == [200]
    assert SECRET in str(side.requests[0].messages)


def test_the_window_behind_a_routers_name_is_known(stage: Stage) -> None:
    """Models of their own: a router writes the facts it is told about a model into litellm's table."""
    stage.side()
    models = [
        stage.deployment("agent", model="behind-agent-1", max_input_tokens=16_384),
        stage.deployment("agent", model="behind-agent-2", max_input_tokens=8_192),
        stage.deployment("alone", model="behind-alone", max_input_tokens=16_384),
        stage.deployment("family/*", model="*"),
    ]
    router = litellm.Router(model_list=models, model_group_alias={"alias": "agent"})
    windows = {"agent": 8_192, "alias": 8_192, "family/gpt-4o-mini": 128_000, "alone": 16_384}
    for name, window in windows.items():
        hooks = CompactionController()
        with_compaction(router.completion, hooks, session_id="one")(name, task(1))
        assert hooks.session("one").state().context_window == window, name
