"""Puts together, as Anthropic messages, a conversation whose parts are logged in the order in which they happened.

Agents log an answer piece by piece, and the result of a call as soon as it is there, also while the answer still goes on. A
provider wants the whole answer first and then every result, in one message. Anthropic's blocks are the target because they lose
nothing that the agents log: signed thinking, images in results, errors.
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
"""Stands where a call was never answered, as the agents themselves fill it in: providers refuse a call without a result."""


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


@dataclass(slots=True, kw_only=True)
class _Compaction:
    tokens_before: int | None
    trigger: str
    summary: str
    first_kept: _Prompt | _Answer | None


_Item = _Prompt | _Answer | _Compaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """What came out. Every call is answered, every result has its call; `notes` says what had to be mended for that."""

    messages: tuple[Fields, ...]
    calls: tuple[RecordedCall, ...]
    compactions: tuple[RecordedCompaction, ...]
    model: str | None
    notes: tuple[str, ...]


class ConversationBuilder:
    """Takes prompts, answers, results and compactions in the order of the log.

    Attributes:
        skipped: What could not be used, by the builder and by the reader that feeds it.
    """

    def __init__(self, unit: str = "line") -> None:
        """`unit`: what the reader counts as places, as `Skipped` takes it."""
        self.skipped: Final = Skipped(unit)
        self._items: list[_Item] = []
        self._owners: dict[str, _Answer] = {}
        self._growing: _Answer | None = None
        self._made_ids = 0
        self._waiting_without_id: list[str] = []

    @property
    def has_answer(self) -> bool:
        """Whether a model has said anything yet."""
        return any(isinstance(item, _Answer) for item in self._items)

    def prompt(self, content: object, *, is_meta: bool = False) -> None:
        """Add a user message. `is_meta`: the agent wrote it, so the answer before it may still go on."""
        self._items.append(_Prompt(content))
        if not is_meta:
            self._growing = None

    def system(self, content: object) -> None:
        """Add a system message."""
        self._items.append(_Prompt(content, "system"))

    def answer(
        self, blocks: Sequence[Fields], *, key: str = "", usage: Usage | None = None, model: str | None = None
    ) -> None:
        """Add an answer, or more of the last one when both have the same `key`."""
        answer = self._growing
        if answer is None or not key or answer.key != key:
            answer = _Answer(key=key, blocks=[], usage=None, model=None)
            self._items.append(answer)
            self._growing = answer
        self._extend(answer, blocks)
        answer.usage = usage or answer.usage
        answer.model = model or answer.model
        self._owners.update(dict.fromkeys(answer.call_ids, answer))

    def counted(self, usage: Usage) -> bool:
        """Give the last answer its usage; False when it has some already, or someone has spoken since."""
        last = next((item for item in reversed(self._items) if not isinstance(item, _Compaction)), None)
        if not isinstance(last, _Answer) or last.usage is not None:
            return False
        last.usage = usage
        return True

    def result(self, block: Fields, *, line: int) -> None:
        """Add a `tool_result` block to the answer that asked for it, however much was logged in between.

        A result without an id answers the oldest call without one.
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

    def compaction(
        self,
        *,
        tokens_before: int | None = None,
        trigger: str = "",
        summary: str = "",
        first_kept_index: int | None = None,
    ) -> None:
        """Mark where the agent itself compacted. `first_kept_index` counts the items added so far; None: nothing was kept."""
        kept = None if first_kept_index is None else self._next_message(first_kept_index)
        self._items.append(_Compaction(tokens_before=tokens_before, trigger=trigger, summary=summary, first_kept=kept))

    def summary(self, content: str) -> None:
        """Give the last compaction its summary; a compaction is marked here when the log has none at this place."""
        last = self._items[-1] if self._items else None
        if isinstance(last, _Compaction):
            last.summary = content
        else:
            self.compaction(summary=content)

    def __len__(self) -> int:
        return len(self._items)

    def session(
        self, session_id: str, format_name: str, *, system: str = "", tools: Sequence[Fields] = (), model: str = ""
    ) -> RecordedSession:
        """Lay everything out as a session. `model`: for where the answers do not name it."""
        conversation = self.finish()
        return RecordedSession(
            id=session_id,
            format_name=format_name,
            format=AnthropicFormat(),
            messages=conversation.messages,
            system=system or None,
            tools=tuple(tools),
            model=conversation.model or model or None,
            calls=conversation.calls,
            compactions=conversation.compactions,
            skipped=conversation.notes,
        )

    def finish(self) -> Conversation:
        """Lay everything out as messages."""
        messages: list[Fields] = []
        calls: list[RecordedCall] = []
        compactions: list[RecordedCompaction] = []
        places: dict[int, int] = {}
        start = 0
        for item in self._items:
            places[id(item)] = len(messages)
            if isinstance(item, _Prompt):
                messages.append({"role": item.role, "content": item.content})
            elif isinstance(item, _Compaction):
                start = len(messages) if item.first_kept is None else places[id(item.first_kept)]
                compactions.append(_recorded_compaction(item, len(messages)))
            else:
                if item.usage is not None:
                    calls.append(
                        RecordedCall(index=len(messages), usage=item.usage, model=item.model, context_start=start)
                    )
                messages.extend(_answer_messages(item))
        return Conversation(
            messages=tuple(messages),
            calls=tuple(calls),
            compactions=tuple(compactions),
            model=next(
                (item.model for item in reversed(self._items) if isinstance(item, _Answer) and item.model), None
            ),
            notes=(*self.skipped.notes(), *self._unanswered()),
        )

    def _extend(self, answer: _Answer, blocks: Sequence[Fields]) -> None:
        for block in map(self._with_id, blocks):
            if block.get("type") == "tool_use" and block.get("id") in answer.call_ids:
                self.skipped.add("a call that stands there twice")
            else:
                answer.blocks.append(block)

    def _with_id(self, block: Fields) -> Fields:
        """A call that was logged without an id gets one."""
        if block.get("type") != "tool_use" or text(block.get("id")):
            return block
        self._made_ids += 1
        made = f"call_without_id_{self._made_ids}"
        self._waiting_without_id.append(made)
        return {**block, "id": made}

    def _next_message(self, index: int) -> _Prompt | _Answer | None:
        return next((item for item in self._items[index:] if not isinstance(item, _Compaction)), None)

    def _unanswered(self) -> Iterator[str]:
        answers = (item for item in self._items if isinstance(item, _Answer))
        missing = sum(1 for answer in answers for call_id in answer.call_ids if call_id not in answer.results)
        if missing:
            yield f"{missing} {'call' if missing == 1 else 'calls'} without a recorded result: a stand-in says so"


def _answer_messages(answer: _Answer) -> Iterator[Fields]:
    yield {"role": "assistant", "content": answer.blocks}
    if answer.call_ids:
        yield {"role": "user", "content": [answer.results.get(each) or _stand_in(each) for each in answer.call_ids]}


def _stand_in(call_id: str) -> Fields:
    return {"type": "tool_result", "tool_use_id": call_id, "content": NO_RESULT, "is_error": True}


def _recorded_compaction(item: _Compaction, index: int) -> RecordedCompaction:
    return RecordedCompaction(index=index, tokens_before=item.tokens_before, trigger=item.trigger, summary=item.summary)
