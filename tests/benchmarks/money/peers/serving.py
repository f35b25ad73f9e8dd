"""The other end of `money.workers`: a loop that answers one line of JSON with another, in a peer's own environment.

Input: `{"window": n}` once, then `{"new": [messages], "usage": [input, output] | null}` for each call, with the messages since
the last one and the usage of the previous request. Output: `{"sent": [index | message], "summaries": [[prompt, summary]]}`, with
messages of the history by index and those made by the peer in full; or `{"overflow": text}` if the peer raises an overflow.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from compaction_hooks import ContextOverflowError, ExtractiveSummarizer, SummaryRequest
from compaction_hooks.formats import OpenAIChatFormat

Chat: TypeAlias = dict[str, Any]

_FORMAT = OpenAIChatFormat()
_SUMMARIZE = ExtractiveSummarizer()


class Policy(Protocol):
    """A peer's state for one conversation."""

    def send(self, new: Sequence[Chat], usage: tuple[int, int] | None) -> Sequence[int | Chat]:
        """Return the list to send now.

        Raises:
            ContextOverflowError: the peer gives up.
        """
        ...


class Notes:
    """The summarizer that all peers share, and its prompts and summaries."""

    def __init__(self, window: int) -> None:
        self.max_tokens = min(4_096, window // 10)
        self.calls: list[tuple[str, str]] = []

    def summarize(self, messages: Sequence[Chat], *, previous: str | None, prompt: str) -> str:
        """Summarize these messages, like a model with this prompt."""
        pieces = tuple(piece for message in messages for piece in _FORMAT.read(message))
        request = SummaryRequest(
            system="",
            prompt=prompt,
            transcript="",
            previous_summary=previous,
            focus=None,
            kind="update" if previous else "history",
            max_tokens=self.max_tokens,
            messages=pieces,
        )
        text = _SUMMARIZE(request).text or "(none)"
        self.calls.append((prompt, text))
        return text


def serve(begin: Callable[[int, Notes], Policy]) -> None:
    """Serve one conversation after another until the input ends."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # the peer's own output must not mix with answers
    policy: Policy | None = None
    notes = Notes(0)
    for line in sys.stdin:
        asked = json.loads(line)
        if "window" in asked:
            notes = Notes(asked["window"])
            policy = begin(asked["window"], notes)
            continue
        assert policy is not None
        usage = asked["usage"] and (asked["usage"][0], asked["usage"][1])
        notes.calls.clear()
        try:
            answer: dict[str, Any] = {"sent": list(policy.send(asked["new"], usage)), "summaries": notes.calls}
        except ContextOverflowError as error:
            answer = {"overflow": str(error), "summaries": notes.calls}
        out.write(json.dumps(answer) + "\n")
        out.flush()
