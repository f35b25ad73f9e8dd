"""The check of a compaction's loss figures against the texts of the list, the view and the covered parts."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from compaction_hooks import CompactionRecord, MessageFormat
from compaction_hooks.messages import M, Message, Opaque, Text, ToolCall, ToolResult
from compaction_hooks.recall import Covered, LossFigures, find_facts
from compaction_hooks.testing.promises import demand

WORDS_OF_USER: Final = ("constraint", "request")
"""The classes of facts that only a message of the user can keep; answers too, which need the message before to be found."""
RETOLD: Final = (*WORDS_OF_USER, "task", "file")
"""The classes of facts whose breaks, escapes and signs the list may have otherwise."""
END: Final = r"[\s\"]"
"""A sign at which a word surely ends."""
_SUMMARY: Final = "[Conversation summary]"
"""The beginning of every summary."""
_LEFT_OUT: Final = "[Left out, the request was too large with it: "
"""The beginning of a line in place of an image: it is no one's words."""
_CARRIED: Final = re.compile(r"\n\n<carried .*?\n</carried>", re.DOTALL)
"""A text that comes back behind a summary: it is no one's words."""
_NUMBER: Final = re.compile(r"\A#\d+ ")
"""The number of a task, which another call than that of its words may tell."""


def check_loss(
    loss: Mapping[str, LossFigures],
    messages: Sequence[M],
    view: Sequence[M],
    records: Sequence[CompactionRecord],
    covered: Covered,
    *,
    format: MessageFormat[M],
) -> None:
    """Check that loss figures count each fact once, and as the texts tell: kept in the view, recallable or lost.

    Args:
        loss: The figures.
        messages: The host's list.
        view: Its view under the last record.
        records: The records of the conversation, oldest first.
        covered: All that the view leaves out: `session.covered(messages)`.

    Raises:
        BrokenPromise: a figure differs from the number of facts.
    """
    head = _find_head(messages, format)
    if head is not None and "\n".join(each.text for each in format.read(head)) not in {
        each.rendered for each in records
    }:
        return  # its record is gone
    shown = [piece for message in view for piece in format.read(message)]
    of_user = _texts([piece for piece in shown if piece.role == "user"])
    in_calls = "\n".join(call.arguments for piece in shown for call in piece.calls)
    texts = dict.fromkeys(WORDS_OF_USER, of_user) | {"file": f"{of_user}\n{in_calls}"}
    left_out = "\n".join(part.text for part in covered)
    loss = {kind: figures for kind, figures in loss.items() if kind != "answer"}
    facts = _name_facts(messages, view, records[-1], head, format)
    demand(facts.keys() == loss.keys(), "loss", f"figures of {[*loss]} for facts of {[*facts]}")
    for kind, named in facts.items():
        text = texts.get(kind) or _texts(shown)
        kept, recallable, lost = loss[kind]
        gone = {fact for fact in named if not _has(text, fact, kind)}
        cut = {fact for fact in named if not _has_word(text, fact)}  # it may be in view as a part of a longer name
        is_readable = kind == "file" and head is None  # it is in a call, or the host keeps track of it
        unread = set[str]() if is_readable else {fact for fact in cut if not _has(left_out, fact, kind)}
        told = f"{loss[kind]} of {kind}"
        demand(kept + recallable + lost == len(named), "loss", f"{told}, but there are {len(named)}")
        demand(len(gone) <= recallable + lost <= len(cut | gone), "loss", f"{told}, but the view lacks {gone}")
        demand(len(unread & gone) <= lost <= len(unread), "loss", f"{told}, but not to be found are {unread}")


def _find_head(messages: Sequence[M], format: MessageFormat[M]) -> M | None:
    """Return the summary at the head of a list that begins with an earlier view; None for a whole list."""
    spoken = (message for message in messages if any(piece.role != "system" for piece in format.read(message)))
    first = next(spoken, None)
    return first if first is not None and _texts(format.read(first)).startswith(_SUMMARY) else None


def _name_facts(
    messages: Sequence[M], view: Sequence[M], record: CompactionRecord, head: M | None, format: MessageFormat[M]
) -> Mapping[str, Collection[str]]:
    """Return the facts that a view may lack, by class."""
    shown = {*map(id, view)}
    hidden = [message for message in messages if id(message) not in shown]
    said = find_facts([message for message in hidden if message is not head], format=format)
    facts = find_facts(hidden, format=format) | {kind: said[kind] for kind in WORDS_OF_USER}
    facts["file"] = [*dict.fromkeys((*record.modified_files, *record.read_files))] if record.rendered else []
    return {kind: named for kind, named in facts.items() if named and kind != "answer"}


def _texts(messages: Sequence[Message]) -> str:
    found: list[str] = []
    for message in messages:
        for part in message.parts:
            match part:
                case Text(text=text) if text.startswith(_LEFT_OUT):
                    continue
                case Text(text=text) | ToolResult(text=text) | ToolCall(arguments=text) | Opaque(content=text):
                    found.append(text)
                case _:
                    pass
    return "\n".join(_CARRIED.sub("", text) if text.startswith(_SUMMARY) else text for text in found)


def _has(text: str, fact: str, kind: str) -> bool:
    """Return whether a text has a fact; sentences and files are there as their speaker wrote them."""
    if fact in text or kind not in RETOLD:
        return fact in text
    return all(_plain(line) in _plain(text) for line in _NUMBER.sub("", fact).splitlines())


def _has_word(text: str, fact: str) -> bool:
    """Return whether a text has a fact that is no part of a longer word."""
    return re.search(rf"(?:^|(?<={END})){re.escape(fact)}(?:$|(?={END}))", text) is not None


def _plain(text: str) -> str:
    """Return the letters and digits of a text, without escapes."""
    return re.sub(r"\\[nrt]|[\W_]+", "", text)
