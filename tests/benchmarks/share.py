"""Our processor time in whole sessions, as a share of the time that sending takes; and the guards against its growth.

    python -m tests.benchmarks.share [--default-threshold]

The public sessions are joined to long ones and played in a window of 200,000 tokens, call by call, with all compactions by rule.
They fill the window, so that figures of versions can be compared; with `--default-threshold` they do not, and there are no guards.
The views of every twentieth call are sent by the clients of OpenAI and Anthropic, to a server in a process of its own. The columns:

- ours / json.dumps: our time, divided by that of one `json.dumps(view).encode()` for each view, which no sending can do without;
- ours / client: our time, in percent of the client's;
- second half / first half: how much the first of these figures grows within a session, from its first compaction on;
- longest call: the most that one call of ours takes, which is a compaction.

The command fails if a figure is above its guard.
"""

import argparse
import asyncio
import gc
import itertools
import json
import logging
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import mean, median
from time import process_time, thread_time
from typing import Any, NamedTuple
from unittest.mock import patch

from anthropic import Anthropic
from openai import OpenAI

from compaction_hooks import CompactionController, CompactionSettings
from compaction_hooks.testing.hosts import as_anthropic
from tests.benchmarks.answering import answer_requests
from tests.benchmarks.fading import with_own_ids
from tests.benchmarks.history import Chat, grow
from tests.benchmarks.searches import FORMAT
from tests.benchmarks.tables import digits, print_table
from tests.data import PUBLIC, sessions

ROOT = Path(__file__).resolve().parents[2]
WINDOW = 200_000
FILLING = CompactionSettings(trigger_cap_tokens=None)
SESSIONS = {2_000: 8, 6_000: 2}
"""How many sessions are played, by their messages. Each begins with another public one, so that no half has the large ones."""
SENT_EVERY = 20
"""Calls from one that the clients send to the next; their time is nearly linear in the view, as ours is not."""

EARLIER_SHARES: Mapping[int, float] = {2_000: 0.36, 6_000: 0.42}
"""Our time over `json.dumps`, by messages of a session, on 2026-11-29 with Python 3.11: median of three runs.

At b063e202 it was 0.29 and 0.3: calls that changed nothing had a way of their own, which saved 0.15 milliseconds of each.
"""
MORE_SHARE = 0.05
"""How much above its earlier figure a share may be; the runs of one commit differ by 0.02."""
MOST_GROWTH = 1.6
"""The share of the second half of a session over that of the first; 0.9 to 1.5 on 2026-11-29.

Calls between compactions do not grow. A compaction does, until the user's words that stay fill their room.
"""
MOST_HOLD = 0.050
"""Seconds for which a call may keep the thread of an event loop from other work."""
MOST_MEMORY = 0.32
"""The memory of a conversation of 10,000 messages over that of its list; commit b063e202 had 0.28."""
MOST_IMPORT = 0.4
"""The time to import the package over that of OpenAI's client; runs gave 0.30 to 0.39. A third of ours compiles patterns."""


# -- whole sessions


def join_sessions(count: int, first: int = 0) -> list[Chat]:
    """Return the first messages of a session that is made of the public ones, again and again, with the first system prompt.

    Args:
        first: The place of the public one with which it begins.
    """
    joined: list[Chat] = []
    for number, messages in enumerate(itertools.islice(read_again_and_again(), first, None)):
        own = with_own_ids(messages, f"{number}")
        joined += [message for message in own if message["role"] != "system" or not joined]
        if len(joined) >= count:
            break
    return joined[:count]


def read_again_and_again() -> Iterator[list[Chat]]:
    """Yield the messages of the public sessions without end; no text is the same object twice."""
    while True:
        yield from (session["messages"] for session in sessions(folder=PUBLIC))


def grow_list(messages: Sequence[Chat]) -> Iterator[list[Chat]]:
    """Yield the list of a host before each model call; it is always the same list."""
    listed: list[Chat] = []
    for message in messages:
        if message["role"] == "assistant" and listed:
            yield listed
        listed.append(message)


class Client(NamedTuple):
    """A client library.

    Attributes:
        convert: Returns a view in the form that the client takes; not timed.
        send: Sends it and waits for the answer.
    """

    name: str
    convert: Callable[[list[Chat]], Any]
    send: Callable[[Any], object]


@contextmanager
def open_clients() -> Iterator[tuple[Client, ...]]:
    """Yield the clients, connected to a server that answers at once."""
    with (
        answer_requests() as url,
        OpenAI(api_key="key", base_url=f"{url}/v1") as openai,
        Anthropic(api_key="key", base_url=url) as anthropic,
    ):
        yield (
            Client("OpenAI's", list, lambda view: openai.chat.completions.create(model="model", messages=view)),
            Client(
                "Anthropic's",
                to_anthropic,
                lambda turns: anthropic.messages.create(model="model", max_tokens=100, messages=turns),
            ),
        )


def to_anthropic(view: list[Chat]) -> Any:
    """Return a view as Anthropic's messages, without the system prompt."""
    return as_anthropic(piece for message in view if message["role"] != "system" for piece in FORMAT.read(message))


class Call(NamedTuple):
    """Processor seconds of one call: ours, of `json.dumps`, and of each client if it sent the view.

    Attributes:
        size: Bytes of the view.
    """

    ours: float
    dumps: float
    clients: tuple[float, ...]
    size: int


def play(count: int, clients: Sequence[Client], settings: CompactionSettings) -> list[list[Call]]:
    """Play the sessions of so many messages, and return the calls of each."""
    public = len([*sessions(folder=PUBLIC)])
    starts = range(0, public, public // SESSIONS[count])
    return [play_one(join_sessions(count, first), clients, settings) for first in starts]


def play_one(messages: Sequence[Chat], clients: Sequence[Client], settings: CompactionSettings) -> list[Call]:
    """Play a session, and time its calls."""
    session: Any = CompactionController(context_window=WINDOW, settings=settings).session("one")
    calls: list[Call] = []
    for listed in grow_list(messages):
        ours, view = clock(session.transform_context_sync, listed)
        dumps, body = clock(encode, view)

        senders = clients if len(calls) % SENT_EVERY == SENT_EVERY // 2 else ()
        sent = [clock(client.send, client.convert(view)) for client in senders]
        calls.append(Call(ours, dumps, tuple(seconds for seconds, _ in sent), len(body)))
    return calls


def clock(act: Callable[[Any], Any], argument: object) -> tuple[float, Any]:
    """Call a function; return its processor seconds and its result."""
    start = process_time()
    result = act(argument)
    return process_time() - start, result


def encode(view: object) -> bytes:
    """Return a view as the body of a request."""
    return json.dumps(view).encode()


def share_of(calls: Sequence[Call]) -> float:
    """Return our time over that of `json.dumps`."""
    return sum(call.ours for call in calls) / sum(call.dumps for call in calls)


def client_shares(calls: Sequence[Call]) -> list[float]:
    """Return our time over that of each client."""
    ours = mean(call.ours for call in calls)
    sent = (call.clients for call in calls if call.clients)
    return [ours / mean(seconds) for seconds in zip(*sent, strict=True)]


def find_compactions(calls: Sequence[Call]) -> list[int]:
    """Return the places of the calls whose view is smaller than the one before."""
    return [place for place in range(1, len(calls)) if calls[place].size < calls[place - 1].size]


def growth_of(played: Sequence[list[Call]]) -> float:
    """Return our share in the second half of sessions over that in the first, from the first compaction on.

    Before it nothing is compacted, which is most of the first half of a short session.
    """
    first: list[Call] = []
    second: list[Call] = []
    for calls in played:
        start = find_compactions(calls)[0]
        middle = (start + len(calls)) // 2
        first += calls[start:middle]
        second += calls[middle:]
    return share_of(second) / share_of(first)


def warm_up(clients: Sequence[Client]) -> None:
    """Compact once and send once, so that no session pays for the first time."""
    CompactionController(context_window=16_384).session("warm").transform_context_sync(grow(200))
    for client in clients:
        client.send(client.convert([{"role": "user", "content": "Please fix the bug."}]))


# -- the thread of an event loop, memory, import


def longest_hold(messages: Sequence[Chat]) -> float:
    """Return the most processor seconds that one turn of an event loop takes in its own thread during a session."""
    run, longest = asyncio.Handle._run, 0.0

    def timed(handle: asyncio.Handle) -> None:
        nonlocal longest
        start = thread_time()
        run(handle)
        longest = max(longest, thread_time() - start)

    async def play_in_loop() -> None:
        session = CompactionController(context_window=WINDOW, settings=FILLING).session("one")
        for listed in grow_list(messages):
            await asyncio.sleep(0)  # no turn has the end of one call and the beginning of the next
            await session.transform_context(listed)

    gc.collect()
    gc.freeze()  # the sessions played before are not ours: without this a collection of all their objects is counted, 0.15 seconds
    try:
        with patch.object(asyncio.Handle, "_run", timed):
            asyncio.run(play_in_loop())
    finally:
        gc.unfreeze()
    return longest


def memory_share(count: int = 10_000) -> float:
    """Return the memory of a conversation over that of its list."""
    gc.collect()
    tracemalloc.start()
    source = join_sessions(count)
    gc.collect()
    of_list, _ = tracemalloc.get_traced_memory()

    session = CompactionController(context_window=WINDOW, settings=FILLING).session("one")
    listed: list[Chat] = []
    for start in range(0, count, 20):
        listed += source[start : start + 20]
        session.transform_context_sync(listed)

    gc.collect()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (used - of_list - sys.getsizeof(listed)) / of_list


def import_share(rounds: int = 7) -> float:
    """Return the processor time to import the package over that of OpenAI's client; each is the median of fresh processes."""
    ours, theirs = "from compaction_hooks import CompactionController", "from openai import OpenAI"
    spent = [(import_seconds(ours), import_seconds(theirs)) for _ in range(rounds)]
    return median(one for one, _ in spent) / median(other for _, other in spent)


def import_seconds(statement: str) -> float:
    """Return the processor seconds of an import in a fresh process."""
    program = f"import time; start = time.process_time(); {statement}; print(time.process_time() - start)"
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": ""}  # with compiled modules, as users have them
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return float(done.stdout)


# -- the tables


class Guard(NamedTuple):
    """A figure, and the most that it may be."""

    name: str
    figure: float
    most: float


def find_guards(played: Mapping[int, list[list[Call]]]) -> Iterator[Guard]:
    """Yield the guards with their figures; this takes a minute."""
    for count, listed in played.items():
        share = share_of([*itertools.chain(*listed)])
        yield Guard(f"ours / json.dumps, {count:,} messages", share, EARLIER_SHARES[count] + MORE_SHARE)
        yield Guard(f"second half / first half, {count:,} messages", growth_of(listed), MOST_GROWTH)
    yield Guard("longest hold of an event loop's thread, seconds", longest_hold(join_sessions(max(played))), MOST_HOLD)
    yield Guard("memory of a conversation / that of its list", memory_share(), MOST_MEMORY)
    yield Guard("import of the package / that of OpenAI's client", import_share(), MOST_IMPORT)


def row_of(count: int, played: Sequence[list[Call]]) -> Iterator[str]:
    """Yield the cells of the sessions of so many messages."""
    calls = [*itertools.chain(*played)]
    yield f"{len(played)} of {count:,} messages"
    yield f"{len(calls):,}"
    yield f"{sum(len(find_compactions(one)) for one in played)}"
    yield f"{share_of(calls):.2f}"
    yield from (f"{share:.1%}" for share in client_shares(calls))
    yield f"{growth_of(played):.2f}"
    yield digits(max(call.ours for call in calls), 1e-3)


def main() -> None:
    """Print the tables, and fail if a figure is above its guard."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--default-threshold", action="store_true", help="compact as by default, without guards")
    settings = CompactionSettings() if parser.parse_args().default_threshold else FILLING
    logging.disable(logging.CRITICAL)
    with open_clients() as clients:
        warm_up(clients)
        played = {count: play(count, clients, settings) for count in SESSIONS}
        names = [f"ours / {client.name} client" for client in clients]

    print(f"\n## Our time in sessions in a window of {WINDOW:,} tokens\n")
    columns = ("", "calls", "compactions", "ours / json.dumps", *names)
    rows = (tuple(row_of(count, listed)) for count, listed in played.items())
    print_table((*columns, "second half / first half", "longest call, ms"), rows)

    if settings is not FILLING:
        return
    print("\n## Guards\n")
    guards = list(find_guards(played))
    print_table(("", "figure", "at most"), ((name, f"{figure:.3f}", f"{most:.3f}") for name, figure, most in guards))
    if broken := [guard.name for guard in guards if guard.figure > guard.most]:
        sys.exit(f"above its guard: {', '.join(broken)}")


if __name__ == "__main__":
    main()
