"""Event histories of OpenHands: a session's folder (events/*.json), an exported trajectory, an evaluation's output.jsonl.

Differences from a list of messages:

- actions and observations are events; an observation names its action by `cause`, older ones follow it;
- the model's whole response is repeated in the `tool_call_metadata` of each action and observation it led to;
- actions without it have the name of the tool (`run`, `edit`) and their text in `thought`;
- changes of state, recalled knowledge and the events of a delegate are among them;
- a condensation is an event that names which events it forgets;
- a logged completion is a request with its response.

Events of the newer SDK, which have a `kind`, are read by `openhands_sdk`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from compaction_hooks.replay.readers import openhands_sdk
from compaction_hooks.replay.readers.builder import ConversationBuilder
from compaction_hooks.replay.readers.chat import add_message, calls_of, content_blocks, litellm_usage, reasoning_of
from compaction_hooks.replay.readers.lines import Line, SessionFile
from compaction_hooks.replay.readers.media import media_block
from compaction_hooks.replay.readers.notes import NO_KIND, join_sessions
from compaction_hooks.replay.readers.values import (
    call,
    count,
    fields,
    is_object,
    is_whole,
    items,
    json_text,
    result,
    text,
)
from compaction_hooks.replay.recorded import Fields, RecordedSession, Unread

FORMAT_NAME: Final = "OpenHands events"

_LISTS: Final = ("history", "messages", "events", "trajectory")
_NO_CALLS: Final = ("change_agent_state", "recall", "null", "start", "condensation_request", "loop_recovery")
_NO_RESULTS: Final = ("agent_state_changed", "recall", "null")


def holds(value: Fields) -> bool:
    """Whether this is an event, or contains one."""
    return _is_event(value) or bool(_events(value)) or _is_completion(value)


def read(file: SessionFile) -> Iterator[RecordedSession]:
    """Yield a session for each history in which a model answers; events on lines of their own are one session."""
    alone = [line for line in file.lines if _is_event(line.value)]
    if alone:
        yield from _session(file.path.stem, "line" if len(file.lines) > 1 else "event", alone)
    else:
        yield from join_sessions(_sessions(file))


def _sessions(file: SessionFile) -> Iterator[Iterable[RecordedSession]]:
    for line in filter(lambda line: holds(line.value), file.lines):
        session_id = text(line.value.get("instance_id")) or text(line.value.get("conversation_id")) or file.path.stem
        name = session_id if len(file.lines) == 1 or session_id != file.path.stem else f"{session_id}:{line.number}"
        if _is_completion(line.value):
            yield [_completion(name, line.value)]
            continue

        events = [Line(place, fields(event)) for place, event in enumerate(_events(line.value))]
        yield _session(name, "event", events)


def _session(session_id: str, unit: str, events: Sequence[Line]) -> Iterator[RecordedSession]:
    if any(openhands_sdk.is_event(event.value) for event in events):
        yield from openhands_sdk.read(session_id, unit, events)
        return
    history = _History(unit)
    for event in events:
        history.add(event)
    if history.builder.has_answer:
        yield history.builder.session(session_id, FORMAT_NAME, tools=history.tools)


class _History:
    """Feeds a builder with the events of one history."""

    def __init__(self, unit: str) -> None:
        self.builder: Final = ConversationBuilder(unit)
        self.tools: list[Fields] = []
        self._sizes: dict[int, int] = {}
        """For each event's id, the length of the builder before it."""
        self._responses: set[str] = set()
        self._is_delegated = False

    def add(self, event: Line) -> None:
        value = event.value
        if (number := value.get("id")) is not None and isinstance(number, int):
            self._sizes[number] = len(self.builder)

        if self._is_delegated and value.get("observation") != "delegate":
            self.builder.skipped.add_kind("event of a delegate")
        elif text(value.get("observation")):
            self._is_delegated = False
            self._add_observation(event)
        elif text(value.get("action")):
            self._add_action(event)
        else:
            self.builder.skipped.add(Unread("neither an action nor an observation"), event.number)

    def _add_action(self, event: Line) -> None:
        value, args = event.value, _args(event.value)
        action, content = text(value.get("action")), text(args.get("content"))
        response = fields(fields(value.get("tool_call_metadata")).get("model_response"))

        if action == "system":
            self.builder.add_system(content)
            self.tools += [each for each in items(args.get("tools")) if is_object(each)]
        elif action == "condensation":
            self._condense(args)
        elif action in _NO_CALLS:
            self.builder.skipped.add_kind(action)
        elif action == "message" and not _is_agents(value, args):
            images = (media_block("image", url=url) for url in items(args.get("image_urls") or args.get("images_urls")))
            self.builder.add_prompt([{"type": "text", "text": content}, *filter(None, images)])
        elif response:
            self._add_response(response, event.number)
        elif action == "message":
            self.builder.add_answer([{"type": "text", "text": content}])
        else:
            self._add_named_action(value, action, args)

        self._is_delegated = action == "delegate"

    def _add_response(self, response: Fields, number: int) -> None:
        """Add the response of a model once, even if it led to several actions."""
        message = _answer(response)
        if not message or not is_whole(message.get("tool_calls")):
            self.builder.skipped.add(NO_KIND, number)

        key = text(response.get("id")) or json_text(message)
        if key in self._responses:
            return
        self._responses.add(key)
        answer = [*reasoning_of(message), *content_blocks(message.get("content")), *calls_of(message)]
        usage = litellm_usage(fields(response.get("usage")))
        if answer:
            self.builder.add_answer(answer, usage=usage, model=text(response.get("model")) or None)

    def _add_named_action(self, value: Fields, action: str, args: Fields) -> None:
        if value.get("source") == "user":
            self.builder.skipped.add_kind(f"{action} by the user")
            return
        thought = text(args.get("thought"))
        arguments = {
            name: each for name, each in args.items() if name not in ("thought", "action_risk", "is_confirmed")
        }
        thoughts = [{"type": "text", "text": thought}] if thought else []
        self.builder.add_answer([*thoughts, call(_action_id(value.get("id")), action, arguments)])

    def _add_observation(self, event: Line) -> None:
        value = event.value
        kind = text(value.get("observation"))
        if kind in _NO_RESULTS:
            self.builder.skipped.add_kind(kind)
            return
        call_id = text(fields(value.get("tool_call_metadata")).get("tool_call_id")) or _action_id(value.get("cause"))
        self.builder.add_result(result(call_id, value.get("content"), is_error=kind == "error"), line=event.number)

    def _condense(self, args: Fields) -> None:
        forgotten = [each for each in items(args.get("forgotten_event_ids")) if isinstance(each, int)]
        last = max(forgotten, default=count(args.get("forgotten_events_end_id")))
        kept = [size for number, size in self._sizes.items() if number > last]
        self.builder.add_compaction(summary=text(args.get("summary")), first_kept_index=min(kept, default=None))


def _action_id(number: object) -> str:
    """Return the id of a tool call without an id of the API: its event's number."""
    return f"event_{number}" if isinstance(number, int) else ""


def _is_agents(value: Fields, args: Fields) -> bool:
    """Whether the agent wrote it; the first versions do not name the source, but their agent waits for a response."""
    return value.get("source", "agent" if args.get("wait_for_response") is True else "user") == "agent"


def _answer(response: Fields) -> Fields:
    return fields(fields(next(iter(items(response.get("choices"))), None)).get("message"))


def _args(value: Fields) -> Fields:
    """Return the action's fields: under "args", in the first versions next to its name."""
    if is_object(value.get("args")):
        return fields(value["args"])
    return {
        name: each for name, each in value.items() if name not in ("action", "id", "timestamp", "source", "message")
    }


def _completion(session_id: str, value: Fields) -> RecordedSession:
    builder = ConversationBuilder("message")
    response = fields(value.get("response"))
    answer = _answer(response)
    messages = [*map(fields, items(value.get("messages"))), {"role": "assistant", **answer} if answer else {}]
    for place, message in enumerate(messages):
        is_last = place == len(messages) - 1
        usage = litellm_usage(fields(response.get("usage"))) if is_last else None
        if not add_message(builder, message, place, usage=usage, model=text(response.get("model")) if is_last else ""):
            builder.skipped.add("a message without content" if text(message.get("role")) else NO_KIND, place)
    tools = [fields(tool) for tool in items(fields(value.get("kwargs")).get("tools"))]
    return builder.session(session_id, "OpenHands completion", tools=tools)


# -- events of all versions


def _events(value: Fields) -> list[object]:
    """Return the events in an object; the first evaluations kept them as pairs of action and observation."""
    for name in _LISTS:
        listed = items(value.get(name))
        flat = [event for each in listed for event in (items(each) or [each])]
        if any(_is_event(fields(event)) for event in flat):
            return flat
    return []


def _is_event(value: Fields) -> bool:
    is_action = isinstance(value.get("action"), str) and (
        "args" in value or "source" in value or "action_risk" in value
    )
    is_observation = isinstance(value.get("observation"), str) and ("content" in value or "extras" in value)
    return openhands_sdk.is_event(value) or is_action or is_observation


def _is_completion(value: Fields) -> bool:
    has_messages = any("role" in fields(each) for each in items(value.get("messages")))
    return has_messages and isinstance(fields(value.get("response")).get("choices"), list)
