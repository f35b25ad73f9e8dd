"""Session files of Copilot CLI (~/.copilot/session-state/*/events.jsonl, older ~/.copilot/session-state/*.jsonl).

Differences from a list of messages:

- each line is an event with `type` and `data`; `copilot --output-format json` prints the same events, and also token counts and
  rewinds, which the session file lacks: a rewind removes its events from there;
- the parts of an answer have the same `apiCallId`; the result of a call is an event of its own;
- the bytes of an image are an event of their own, and messages name it;
- events of sub-agents have an `agentId`, in older versions a `parentToolCallId`;
- a compaction runs in the background: messages logged after its start are kept;
- the system prompt is logged again with each run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from compaction_hooks.replay.readers.builder import ConversationBuilder
from compaction_hooks.replay.readers.lines import Line, SessionFile
from compaction_hooks.replay.readers.media import media_block
from compaction_hooks.replay.readers.values import (
    blocks,
    call,
    count,
    fields,
    is_object,
    is_whole,
    items,
    result,
    text,
    thinking,
    usage_of,
)
from compaction_hooks.replay.recorded import Fields, RecordedSession

FORMAT_NAME: Final = "Copilot CLI session"

_OWN: Final = ("session.start", "user.message", "assistant.message", "tool.execution_start", "tool.execution_complete")
"""Events that no other agent logs in this form."""
_ASSET: Final = "session.binary_asset"
_CLEAR: Final = "session.context_cleared"
_NOTIFICATION: Final = "<system_notification>"
"""The beginning of notifications that are sent to the model, as the user's; others are only shown."""
_MODELS: Final = {
    "session.start": "selectedModel",
    "session.resume": "selectedModel",
    "session.model_change": "newModel",
    "session.auto_mode_resolved": "chosenModel",
    "assistant.turn_start": "model",
    "tool.execution_complete": "model",
    "session.shutdown": "currentModel",
}
"""The field that names the model, by event: in older versions answers do not."""
_AUTO: Final = "auto"
"""The choice to let Copilot choose a model."""


def recognises(lines: Sequence[Line]) -> bool:
    """Whether any line is an event of Copilot's conversation."""
    return any(_type(line) in _OWN and is_object(line.value.get("data")) for line in lines)


def read(file: SessionFile) -> Iterator[RecordedSession]:
    """Yield the conversations of a file, oldest first; more than one if the context was cleared."""
    lines, notes = _main_events(file.lines)
    ids = (text(_data(line).get("sessionId")) for line in lines)
    session_id = next(filter(None, ids), file.path.stem)

    assets = {text(_data(line).get("assetId")): _data(line).get("data") for line in lines if _type(line) == _ASSET}
    events = _Events(assets)

    answered = 0
    for conversation in _split_at_clears(lines):
        events.builder = builder = ConversationBuilder()
        for line in conversation:
            events.add(line)
        if builder.has_answer:
            answered += 1
            name = session_id if answered == 1 else f"{session_id}#{answered}"
            yield builder.session(name, FORMAT_NAME, system=events.system, model=events.model, notes=notes)
            notes = []


class _Events:
    """Feeds a builder with events; prompt and model go on into the next conversation.

    Attributes:
        system: The newest system prompt.
        model: The model that was named last.
    """

    def __init__(self, assets: Mapping[str, object]) -> None:
        """Create a feeder. `assets`: the bytes of images and files in base64, by their id."""
        self.builder = ConversationBuilder()
        self.system = ""
        self.model = ""

        self._assets: Final = assets
        self._first_kept: int | None = None
        self._adders: Final[Mapping[str, Callable[[Fields, int], None]]] = {
            "user.message": self._add_prompt,
            "system.message": self._add_system,
            "system.notification": self._add_notification,
            "assistant.message": self._add_answer,
            "assistant.usage": self._add_usage,
            "tool.execution_complete": self._add_result,
            "session.compaction_start": self._start_compaction,
            "session.compaction_complete": self._add_compaction,
            "session.truncation": self._add_truncation,
        }

    def add(self, line: Line) -> None:
        """Add one event."""
        kind, data = _type(line), _data(line)
        model = text(data.get(_MODELS.get(kind, "")))
        self.model = self.model if model in ("", _AUTO) else model
        if kind in self._adders:
            self._adders[kind](data, line.number)
        elif kind not in _MODELS and kind != _ASSET:
            self.builder.skipped.add_kind(kind, line.number)

    def _add_prompt(self, data: Fields, number: int) -> None:
        # The transformed text is sent: the user's words behind the time, a selection and the like.
        said = text(data.get("transformedContent")) or text(data.get("content"))
        content = self._with_media(said, data.get("attachments"), number)
        if content:
            self.builder.add_prompt(content)
        else:
            self.builder.skipped.add("a message without content", number)

    def _add_system(self, data: Fields, number: int) -> None:
        content = text(data.get("content"))
        if data.get("role") == "developer":
            self.builder.add_system(content)
            return
        if self.system not in ("", content):
            self.builder.skipped.add("another system prompt, which is used for the whole conversation", number)
        self.system = content

    def _add_notification(self, data: Fields, _number: int) -> None:
        content = text(data.get("content"))
        if content.startswith(_NOTIFICATION):
            self.builder.add_prompt(content)
        else:
            self.builder.skipped.add_kind("system.notification")

    def _add_answer(self, data: Fields, number: int) -> None:
        requests = map(fields, items(data.get("toolRequests")))
        if not is_whole(data.get("toolRequests")):
            self.builder.skipped.add_kind("", number)

        answer = [
            *thinking(
                text(data.get("reasoningText")), text(data.get("reasoningOpaque")) or text(data.get("encryptedContent"))
            ),
            *blocks(data.get("content")),
            *(call(each.get("toolCallId"), each.get("name"), each.get("arguments")) for each in requests),
        ]

        if is_object(data.get("serverTools")):
            self.builder.skipped.add("tools that the provider ran", number)

        if answer:
            model = text(data.get("model")) or self.model
            self.builder.add_answer(answer, key=text(data.get("apiCallId")), model=model or None)
        else:
            self.builder.skipped.add("an answer without content", number)

    def _add_usage(self, data: Fields, number: int) -> None:
        """Add a count to its answer; the input includes its cached part."""
        read, written = count(data.get("cacheReadTokens")), count(data.get("cacheWriteTokens"))
        usage = usage_of(count(data.get("inputTokens")), count(data.get("outputTokens")), read=read, written=written)
        if usage is not None and not self.builder.add_usage(usage):
            self.builder.skipped.add("token counts without an answer", number)

    def _add_result(self, data: Fields, number: int) -> None:
        found = fields(data.get("result"))
        said = text(found.get("content")) or text(fields(data.get("error")).get("message"))
        content = self._with_media(said, found.get("binaryResultsForLlm"), number)
        failed = data.get("success") is False
        self.builder.add_result(result(data.get("toolCallId"), content, is_error=failed), line=number)

    def _with_media(self, said: str, parts: object, number: int) -> str | list[Fields]:
        """Return text with its images and files, as blocks if there are any; those without bytes are noted."""
        media: list[Fields] = []
        for part in map(fields, items(parts)):
            data = part.get("data") or self._assets.get(text(part.get("assetId")))
            block = media_block(text(part.get("mimeType")), data=data)
            if block is None:
                self.builder.skipped.add("an attachment whose content is not recorded", number)
            else:
                media.append(block)
        return [*blocks(said), *media] if media else said

    def _start_compaction(self, _data: Fields, _number: int) -> None:
        self._first_kept = len(self.builder)

    def _add_compaction(self, data: Fields, number: int) -> None:
        if data.get("success") is False:
            self.builder.skipped.add("a compaction that failed", number)
            return
        self.builder.add_compaction(
            tokens_before=count(data.get("preCompactionTokens")) or None,
            trigger=text(data.get("trigger")),
            summary=text(data.get("summaryContent")),
            first_kept_index=self._first_kept,
        )

    def _add_truncation(self, data: Fields, _number: int) -> None:
        if data.get("messagesRemovedDuringTruncation") == 0:
            self.builder.skipped.add_kind("session.truncation")
            return
        tokens_before = count(data.get("preTruncationTokensInMessages")) or None
        self.builder.add_compaction(tokens_before=tokens_before, trigger="truncation")


def _main_events(lines: Sequence[Line]) -> tuple[list[Line], list[str]]:
    """Return the events of the main agent that were not taken back, and notes on the others."""
    kept, notes = _without_rewound(lines)
    main = [line for line in kept if not (line.value.get("agentId") or _data(line).get("parentToolCallId"))]
    if len(main) < len(kept):
        notes.append(f"{len(kept) - len(main)} lines of sub-agents")
    return main, notes


def _without_rewound(lines: Sequence[Line]) -> tuple[list[Line], list[str]]:
    """Return the events without those that the user took back, and a note on each rewind."""
    kept: list[Line] = []
    notes: list[str] = []
    for line in lines:
        place = _find_rewound(kept, line)
        if place is None:
            kept.append(line)
        else:
            notes.append(f"line {line.number}: took back {len(kept) - place} lines before it")
            del kept[place:]
    return kept, notes


def _find_rewound(kept: Sequence[Line], line: Line) -> int | None:
    """Return the place of the first event that a rewind takes back; None for other events, or if it is not there."""
    if _type(line) != "session.snapshot_rewind":
        return None
    target = _data(line).get("upToEventId")
    return next((place for place, each in enumerate(kept) if text(each.value.get("id")) == target), None)


def _split_at_clears(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """Yield the events of each conversation; a new one starts when the context is cleared."""
    current: list[Line] = []
    for line in lines:
        if _type(line) == _CLEAR:
            yield current
            current = []
        else:
            current.append(line)
    yield current


def _type(line: Line) -> str:
    return text(line.value.get("type"))


def _data(line: Line) -> Fields:
    return fields(line.value.get("data"))
