"""Replays recorded sessions with one version of the library, and takes its views apart; answers questions in a process of its own.

    python -m tests.benchmarks.judge.replaying

Each line of the standard input is a question as JSON, and gets a line with its answer: see `answer`. It imports public names of the
library, and else the standard library only, so that an environment with nothing but another version of it can run it.
"""

import json
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import compaction_hooks
from compaction_hooks import (
    CompactionController,
    CompactionFinished,
    CompactionRecord,
    CompactionSettings,
    ContextOverflowError,
    Summarizer,
)
from tests.benchmarks.judge.texts import SUMMARY, Chat, Turn, content, render

NEXT_STEPS = 3
"""Messages of the agent that are scored."""
LARGE_WINDOW, KEEP_TOKENS = 1_000_000, 1
"""Of a compaction of all messages: nothing stays but the last step, as recorded agents kept no messages."""
SUMMARY_SECONDS = 3_600.0
"""A small model on a processor may take long for a summary."""


class Call(NamedTuple):
    """A model call of a replay.

    Attributes:
        at: Index of its answer in the recorded list.
        made: The end of a compaction right before the call, if it has a summary.
    """

    at: int
    view: Sequence[Chat]
    made: CompactionFinished | None


class Replay:
    """A recorded session, call by call.

    Attributes:
        at: Index of the answer of the call that is being made.
    """

    def __init__(
        self, messages: Sequence[Chat], window: int, keep: int | None, summarizer: Summarizer | None = None
    ) -> None:
        self.at = 0
        self._messages = messages
        self._finished: list[CompactionFinished] = []
        settings = CompactionSettings(keep_recent_tokens=keep, summary_timeout_seconds=SUMMARY_SECONDS)
        controller = CompactionController(
            context_window=window, settings=settings, summarizer=summarizer, on_event=self._take_event
        )
        self._session: Any = controller.session("judge")

    def _take_event(self, event: object) -> None:
        if isinstance(event, CompactionFinished) and event.record.rendered:
            self._finished.append(event)

    def calls(self, until: int | None = None) -> Iterator[Call]:
        """Yield the calls, up to the one whose answer has this index, or the first that does not fit the window."""
        for at, message in enumerate(self._messages[: None if until is None else until + 1]):
            if at and message["role"] == "assistant":
                self.at = at
                self._finished.clear()
                try:
                    view = self._session.transform_context_sync(list(self._messages[:at]))
                except ContextOverflowError:
                    return
                yield Call(at, view, self._finished[-1] if self._finished else None)


def find_moments(record: Chat, source: str, window: int, keep: int | None, most_chars: int) -> Iterator[dict[str, Any]]:
    """Yield the moments of a session without their sizes, up to the first whose full context has too many characters."""
    nth = 0
    for call in Replay(record["messages"], window, keep).calls():
        if call.made is None:
            continue
        nth += 1
        parts = take_apart(record["messages"], call, call.made.record)
        if parts is None:  # not of the shape that contexts are made of
            continue
        if sum(len(text) for part in ("head", "covered", "recent") for _, text in parts[part]) > most_chars:
            return
        if parts["steps"] == NEXT_STEPS or nth == 1:
            about = {"case": f"{record['id']}|{window}|{keep}|{call.at}", "session": record["id"], "source": source}
            yield {**about, "window": window, "keep": keep, "at": call.at, "nth": nth, **parts}


def take_apart(messages: Sequence[Chat], call: Call, record: CompactionRecord) -> dict[str, Any] | None:
    """Return the parts of a view, and the agent's next steps; None if its summary has another shape."""
    places = {id(message): at for at, message in enumerate(messages)}
    summaries = (at for at, one in enumerate(call.view) if id(one) not in places and content(one) == record.rendered)
    where = next(summaries, None)
    if where is None or not SUMMARY.match(record.rendered):
        return None

    end = record.compacted_message_count
    # A message that the view shows shorter is another object, so the newer ones are told by their number.
    in_front = {id(message) for message in call.view[:where]}
    newer = sum(id(message) not in in_front for message in messages[end : call.at])
    behind = call.view[where + 1 :]
    pins, recent = behind[: len(behind) - newer], behind[len(behind) - newer :]
    covered = [at for at in range(end) if messages[at]["role"] != "system"]
    kept = [places[id(message)] for message in pins if id(message) in places]
    answers = [at for at in range(call.at, len(messages)) if messages[at]["role"] == "assistant"][:NEXT_STEPS]
    following = [message for message in messages[call.at : answers[-1] + 1] if message["role"] != "system"]
    return {
        "steps": len(answers),
        "head": [render(message) for message in call.view[:where]],
        "covered": [render(messages[at]) for at in covered],
        "pins": [render(message) for message in pins],
        "pinned": [covered.index(at) for at in kept if at in covered],
        "recent": [render(message) for message in recent],
        "next": [render(message) for message in following],
        "summary": record.rendered,
    }


def view_at(messages: Sequence[Chat], window: int, keep: int | None, at: int) -> dict[str, Any] | None:
    """Return what this version sends at a call, and the summary in it; None if it sends nothing there."""
    last = None
    for last in Replay(messages, window, keep).calls(until=at):  # noqa: B007 - the last one is wanted
        pass
    if last is None or last.at != at:
        return None
    view: list[Turn] = [render(message) for message in last.view]
    return {"messages": view, "summary": last.made.record.rendered if last.made else None}


def compact_all(messages: Sequence[Chat], max_tokens: int, text: str | None = None) -> dict[str, Any]:
    """Return the summary's message of a compaction of all messages but the last step, and how many it covers.

    Args:
        max_tokens: The most tokens of the summary, by the library's own count.
        text: The text of a summarizer, which the library completes; None: by rule.
    """
    settings: dict[str, Any] = {"keep_recent_tokens": KEEP_TOKENS, "max_summary_tokens": max_tokens}
    if hasattr(CompactionSettings, "keep_user_tokens"):  # not in every version
        settings["keep_user_tokens"] = 0
    controller = CompactionController(
        context_window=LARGE_WINDOW,
        settings=CompactionSettings(**settings),
        summarizer=None if text is None else lambda _: text,
    )
    session: Any = controller.session("judge")
    session.compact_sync([*messages, {"role": "user", "content": "Go on."}])
    return {"summary": session.record.rendered, "covered": session.record.compacted_message_count}


def answer(question: Mapping[str, Any]) -> object:
    """Answer a question: "about" this version, "moments" of a session, the "view" at a call, or messages "compacted"."""
    task, arguments = question["task"], {key: value for key, value in question.items() if key != "task"}
    match task:
        case "about":
            return f"{compaction_hooks.__version__} in {Path(compaction_hooks.__file__).resolve().parent}"
        case "moments":
            return [*find_moments(**arguments)]
        case "compacted":
            return compact_all(**arguments)
        case _:
            return view_at(**arguments)


def main() -> None:
    # Hide the warnings of requests that fit no window: such calls are passed over.
    logging.getLogger("compaction_hooks").setLevel(logging.CRITICAL)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
