"""Records to and from the store, as flows: loaded once, asked for again before a summary is paid for, written until it works.

A store that fails costs nobody a record and nobody a call: what could not be written waits, and the store is left alone for
a while, because every call to one that hangs would wait for its time-out.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Literal, cast

from compaction_hooks.conversation import Conversation
from compaction_hooks.digests import text_digest
from compaction_hooks.effects import Answered, Emit, Failure, Flow, Instant, Load, Now, Save
from compaction_hooks.errors import RecordError, described
from compaction_hooks.events import StoreFailed
from compaction_hooks.messages import M
from compaction_hooks.record import CompactionRecord

logger = logging.getLogger("compaction_hooks")

STORE_REST_SECONDS = 30.0
"""So long a store that failed is left alone."""


def catch_up(conversation: Conversation[M]) -> Flow[bool]:
    """Load what is not loaded yet and write what could not be written; return whether the store was asked for its records."""
    is_due = not conversation.is_loaded
    if not is_due and not conversation.unwritten:
        return False
    if (yield from _rests(conversation)):
        return True  # not to be asked again in this call either
    if is_due:
        yield from _load(conversation)
    yield from write(conversation)
    return is_due


def ask_again(conversation: Conversation[M]) -> Flow[None]:
    """Take over what other workers made since the records were loaded."""
    if not (yield from _rests(conversation)):
        yield from _load(conversation)


def load(conversation: Conversation[M]) -> Flow[None]:
    """Write what is not written yet and load the records, whether or not the store failed a moment ago."""
    yield from write(conversation)
    yield from _load(conversation)


def write(conversation: Conversation[M]) -> Flow[None]:
    """Tell the store what it has not been told; what fails is kept for later, in its order."""
    if conversation.is_writing:
        return
    conversation.is_writing = True
    try:
        while conversation.unwritten:
            wish = conversation.unwritten[0]
            answer: Answered | Failure = yield wish
            if isinstance(answer, Failure):
                yield from _failed(conversation, "save" if isinstance(wish, Save) else "remove", answer.error)
                return
            conversation.unwritten.pop(0)
    finally:
        conversation.is_writing = False


def _load(conversation: Conversation[M]) -> Flow[None]:
    answer: Answered | Failure = yield Load(conversation.id)
    if isinstance(answer, Failure):
        yield from _failed(conversation, "load", answer.error)
        return
    conversation.is_loaded = True
    texts = answer.value
    if not isinstance(texts, Sequence) or isinstance(texts, str | bytes):
        error = RecordError(f"the store gave {type(texts).__name__} instead of records")
        yield from _failed(conversation, "load", error)
        return
    conversation.was_loaded = True
    readable: list[CompactionRecord] = []
    for text in cast("Sequence[object]", texts):
        record = yield from _read(conversation, text)
        if record is not None:
            readable.append(record)
    conversation.add_records(readable)


def _read(conversation: Conversation[M], stored: object) -> Flow[CompactionRecord | None]:
    """Read a record; one that cannot be read is reported once, and passed over."""
    try:
        if not isinstance(stored, str):
            raise RecordError(f"the store gave {type(stored).__name__} instead of text")
        return CompactionRecord.from_json(stored)
    except RecordError as error:
        name = text_digest(stored if isinstance(stored, str) else str(error))
        if name not in conversation.unreadable:
            conversation.unreadable.add(name)
            yield from passed_over(conversation, error)
        return None


def passed_over(conversation: Conversation[M], error: RecordError) -> Flow[None]:
    """Report a record that cannot be read."""
    logger.warning("a record was skipped: %s", error)
    yield Emit(StoreFailed(session_id=conversation.id, action="read", error=described(error)))


def _rests(conversation: Conversation[M]) -> Flow[bool]:
    now: Instant = yield Now()
    return 0 < conversation.store_rests_until - now.monotonic <= STORE_REST_SECONDS  # a clock set back ends the wait


def _failed(
    conversation: Conversation[M], action: Literal["load", "save", "remove"], error: BaseException
) -> Flow[None]:
    """Report what the store could not do, and leave it alone for a while."""
    logger.warning("the store failed to %s records of session %s (%s)", action, conversation.id, described(error))
    now: Instant = yield Now()
    conversation.store_rests_until = now.monotonic + STORE_REST_SECONDS
    yield Emit(StoreFailed(session_id=conversation.id, action=action, error=described(error)))
