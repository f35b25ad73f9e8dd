"""Records to and from the store, as flows.

1. They are loaded once, and again around each summary that is paid for: another worker may have made it.
2. Changes are written in their order, until it works. A store that fails costs no record and no call: it is not called for a while,
   because every call to one that hangs would wait for its time-out.
3. If the store no longer has a record, another worker undid it or forgot the conversation, or the store lost it. Views go on using
   it, since a store that loses records must cost no summary; but the next summary does not build on it.
4. An entry that cannot be read is skipped, and reported once.
5. `forget` leaves a tombstone in the store. If a load shows one that is later than what is here, the conversation begins anew, and
   what waited is not written; a compaction under way ends first, without a store. So a store that failed is read before it is
   written to. Without an answer of the store since, a worker cannot know, and writes.
6. A tombstone says nothing about what begins after it was read: an id can be used again.
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
from compaction_hooks.stores.tombstones import Tombstone, make_tombstone, read_tombstone
from compaction_hooks.view.record import CompactionRecord

logger = logging.getLogger("compaction_hooks")

STORE_COOLDOWN_SECONDS = 30.0
"""How long a store that failed is not called, in seconds."""


def sync_store(conversation: Conversation[M], *, before_paying: bool) -> Flow[bool]:
    """Exchange records with the store; return whether it need not be asked again in this call.

    Args:
        before_paying: A summary is about to be paid for: load again, since another worker may have made one.
    """
    _begin_anew_if_due(conversation)
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
    """Load the records and write waiting changes, even if the store failed a moment ago; without a store, do nothing."""
    _begin_anew_if_due(conversation)
    if conversation.queue.has_store:
        yield from _load(conversation)
    if not conversation.queue.has_failed:
        yield from write(conversation)


def write(conversation: Conversation[M]) -> Flow[None]:
    """Write the waiting changes, in their order; stop at the first failure."""
    queue = conversation.queue
    if queue.is_writing:
        return

    queue.is_writing = True
    try:
        if queue.unwritten and queue.has_failed:
            yield from _load(conversation)
            if queue.has_failed:
                return

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


def remove_all(session_ids: Iterable[str], now: Instant) -> Flow[list[str]]:
    """Leave a tombstone of these conversations in the store, and remove all else; stop at its first failure.

    Returns:
        The ids of those that had records.

    Raises:
        RecordError: the store failed, or has entries that cannot be read, so that their ids are not known.
    """
    unreadable: list[str] = []
    had_records: list[str] = []
    for session_id in session_ids:
        stored: Sequence[str] = yield from ask(f"session {session_id!r}", "load", session_id)
        if any(read_tombstone(each) is None for each in stored):
            had_records.append(session_id)

        # First, so that no worker finds neither records nor tombstone.
        tombstone = make_tombstone(now.utc)
        yield from ask(f"session {session_id!r}", "append", session_id, tombstone.id, tombstone.to_json())
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
    return had_records


def ask(whose: str, method: Literal["load", "append", "remove", "session_ids"], *arguments: str) -> Flow[Any]:
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

    if not queue.has_store:  # it was forgotten meanwhile
        return
    queue.cooldown_until = 0.0
    stored, tombstones = _tell_apart(cast("Sequence[object]", answer.value))
    _hear(conversation, tombstones)
    queue = conversation.queue
    if not queue.has_store:
        return

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


def _tell_apart(entries: Sequence[object]) -> tuple[list[object], list[Tombstone]]:
    """Return the records and the tombstones among the entries of a conversation."""
    read = [(each, read_tombstone(each)) for each in entries]
    return [each for each, tombstone in read if tombstone is None], [tombstone for _, tombstone in read if tombstone]


def _hear(conversation: Conversation[M], tombstones: Sequence[Tombstone]) -> None:
    """Begin anew if another worker forgot what is here; at the end of the compaction that is under way."""
    queue = conversation.queue
    new = [each for each in tombstones if each.id not in queue.heard]
    queue.heard.update(each.id for each in new)
    if queue.state == "unread":
        # What is here was made without an answer of the store: only the clocks can tell whether it was before.
        new = [each for each in new if each.forgotten_at > conversation.begun_at]

    if new and not conversation.is_blank:
        logger.info("session %s: begins anew, since another worker forgot it", conversation.id)
        queue.state = "forgotten"
        _begin_anew_if_due(conversation)


def _begin_anew_if_due(conversation: Conversation[M]) -> None:
    if conversation.queue.state == "forgotten" and conversation.running is None:
        conversation.begin_anew()


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
