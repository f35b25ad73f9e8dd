"""Builds a conversation as Anthropic messages from parts in the order in which they were logged.

Agents log an answer piece by piece, and the result of a tool call at once, even while the answer goes on. A provider wants the
whole answer first and then every result, in one message. Anthropic's blocks can represent everything that agents log: signed
thinking, images in results, errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from compaction_hooks import Usage
from compaction_hooks.formats import AnthropicFormat
from compaction_hooks.replay.readers.notes import Skipped
from compaction_hooks.replay.readers.values import text
from compaction_hooks.replay.recorded import Fields, RecordedCall, RecordedCompaction, RecordedSession

NO_RESULT: Final = "[No result was recorded: the call was interrupted]"
"""The result of a tool call that was never answered, as agents fill it in: providers refuse a tool call without a result."""


@dataclass(slots=True)
class _Prompt:
    content: object
    role: str = "user"


@dataclass(slots=True, kw_only=True)
class _Answer:
    key: str
    blocks: list[Fields]
    usage: Usage | None
    model: str | None
    results: dict[str, Fields] = field(default_factory=dict[str, Fields])

    @property
    def call_ids(self) -> list[str]:
        return [text(block.get("id")) for block in self.blocks if block.get("type") == "tool_use"]

    def messages(self) -> Iterator[Fields]:
        """Yield the answer, then all its results in one message."""
        yield {"role": "assistant", "content": self.blocks}
        if self.call_ids:
            yield {"role": "user", "content": [self.results.get(each) or _stand_in(each) for each in self.call_ids]}


@dataclass(slots=True, kw_only=True)
class _Compaction:
    tokens_before: int | None
    trigger: str
    summary: str
    first_kept: _Prompt | _Answer | None

    def record(self, index: int) -> RecordedCompaction:
        """Return the compaction before the message at this index."""
        return RecordedCompaction(
            index=index, tokens_before=self.tokens_before, trigger=self.trigger, summary=self.summary
        )


_Item = _Prompt | _Answer | _Compaction


class ConversationBuilder:
    """Builder of a session, fed with prompts, answers, results and compactions in the order of the log.

    Attributes:
        skipped: Notes on unused parts, by the builder and by its reader.
    """

    def __init__(self, unit: str = "line") -> None:
        """Create an empty builder. `unit` is the unit of places in notes, see `Skipped`."""
        self.skipped: Final = Skipped(unit)
        self._items: list[_Item] = []
        self._owners: dict[str, _Answer] = {}
        self._growing: _Answer | None = None
        self._made_ids = 0
        self._waiting_without_id: list[str] = []

    @property
    def has_answer(self) -> bool:
        """Whether there is an answer of a model yet."""
        return any(isinstance(item, _Answer) for item in self._items)

    def add_prompt(self, content: object, *, is_meta: bool = False) -> None:
        """Add a user message. `is_meta`: the agent wrote it, so the answer before it may continue."""
        self._items.append(_Prompt(content))
        if not is_meta:
            self._growing = None

    def add_system(self, content: object) -> None:
        """Add a system message."""
        self._items.append(_Prompt(content, "system"))

    def add_answer(
        self, blocks: Sequence[Fields], *, key: str = "", usage: Usage | None = None, model: str | None = None
    ) -> None:
        """Add an answer, or extend the last one if both have the same `key`."""
        answer = self._growing
        if answer is None or not key or answer.key != key:
            answer = _Answer(key=key, blocks=[], usage=None, model=None)
            self._items.append(answer)
            self._growing = answer
        self._extend(answer, blocks)
        answer.usage = usage or answer.usage
        answer.model = model or answer.model
        self._owners.update(dict.fromkeys(answer.call_ids, answer))

    def add_usage(self, usage: Usage) -> bool:
        """Set the usage of the last answer; return False if it has one already or is not the last message."""
        last = next((item for item in reversed(self._items) if not isinstance(item, _Compaction)), None)
        if not isinstance(last, _Answer) or last.usage is not None:
            return False
        last.usage = usage
        return True

    def add_result(self, block: Fields, *, line: int) -> None:
        """Add a `tool_result` block to the answer that called the tool, even if other parts were logged in between.

        A result without an id belongs to the oldest tool call without one.
        """
        call_id = text(block.get("tool_use_id"))
        if not call_id and self._waiting_without_id:
            call_id = self._waiting_without_id.pop(0)
            block = {**block, "tool_use_id": call_id}

        owner = self._owners.get(call_id)
        if owner is None:
            self.skipped.add("a result without its call", line)
        elif call_id in owner.results:
            self.skipped.add("a second result of one call", line)
        else:
            owner.results[call_id] = block

    def add_compaction(
        self,
        *,
        tokens_before: int | None = None,
        trigger: str = "",
        summary: str = "",
        first_kept_index: int | None = None,
    ) -> None:
        """Add a compaction by the agent itself. `first_kept_index` counts the items added so far; None: nothing was kept."""
        kept = None if first_kept_index is None else self._next_message(first_kept_index)
        self._items.append(_Compaction(tokens_before=tokens_before, trigger=trigger, summary=summary, first_kept=kept))

    def set_summary(self, content: str) -> None:
        """Set the summary of the compaction just added; add one if the log has none here."""
        last = self._items[-1] if self._items else None
        if isinstance(last, _Compaction):
            last.summary = content
        else:
            self.add_compaction(summary=content)

    def __len__(self) -> int:
        return len(self._items)

    def session(
        self,
        session_id: str,
        format_name: str,
        *,
        system: str = "",
        tools: Sequence[Fields] = (),
        model: str = "",
        notes: Sequence[str] = (),
    ) -> RecordedSession:
        """Return the conversation as a session in which every call has its result, and every result its call.

        Args:
            model: The model if the answers do not name it.
            notes: The reader's own notes, placed before the builder's.
        """
        messages: list[Fields] = []
        calls: list[RecordedCall] = []
        compactions: list[RecordedCompaction] = []
        indexes: dict[int, int] = {}
        start = 0

        for item in self._items:
            indexes[id(item)] = len(messages)
            if isinstance(item, _Prompt):
                messages.append({"role": item.role, "content": item.content})
            elif isinstance(item, _Compaction):
                start = len(messages) if item.first_kept is None else indexes[id(item.first_kept)]
                compactions.append(item.record(len(messages)))
            else:
                model = item.model or model
                if item.usage is not None:
                    calls.append(
                        RecordedCall(index=len(messages), usage=item.usage, model=item.model, context_start=start)
                    )
                messages.extend(item.messages())

        return RecordedSession(
            id=session_id,
            format_name=format_name,
            format=AnthropicFormat(),
            messages=tuple(messages),
            system=system or None,
            tools=tuple(tools),
            model=model or None,
            calls=tuple(calls),
            compactions=tuple(compactions),
            skipped=(*notes, *self.skipped.notes(), *self._missing_result_notes()),
        )

    def _extend(self, answer: _Answer, blocks: Sequence[Fields]) -> None:
        for block in map(self._with_id, blocks):
            if block.get("type") == "tool_use" and block.get("id") in answer.call_ids:
                self.skipped.add("a call that stands there twice")
            else:
                answer.blocks.append(block)

    def _with_id(self, block: Fields) -> Fields:
        """Return the block, with a new id if it is a tool call without one."""
        if block.get("type") != "tool_use" or text(block.get("id")):
            return block
        self._made_ids += 1
        made = f"call_without_id_{self._made_ids}"
        self._waiting_without_id.append(made)
        return {**block, "id": made}

    def _next_message(self, index: int) -> _Prompt | _Answer | None:
        return next((item for item in self._items[index:] if not isinstance(item, _Compaction)), None)

    def _missing_result_notes(self) -> Iterator[str]:
        answers = (item for item in self._items if isinstance(item, _Answer))
        missing = sum(1 for answer in answers for call_id in answer.call_ids if call_id not in answer.results)
        if missing:
            yield f"{missing} {'call' if missing == 1 else 'calls'} without a recorded result: a stand-in says so"


def _stand_in(call_id: str) -> Fields:
    return {"type": "tool_result", "tool_use_id": call_id, "content": NO_RESULT, "is_error": True}
