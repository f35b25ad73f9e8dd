"""Check for the author of an adapter: the real framework, real HTTP, a scripted provider."""

from __future__ import annotations

import asyncio
import unittest
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from compaction_hooks.messages import M
from compaction_hooks.testing import facts
from compaction_hooks.testing.harness import AdapterHarness, ScriptedProvider
from compaction_hooks.testing.scripts import Script

FACT_SECONDS: Final = 120
"""Time limit of a fact, which usually takes a few seconds."""


class _Check(Protocol):
    def __call__(self, harness: AdapterHarness[M], provider: ScriptedProvider, /) -> Awaitable[None]: ...


@dataclass(frozen=True, slots=True)
class AdapterFact:
    """A statement that is true for every adapter; its `str()` is its name.

    Attributes:
        needs: The capability of the harness that the fact requires.
    """

    name: str
    check: _Check
    needs: Literal["sync", "streaming", "history"] | None = None

    @property
    def claim(self) -> str:
        """The statement, in one sentence."""
        return " ".join((self.check.__doc__ or "").split())

    def __str__(self) -> str:
        return self.name


ADAPTER_FACTS: Final = (
    AdapterFact("below_threshold", facts.below_threshold),
    AdapterFact("long_session", facts.long_session),
    AdapterFact("overflow_once", facts.overflow_once),
    AdapterFact("overflow_twice", facts.overflow_twice),
    AdapterFact("summarizer_outage", facts.summarizer_outage),
    AdapterFact("history", facts.history, needs="history"),
    AdapterFact("sync", facts.sync, needs="sync"),
    AdapterFact("streaming", facts.streaming, needs="streaming"),
    AdapterFact("cancellation", facts.cancellation),
    AdapterFact("interleaved", facts.concurrent_conversations),
    AdapterFact("record_out", facts.record_out),
    AdapterFact("record_in", facts.record_in),
)
"""All facts, to parametrize a test with: `@pytest.mark.parametrize("fact", ADAPTER_FACTS, ids=str)`."""


def check_adapter(harness: AdapterHarness[M], provider: ScriptedProvider, fact: AdapterFact | None = None) -> None:
    """Check one fact of an adapter, or all that apply to it. Do not call it in a running event loop.

    Raises:
        AssertionError: a fact does not hold; the text begins with its name and gives a hint.
        unittest.SkipTest: the given fact does not apply to this harness; pytest reports it as skipped.
    """
    for one in ADAPTER_FACTS if fact is None else (fact,):
        if _has(harness, one):
            _run(one.check(harness, provider), f"{harness.name}, {one}")
        elif fact is not None:
            raise unittest.SkipTest(f"{harness.name} has no {one.needs}")


def check_session(harness: AdapterHarness[M], provider: ScriptedProvider, script: Script) -> None:
    """Check that a session of your own runs to its end in a window of 16,384 tokens. Do not call it in a running event loop.

    Raises:
        AssertionError: the provider refused a request, or the host's history or the tool runs are not those of the script.
    """
    _run(facts.whole_session(harness, provider, script), f"{harness.name}, session")


def _has(harness: AdapterHarness[M], fact: AdapterFact) -> bool:
    match fact.needs:
        case "sync":
            return harness.has_sync
        case "streaming":
            return harness.has_streaming
        case "history":
            return harness.keeps_history
        case None:
            return True


def _run(check: Awaitable[None], what: str) -> None:
    async def run() -> None:
        async with asyncio.timeout(FACT_SECONDS):
            await check

    try:
        asyncio.run(run())
    except AssertionError as error:
        raise AssertionError(f"{what}: {error}") from error
    except TimeoutError as error:
        raise AssertionError(f"{what}: hangs, or takes longer than {FACT_SECONDS} s") from error
