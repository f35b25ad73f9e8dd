"""One controller, many callers: a summary for one conversation is made once."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from compaction_hooks import CompactionOutcome, SummaryRequest
from tests.conversations import Chat, Scripted, Waiting, above_threshold, controller, steps, texts, user


async def test_callers_of_one_conversation_share_one_summary() -> None:
    asked, messages = Waiting("- shared"), above_threshold()
    hooks = controller(8_192, summarizer=asked)
    tasks = [asyncio.create_task(hooks.transform_context(messages)) for _ in range(8)]
    await asked.started.wait()
    asked.release.set()
    views = await asyncio.gather(*tasks)
    assert len(asked.requests) == 1
    assert all("- shared" in texts(view) for view in views)


async def test_callers_of_one_conversation_share_a_failure() -> None:
    asked, messages = Waiting(ConnectionError("down")), above_threshold()
    hooks = controller(8_192, summarizer=asked)
    tasks = [asyncio.create_task(hooks.transform_context(messages)) for _ in range(4)]
    await asked.started.wait()
    asked.release.set()
    assert all(view is messages for view in await asyncio.gather(*tasks))
    assert len(asked.requests) == 1


async def test_when_the_leader_is_cancelled_a_waiter_takes_over() -> None:
    started = asyncio.Event()
    requests = 0

    async def slow_once(request: SummaryRequest) -> str:
        nonlocal requests
        requests += 1
        if requests == 1:
            started.set()
            await asyncio.Event().wait()
        return "- second try"

    hooks, messages = controller(8_192, summarizer=slow_once), above_threshold()
    leader = asyncio.create_task(hooks.transform_context(messages))
    await started.wait()
    waiter = asyncio.create_task(hooks.transform_context(messages))
    await asyncio.sleep(0)
    leader.cancel()
    assert "- second try" in texts(await waiter)
    await asyncio.gather(leader, return_exceptions=True)


async def test_a_sync_caller_inside_the_leading_loop_does_not_deadlock() -> None:
    """Waiting never blocks a running loop: the one that leads would never end."""
    asked, messages = Waiting("- done"), above_threshold()
    hooks = controller(8_192, summarizer=asked)
    leader = asyncio.create_task(hooks.transform_context(messages))
    await asked.started.wait()
    assert hooks.transform_context_sync(messages) is messages
    asked.release.set()
    assert "- done" in texts(await leader)


def test_threads_and_loops_share_one_summary() -> None:
    asked, messages = Scripted("- shared"), above_threshold()
    hooks, everybody = controller(8_192, summarizer=asked), threading.Barrier(8)

    def sync_caller(_: int) -> list[Chat]:
        everybody.wait(10)
        return hooks.transform_context_sync(messages)

    def async_caller(_: int) -> list[Chat]:
        everybody.wait(10)
        return asyncio.run(hooks.transform_context(messages))

    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(sync_caller if n % 2 else async_caller, n) for n in range(8)]
        views = [future.result(30) for future in futures]
    assert len(asked.requests) == 1
    assert all("- shared" in texts(view) for view in views)


def test_a_thread_that_may_give_up_waits_as_long_as_it_does_not() -> None:
    """A signal that is looked at again and again, and never set: the other thread's summary is shared."""
    started, release = threading.Event(), threading.Event()
    requests: list[int] = []

    def slow(request: SummaryRequest) -> str:
        requests.append(1)
        started.set()
        release.wait(10)
        return "- shared"

    class Watched:
        looks = 0

        def is_set(self) -> bool:
            self.looks += 1
            if self.looks > 3:
                release.set()
            return False

    hooks, messages = controller(8_192, summarizer=slow), above_threshold()
    with ThreadPoolExecutor(1) as pool:
        leader = pool.submit(hooks.transform_context_sync, messages)
        assert started.wait(10)
        assert "- shared" in texts(hooks.transform_context_sync(messages, Watched()))
        assert "- shared" in texts(leader.result(10))
    assert len(requests) == 1


@pytest.mark.parametrize("side", ["async", "sync"])
def test_a_function_that_is_asked_may_wait_for_another_thread_that_uses_the_conversation(side: str) -> None:
    """The host is asked outside the lock: a thread that looks at the conversation, or undoes, does not wait for the answer."""
    looked: list[object] = []

    def carry(_: object) -> None:
        with ThreadPoolExecutor(1) as pool:
            looked.append(pool.submit(hooks.state).result(10).compaction_count)
            looked.append(pool.submit(hooks.undo).result(10))

    hooks, messages = controller(8_192, summarizer=Scripted("- done"), carry=carry), above_threshold()
    is_sync = side == "sync"
    view = hooks.transform_context_sync(messages) if is_sync else asyncio.run(hooks.transform_context(messages))
    assert "- done" in texts(view)
    assert looked == [0, None]


async def test_conversations_do_not_mix() -> None:
    async def echo(request: SummaryRequest) -> str:
        await asyncio.sleep(0)
        return f"- about {request.messages[0].text}"

    hooks = controller(8_192, summarizer=echo)

    async def run(name: str) -> str:
        session = hooks.session(name)
        messages: list[Chat] = [user(f"task of {name}")]
        view: list[Chat] = []
        for n in range(20):
            messages = [*messages, *steps(1, 300, first=n)]
            view = await session.transform_context(messages)
        return texts(view)

    views = await asyncio.gather(*(run(f"agent-{n}") for n in range(16)))
    for n, view in enumerate(views):
        assert f"agent-{n}" in view
        assert not any(f'task of agent-{m}"' in view or f"task of agent-{m}\\n" in view for m in range(16) if m != n)


async def test_callers_that_compact_by_hand_at_once_get_one_summary() -> None:
    asked, messages = Waiting("- shared"), above_threshold()
    asked.release.set()
    hooks = controller(8_192, summarizer=asked)
    results = await asyncio.gather(*(hooks.compact(messages) for _ in range(5)))
    assert {result.outcome for result in results} == {CompactionOutcome.COMPACTED}
    assert {texts(result.messages) for result in results} == {texts(results[0].messages)}
    assert (await hooks.compact(messages)).outcome is CompactionOutcome.NOTHING_TO_COMPACT
    assert len(asked.requests) == 1
