"""Records to and from the store, as flows.

1. They are loaded once, and again around each summary that is paid for: another worker may have made it.
2. Changes are written in their order, until it works. A store that fails costs no record and no call: it is not called for a while,
   because every call to one that hangs would wait for its time-out.
3. If the store no longer has a record, another worker undid it or forgot the conversation, or the store lost it. Views go on using
   it, since a store that loses records must cost no summary; but the next summary does not build on it.
4. An entry that cannot be read is skipped, and reported once.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from typing import Any, Literal, cast

from compaction_hooks.engine.conversation import Conversation
from compaction_hooks.errors import ConfigurationError, RecordError
from compaction_hooks.events import StoreFailed
from compaction_hooks.foreign import describe_error
from compaction_hooks.history.digests import text_digest
from compaction_hooks.messages import M
from compaction_hooks.runtime.effects import AskStore, Emit, Failure, Flow, Instant, Now, Success
from compaction_hooks.view.record import CompactionRecord

logger = logging.getLogger("compaction_hooks")

STORE_COOLDOWN_SECONDS = 30.0
"""How long a store that failed is not called, in seconds."""


def sync_store(conversation: Conversation[M], *, before_paying: bool) -> Flow[bool]:
    """Exchange records with the store; return whether it need not be asked again in this call.

    Args:
        before_paying: A summary is about to be paid for: load again, since another worker may have made one.
    """
    if not conversation.queue.has_store:
        return True
    is_fresh = not conversation.queue.is_loaded and not (yield from _is_cooling_down(conversation))
    if is_fresh:
        yield from _load(conversation)
    yield from flush(conversation)
    if before_paying and not is_fresh:
        yield from reload(conversation)
    return is_fresh or before_paying


def flush(conversation: Conversation[M]) -> Flow[None]:
    """Write the waiting changes, so that they outlive the process; not while a store that failed is left alone."""
    if conversation.queue.unwritten and not (yield from _is_cooling_down(conversation)):
        yield from write(conversation)


def reload(conversation: Conversation[M]) -> Flow[None]:
    """Load the records again, for those that other workers made meanwhile; without a store, do nothing."""
    if conversation.queue.has_store and not (yield from _is_cooling_down(conversation)):
        yield from _load(conversation)


def load(conversation: Conversation[M]) -> Flow[None]:
    """Write waiting changes and load the records, even if the store failed a moment ago; without a store, do nothing."""
    yield from write(conversation)
    if conversation.queue.has_store:
        yield from _load(conversation)


def write(conversation: Conversation[M]) -> Flow[None]:
    """Write the waiting changes, in their order; stop at the first failure."""
    queue = conversation.queue
    if queue.is_writing:
        return

    queue.is_writing = True
    try:
        while queue.unwritten and queue.has_store:
            record_id, text = queue.unwritten[0]
            answer: Success | Failure = yield (
                AskStore("remove", (conversation.id, record_id))
                if text is None
                else AskStore("append", (conversation.id, record_id, text))
            )
            if isinstance(answer, Failure):
                yield from _report_failure(conversation, "remove" if text is None else "save", answer.error)
                return

            queue.unwritten.pop(0)
            queue.stored.pop(record_id, None)
            if text is not None:
                queue.stored[record_id] = True
            if not queue.has_store:
                yield AskStore("remove", (conversation.id, record_id))  # it was forgotten while this was saved
    finally:
        queue.is_writing = False


def remove_all(session_ids: Iterable[str]) -> Flow[None]:
    """Remove all records of these conversations from the store; stop at its first failure.

    Raises:
        RecordError: the store failed, or has entries that cannot be read, so that their ids are not known.
    """
    unreadable: list[str] = []
    for session_id in session_ids:
        stored = yield from ask(f"session {session_id!r}", "load", session_id)
        for record_id in map(_read_id, stored):
            if record_id is None:
                unreadable.append(session_id)
            else:
                yield from ask(f"session {session_id!r}", "remove", session_id, record_id)

    if unreadable:
        raise RecordError(
            f"{len(unreadable)} entries of session {', '.join(map(repr, sorted({*unreadable})))} cannot be read and have "
            "no id that is known: remove them from the store by its own means"
        )


def ask(whose: str, method: Literal["load", "remove", "session_ids"], *arguments: str) -> Flow[Any]:
    """Return the answer of a method of the store.

    Args:
        whose: The conversations that are to be forgotten, for errors.

    Raises:
        ConfigurationError: the store lacks a method of its own that this one needs.
        RecordError: the store failed.
    """
    answer: Success | Failure = yield AskStore(method, arguments)
    if isinstance(answer, Failure):
        if isinstance(answer.error, ConfigurationError):
            raise answer.error
        raise RecordError(f"{whose} not forgotten, call it again: {describe_error(answer.error)}") from answer.error
    return answer.value


def _read_id(stored: object) -> str | None:
    """Return the id of a stored record of any version, or None if the text cannot be read."""
    try:
        found: object = json.loads(cast("str", stored))["id"]
    except (ValueError, RecursionError, TypeError, LookupError):
        return None
    return found if isinstance(found, str) else None


def _load(conversation: Conversation[M]) -> Flow[None]:
    queue = conversation.queue
    held_before = frozenset(queue.stored)
    answer: Success | Failure = yield AskStore("load", (conversation.id,))
    if isinstance(answer, Failure):
        yield from _report_failure(conversation, "load", answer.error)
        return

    stored = cast("Sequence[object]", answer.value)
    if queue.has_store:  # it was not forgotten meanwhile
        queue.state = "loaded"

    readable: list[CompactionRecord] = []
    for text in stored:
        record = yield from _read(conversation, text)
        if record is not None:
            readable.append(record)
    conversation.add_records(readable)

    held = {record.id for record in readable}
    is_whole = len(readable) == len(stored)  # otherwise the unreadable entry may be a missing one
    missing = held_before - held if is_whole else frozenset[str]()
    queue.stored = {record_id: record_id not in missing for record_id in (*queue.stored, *held)}


def _read(conversation: Conversation[M], stored: object) -> Flow[CompactionRecord | None]:
    """Read a record; skip and report an unreadable one, once."""
    try:
        if not isinstance(stored, str):
            raise RecordError(f"the store gave {type(stored).__name__} instead of text")
        return CompactionRecord.from_json(stored)
    except RecordError as error:
        name = text_digest(stored if isinstance(stored, str) else str(error))
        if name not in conversation.queue.unreadable:
            conversation.queue.unreadable.add(name)
            yield from report(conversation, "read", error)
        return None


def report(
    conversation: Conversation[M], action: Literal["load", "save", "remove", "read"], error: BaseException
) -> Flow[None]:
    """Report a failure of the store, or ("read") a record that cannot be read."""
    event = StoreFailed(session_id=conversation.id, action=action, error=describe_error(error))
    logger.warning("%s", event)
    yield Emit(event)


def _is_cooling_down(conversation: Conversation[M]) -> Flow[bool]:
    now: Instant = yield Now()
    return now.monotonic < conversation.queue.cooldown_until


def _report_failure(
    conversation: Conversation[M], action: Literal["load", "save", "remove"], error: BaseException
) -> Flow[None]:
    """Report a failure of the store, and begin its cooldown."""
    now: Instant = yield Now()
    conversation.queue.cooldown_until = now.monotonic + STORE_COOLDOWN_SECONDS
    yield from report(conversation, action, error)
