"""Rollouts of Codex (~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl).

Differences from a list of messages:

- items of the Responses API are in an envelope of `type` and `payload`; until September 2025 they had none and followed a header
  line, and the first versions wrote one JSON object with `session` and `items`;
- everything shown to the user is logged a second time as `event_msg`;
- a compaction is a `compacted` line, after which the context starts anew;
- `token_count` comes before, between or after its items, and is repeated when rate limits change;
- a rewind is an event (`thread_rolled_back`); a fork begins with a copy of its parent session, headers included.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from compaction_hooks import Usage
from compaction_hooks.replay.readers.builder import ConversationBuilder
from compaction_hooks.replay.readers.lines import Line, SessionFile
from compaction_hooks.replay.readers.responses import answer_blocks, content_blocks, result_block
from compaction_hooks.replay.readers.values import blocks, count, fields, is_object, is_whole, items, text, usage_of
from compaction_hooks.replay.recorded import Fields, RecordedSession

FORMAT_NAME: Final = "Codex rollout"

_ITEM: Final = "response_item"
_ENVELOPES: Final = (_ITEM, "event_msg", "turn_context", "session_meta", "compacted")
_BARE: Final = ("function_call", "function_call_output", "reasoning", "local_shell_call", "custom_tool_call")
_BARE_ALONE: Final = ("function_call", "function_call_output")
"""Items that no other agent logs in this form; reasoning could be another agent's."""
_SPOKEN_BLOCKS: Final = ("input_text", "output_text")
_NOT_THE_USER: Final = ("<environment_context>", "<user_instructions>", "<turn_aborted>", "# AGENTS.md instructions")
"""Beginnings of messages that Codex itself writes as the user's."""


def recognises(lines: Sequence[Line]) -> bool:
    """Whether any line is in Codex's envelope, or is an item of the Responses API."""
    return any(
        _is_enveloped(line.value) or _is_response_item(line.value) or _is_old_document(line.value) for line in lines
    )


def read(file: SessionFile) -> Iterator[RecordedSession]:
    """Yield the conversation of the file."""
    whole = next((line.value for line in file.lines if _is_old_document(line.value)), None)
    rollout = _Rollout("line" if whole is None else "item")
    entries = [_wrap(line) for line in (file.lines if whole is None else _unpack(whole))]
    for entry in _without_rolled_back(entries, rollout.builder):
        rollout.add(entry)
    if rollout.builder.has_answer:
        session = rollout.builder.session(
            rollout.session_id or file.path.stem, FORMAT_NAME, system=rollout.system, model=rollout.model
        )
        yield replace(session, window=rollout.window or None)


class _Rollout:
    """Feeds a builder with the entries of one rollout."""

    def __init__(self, unit: str) -> None:
        self.builder: Final = ConversationBuilder(unit)
        self.session_id = ""
        self.system = ""
        self.model = ""
        self.window = 0
        self._answers = 0
        self._is_answering = False
        self._early: Usage | None = None
        """Usage that was logged before its items."""
        self._totals: Fields = {}

    def add(self, entry: Line) -> None:
        kind, payload = text(entry.value.get("type")), fields(entry.value.get("payload"))
        if kind == "session_meta":
            self._add_header(payload, entry.number)
        elif kind == "compacted":
            self.builder.add_compaction(summary=text(payload.get("message")))
            self._end_answer()  # a count before it is the compaction's own call
        elif kind == "turn_context":
            self.model = text(payload.get("model")) or self.model
        elif kind == "event_msg" and payload.get("type") == "token_count":
            info = fields(payload.get("info"))
            self.window = count(info.get("model_context_window")) or self.window
            self._add_count(info)
        elif kind == _ITEM:
            self._add_item(payload, entry.number)
        else:
            self.builder.skipped.add_kind(
                text(payload.get("type")) or kind or text(entry.value.get("record_type")), entry.number
            )

    def _add_header(self, payload: Fields, number: int) -> None:
        if self.session_id:
            self.builder.skipped.add("the header of a session this one was forked or resumed from", number)
            return
        self.session_id = text(payload.get("id"))
        self.system = text(fields(payload.get("base_instructions")).get("text"))
        if "subagent" in fields(payload.get("source")):
            self.builder.skipped.add("this is the session of a sub-agent", number)

    def _add_item(self, item: Fields, number: int) -> None:
        block = result_block(item)
        answer = answer_blocks(item)
        prompt = content_blocks(item.get("content"))
        if not is_whole(item.get("content")):
            self.builder.skipped.add_kind("", number)

        if block is not None:
            self.builder.add_result(block, line=number)
            self._is_answering = False
        elif answer:
            self._add_answer(answer)
        elif prompt and item.get("role") in ("system", "developer"):
            self.builder.add_system(prompt)
        elif prompt and (item.get("role") == "user" or item.get("type") == "agent_message"):
            self.builder.add_prompt(prompt)
            self._end_answer()
        else:
            name = text(item.get("type"))
            self.builder.skipped.add_kind(f"{name} (empty or unknown)" if name else "", number)

    def _end_answer(self) -> None:
        """End the current answer; earlier counts do not belong to the next one."""
        self._is_answering = False
        self._early = None

    def _add_answer(self, answer: Sequence[Fields]) -> None:
        if not self._is_answering:
            self._answers += 1
        self.builder.add_answer(answer, key=str(self._answers), usage=self._early, model=self.model or None)
        self._is_answering = True
        self._early = None

    def _add_count(self, info: Fields) -> None:
        """Add a count to the last answer if it has none, else keep it for the next answer."""
        totals = fields(info.get("total_token_usage"))
        if totals and totals == self._totals:
            return

        # Without an earlier sum, a sum is the count of one call only if there was one call.
        is_known = bool(self._totals) or self._answers <= 1
        last = fields(info.get("last_token_usage")) or (_difference(totals, self._totals) if is_known else {})
        usage = _usage(last)
        self._totals = totals

        if usage is None:
            return
        if not self.builder.add_usage(usage):
            self._early = usage
        self._is_answering = False


def _usage(counted: Fields) -> Usage | None:
    """Return the usage; OpenAI counts the cached part in the input."""
    whole = count(counted.get("input_tokens"))
    return usage_of(
        whole,
        count(counted.get("output_tokens")),
        read=count(counted.get("cached_input_tokens")),
        written=count(counted.get("cache_write_input_tokens")),
    )


def _difference(totals: Fields, before: Fields) -> Fields:
    """Return one call's usage, for versions that only log sums of the whole session."""
    return {name: count(value) - count(before.get(name)) for name, value in totals.items()}


# -- entries of all versions


def _wrap(line: Line) -> Line:
    """Return a line in its envelope; older versions have none."""
    if _is_enveloped(line.value) or not (_is_bare(line.value) or _is_old_header(line.value)):
        return line
    kind = "session_meta" if _is_old_header(line.value) else _ITEM
    return Line(line.number, {"type": kind, "payload": line.value})


def _unpack(whole: Fields) -> Iterator[Line]:
    """Yield the entries of the single object written by the first versions."""
    yield Line(0, {"type": "session_meta", "payload": whole.get("session")})
    for place, item in enumerate(items(whole.get("items"))):
        yield Line(place, {"type": _ITEM, "payload": item})


def _is_enveloped(value: Fields) -> bool:
    return value.get("type") in _ENVELOPES and is_object(value.get("payload"))


def _is_bare(value: Fields) -> bool:
    return value.get("type") in _BARE or _is_response_item(value)


def _is_response_item(value: Fields) -> bool:
    """Whether this can only be an item of the Responses API."""
    if value.get("type") == "message":
        return any(block.get("type") in _SPOKEN_BLOCKS for block in blocks(value.get("content")))
    return value.get("type") in _BARE_ALONE and "call_id" in value


def _is_old_header(value: Fields) -> bool:
    return "type" not in value and "id" in value and "instructions" in value


def _is_old_document(value: Fields) -> bool:
    return is_object(value.get("session")) and isinstance(value.get("items"), list)


def _without_rolled_back(entries: Sequence[Line], builder: ConversationBuilder) -> list[Line]:
    """Return the entries without turns that the user took back; a turn begins with the user's prompt."""
    kept: list[Line] = []
    for entry in entries:
        payload = fields(entry.value.get("payload"))
        if payload.get("type") != "thread_rolled_back":
            kept.append(entry)
            continue

        turns = count(payload.get("num_turns"))
        starts = [place for place, each in enumerate(kept) if _is_prompt(each.value)]
        if turns and starts:
            first = starts[-min(turns, len(starts))]
            builder.skipped.add(f"took back {len(kept) - first} lines before it", entry.number)
            del kept[first:]

    return kept


def _is_prompt(value: Fields) -> bool:
    payload = fields(value.get("payload"))
    if value.get("type") != _ITEM or payload.get("type") != "message" or payload.get("role") != "user":
        return False
    prompt = "".join(text(block.get("text")) for block in content_blocks(payload.get("content")))
    return not prompt.startswith(_NOT_THE_USER)
