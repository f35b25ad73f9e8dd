"""Rollouts of Codex (~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl).

What they do that a list of messages does not:

- items of the Responses API stand in an envelope of `type` and `payload`; until September 2025 they stood alone under a header
  line, and the first versions wrote one JSON object with `session` and `items`;
- what the user sees is logged a second time as `event_msg`;
- a compaction is a `compacted` line, after which the context starts anew;
- `token_count` comes before, between or after the items it belongs to, and again with other rate limits;
- a rewind is an event (`thread_rolled_back`); a fork begins with a copy of what it was forked from, headers included.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from compaction_hooks import Usage
from compaction_hooks.replay.readers.builder import ConversationBuilder
from compaction_hooks.replay.readers.lines import Line, SessionFile
from compaction_hooks.replay.readers.responses import answer_blocks, result_block, spoken
from compaction_hooks.replay.readers.values import blocks, count, fields, is_object, items, text
from compaction_hooks.replay.recorded import Fields, RecordedSession

FORMAT_NAME: Final = "Codex rollout"

_ITEM: Final = "response_item"
_ENVELOPES: Final = (_ITEM, "event_msg", "turn_context", "session_meta", "compacted")
_BARE: Final = ("function_call", "function_call_output", "reasoning", "local_shell_call", "custom_tool_call")
_BARE_ALONE: Final = ("function_call", "function_call_output")
"""Items that nobody else logs in this form; reasoning could be another agent's."""
_SPOKEN_BLOCKS: Final = ("input_text", "output_text")
_NOT_THE_USER: Final = ("<environment_context>", "<user_instructions>", "<turn_aborted>", "# AGENTS.md instructions")
"""How messages begin that Codex itself writes as the user's."""


def recognises(lines: Sequence[Line]) -> bool:
    """Whether some line is in Codex's envelope, or is an item of the Responses API."""
    return any(_is_enveloped(line.value) or _is_told(line.value) or _is_whole(line.value) for line in lines)


def read(file: SessionFile) -> Iterator[RecordedSession]:
    """The conversation of the file."""
    whole = next((line.value for line in file.lines if _is_whole(line.value)), None)
    rollout = _Rollout("line" if whole is None else "item")
    entries = [_entry(line) for line in (file.lines if whole is None else _unpacked(whole))]
    for entry in _without_rolled_back(entries, rollout.builder):
        rollout.add(entry)
    if rollout.builder.has_answer:
        yield rollout.builder.session(
            rollout.session_id or file.path.stem, FORMAT_NAME, system=rollout.system, model=rollout.model
        )


class _Rollout:
    """Feeds a builder with the entries of one rollout."""

    def __init__(self, unit: str) -> None:
        self.builder: Final = ConversationBuilder(unit)
        self.session_id = ""
        self.system = ""
        self.model = ""
        self._answers = 0
        self._is_answering = False
        self._early: Usage | None = None
        """Counted before the items it belongs to."""
        self._totals: Fields = {}

    def add(self, entry: Line) -> None:
        kind, payload = text(entry.value.get("type")), fields(entry.value.get("payload"))
        if kind == "session_meta":
            self._add_header(payload, entry.number)
        elif kind == "compacted":
            self.builder.compaction(summary=text(payload.get("message")))
            self._interrupt()  # a count before it is the compaction's own call
        elif kind == "turn_context":
            self.model = text(payload.get("model")) or self.model
        elif kind == "event_msg" and payload.get("type") == "token_count":
            self._add_count(fields(payload.get("info")))
        elif kind == _ITEM:
            self._add_item(payload, entry.number)
        else:
            self.builder.skipped.kind(text(payload.get("type")) or kind or "unknown")

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
        said = answer_blocks(item)
        told = spoken(item.get("content"))
        if block is not None:
            self.builder.result(block, line=number)
            self._is_answering = False
        elif said:
            self._answer(said)
        elif told and item.get("role") in ("system", "developer"):
            self.builder.system(told)
        elif told and (item.get("role") == "user" or item.get("type") == "agent_message"):
            self.builder.prompt(told)
            self._interrupt()
        else:
            self.builder.skipped.kind(f"{text(item.get('type')) or 'unknown'} (empty or unknown)")

    def _interrupt(self) -> None:
        """What comes next is another answer, and no count before it is its own."""
        self._is_answering = False
        self._early = None

    def _answer(self, said: Sequence[Fields]) -> None:
        if not self._is_answering:
            self._answers += 1
        self.builder.answer(said, key=str(self._answers), usage=self._early, model=self.model or None)
        self._is_answering = True
        self._early = None

    def _add_count(self, info: Fields) -> None:
        """What was counted belongs to the answer before it that has no count yet, else to the next one."""
        totals = fields(info.get("total_token_usage"))
        if totals and totals == self._totals:
            return
        # Without a sum before it, a sum is one call's count only where there was one call.
        is_known = bool(self._totals) or self._answers <= 1
        last = fields(info.get("last_token_usage")) or (_difference(totals, self._totals) if is_known else {})
        usage = _usage(last)
        self._totals = totals
        if usage is None:
            return
        if not self.builder.counted(usage):
            self._early = usage
        self._is_answering = False


def _usage(counted: Fields) -> Usage | None:
    """OpenAI counts the cached part inside the input."""
    whole = count(counted.get("input_tokens"))
    if not whole:
        return None
    return Usage(
        input_tokens=whole,
        output_tokens=count(counted.get("output_tokens")),
        cache_read_tokens=count(counted.get("cached_input_tokens")),
        cache_write_tokens=count(counted.get("cache_write_input_tokens")),
    )


def _difference(totals: Fields, before: Fields) -> Fields:
    """One call's usage, where only the sums of the whole session are logged."""
    return {name: count(value) - count(before.get(name)) for name, value in totals.items()}


# -- entries, whatever the version


def _entry(line: Line) -> Line:
    """A line in its envelope; older versions have none."""
    if _is_enveloped(line.value) or not (_is_bare(line.value) or _is_old_header(line.value)):
        return line
    kind = "session_meta" if _is_old_header(line.value) else _ITEM
    return Line(line.number, {"type": kind, "payload": line.value})


def _unpacked(whole: Fields) -> Iterator[Line]:
    """The entries of the first versions' single object."""
    yield Line(0, {"type": "session_meta", "payload": whole.get("session")})
    for place, item in enumerate(items(whole.get("items"))):
        yield Line(place, {"type": _ITEM, "payload": item})


def _is_enveloped(value: Fields) -> bool:
    return value.get("type") in _ENVELOPES and is_object(value.get("payload"))


def _is_bare(value: Fields) -> bool:
    return value.get("type") in _BARE or _is_told(value)


def _is_told(value: Fields) -> bool:
    """Whether this can only be an item of the Responses API."""
    if value.get("type") == "message":
        return any(block.get("type") in _SPOKEN_BLOCKS for block in blocks(value.get("content")))
    return value.get("type") in _BARE_ALONE and "call_id" in value


def _is_old_header(value: Fields) -> bool:
    return "type" not in value and "id" in value and "instructions" in value


def _is_whole(value: Fields) -> bool:
    return is_object(value.get("session")) and isinstance(value.get("items"), list)


def _without_rolled_back(entries: Sequence[Line], builder: ConversationBuilder) -> list[Line]:
    """The entries without the turns the user took back: each from a prompt of the user's on."""
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
    said = "".join(text(block.get("text")) for block in spoken(payload.get("content")))
    return not said.startswith(_NOT_THE_USER)
