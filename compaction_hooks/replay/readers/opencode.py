"""Sessions of OpenCode and its forks: `opencode export`, or the storage folder (~/.local/share/opencode/storage).

An exported session is an object with `info` and `messages`, each message with `info` and `parts`. Differences from a list of
messages:

- an answer has all its steps: several model calls, each from `step-start` to `step-finish`, with the results in between;
- tool calls contain their own results, as far as they have run;
- a compaction is a part of a user message; the answer after it, marked as a summary, is its product;
- `revert` takes back all messages from one on, although they are still in the file;
- in the storage folder the session, each message and each part is a file of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from compaction_hooks import Usage
from compaction_hooks.replay.readers import opencode_storage
from compaction_hooks.replay.readers.builder import NO_RESULT, ConversationBuilder
from compaction_hooks.replay.readers.lines import SessionFile
from compaction_hooks.replay.readers.media import media_block
from compaction_hooks.replay.readers.values import call, count, fields, is_list, items, result, text, thinking, usage_of
from compaction_hooks.replay.recorded import Fields, RecordedSession, Unread

FORMAT_NAME: Final = "OpenCode session"

_UNFINISHED: Final = ("pending", "running")
_NEVER_SENT: Final = ("step-start", "snapshot", "patch", "agent", "retry", "subtask")
_READ_AS_TEXT: Final = ("text/plain", "application/x-directory")
"""The content of these files is in text parts next to the file part."""


def holds(value: Fields) -> bool:
    """Whether this is an exported session, or the file of a session in the storage folder."""
    return _is_exported(value) or opencode_storage.is_session(value)


def read(file: SessionFile) -> Iterator[RecordedSession]:
    """Yield a session for each object in which a model answers."""
    for line in file.lines:
        if _is_exported(line.value):
            yield from _session(line.value, file.path.stem, ())
        elif opencode_storage.is_session(line.value):
            exported, unread = opencode_storage.gather(file.path, line.value)
            yield from _session(exported, file.path.stem, unread)


def _session(exported: Fields, stem: str, unread: Sequence[str]) -> Iterator[RecordedSession]:
    history = _History(text(fields(fields(exported.get("info")).get("revert")).get("messageID")))
    for note in unread:
        history.builder.skipped.add(note)
    if fields(exported.get("info")).get("parentID"):
        history.builder.skipped.add("this is the session of a sub-agent")
    for place, message in enumerate(map(fields, items(exported.get("messages")))):
        history.add(message, place)
    if history.builder.has_answer:
        yield history.builder.session(text(fields(exported.get("info")).get("id")) or stem, FORMAT_NAME)


class _History:
    """Feeds a builder with the messages of one session."""

    def __init__(self, reverted_from: str) -> None:
        self.builder: Final = ConversationBuilder("message")
        self._reverted_from = reverted_from
        self._is_reverted = False
        self._sizes: dict[str, int] = {}
        """For each message's id, the length of the builder before it."""

    def add(self, message: Fields, place: int) -> None:
        info = fields(message.get("info"))
        parts = [fields(part) for part in items(message.get("parts"))]
        self._is_reverted = self._is_reverted or (info.get("id") == self._reverted_from != "")
        self._sizes[text(info.get("id"))] = len(self.builder)
        if not is_list(message.get("parts")) or not all(text(part.get("type")) for part in parts):
            self.builder.skipped.add_kind("", place)

        if self._is_reverted:
            self.builder.skipped.add("taken back by the user", place)
        elif info.get("role") == "assistant" and info.get("summary") is True:
            self.builder.set_summary("".join(text(part.get("text")) for part in parts if part.get("type") == "text"))
        elif info.get("role") == "assistant":
            self._add_answer(info, parts, place)
        elif info.get("role") == "user":
            self._add_prompt(info, parts, place)
        else:
            self.builder.skipped.add(Unread("neither a user's message nor an answer"), place)

    def _add_prompt(self, info: Fields, parts: Sequence[Fields], place: int) -> None:
        if text(info.get("system")):
            self.builder.skipped.add_kind("system prompt of one message")
        prompt = [block for part in parts for block in _prompt_blocks(part)]
        if prompt:
            self.builder.add_prompt(prompt)
        compactions = [part for part in parts if part.get("type") == "compaction"]
        for part in compactions:
            self._compact(part)
        if not prompt and not compactions:
            self.builder.skipped.add("a message without content", place)

    def _add_answer(self, info: Fields, parts: Sequence[Fields], place: int) -> None:
        """Add each step as an answer of its own; a message with one step may have the token counts itself."""
        steps = _steps(parts)
        model = text(info.get("modelID")) or text(fields(info.get("model")).get("modelID"))
        is_heard = False
        for number, step in enumerate(steps):
            answer = [block for part in step for block in _answer_blocks(part)]
            finished = next(
                (part for part in step if part.get("type") == "step-finish"), info if len(steps) == 1 else {}
            )

            if answer:
                key = f"{text(info.get('id'))} {number}"
                self.builder.add_answer(
                    answer, key=key, usage=_usage(fields(finished.get("tokens"))), model=model or None
                )
                is_heard = True

            for part in step:
                self._add_other(part, place)

        if not is_heard:
            self.builder.skipped.add("an answer without content", place)

    def _add_other(self, part: Fields, place: int) -> None:
        """Add the result, compaction or kind of a part that is not an answer."""
        kind, state = text(part.get("type")), fields(part.get("state"))
        if kind == "tool" and state.get("status") not in _UNFINISHED:
            self.builder.add_result(_result(part, state), line=place)
        elif kind == "compaction":
            self._compact(part)
        elif kind in _NEVER_SENT and kind != "step-start":
            self.builder.skipped.add_kind(kind)

    def _compact(self, part: Fields) -> None:
        kept = self._sizes.get(text(part.get("tail_start_id")))
        trigger = "auto" if part.get("auto") is True else "manual"
        self.builder.add_compaction(trigger=trigger, first_kept_index=kept)


def _steps(parts: Sequence[Fields]) -> list[list[Fields]]:
    """Return the parts of each model call; steps without output of the model belong to the call before."""
    steps: list[list[Fields]] = [[]]
    for part in parts:
        if part.get("type") == "step-start":
            steps.append([])
        steps[-1].append(part)
    spoken: list[list[Fields]] = [[]]
    for step in steps:
        is_spoken = any(map(_answer_blocks, step)) and any(map(_answer_blocks, spoken[-1]))
        spoken = [*spoken, step] if is_spoken else [*spoken[:-1], [*spoken[-1], *step]]
    return spoken


def _answer_blocks(part: Fields) -> list[Fields]:
    kind, words = part.get("type"), text(part.get("text"))
    if kind == "text" and words and part.get("ignored") is not True:
        return [{"type": "text", "text": words}]
    if kind == "reasoning":
        signed = fields(fields(part.get("metadata")).get("anthropic"))
        return thinking(words, text(signed.get("signature")))
    if kind == "tool":
        return [call(part.get("callID"), part.get("tool"), fields(part.get("state")).get("input"))]
    return []


def _prompt_blocks(part: Fields) -> list[Fields]:
    kind, words = part.get("type"), text(part.get("text"))
    if kind == "text" and words and part.get("ignored") is not True:
        return [{"type": "text", "text": words}]
    if kind == "file" and part.get("mime") not in _READ_AS_TEXT:
        media = media_block(text(part.get("mime")), url=part.get("url"))
        return [media] if media else []
    return []


def _result(part: Fields, state: Fields) -> Fields:
    """Return the original output, even if OpenCode's own compaction cleared it later."""
    is_error = state.get("status") == "error"
    output = text(state.get("output")) or text(state.get("error")) or (NO_RESULT if is_error else "")
    files = (fields(each) for each in items(state.get("attachments")))
    media = [found for each in files if (found := media_block(text(each.get("mime")), url=each.get("url")))]
    content = [{"type": "text", "text": output}, *media] if media else output
    return result(part.get("callID"), content, is_error=is_error)


def _usage(tokens: Fields) -> Usage | None:
    """Return the usage; OpenCode counts neither the cached part in the input nor the reasoning in the output."""
    cache = fields(tokens.get("cache"))
    read, written = count(cache.get("read")), count(cache.get("write"))
    whole = count(tokens.get("input")) + read + written
    return usage_of(
        whole,
        count(tokens.get("output")) + count(tokens.get("reasoning")),
        read=read,
        written=written,
    )


def _is_exported(value: Fields) -> bool:
    messages = [fields(each) for each in items(value.get("messages"))]
    return any("role" in fields(each.get("info")) and isinstance(each.get("parts"), list) for each in messages)
