"""`max_output_tokens` of one call: the room that its answer may take."""

from tests.conversations import Scripted, controller, steps, user

MESSAGES = [user("go"), *steps(30, 300)]


def test_the_room_for_the_answer_of_the_call_stays_free() -> None:
    hooks = controller(20_000, summarizer=Scripted())
    assert hooks.transform_context_sync(MESSAGES) is MESSAGES
    assert len(hooks.transform_context_sync(MESSAGES, max_output_tokens=12_000)) < len(MESSAGES)
