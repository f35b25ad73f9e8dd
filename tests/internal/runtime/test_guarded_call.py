"""Calls what may raise, hang or give something to wait for, from both sides."""

from __future__ import annotations

import asyncio
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
