"""The adapter kit: the plain loop passes every fact, and each broken adapter fails the one it breaks."""

import asyncio
import unittest
from itertools import islice

import pytest

pytest.importorskip("httpx")

from compaction_hooks import CompactionController, CompactionSession, ContextOverflowError, SummaryRequest
from compaction_hooks.testing import ADAPTER_FACTS, AdapterFact, check_adapter, check_session, long_script
from tests.cases import sampled
from tests.data import needs_data
from tests.provider import LoopbackProvider
from tests.provider.recorded import read_scripts
from tests.testing.plain import Body, Chat, PlainConversation, PlainHarness

FACTS = {str(fact): fact for fact in ADAPTER_FACTS}


@pytest.mark.parametrize("fact", sampled(ADAPTER_FACTS, 6), ids=str)
def test_the_plain_loop_has_every_fact(fact: AdapterFact, provider: LoopbackProvider) -> None:
    check_adapter(PlainHarness(), provider, fact)


def test_all_facts_are_checked_at_once_where_none_is_named(provider: LoopbackProvider) -> None:
    """The second fact fails here, so not only the first is checked."""
    with pytest.raises(AssertionError, match="plain, long_session: "):
        check_adapter(harness_of(NeverCompacts), provider)


def test_every_fact_has_a_claim() -> None:
    assert [fact.name for fact in ADAPTER_FACTS if not fact.claim.endswith(".")] == []


@pytest.mark.parametrize("need", ["sync", "streaming", "history"])
def test_a_fact_that_does_not_apply_is_a_skip(need: str, provider: LoopbackProvider) -> None:
    class Bare(PlainHarness):
        has_sync = False
        has_streaming = False
        keeps_history = False

    with pytest.raises(unittest.SkipTest, match=f"plain has no {need}"):
        check_adapter(Bare(), provider, FACTS[need])


@pytest.mark.parametrize("fact", sampled([fact for fact in ADAPTER_FACTS if fact.needs != "history"], 2), ids=str)
def test_forms_that_persist_have_the_other_facts(fact: AdapterFact, provider: LoopbackProvider) -> None:
    """For example a node that trims the host's own messages: only the fact about the history is skipped."""

    class Persisting(PlainHarness):
        keeps_history = False
        conversation = KeepsTheView

    check_adapter(Persisting(), provider, fact)


def test_a_session_of_ones_own_runs_to_its_end(provider: LoopbackProvider) -> None:
    check_session(PlainHarness(), provider, long_script(3, text_chars=9_000, topic="harbour"))


def test_a_session_that_fits_the_window_shows_nothing(provider: LoopbackProvider) -> None:
    with pytest.raises(AssertionError, match="nothing was compacted: give a session longer than the window"):
        check_session(PlainHarness(), provider, long_script(1, text_chars=100))


@needs_data
def test_recorded_sessions_run_to_their_end(provider: LoopbackProvider) -> None:
    for _, script in islice(read_scripts("openhands*", minimum_tokens=20_000), 2):
        check_session(PlainHarness(), provider, script)


# -- broken adapters


class AddsAField(PlainConversation):
    def body(self, view: list[Chat]) -> Body:
        return {**super().body(view), **({"metadata": {"compacted": "no"}} if self.opening.controller else {})}


class CompactsEarly(PlainConversation):
    async def answer(self) -> Body:
        session = self.session()
        if session is not None and len(self.messages) > 6:
            await session.compact(self.messages)
        return await super().answer()


class NeverCompacts(PlainConversation):
    def session(self) -> None:
        return None


class UsesNoModel(PlainConversation):
    async def answer(self) -> Body:
        session = self.session()
        return await (session.call(self.messages, self.send) if session else self.send(self.messages))


class RunsToolsTwice(PlainConversation):
    def take(self, answer: Body) -> bool:
        for call in answer.get("tool_calls") or ():
            self.tools[call["function"]["name"]].run({})
        return super().take(answer)


class DoesNotRecover(PlainConversation):
    async def answer(self) -> Body:
        session = self.session()
        view = await session.transform_context(self.messages, summarizer=self.summarize) if session else self.messages
        return await self.send(view)


class KeepsTheAttempt(PlainConversation):
    async def send(self, view: list[Chat]) -> Body:
        try:
            return await super().send(view)
        except Exception:
            self.messages.append({"role": "assistant", "content": "(failed)"})
            raise


class TriesForEver(PlainConversation):
    async def answer(self) -> Body:
        while True:
            try:
                return await super().answer()
            except ContextOverflowError:
                pass


class HidesTheError(PlainConversation):
    async def answer(self) -> Body:
        try:
            return await super().answer()
        except ContextOverflowError:
            raise RuntimeError("the model call failed") from ValueError("bad request")


class DiesOfAnOutage(PlainConversation):
    outage: Exception | None = None

    async def summarize(self, request: SummaryRequest) -> str:
        try:
            return await super().summarize(request)
        except Exception as error:
            self.outage = error
            raise

    async def send(self, view: list[Chat]) -> Body:
        if self.outage:
            raise self.outage
        return await super().send(view)


class KeepsTheView(PlainConversation):
    async def answer(self) -> Body:
        session = self.session()
        if session is not None:
            self.messages = list(await session.transform_context(self.messages, summarizer=self.summarize))
        return await super().answer()


class ForgetsSync(PlainConversation):
    def answer_sync(self) -> Body:
        return self.send_sync(self.messages)


class StreamsTheSummary(PlainConversation):
    async def say_streamed(self, text: str, /) -> list[str]:
        seen: list[str] = []

        async def summarize(request: SummaryRequest) -> str:
            seen.append(await PlainConversation.summarize(self, request))
            return seen[-1]

        self.summarize = summarize  # type: ignore[method-assign]
        chunks = await super().say_streamed(text)
        return [*seen, *chunks]


class StreamsAtTheEnd(PlainConversation):
    async def say_streamed(self, text: str, /) -> list[str]:
        return ["".join(await super().say_streamed(text))]


class SwallowsCancellation(PlainConversation):
    async def say(self, text: str, /) -> str:
        try:
            return await super().say(text)
        except asyncio.CancelledError:
            return ""


class LosesTheHistoryWhenCancelled(PlainConversation):
    async def say(self, text: str, /) -> str:
        try:
            return await super().say(text)
        except asyncio.CancelledError:
            del self.messages[1:]
            raise


class PrefersItsOwnModel(PlainConversation):
    async def answer(self) -> Body:
        if self.opening.controller is None:
            return await super().answer()
        return await self.own(self.opening.controller).call(self.messages, self.send, summarizer=self.summarize)

    def own(self, controller: CompactionController[Chat]) -> CompactionSession[Chat]:
        if not hasattr(self, "made"):
            self.made = CompactionController(context_window=16_384).session(self.session_id)
        return self.made


class SharesASession(PlainConversation):
    def session(self) -> CompactionSession[Chat] | None:
        return self.opening.controller.session("default") if self.opening.controller else None


class AsksTheFirstModel(PlainConversation):
    first: PlainConversation | None = None

    def summarizer(self) -> PlainConversation:
        type(self).first = type(self).first or self
        assert self.first is not None
        return self.first

    async def answer(self) -> Body:
        session, summarizer = self.session(), self.summarizer()
        if session is None:
            return await super().answer()
        return await session.call(self.messages, self.send, tools=self.schemas, summarizer=summarizer.summarize)


class NumbersTheMessages(PlainConversation):
    async def answer(self) -> Body:
        session = self.session()
        if session is None:
            return await super().answer()
        numbered = [
            {**message, "content": f"{number}: {message['content']}"} if message["role"] == "user" else message
            for number, message in enumerate(self.messages)
        ]
        return await session.call(numbered, self.send, tools=self.schemas, summarizer=self.summarize)


def harness_of(broken: type[PlainConversation]) -> PlainHarness:
    class Broken(PlainHarness):
        conversation = broken

    return Broken()


@pytest.mark.parametrize(
    ("broken", "fact", "says"),
    [
        (AddsAField, "below_threshold", r"request 0 differs from the framework's own in \['metadata'\]"),
        (CompactsEarly, "below_threshold", "there must be no event, but there was"),
        (NeverCompacts, "long_session", "say\\(\\) raised HTTPStatusError: .*maximum context length"),
        (UsesNoModel, "long_session", "no summary was asked of the conversation's own model"),
        (RunsToolsTwice, "long_session", "tool work already done must be kept"),
        (DoesNotRecover, "overflow_once", "say\\(\\) raised HTTPStatusError"),
        (KeepsTheAttempt, "overflow_once", "a failed attempt must leave nothing there"),
        (TriesForEver, "overflow_twice", "a request that overflows twice must end in an error"),
        (HidesTheError, "overflow_twice", "must be a ContextOverflowError, itself or as a cause"),
        (DiesOfAnOutage, "summarizer_outage", "say\\(\\) raised HTTPStatusError: .*Internal server error"),
        (KeepsTheView, "history", "The view must be sent to the model and never stored"),
        (ForgetsSync, "sync", "say\\(\\) raised HTTPStatusError"),
        (StreamsTheSummary, "streaming", "a summary's text is among the chunks"),
        (StreamsAtTheEnd, "streaming", "the answer must arrive in several chunks"),
        (SwallowsCancellation, "cancellation", "swallowed or replaced it"),
        (LosesTheHistoryWhenCancelled, "cancellation", "the host's history differs from the script"),
        (PrefersItsOwnModel, "cancellation", "the controller's own summarizer was never asked"),
        (SharesASession, "interleaved", "two conversations must be two sessions of the controller"),
        (AsksTheFirstModel, "interleaved", "have text of another"),
        (NumbersTheMessages, "record_out", "the record does not apply to the same conversation"),
        (PrefersItsOwnModel, "record_out", r"export_records\(\) is empty"),
        (NumbersTheMessages, "record_in", "is not used"),
        (PrefersItsOwnModel, "record_in", "is not used"),
    ],
)
def test_a_broken_adapter_is_reported_with_the_cause(
    broken: type[PlainConversation], fact: str, says: str, provider: LoopbackProvider
) -> None:
    with pytest.raises(AssertionError, match=f"plain, {fact}: .*{says}"):
        check_adapter(harness_of(broken), provider, FACTS[fact])
