"""What litellm would send again: an overflow never, everything else as often as the user asked."""

from __future__ import annotations

from collections.abc import Awaitable
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("litellm")

import openai
from compaction_adapters.litellm import with_compaction, wrapping

from compaction_hooks import (
    CompactionController,
    CompactionSettings,
    ContextOverflowError,
    is_context_overflow,
    parse_overflow,
)
from tests.adapters import litellm_stage
from tests.adapters.litellm_stage import SECRET, WINDOW, Stage, litellm, said, statuses, task
from tests.cases import sampled
from tests.conversations import Scripted, talk, user
from tests.provider import WORDINGS, Answer, Rejection
from tests.provider.wordings import Sizes, build_rejection, openai_error

pytestmark = litellm_stage.QUIET
provider, stage = litellm_stage.provider, litellm_stage.stage

BAD = Rejection(400, openai_error("temperature is out of range"))
DOWN = Rejection(500, {"error": {"message": "The server had an error", "type": "server_error"}})
BELIEVED = 4 * WINDOW
"""More than the provider takes: the first request of a long list is rejected."""
BOTH = pytest.mark.parametrize("function", [litellm.completion, litellm.acompletion], ids=["sync", "async"])


async def got(answered: Any) -> Any:
    return await answered if isinstance(answered, Awaitable) else answered


def compacted(function: Any, window: int | None = None, **keywords: Any) -> Any:
    """The function, with a summarizer that costs no request."""
    return with_compaction(function, context_window=window, summarizer=Scripted(f"- {SECRET}"), **keywords)


# -- an overflow


@pytest.mark.parametrize("wording", sampled([name for name in WORDINGS if WORDINGS[name].text], 6))
@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_every_wording_is_recovered_by_one_resend(stage: Stage, api: str, wording: str) -> None:
    """Also those that litellm takes for any bad request; limit and count are read as far as they are stated."""
    side = stage.side(window=WINDOW, wording=wording)
    arguments = getattr(stage, api)(messages=[*talk(40), user("And now?")], max_retries=0, max_tokens=256)
    with pytest.raises(openai.APIError) as raised:
        litellm.completion(**arguments)
    assert is_context_overflow(raised.value)
    read = parse_overflow(raised.value)
    assert read is not None
    if "{limit}" in WORDINGS[wording].text:
        assert read.limit_tokens == WINDOW
    side.requests.clear()
    answer = compacted(litellm.completion)(**arguments, num_retries=2)
    assert said(answer) == "Done."
    assert statuses(side) == [WORDINGS[wording].status, 200]
    assert SECRET in str(side.requests[1].messages)


@BOTH
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_retries_do_not_resend_an_overflow(stage: Stage, function: Any, stream: bool) -> None:
    """litellm itself sends it three times (25 in the list of peers' defects)."""
    side = stage.side()
    answer = await got(compacted(function, BELIEVED)(messages=task(40), num_retries=2, stream=stream, **stage.openai()))
    if stream:
        chunks = (
            [chunk async for chunk in answer]
            if hasattr(answer, "__aiter__") and function is litellm.acompletion
            else list(answer)
        )
        answer = litellm.stream_chunk_builder(chunks)
    assert said(answer) == "Done."
    assert statuses(side) == [400, 200]


@BOTH
async def test_a_policy_for_bad_requests_does_not_either(stage: Stage, function: Any) -> None:
    side = stage.side()
    policy = litellm.types.router.RetryPolicy(BadRequestErrorRetries=2)
    made = compacted(function, BELIEVED)
    assert said(await got(made(messages=task(40), retry_policy=policy, **stage.openai()))) == "Done."
    assert statuses(side) == [400, 200]
    side.answers.extend([BAD, BAD])
    assert said(await got(made(messages=task(2), retry_policy=policy, **stage.openai()))) == "Done."
    assert statuses(side)[2:] == [400, 400, 200]


@BOTH
async def test_an_overflow_after_another_error_ends_the_retries(stage: Stage, function: Any) -> None:
    too_long = build_rejection("openai", Sizes(WINDOW, 2 * WINDOW, 0))
    side = stage.side(BAD, too_long, Answer("Ready."), window=BELIEVED)
    answer = await got(compacted(function, BELIEVED)(messages=task(40), num_retries=3, **stage.openai()))
    assert said(answer) == "Ready."
    sizes = [len(request.messages) for request in side.requests]
    assert sizes[0] == sizes[1] > sizes[2]


@BOTH
async def test_a_second_overflow_is_the_end(stage: Stage, function: Any) -> None:
    """The provider's error is the cause."""
    side = stage.side()
    side.reject_next = 5
    with pytest.raises(ContextOverflowError) as raised:
        await got(compacted(function, BELIEVED)(messages=task(40), num_retries=2, **stage.openai()))
    assert isinstance(raised.value.__cause__, litellm.ContextWindowExceededError)
    assert statuses(side) == [400, 400]


@BOTH
@pytest.mark.parametrize("models", ["all", "this"])
async def test_recovery_may_be_switched_off(stage: Stage, function: Any, models: str) -> None:
    """LiteLLM's own error arrives untouched, and is still not sent again."""
    side = stage.side()
    off = CompactionSettings(compact_on_overflow=False)
    made = compacted(function, BELIEVED, settings=off if models == "all" else {"gpt-4o*": off})
    with pytest.raises(litellm.ContextWindowExceededError):
        await got(made(messages=task(40), num_retries=2, **stage.openai()))
    assert statuses(side) == [400]


# -- other errors


@BOTH
@pytest.mark.parametrize(
    ("error", "number", "sent"),
    [
        pytest.param(BAD, None, 1, id="no retries"),
        pytest.param(BAD, 2, 3, id="bad request"),
        pytest.param(DOWN, 1, 3, id="server error, which the provider's client sends again first"),
    ],
)
async def test_other_errors_are_sent_again(
    stage: Stage, function: Any, error: Rejection, number: int | None, sent: int
) -> None:
    side = stage.side(*[error] * 9)
    with pytest.raises(openai.APIError):
        await got(compacted(function, BELIEVED)(messages=task(2), num_retries=number, **stage.openai()))
    assert len(side.requests) == sent


@BOTH
@pytest.mark.parametrize("number", [1, 2])
async def test_other_errors_are_sent_as_often_as_litellm_sends_them(stage: Stage, function: Any, number: int) -> None:
    pytest.importorskip("tenacity", reason="without it litellm itself does not retry")
    counts: list[int] = []
    for called in (function, compacted(function, BELIEVED)):
        side = stage.side(*[BAD] * 9)
        with pytest.raises(litellm.BadRequestError):
            await got(called(messages=task(2), num_retries=number, **stage.openai()))
        counts.append(len(side.requests))
    assert counts[0] == counts[1] == number + 1


@BOTH
async def test_after_a_rate_limit_the_wait_grows(stage: Stage, function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(wrapping, "time", SimpleNamespace(sleep=waits.append))
    monkeypatch.setattr(wrapping, "asyncio", SimpleNamespace(sleep=sleep))
    limited = Rejection(
        429, {"error": {"message": "Rate limit reached", "type": "requests", "code": "rate_limit_exceeded"}}
    )
    side = stage.side(*[limited] * 9)
    policy = litellm.types.router.RetryPolicy(RateLimitErrorRetries=6)
    arguments = stage.openai(messages=task(2), max_retries=0, retry_policy=policy)
    with pytest.raises(litellm.RateLimitError):
        await got(compacted(function, BELIEVED)(**arguments))
    assert waits == [0, 1, 2, 4, 8, 10]
    assert statuses(side) == [429] * 7


@BOTH
async def test_retries_of_the_whole_process_are_kept(
    stage: Stage, function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(litellm, "num_retries", 2)
    side = stage.side(BAD, BAD, Answer("Ready."))
    assert said(await got(compacted(function, BELIEVED)(messages=task(2), **stage.openai()))) == "Ready."
    assert statuses(side) == [400, 400, 200]


# -- fallbacks


@BOTH
async def test_an_overflow_is_compacted_before_anything_falls_back(stage: Stage, function: Any) -> None:
    side, other = stage.side(wording="groq"), stage.side(key="-other")
    fallback = stage.openai("gpt-4o", key="-other")
    made = compacted(function, BELIEVED)
    answer = await got(
        made(messages=task(40), fallbacks=[fallback], context_window_fallback_dict={"x": "y"}, **stage.openai())
    )
    assert said(answer) == "Done."
    assert statuses(side) == [400, 200]
    assert not other.requests


@BOTH
async def test_another_error_falls_back_to_views_of_the_models_own_size(
    stage: Stage, function: Any, caplog: pytest.LogCaptureFixture
) -> None:
    side, second = stage.side(BAD, window=BELIEVED), stage.side(BAD, key="-2", window=BELIEVED)
    third = stage.side(Answer("Here."), key="-3")
    smaller = stage.openai("nobody-knows", key="-3", model_info={"max_input_tokens": WINDOW})
    fallbacks = [stage.openai("gpt-4o", key="-2"), smaller]
    answer = await got(compacted(function)(messages=task(40), fallbacks=fallbacks, **stage.openai()))
    assert said(answer) == "Here."
    assert [statuses(one) for one in (side, second, third)] == [[400], [400], [200]]
    assert len(third.requests[0].messages) < len(second.requests[0].messages)
    assert [record.message for record in caplog.records if "falling back" in record.message] == [
        "falling back to openai/gpt-4o (BadRequestError)",
        "falling back to openai/nobody-knows (BadRequestError)",
    ]


def test_where_all_fail_the_last_error_is_raised(stage: Stage) -> None:
    stage.side(BAD)
    stage.side(Rejection(404, {"error": {"message": "no such model", "type": "not_found_error"}}), key="-other")
    fallbacks = [stage.openai(key="-other")]
    with pytest.raises(litellm.NotFoundError):
        compacted(litellm.completion)(messages=task(2), fallbacks=fallbacks, **stage.openai())


@BOTH
async def test_a_larger_model_is_asked_when_compaction_did_not_help(stage: Stage, function: Any) -> None:
    """`context_window_fallback_dict`: model to larger model."""
    side = stage.side()
    side.reject_next = 2
    larger = {"openai/gpt-4o-mini": "openai/gpt-4.1"}
    made = compacted(function, BELIEVED)
    answer = await got(made(messages=task(40), context_window_fallback_dict=larger, num_retries=1, **stage.openai()))
    assert said(answer) == "Done."
    assert [request.body["model"] for request in side.requests] == ["gpt-4o-mini", "gpt-4o-mini", "gpt-4.1"]
    assert statuses(side) == [400, 400, 200]


# -- a router


def routed(stage: Stage, **options: Any) -> Any:
    """Two names: "small" and "large", a side of the provider each."""
    models = [stage.deployment("small"), stage.deployment("large", key="-large", model="gpt-4.1")]
    return litellm.Router(model_list=models, retry_after=0, **options)


WAYS = pytest.mark.parametrize("way", ["completion", "acompletion"])


@WAYS
async def test_a_router_does_not_resend_an_overflow(stage: Stage, way: str) -> None:
    side = stage.side()
    made = compacted(getattr(routed(stage, num_retries=2), way), BELIEVED)
    assert said(await got(made("small", task(40), num_retries=2))) == "Done."
    assert statuses(side) == [400, 200]


@WAYS
@pytest.mark.parametrize("kind", ["fallbacks", "context_window_fallbacks"])
@pytest.mark.parametrize("place", ["router", "call"])
async def test_a_router_compacts_before_it_falls_back(stage: Stage, way: str, kind: str, place: str) -> None:
    side, large = stage.side(), stage.side(key="-large", window=100_000)
    table = {kind: [{"small": ["large"]}]}
    made = compacted(getattr(routed(stage, **(table if place == "router" else {})), way), BELIEVED)
    arguments = table if place == "call" else {}
    assert said(await got(made("small", task(40), **arguments))) == "Done."
    assert statuses(side) == [400, 200]
    assert not large.requests


@WAYS
@pytest.mark.parametrize("place", ["router", "call"])
async def test_a_router_falls_back_when_compaction_did_not_help(stage: Stage, way: str, place: str) -> None:
    side, large = stage.side(), stage.side(Answer("Large."), key="-large")
    side.reject_next = 2
    table: dict[str, Any] = {"context_window_fallbacks": [{"small": ["large"]}]}
    made = compacted(getattr(routed(stage, **(table if place == "router" else {})), way), BELIEVED)
    arguments = table if place == "call" else {}
    assert said(await got(made("small", task(40), **arguments))) == "Large."
    assert statuses(side) == [400, 400]
    assert statuses(large) == [200]


@WAYS
async def test_a_router_keeps_its_retries_and_fallbacks_for_other_errors(stage: Stage, way: str) -> None:
    side, large = stage.side(*[DOWN] * 9), stage.side(Answer("Large."), key="-large")
    router = routed(stage, num_retries=1, fallbacks=[{"small": ["large"]}])
    made = compacted(getattr(router, way), BELIEVED)
    assert said(await got(made("small", task(2)))) == "Large."
    assert statuses(side) == [500, 500]
    assert statuses(large) == [200]


@WAYS
async def test_a_routers_own_check_is_an_overflow_too(stage: Stage, way: str) -> None:
    """`enable_pre_call_checks`: the router refuses a request without sending it; its names and windows are known."""
    side = stage.side()
    models = [stage.deployment("agent", model="checked-before", max_input_tokens=4_096)]
    router = litellm.Router(model_list=models, enable_pre_call_checks=True)
    hooks = CompactionController(summarizer=Scripted(f"- {SECRET}"), settings=CompactionSettings(auto_compact=False))
    made = with_compaction(getattr(router, way), hooks, session_id="one")
    assert said(await got(made("agent", task(40)))) == "Done."
    assert statuses(side) == [200]
    assert SECRET in str(side.requests[0].messages)


@pytest.mark.parametrize(
    ("name", "window"),
    [
        pytest.param("agent", 8_192, id="the smallest of several"),
        pytest.param("alias", 8_192, id="an alias"),
        pytest.param("family/gpt-4o-mini", 128_000, id="a wildcard"),
        pytest.param("alone", 16_384, id="one"),
    ],
)
def test_the_window_behind_a_routers_name_is_known(stage: Stage, name: str, window: int) -> None:
    """Models of their own: a router writes what it is told of a model into litellm's table."""
    stage.side()
    models = [
        stage.deployment("agent", model="behind-agent-1", max_input_tokens=16_384),
        stage.deployment("agent", model="behind-agent-2", max_input_tokens=8_192),
        stage.deployment("alone", model="behind-alone", max_input_tokens=16_384),
        stage.deployment("family/*", model="*"),
    ]
    router = litellm.Router(model_list=models, model_group_alias={"alias": "agent"})
    hooks = CompactionController()
    with_compaction(router.completion, hooks, session_id="one")(name, task(1))
    assert hooks.session("one").state().context_window == window
