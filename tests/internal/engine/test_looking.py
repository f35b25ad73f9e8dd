"""`learn` is the only writer on the way from a call to a snapshot: a look at a conversation changes nothing in it."""

from __future__ import annotations

from typing import Any

import pytest

from compaction_hooks.engine.call import Call
from compaction_hooks.engine.looking import learn, look
from tests.conversations import Chat, Scripted, controller, prose, steps, system, user

TALK: list[Chat] = [system(), user("go"), *steps(40, 400)]
THOUGHT = [{**one, "reasoning": "I think."} if one["role"] == "assistant" else one for one in TALK]


def state_of(value: object, seen: set[int]) -> object:
    """Return all that can be reached from an object of ours, as plain values."""
    if id(value) in seen:
        return "seen"
    seen.add(id(value))
    if isinstance(value, dict):
        return [(repr(key), state_of(item, seen)) for key, item in value.items()]
    if isinstance(value, list | tuple | set | frozenset):
        return type(value).__name__, [state_of(item, seen) for item in value]
    if not type(value).__module__.startswith("compaction_hooks"):
        return repr(value)
    slots = (name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()))
    names = [*getattr(value, "__dict__", {}), *slots]
    return type(value).__name__, [(name, state_of(getattr(value, name, None), seen)) for name in names]


@pytest.mark.parametrize(
    ("messages", "model"),
    [(TALK[:4], None), (TALK, None), (THOUGHT, "claude-opus-4-6")],
    ids=["nothing covered", "compacted", "with reasoning that the model binds"],
)
def test_a_look_changes_no_attribute_of_a_conversation(messages: list[Chat], model: str | None) -> None:
    options: Any = {"model": model} if model else {}
    worker = controller(16_384, summarizer=Scripted()).session("a")
    for end in range(2, len(messages), 7):
        worker.transform_context_sync(messages[:end], **options)

    # One of a controller that has looked at none yet: a write that repeats an earlier one would not be seen.
    fresh = controller(16_384, summarizer=Scripted()).session("b")
    fresh.import_records(worker.export_records())
    conversation, shared = fresh.engine.conversation, fresh.engine.shared
    call = Call([*messages, user(prose(30))], shared.find_settings(model), shared, model=model)
    reading = learn(conversation, call)

    before = state_of((conversation, shared), set())
    first, second = look(conversation, call, reading), look(conversation, call, reading)
    assert state_of((conversation, shared), set()) == before
    assert (first.tokens, first.key, first.to_send) == (second.tokens, second.key, second.to_send)
    assert (first.record is not None) == (len(messages) > 4)
