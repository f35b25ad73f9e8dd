"""Calls what may raise, hang or give something to wait for, from both sides."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from compaction_hooks.runtime.effects import Failure, Success
from compaction_hooks.runtime.guarded_call import GuardedCall, run_to_completion

SIDES = pytest.mark.parametrize("side", ["async", "sync"])


def ask(side: str, function: Callable[..., object], *arguments: object, **options: Any) -> object:
    box = GuardedCall("the helper")
    options.setdefault("seconds", 5.0)
    if side == "sync":
        return run_to_completion(box.call(function, *arguments, is_sync=True, **options))
    return asyncio.run(box.call(function, *arguments, **options))


def at_once(number: int) -> int:
    return 2 * number


async def doubled(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


def not_yet_doubled(number: int) -> Awaitable[int]:
    return doubled(number)


class Doubling:
    async def __call__(self, number: int) -> int:
        return await doubled(number)


@SIDES
@pytest.mark.parametrize(
    "function",
    [
        pytest.param(at_once, id="a function"),
        pytest.param(doubled, id="a coroutine function"),
        pytest.param(partial(doubled), id="a partial of one"),
        pytest.param(not_yet_doubled, id="a function that gives an awaitable"),
        pytest.param(Doubling(), id="an object that is called so"),
    ],
)
def test_every_kind_of_callable_is_called(function: Callable[..., object], side: str) -> None:
    assert ask(side, function, 21) == Success(42)


@SIDES
def test_where_no_thread_can_be_begun_it_fails(side: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("compaction_hooks.runtime.guarded_call.threading.Thread.start", refuse)
    answer = ask(side, lambda: 1)
    assert isinstance(answer, Failure)
    assert str(answer.error) == "can't start new thread"


async def running_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def test_sync_callers_share_a_loop_and_another_one_serves_them_while_it_is_blocked() -> None:
    released = threading.Event()

    async def block() -> None:
        released.wait(60)

    first = ask("sync", running_loop)
    assert ask("sync", running_loop) == first
    try:
        assert isinstance(ask("sync", block, seconds=0.05), Failure)
        second = ask("sync", running_loop, seconds=1.0)
        assert isinstance(second, Success)
        assert second != first
    finally:
        released.set()
    assert ask("sync", running_loop) == second


def test_an_interrupt_in_the_shared_loop_reaches_its_caller_and_leaves_the_loop_running() -> None:
    async def interrupt() -> None:
        raise KeyboardInterrupt

    first = ask("sync", running_loop)
    answer = ask("sync", interrupt)
    assert isinstance(answer, Failure)
    assert isinstance(answer.error, KeyboardInterrupt)
    assert ask("sync", running_loop) == first


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_worker_has_a_loop_of_its_own() -> None:
    """Its parent's loop has no thread there, and another thread of the parent may have been about to use it."""
    script = """
import asyncio, os
from compaction_hooks.runtime.guarded_call import GuardedCall, run_to_completion
from compaction_hooks.runtime.guarded_call import helper_loop
async def answer():
    await asyncio.sleep(0)
    return os.getpid()
def ask():
    return run_to_completion(GuardedCall("the helper").call(answer, seconds=5.0, is_sync=True))
assert ask().value == os.getpid()
with helper_loop()._lock:
    child = os.fork()
    if not child:
        os._exit(getattr(ask(), "value", None) != os.getpid())
print(os.waitpid(child, 0)[1], ask().value == os.getpid())
"""
    ended = subprocess.run([sys.executable, "-X", "dev", "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["0", "True"]
    assert "ResourceWarning" not in ended.stderr
