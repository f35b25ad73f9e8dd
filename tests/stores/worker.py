"""A worker process: a controller on a store, told what to do line by line. `python -m tests.stores.worker KIND WHERE`.

It reads {"session": ..., "messages": [...]} and answers {"view": [...]}; before that {"asked": true} when its summarizer is asked,
which waits for {"summary": ...}.
"""

import asyncio
import json
import sys
from typing import Any

from compaction_hooks import CompactionController, SummaryRequest
from tests.stores.opened import open_store

WINDOW = 8_192


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


async def hear() -> Any:
    line = await asyncio.to_thread(sys.stdin.readline)
    if not line:
        raise SystemExit
    return json.loads(line)


async def summarize(request: SummaryRequest) -> str:
    say(asked=True)
    summary: str = (await hear())["summary"]
    return summary


async def work(kind: str, where: str) -> None:
    """Follow the commands of the parent until it closes the pipe."""
    failed: list[str] = []
    controller = CompactionController(
        context_window=WINDOW,
        summarizer=summarize,
        store=open_store(kind, where),
        on_event=lambda event: failed.append(repr(event)) if "Failed" in type(event).__name__ else None,
    )
    while True:
        command = await hear()
        view = await controller.session(command["session"]).transform_context(command["messages"])
        say(view=view, failed=failed)


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
