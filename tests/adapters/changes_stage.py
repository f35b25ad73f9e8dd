"""What tests of changing histories share: messages that can be told apart, summaries that lose nothing, and what must hold.

Every message carries a mark of its own, and the provider's summaries name the marks of what they were made of. So the marks of a
request are to be exactly those of the history it was made for: one that is missing was lost, one too many is of a stale summary.
"""

import itertools
import json
import re
from collections import deque
from collections.abc import Iterable
from typing import Any

from compaction_hooks import CompactionSettings
from tests.conversations import prose
from tests.provider import Answer, Call, Received, Side

WINDOW = 8_192
SYSTEM = "You keep the ledger, and never touch the public API."
SUMMARIZE = CompactionSettings(clear_tool_results=False)
"""Goes for a summary at once: a cleared result has lost its mark."""
REPAIR = CompactionSettings(clear_tool_results=False, repair=True)
_MARK = re.compile(r"\b[a-z]\d{4}\b")
_KEPT = re.compile(r"<kept-messages>.*?</kept-messages>")
_numbers = itertools.count()


def marked(kind: str = "u", tokens: int = 400) -> str:
    """A text with a mark that nothing else has; `kind` is one letter."""
    return f"{kind}{next(_numbers):04} {prose(tokens)}"


def marks(*found_in: object) -> set[str]:
    return set(_MARK.findall(" ".join(one if isinstance(one, str) else repr(one) for one in found_in)))


def look(item: str) -> str:
    """Look an item up in the ledger."""
    return f"{item} {prose(400)}"


def looks(count: int = 1) -> Answer:
    return Answer(calls=tuple(Call("look", {"item": f"t{next(_numbers):04}"}) for _ in range(count)))


def marking(side: Side, *first: Answer) -> Side:
    """Let all that this side of the provider answers carry marks: these answers, plain ones after them, summaries."""
    side.answers = deque([*first, *(Answer(marked("a", 300)) for _ in range(60))])
    side.summarize = _naming
    return side


def _naming(request: Received) -> str:
    return "## Goal\n- keep the ledger\n\n## Done\n- " + " ".join(sorted(_summarized_marks(request)))


def _summarized_marks(request: Received) -> set[str]:
    """Return the marks of a prompt without those of the kept messages, which it shows as context."""
    return marks(_KEPT.sub("", repr(request.messages)))


def summarized(side: Side) -> list[set[str]]:
    """What each summary that was paid for was made of."""
    return [_summarized_marks(request) for request in side.requests if request.is_summary and request.status == 200]


def demand(side: Side, history: Iterable[object], newest: str) -> Received:
    """The last request was accepted and holds all of this history, nothing else, and these words of the user; return it.

    No summary of the same messages was paid for twice.
    """
    request = side.model_requests[-1]
    assert request.status == 200
    assert request.input_tokens <= side.window
    assert SYSTEM in request.system
    sent, said = marks(request.messages), marks(*history)
    assert sent == said, f"lost: {sorted(said - sent)}, stale: {sorted(sent - said)}"
    assert any(newest in _text(message) for message in request.messages if message["role"] == "user")
    paid = summarized(side)
    assert len(set(map(frozenset, paid))) == len(paid)
    return request


def check_never_rejected(side: Side) -> None:
    assert [request.status for request in side.rejections] == []


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
