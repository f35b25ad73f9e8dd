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
from itertools import accumulate, pairwise
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
    Summarizer,
)
from compaction_hooks.events import CompactionEvent, ContextPressure, HostCallFailed
from compaction_hooks.messages import M
from compaction_hooks.stores import MemoryStore
from compaction_hooks.testing import (
    AdapterFact,
    AdapterHarness,
    Answer,
    Call,
    Script,
    ScriptedProvider,
    SeenRequest,
    Turn,
    long_script,
)
from compaction_hooks.testing.demands import demand
from compaction_hooks.testing.scenes import BELIEVED_WINDOW, WINDOW, Scene, scene
from tests.provider import LoopbackProvider, Side

SKILL = "# Deploying\n" + "\n".join(
    f"{step}. Check part {step} of the release, then sign it off." for step in range(12)
)
"""The result of a tool that the model calls first: `tool_rules` says that it stays."""
PLAN = "# The plan\n" + "\n".join(f"- [ ] task {task}: hand the ledger over to harbour {task}" for task in range(6))
"""A text of `carry=`."""
FOCUS = "the vouchers of March"
FACT = "The books of 1987 are closed and may not be opened again."
ADVICE = Advice(focus=FOCUS, facts=[FACT])
WORDS_TOKENS = 400
"""More than plan, fact and skill have: a plan of a compaction is made before they are known."""
NOTICE = "Soon a summary stands for the older messages: write down what you need of them."
KEEPS_SKILLS = CompactionSettings(tool_rules={"skill": "keep"}, clear_tool_results=False)
"""Every compaction makes a summary."""

Way = Callable[[Scene[Any]], Callable[[str], Awaitable[str]]]
"""Returns another method than `say` to send a prompt with."""


class Host:
    """The functions of a host, one sync and one async, and what they and its event handler were given.

    Args:
        advice: The answers of `before_compact`, one for each question; then None.
        always: Its answer to every question.

    Attributes:
        compacted_at, skipped_at: Numbers of the model requests that are the first ones behind a compaction, or behind one that
            was skipped.
    """

    def __init__(self, *advice: Advice, always: Advice | None = None) -> None:
        self.asked: list[CarryRequest] = []
        self.plans: list[CompactionPlan] = []
        self.events: list[CompactionEvent] = []
        self.compacted_at: list[int] = []
        self.skipped_at: list[int] = []
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
        if isinstance(event, CompactionFinished | CompactionSkipped):
            at = self.compacted_at if isinstance(event, CompactionFinished) else self.skipped_at
            at.append(self._count_requests())

    def controller(self, **keywords: Any) -> CompactionController[Any]:
        """Return a controller that asks both functions."""
        functions = {"carry": self.carry, "before_compact": self.before_compact, "on_event": self.note}
        return CompactionController(**{"context_window": WINDOW, "settings": KEEPS_SKILLS, **functions, **keywords})

    def watch(self, played: Scene[Any]) -> None:
        """Count the requests of this conversation from now on."""
        self._count_requests = lambda: len(played.model_requests)

    @property
    def finished(self) -> list[CompactionFinished]:
        return [event for event in self.events if isinstance(event, CompactionFinished)]

    def demand_compactions(self, least: int, reasons: Iterable[str] = ("threshold",)) -> None:
        """Demand so many compactions, for these reasons, and that no function of the host failed."""
        done, why = len(self.finished), {event.reason for event in self.finished}
        demand(done >= least, f"{done} compactions where at least {least} are due")
        demand(why == {*reasons}, f"compactions were made for {sorted(why)}, not for {sorted(reasons)}")
        failed = [str(event) for event in self.events if isinstance(event, HostCallFailed)]
        demand(not failed, f"functions of the host failed: {failed}")


def skilled_script(turns: int = 3) -> Script:
    """Return a session that loads a skill first, and then is several times the window."""
    script = long_script(turns, steps=4, text_chars=6_000)
    first, *others = script.turns
    loading = Answer("First the skill.", (Call("skill", {"name": "deploy"}),))
    first = Turn(first.user, (loading, *first.answers), (SKILL, *first.results))
    return replace(script, turns=(first, *others))


# -- facts


async def at_the_threshold(
    harness: AdapterHarness[M],
    provider: ScriptedProvider,
    *,
    summarizer: Summarizer | None = None,
    turns: int = 3,
    least: int = 2,
    way: Way | None = None,
) -> None:
    """Each compaction asks both functions once; their words are in every request behind it, and the requests between two
    compactions are cached whole.
    """
    host = Host(always=ADVICE)
    controller = host.controller(summarizer=summarizer, notice=NOTICE)
    async with scene(harness, provider, controller, skilled_script(turns), "threshold") as played:
        host.watch(played)
        await played.play(way(played) if way else None)

        played.demand_no_rejection()
        played.demand_requests(len(played.script.answers))
        played.demand_tools_ran_once()
        await played.demand_history()

        host.demand_compactions(least)
        _demand_words(played, host)
        await _demand_questions(played, host)
        _demand_cached(played.model_requests, host)
        _demand_notices(played.model_requests, host)
        unfocused = [number for number, request in enumerate(played.summary_requests) if not has(request, FOCUS)]
        demand(not unfocused, f"requests {unfocused} for a summary do not name the focus")
        demand(bool(played.summary_requests) == (summarizer is None), "the summaries are another model's")


async def after_an_overflow(harness: AdapterHarness[M], provider: ScriptedProvider) -> None:
    """An overflow asks both once; a veto is overruled, and the request is sent once more with their words."""
    host = Host(replace(ADVICE, veto="not now"), always=ADVICE)
    controller = host.controller(context_window=BELIEVED_WINDOW)
    async with scene(harness, provider, controller, skilled_script(), "overflow") as played:
        host.watch(played)
        await played.play()

        demand(len(played.rejections) == 1, f"{len(played.rejections)} rejections where there must be one")
        host.demand_compactions(2, ("overflow", "threshold"))
        overruled = [event.overruled_veto for event in host.finished]
        demand(overruled[0] == "not now" and not any(overruled[1:]), f"the events name as overruled: {overruled}")
        _demand_words(played, host)
        await _demand_questions(played, host)


async def after_a_restart(harness: AdapterHarness[M], provider: ScriptedProvider) -> None:
    """Another worker with the same list and store sends the same request, pays no summary again, and keeps the words.

    It has no functions: it treats their words as it treats the summary.
    """
    store, script, until = MemoryStore(), skilled_script(4), 3
    first, second = Host(always=ADVICE), Host()
    async with scene(harness, provider, first.controller(store=store), script, "restart") as played:
        await played.play(until=until)
        sent = played.model_requests
        first.demand_compactions(2)

    bare = second.controller(store=store, carry=None, before_compact=None)
    async with scene(harness, provider, bare, script, "restart") as played:
        await played.play(until=until)
        demand(not second.finished, f"the other worker made {len(second.finished)} compactions again")
        demand(not played.summary_requests, "a summary was paid for again")
        again = played.model_requests[-1]
        demand(
            _without_ids(again) == _without_ids(sent[-1]),
            "the last request before the restart is another one behind it",
        )

        await played.play()
        played.demand_no_rejection()
        second.demand_compactions(1)
        _demand_all(played.model_requests[len(sent) :], (SKILL, PLAN))


async def in_one_conversation(harness: AdapterHarness[M], provider: ScriptedProvider) -> None:
    """Functions given to the controller's session of a conversation are asked when the adapter compacts it."""
    host = Host(always=ADVICE)
    controller = host.controller(carry=None, before_compact=None)
    async with scene(harness, provider, controller, skilled_script(), "session") as played:
        host.watch(played)
        await played.play(until=1)
        before = len(host.finished)
        functions: Any = {"carry": host.carry, "before_compact": host.before_compact}
        controller.session(played.host.session_id, notice=NOTICE, **functions)
        await played.play()

        played.demand_no_rejection()
        asked, made = (len(host.asked), len(host.plans)), len(host.finished) - before
        demand(made > 0, "no compaction was made behind the first turn")
        demand(asked == (made, made), f"the functions were asked {asked} times for {made} compactions")
        _demand_all(played.model_requests[-1:], (PLAN, FACT))
        _demand_cached(played.model_requests, host)
        _demand_notices(played.model_requests, host)


async def veto(harness: AdapterHarness[M], provider: ScriptedProvider) -> None:
    """A veto lets the request out uncompacted, is told once, and holds until the user's next message."""
    host = Host(Advice(veto="a deploy is running"))
    settings = replace(
        KEEPS_SKILLS, trigger_tokens=6_000
    )  # far below the input limit, above which a veto does not count
    controller = host.controller(context_window=BELIEVED_WINDOW, settings=settings)
    async with scene(harness, provider, controller, skilled_script(), "veto", window=BELIEVED_WINDOW) as played:
        host.watch(played)
        await played.play()

        played.demand_no_rejection()
        await played.demand_history()
        (vetoed,) = host.skipped_at
        vetoes = [event.why for event in host.events if isinstance(event, CompactionSkipped)]
        demand(vetoes == ["vetoed: a deploy is running"], f"the events say {vetoes}")
        requests = played.model_requests
        demand(_begins_with(requests[vetoed], requests[vetoed - 1]), "the request behind the veto was compacted")
        turn = next(count for count in accumulate(len(one.answers) for one in played.script.turns) if count > vetoed)
        demand(host.compacted_at[0] >= turn, "the veto did not hold until the user's next message")


async def by_hand(harness: AdapterHarness[M], provider: ScriptedProvider) -> None:
    """A compaction by hand asks both once; a veto is its outcome, and their words are in the next request."""
    host = Host(Advice(veto="not now"), always=ADVICE)
    controller, script = host.controller(context_window=BELIEVED_WINDOW), skilled_script()
    async with scene(harness, provider, controller, script, "by-hand", window=BELIEVED_WINDOW) as played:
        await played.play(until=2)
        session: Any = controller.session(played.host.session_id, format=harness.format)
        refused = await session.compact(await played.host.history(), keep_recent_tokens=2_000)
        demand((refused.outcome, refused.record) == ("vetoed", None), f"the outcome of a veto is {refused.outcome!r}")
        demand(not host.asked, "`carry` was asked for a compaction that was vetoed")
        made = await session.compact(await played.host.history(), keep_recent_tokens=2_000)
        demand(made.record is not None, f"nothing was compacted: {made.outcome}")

        before = len(played.model_requests)
        await played.play(until=3)
        asked = ([plan.reason for plan in host.plans], [request.reason for request in host.asked])
        demand(asked == (["manual"] * 2, ["manual"]), f"the functions were asked for {asked}")
        _demand_all(played.model_requests[before:], (SKILL, PLAN, FACT))
        played.demand_no_rejection()


# -- demands


def _demand_words(played: Scene[Any], host: Host) -> None:
    """Demand the skill from its call on, and the words of both functions from the first compaction on, and no earlier."""
    requests, first = played.model_requests, host.compacted_at[0]
    _demand_all(requests[1:], (SKILL,))
    _demand_all(requests[first:], (PLAN, FACT))
    early = [number for number in range(first) if has(requests[number], PLAN) or has(requests[number], FACT)]
    demand(not early, f"requests {early} have the host's words before the first compaction")


def _demand_all(requests: Sequence[SeenRequest], texts: Iterable[str]) -> None:
    demand(requests, "no request was sent")
    for text in texts:
        missing = [number for number, request in enumerate(requests) if not has(request, text)]
        demand(not missing, f"of {len(requests)} requests, numbers {missing} lack {text[:16]!r} word for word")


async def _demand_questions(played: Scene[Any], host: Host) -> None:
    """Demand that each compaction asked each function once, for its reason, about this conversation."""
    asked, plans = [request.reason for request in host.asked], [plan.reason for plan in host.plans]
    made = [event.reason for event in host.finished]
    demand(
        asked == plans == made, f"`carry` was asked for {asked}, `before_compact` for {plans}; compactions were {made}"
    )
    ids = {request.session_id for request in host.asked}
    demand(ids == {played.host.session_id}, f"`carry` was asked for {sorted(ids)}, not for {played.host.session_id!r}")
    for plan, event in zip(host.plans, host.finished, strict=True):
        demand(
            event.tokens_after - WORDS_TOKENS <= plan.tokens_after < plan.tokens_before,
            f"the plan names {plan.tokens_before} and {plan.tokens_after} tokens, the event {event.tokens_before} and "
            f"{event.tokens_after}",
        )
    if played.harness.keeps_history:
        _demand_own_messages(played.harness, host, await played.host.history())


def _demand_own_messages(harness: AdapterHarness[M], host: Host, history: Sequence[M]) -> None:
    """Demand that `carry` was given the framework's own messages, as far as the history went."""
    whole = _said(harness, history)
    for request in host.asked:
        kinds = {type(message) for message in request.messages} - {type(message) for message in history}
        demand(not kinds, f"the messages have {kinds}, which the framework's own history has not")
        given = _said(harness, request.messages)
        demand(given and given == whole[: len(given)], "the messages are not those of the framework's history so far")


def _said(harness: AdapterHarness[M], messages: Sequence[M]) -> list[str]:
    pieces = [piece for message in messages for piece in harness.format.read(message)]
    return [repr(piece.parts) for piece in pieces if piece.role in ("user", "assistant", "tool")]


def _demand_cached(requests: Sequence[SeenRequest], host: Host) -> None:
    """Demand that each request begins with the whole request before it, unless a compaction is between the two."""
    pairs = enumerate(pairwise(requests), 1)
    missed = [number for number, pair in pairs if number not in host.compacted_at and not _begins_with(*reversed(pair))]
    demand(not missed, f"of {len(requests)} requests, numbers {missed} do not begin with the request before")


def _demand_notices(requests: Sequence[SeenRequest], host: Host) -> None:
    """Demand that the model was told before a compaction, no more than once in a request, and its host as often."""
    counts = [json.dumps(request.body).count(NOTICE) for request in requests]
    begun = sum(before < count for before, count in pairwise(counts))
    demand(begun > 0, "the model was never told that its context is nearly full")
    demand(max(counts) == 1, f"the requests have the notice so many times: {counts}")
    told = sum(isinstance(event, ContextPressure) for event in host.events)
    demand(begun <= told <= len(host.finished) + 1, f"the host was told {told} times and the model {begun} times")


def _begins_with(request: SeenRequest, before: SeenRequest) -> bool:
    fields = [{**one.body, "messages": (), "input": ()} for one in (request, before)]
    start, whole = (_messages(one) for one in (request, before))
    return fields[0] == fields[1] and start[: len(whole)] == whole


def _messages(request: SeenRequest) -> list[str]:
    """Return the messages of a request without cache marks, which move to the end of each, and without the name that Agent
    Framework gives its agent in the messages of earlier runs.
    """
    sent: Any = request.body.get("messages") or request.body["input"]
    changing = r', "cache_control": {[^}]*}|"name": "UnnamedAgent", '
    return [re.sub(changing, "", json.dumps(message)) for message in sent]


def _without_ids(request: SeenRequest) -> str:
    """Return a request without the ids of answers, which the provider counts."""
    return re.sub(r"\bmsg_\d+", "", json.dumps(request.body))


def has(request: SeenRequest, text: str) -> bool:
    """Whether a request has a text word for word; Gemini's results are JSON in the body."""
    in_body, body = json.dumps(text)[1:-1], json.dumps(request.body)
    return in_body in body or json.dumps(in_body)[1:-1] in body


# -- the table


class NamesTheLimit:
    """The provider with the wording of Claude on Bedrock, which names the limit; that of other models there does not."""

    def __init__(self, provider: LoopbackProvider) -> None:
        self.provider = provider
        self.openai_url, self.anthropic_url = provider.openai_url, provider.anthropic_url

    def conversation(self, key: str, /, *, window: int, answers: Sequence[Answer]) -> Side:
        return self.provider.conversation(key, window=window, answers=answers, wording="anthropic")


def _sync(played: Scene[Any]) -> Callable[[str], Awaitable[str]]:
    return lambda text: asyncio.to_thread(played.host.say_sync, text)


def _streamed(played: Scene[Any]) -> Callable[[str], Awaitable[str]]:
    async def say(text: str) -> str:
        expected = played.script.turns[len(played.played)].answers[-1].text
        whole = "".join(await played.host.say_streamed(text))
        return expected if whole.rstrip().endswith(expected) else whole  # in some frameworks with the words before

    return say


FAST = (AdapterFact("at_the_threshold", at_the_threshold), AdapterFact("in_one_conversation", in_one_conversation))
OVERFLOW = AdapterFact("after_an_overflow", after_an_overflow)
_TEN: Any = {"turns": 12, "least": 10}
_RULE: Any = {"summarizer": ExtractiveSummarizer()}
FULL = (
    AdapterFact("after_a_restart", after_a_restart, needs="history"),
    AdapterFact("veto", veto),
    AdapterFact("by_hand", by_hand),
    AdapterFact("ten_by_a_model", partial(at_the_threshold, **_TEN)),
    AdapterFact("ten_by_rule", partial(at_the_threshold, **_RULE, **_TEN)),
    AdapterFact("ten_by_a_model_sync", partial(at_the_threshold, way=_sync, **_TEN), needs="sync"),
    AdapterFact("ten_by_rule_streamed", partial(at_the_threshold, way=_streamed, **_RULE, **_TEN), needs="streaming"),
)


def by_host_facts(**kinds: Iterable[str]) -> pytest.MarkDecorator:
    """Parametrize by fact and kind of model: all facts with the first kind, two of which are fast; three with each other kind."""
    ((name, names),) = kinds.items()
    return pytest.mark.parametrize(
        ("fact", name),
        [
            pytest.param(fact, kind, id=f"{fact}-{kind}", marks=() if fact in FAST and not place else pytest.mark.full)
            for place, kind in enumerate(names)
            for fact in (*FAST, OVERFLOW, *(() if place else FULL))
        ],
    )
