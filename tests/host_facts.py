"""The host's say in compactions, as facts of every adapter: its texts come back, it is asked once, and prompt caches hold.

A harness of `check_adapter` is all that a fact needs. `by_host_facts` marks a harness's test with them.
"""

import asyncio
import json
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from compaction_hooks import (
    Advice,
    Carried,
    CarryRequest,
    CompactionController,
    CompactionFinished,
    CompactionPlan,
    CompactionSettings,
    CompactionSkipped,
    ExtractiveSummarizer,
)
from compaction_hooks.events import CompactionEvent, HostCallFailed
from compaction_hooks.stores import MemoryStore
from compaction_hooks.testing import AdapterFact, AdapterHarness, Answer, Call, Script, Turn, long_script
from compaction_hooks.testing.demands import demand
from compaction_hooks.testing.scenes import BELIEVED_WINDOW, WINDOW, Scene, scene
from tests.provider import LoopbackProvider, Received, Side
from tests.provider.counting import CACHE_BLOCK_TOKENS, CACHE_MINIMUM_TOKENS

SKILL = "# Deploying\n" + "\n".join(f"{step}. Check part {step} of the release, then sign it off." for step in range(12))
"""The result of a tool that the model calls first: `tool_rules` says that it stays."""
PLAN = "# The plan\n" + "\n".join(f"- [ ] task {task}: hand the ledger over to harbour {task}" for task in range(6))
"""A text of `carry=`."""
FOCUS = "the vouchers of March"
FACT = "The books of 1987 are closed and may not be opened again."
KEEPS_SKILLS = CompactionSettings(tool_rules={"skill": "keep"}, clear_tool_results=False)
"""Every compaction makes a summary."""

Harness = AdapterHarness[Any]
Say = Callable[[Scene[Any]], Callable[[str], Awaitable[str]]]
"""Returns another method than `say` to send a prompt with."""


class Host:
    """The functions of a host, one sync and one async, and what they and its event handler were given.

    Args:
        advice: The answers of `before_compact`, one for each question; then None.
        always: Its answer to every question.

    Attributes:
        compacted_at: Numbers of the model requests that are the first ones behind a compaction.
    """

    def __init__(self, *advice: Advice, always: Advice | None = None) -> None:
        self.asked: list[CarryRequest] = []
        self.plans: list[CompactionPlan] = []
        self.events: list[CompactionEvent] = []
        self.compacted_at: list[int] = []
        self._advice, self._always = deque(advice), always
        self._count_requests: Callable[[], int] = int

    def carry(self, request: CarryRequest) -> list[Carried]:
        self.asked.append(request)
        return [Carried("plan", PLAN)]

    async def before_compact(self, plan: CompactionPlan) -> Advice | None:
        await asyncio.sleep(0)
        self.plans.append(plan)
        return self._advice.popleft() if self._advice else self._always

    def note(self, event: CompactionEvent) -> None:
        self.events.append(event)
        if isinstance(event, CompactionFinished):
            self.compacted_at.append(self._count_requests())

    def controller(self, **keywords: Any) -> CompactionController[Any]:
        keywords = {"context_window": WINDOW, "settings": KEEPS_SKILLS, **keywords}
        return CompactionController(on_event=self.note, **keywords)

    def watch(self, played: Scene[Any]) -> None:
        """Count the requests of this conversation from now on."""
        self._count_requests = lambda: len(played.model_requests)

    @property
    def finished(self) -> list[CompactionFinished]:
        return [event for event in self.events if isinstance(event, CompactionFinished)]

    @property
    def skipped(self) -> list[CompactionSkipped]:
        return [event for event in self.events if isinstance(event, CompactionSkipped)]

    def demand_compactions(self, least: int, reasons: Iterable[str] = ("threshold",)) -> None:
        """Demand so many compactions, for these reasons, and that no function of the host failed."""
        done, why = len(self.finished), {event.reason for event in self.finished}
        demand(done >= least, f"{done} compactions where at least {least} are due")
        demand(why == {*reasons}, f"compactions were made for {sorted(why)}, not for {sorted(reasons)}")
        failed = [str(event) for event in self.events if isinstance(event, HostCallFailed)]
        demand(not failed, f"functions of the host failed: {failed}")


def skilled_script(turns: int = 4) -> Script:
    """Return a session that loads a skill first, and then is several times the window."""
    script = long_script(turns, steps=4, text_chars=6_000)
    first, *others = script.turns
    loading = Answer("First the skill.", (Call("skill", {"name": "deploy"}),))
    first = Turn(first.user, (loading, *first.answers), (SKILL, *first.results))
    return replace(script, turns=(first, *others))


# -- `carry=` and kept results


async def texts_come_back(
    harness: Harness, provider: LoopbackProvider, *, summarizer: Any = None, turns: int = 4, least: int = 2, way: Say | None = None
) -> None:
    """A kept result and a host's text are in every request behind each compaction, and between two compactions all is cached."""
    host = Host()
    controller = host.controller(carry=host.carry, summarizer=summarizer)
    async with scene(harness, provider, controller, skilled_script(turns), "texts") as played:
        host.watch(played)
        await played.play(way(played) if way else None)

        played.demand_no_rejection()
        played.demand_requests(len(played.script.answers))
        played.demand_tools_ran_once()
        await played.demand_history()
        demand(bool(played.summary_requests) == (summarizer is None), "the summaries are not those of the scene")

        host.demand_compactions(least)
        _demand_texts(played, host)
        _demand_asked(played, host, await played.host.history())
        _demand_cached(played.model_requests, host.compacted_at)


def _demand_texts(played: Scene[Any], host: Host) -> None:
    """Demand the skill from its call on, and the plan from the first compaction on."""
    requests = played.model_requests
    for text, first in ((SKILL, 1), (PLAN, host.compacted_at[0])):
        missing = [number for number, request in enumerate(requests) if number >= first and not has(request, text)]
        demand(not missing, f"of {len(requests)} requests, numbers {missing} lack {text[:16]!r} word for word")
    early = [number for number in range(host.compacted_at[0]) if has(requests[number], PLAN)]
    demand(not early, f"requests {early} have the plan before the first compaction")


def _demand_asked(played: Scene[Any], host: Host, history: Sequence[Any]) -> None:
    """Demand one question for each compaction, with the framework's own messages."""
    demand(
        len(host.asked) == len(host.finished),
        f"`carry` was asked {len(host.asked)} times for {len(host.finished)} compactions",
    )
    demand(
        {request.session_id for request in host.asked} == {played.host.session_id},
        f"`carry` was asked for {sorted({request.session_id for request in host.asked})}, not for {played.host.session_id!r}",
    )
    for request in host.asked:
        if not played.harness.keeps_history:
            continue
        kinds = {type(message) for message in request.messages} - {type(message) for message in history}
        demand(not kinds, f"the messages have {kinds}, which the framework's own history has not")
        given, whole = (_said(played.harness, messages) for messages in (request.messages, history))
        demand(given == whole[: len(given)], "the messages are not those of the framework's history so far")


def _said(harness: Harness, messages: Sequence[Any]) -> list[str]:
    pieces = [piece for message in messages for piece in harness.format.read(message)]
    return [repr(piece.parts) for piece in pieces if piece.role in ("user", "assistant", "tool")]


def _demand_cached(requests: Sequence[Any], compacted_at: Sequence[int]) -> None:
    """Demand that a request begins with the whole request before it, unless a compaction is between the two."""
    missed = [
        number
        for number, (before, request) in enumerate(pairwise(requests), 1)
        if number not in compacted_at and not _reads_whole(request, before)
    ]
    demand(not missed, f"of {len(requests)} requests, numbers {missed} did not read the request before from the cache")


def _reads_whole(request: Received, before: Received) -> bool:
    tokens = before.input_tokens
    return tokens < CACHE_MINIMUM_TOKENS or request.cached_tokens >= tokens // CACHE_BLOCK_TOKENS * CACHE_BLOCK_TOKENS


async def functions_of_a_session(harness: Harness, provider: LoopbackProvider) -> None:
    """Functions given to the controller's session of a conversation are asked when the adapter compacts it."""
    host = Host()
    controller = host.controller()
    async with scene(harness, provider, controller, skilled_script(), "session") as played:
        host.watch(played)
        await played.play(until=1)
        controller.session(played.host.session_id, carry=host.carry, before_compact=host.before_compact)
        before = len(host.finished)
        await played.play()

        played.demand_no_rejection()
        made = len(host.finished) - before
        demand(made > 0, "no compaction was made behind the first turn")
        demand(
            (len(host.asked), len(host.plans)) == (made, made),
            f"the functions were asked {len(host.asked)} and {len(host.plans)} times for {made} compactions",
        )
        demand(has(played.model_requests[-1], PLAN), "the last request lacks the plan")


async def texts_after_an_overflow(harness: Harness, provider: LoopbackProvider) -> None:
    """A request that was too long is sent once more with both texts."""
    host = Host()
    controller = host.controller(context_window=BELIEVED_WINDOW, carry=host.carry)
    async with scene(harness, provider, controller, skilled_script(), "texts-overflow") as played:
        host.watch(played)
        await played.play()

        host.demand_compactions(2, ("overflow", "threshold"))
        demand(len(played.rejections) == 1, f"{len(played.rejections)} rejections where there must be one")
        _demand_texts(played, host)
        _demand_asked(played, host, await played.host.history())


async def texts_after_a_restart(harness: Harness, provider: LoopbackProvider) -> None:
    """Another worker with the same list and store sends the very same request, pays no summary again, and keeps the texts."""
    store, script = MemoryStore(), skilled_script()
    first, second = Host(), Host()
    until = len(script.turns) - 1
    async with scene(harness, provider, first.controller(carry=first.carry, store=store), script, "restart") as played:
        await played.play(until=until)
        sent = played.model_requests
        first.demand_compactions(2)

    # It has no `carry=`: it treats the texts as it treats the summary.
    async with scene(harness, provider, second.controller(store=store), script, "restart") as played:
        second.watch(played)
        await played.play(until=until)
        demand(not second.finished, f"the other worker made {len(second.finished)} compactions again")
        demand(not played.summary_requests, "a summary was paid for again")
        again = played.model_requests[-1]
        demand(_without_ids(again) == _without_ids(sent[-1]), "the last request before the restart is another one behind it")

        await played.play()
        played.demand_no_rejection()
        second.demand_compactions(1)
        missing = [not has(request, text) for request in played.model_requests[len(sent) :] for text in (SKILL, PLAN)]
        demand(not any(missing), "the other worker's requests lack a text word for word")


def _without_ids(request: Any) -> str:
    """Return a request without the ids of answers, which the provider counts."""
    return re.sub(r"\bmsg_\d+", "", json.dumps(request.body))


# -- `before_compact=`


async def advice_at_the_threshold(harness: Harness, provider: LoopbackProvider, *, way: Say | None = None) -> None:
    """Each compaction is asked for once; its facts are in every request behind it, its focus is told to the model."""
    host = Host(always=Advice(focus=FOCUS, facts=[FACT]))
    controller = host.controller(before_compact=host.before_compact)
    async with scene(harness, provider, controller, skilled_script(), "advice") as played:
        host.watch(played)
        await played.play(way(played) if way else None)

        played.demand_no_rejection()
        host.demand_compactions(2)
        _demand_plans(host)
        requests = played.model_requests
        missing = [number for number in range(host.compacted_at[0], len(requests)) if not has(requests[number], FACT)]
        demand(not missing, f"requests {missing} lack the host's fact")
        unfocused = [request for request in played.summary_requests if not has(request, FOCUS)]
        demand(not unfocused, f"{len(unfocused)} requests for a summary do not name the focus")


def _demand_plans(host: Host) -> None:
    """Demand one plan for each compaction, for its reason, before it is made."""
    plans = [plan.reason for plan in host.plans]
    made = [event.reason for event in host.finished]
    demand(plans == made, f"`before_compact` was asked for {plans}, and compactions were made for {made}")
    for plan, event in zip(host.plans, host.finished, strict=True):
        demand(
            event.tokens_after <= plan.tokens_after < plan.tokens_before,
            f"the plan names {plan.tokens_before} and {plan.tokens_after} tokens, the event {event.tokens_before} and "
            f"{event.tokens_after}",
        )


async def advice_after_an_overflow(harness: Harness, provider: LoopbackProvider) -> None:
    """An overflow is asked about once, and its veto is overruled."""
    host = Host(Advice(veto="not now", facts=[FACT]))
    controller = host.controller(context_window=BELIEVED_WINDOW, before_compact=host.before_compact)
    async with scene(harness, provider, controller, skilled_script(), "advice-overflow") as played:
        host.watch(played)
        await played.play()

        host.demand_compactions(2, ("overflow", "threshold"))
        _demand_plans(host)
        demand(len(played.rejections) == 1, f"{len(played.rejections)} rejections where there must be one")
        demand(has(played.model_requests[host.compacted_at[0]], FACT), "the request sent again lacks the host's fact")


async def veto(harness: Harness, provider: LoopbackProvider) -> None:
    """A veto lets the request out uncompacted; an event says so once, and the next message of the user asks again."""
    host = Host(Advice(veto="a deploy is running"))
    controller = host.controller(before_compact=host.before_compact)
    async with scene(harness, provider, controller, skilled_script(), "veto") as played:
        host.watch(played)
        await played.play()

        played.demand_no_rejection()
        await played.demand_history()
        vetoed = [event.why for event in host.skipped if event.why.startswith("vetoed")]
        demand(vetoed == ["vetoed: a deploy is running"], f"the events say {vetoed}")


async def by_hand(harness: Harness, provider: LoopbackProvider) -> None:
    """A compaction by hand asks for each once; a veto is its outcome, and texts and facts are in the next request."""
    host = Host(Advice(veto="not now"), Advice(facts=[FACT]))
    functions: Any = {"carry": host.carry, "before_compact": host.before_compact}
    controller, script = host.controller(context_window=BELIEVED_WINDOW, **functions), skilled_script()
    async with scene(harness, provider, controller, script, "by-hand", window=BELIEVED_WINDOW) as played:
        await played.play(until=2)
        session = controller.session(played.host.session_id, format=harness.format)
        refused = await session.compact(await played.host.history(), keep_recent_tokens=2_000)
        demand((refused.outcome, refused.record) == ("vetoed", None), f"the outcome of a veto is {refused.outcome!r}")
        demand(not host.asked, "`carry` was asked for a compaction that was vetoed")
        made = await session.compact(await played.host.history(), keep_recent_tokens=2_000)
        demand(made.record is not None, f"nothing was compacted: {made.outcome}")

        before = len(played.model_requests)
        await played.play(until=3)
        asked = ([plan.reason for plan in host.plans], [request.reason for request in host.asked])
        demand(asked == (["manual"] * 2, ["manual"]), f"the functions were asked for {asked}")
        missing = [not has(one, text) for one in played.model_requests[before:] for text in (SKILL, PLAN, FACT)]
        demand(missing and not any(missing), "a request behind the compaction lacks a text word for word")
        played.demand_no_rejection()


# -- the table


class NamesTheLimit:
    """The provider with the wording of Claude on Bedrock, which names the limit; that of other models there does not."""

    def __init__(self, provider: LoopbackProvider) -> None:
        self.provider = provider
        self.openai_url, self.anthropic_url = provider.openai_url, provider.anthropic_url

    def conversation(self, key: str, /, *, window: int, answers: Sequence[Answer]) -> Side:
        return self.provider.conversation(key, window=window, answers=answers, wording="anthropic")


def has(request: Any, text: str) -> bool:
    """Whether a request has a text word for word; Gemini's results are JSON in the body."""
    in_body = json.dumps(text)[1:-1]
    body = json.dumps(request.body)
    return in_body in body or json.dumps(in_body)[1:-1] in body


def _sync(played: Scene[Any]) -> Callable[[str], Awaitable[str]]:
    return partial(asyncio.to_thread, played.host.say_sync)


def _streamed(played: Scene[Any]) -> Callable[[str], Awaitable[str]]:
    async def say(text: str) -> str:
        expected = played.script.turns[len(played.played)].answers[-1].text
        whole = "".join(await played.host.say_streamed(text))
        return expected if whole.rstrip().endswith(expected) else whole  # in some frameworks with the words before

    return say


FAST = (
    AdapterFact("texts_come_back", texts_come_back),
    AdapterFact("functions_of_a_session", functions_of_a_session),
    AdapterFact("texts_after_an_overflow", texts_after_an_overflow),
    AdapterFact("texts_after_a_restart", texts_after_a_restart),
    AdapterFact("advice_at_the_threshold", advice_at_the_threshold),
    AdapterFact("advice_after_an_overflow", advice_after_an_overflow),
    AdapterFact("veto", veto),
    AdapterFact("by_hand", by_hand),
)
_TEN: Any = {"turns": 12, "least": 10}
_RULE: Any = {"summarizer": ExtractiveSummarizer()}
FULL = (
    AdapterFact("ten_by_a_model", partial(texts_come_back, **_TEN)),
    AdapterFact("ten_by_rule", partial(texts_come_back, **_RULE, **_TEN)),
    AdapterFact("ten_by_a_model_sync", partial(texts_come_back, way=_sync, **_TEN), needs="sync"),
    AdapterFact("ten_by_rule_streamed", partial(texts_come_back, way=_streamed, **_RULE, **_TEN), needs="streaming"),
    AdapterFact("advice_sync", partial(advice_at_the_threshold, way=_sync), needs="sync"),
    AdapterFact("advice_streamed", partial(advice_at_the_threshold, way=_streamed), needs="streaming"),
)


def by_host_facts(**kinds: Iterable[str]) -> pytest.MarkDecorator:
    """Parametrize by fact and kind of model: the fast suite has each path once, with the first kind."""
    ((name, names),) = kinds.items()
    return pytest.mark.parametrize(
        ("fact", name),
        [
            pytest.param(fact, kind, id=f"{fact}-{kind}", marks=() if fact in FAST and not place else pytest.mark.full)
            for place, kind in enumerate(names)
            for fact in (*FAST, *FULL)
        ],
    )
