"""Trajectories of mini-swe-agent (*.traj.json) and of SWE-agent (*.traj).

Differences from a list of messages:

- each message has data of the program under `extra`, including the provider's whole response;
- the end of the run is a message of the role `exit`;
- with OpenAI's Responses API a message is a response with its `output`, or a bare `function_call_output`;
- SWE-agent keeps `history`; older versions only `trajectory`, a list of responses with observations.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from compaction_hooks import Usage
from compaction_hooks.replay.readers.builder import ConversationBuilder
from compaction_hooks.replay.readers.chat import add_message, litellm_usage
from compaction_hooks.replay.readers.lines import SessionFile
from compaction_hooks.replay.readers.notes import join_sessions
from compaction_hooks.replay.readers.responses import answer_blocks, content_blocks, result_block
from compaction_hooks.replay.readers.values import fields, is_whole, items, text
from compaction_hooks.replay.recorded import Fields, RecordedSession

MINI_NAME: Final = "mini-swe-agent trajectory"
SWE_NAME: Final = "SWE-agent trajectory"

_MINI_INFO: Final = ("mini_version", "exit_status", "model_stats")


def holds(value: Fields) -> bool:
    """Whether this is a trajectory of either agent."""
    return _is_mini(value) or _is_swe(value)


def read(file: SessionFile) -> Iterator[RecordedSession]:
    """Yield a session for each trajectory in which a model answers."""
    stem = file.path.name.partition(".")[0]
    yield from join_sessions(_session(stem, line.value) for line in file.lines if holds(line.value))


def _session(stem: str, value: Fields) -> Iterator[RecordedSession]:
    builder = ConversationBuilder("message")
    for place, message in enumerate(_messages(value)):
        if not _add(builder, message, place):
            builder.skipped.add_kind(_kind(message), place)

    if builder.has_answer:
        info = fields(fields(value.get("info")).get("config"))
        model = text(fields(info.get("model")).get("model_name"))
        session_id = text(value.get("instance_id")) or stem
        yield builder.session(session_id, MINI_NAME if _is_mini(value) else SWE_NAME, model=model)


def _messages(value: Fields) -> Iterator[Fields]:
    listed = items(value.get("messages")) if _is_mini(value) else items(value.get("history"))
    if listed:
        yield from map(fields, listed)
        return
    for step in map(fields, items(value.get("trajectory"))):
        if not step:
            yield {}
            continue
        yield {"role": "assistant", "content": step.get("response") or step.get("action")}
        yield {"role": "user", "content": step.get("observation")}


def _add(builder: ConversationBuilder, message: Fields, place: int) -> bool:
    response = fields(fields(message.get("extra")).get("response"))
    if not is_whole(message.get("content")) or not is_whole(message.get("output")):
        builder.skipped.add_kind("", place)

    if message.get("type") == "function_call_output":
        block = result_block(message)
        if block is not None:
            builder.add_result(block, line=place)
        return block is not None
    if message.get("object") == "response":
        return _add_response(builder, message)

    if message.get("type") == "message":
        message = {"role": message.get("role"), "content": content_blocks(message.get("content"))}
    return add_message(builder, message, place, usage=_usage(response), model=text(response.get("model")))


def _add_response(builder: ConversationBuilder, message: Fields) -> bool:
    answer = [block for item in items(message.get("output")) for block in answer_blocks(fields(item))]
    if answer:
        builder.add_answer(answer, usage=_usage(message), model=text(message.get("model")) or None)
    return bool(answer)


def _kind(message: Fields) -> str:
    return text(message.get("role")) or text(message.get("type")) or text(message.get("object"))


def _usage(response: Fields) -> Usage | None:
    return litellm_usage(fields(response.get("usage")))


def _is_mini(value: Fields) -> bool:
    info = fields(value.get("info"))
    is_named = text(value.get("trajectory_format")).startswith("mini-swe-agent")
    return isinstance(value.get("messages"), list) and (is_named or any(name in info for name in _MINI_INFO))


def _is_swe(value: Fields) -> bool:
    steps = [fields(step) for step in items(value.get("trajectory"))]
    history = [fields(message) for message in items(value.get("history"))]
    is_history = any("role" in each and ("message_type" in each or "agent" in each) for each in history)
    return is_history or any("observation" in step and ("response" in step or "action" in step) for step in steps)
