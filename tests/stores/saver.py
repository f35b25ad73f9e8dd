"""A process that saves records until it is killed. `python -m tests.stores.saver KIND WHERE SESSION SEED`.

Writes "begin N" before each save and "done N" after it. Opening the store is part of the first.
"""

import asyncio
import hashlib
import inspect
import json
import os
import random
import sys

from compaction_hooks.errors import RecordError
from tests.stores.opened import open_store

SIZES = (200, 5_000, 50_000, 400_000)
"""Characters of a record's filling: within a page of SQLite, some pages, many."""


def record(session: str, number: int, size: int) -> str:
    """A record that tells whether it is whole."""
    filling = f"{session} {number} " * (size // 10)
    return json.dumps({"number": number, "filling": filling, "digest": hashlib.sha256(filling.encode()).hexdigest()})


def number_of(text: str) -> int:
    """The number of a record that is whole."""
    fields = json.loads(text)
    assert hashlib.sha256(fields["filling"].encode()).hexdigest() == fields["digest"]
    number: int = fields["number"]
    return number


async def save(kind: str, where: str, session: str, seed: str) -> None:
    """Save on and on, until the server is killed."""
    sizes, store, number = random.Random(seed), None, 0
    while True:
        text = record(session, number, sizes.choice(SIZES))
        os.write(1, f"begin {number}\n".encode())
        try:
            store = store or open_store(kind, where)
            answer = store.append(session, str(number), text)
            if inspect.isawaitable(answer):
                await answer
        except RecordError as error:
            sys.exit(str(error))
        os.write(1, f"done {number}\n".encode())
        number += 1


if __name__ == "__main__":
    asyncio.run(save(*sys.argv[1:]))
