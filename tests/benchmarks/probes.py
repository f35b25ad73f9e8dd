"""Questions that can be answered from the context after a compaction: the table of docs/probes.md.

    python -m tests.benchmarks.probes [--window 16000 8000 4000] [--data FOLDER | --public]

Replays every recorded conversation that has probes (a question, its answer) through a real controller with the default
summarizer, and looks for the answers in the last view. Two baselines get the same number of tokens: the newest part of the
conversation alone, and the messages kept by the compaction with the commonest identifiers of everything before them.
"""

import argparse
import logging
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TypeAlias

from compaction_hooks import CompactionController, ContextOverflowError
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.messages import Message, Text, ToolCall, ToolResult
from compaction_hooks.tokens import CharacterEstimator
from tests.benchmarks.tables import print_table
from tests.data import add_data_options, sessions

Chat: TypeAlias = Mapping[str, object]

ESTIMATOR = CharacterEstimator()
FORMAT = OpenAIChatFormat()
MANUAL_KEEP_RATIO = 0.20
"""Share of a conversation that a manual compaction keeps word for word, if the conversation fits the window."""

_WORD = re.compile(r"[^\s\"'`<>(){}\[\],;|\\]{3,80}")
_IDENTIFIER = re.compile(r"[\d/@_]")
_ANSWER_WORD = re.compile(r"[a-z0-9']{3,}|[\u4e00-\u9fff]{2,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contexts:
    """The texts left by three ways of shortening one conversation, without system messages.

    Attributes:
        ours: The view after the controller's compactions: summary, pins and kept messages.
        tail: The newest part of the conversation, of as many tokens as `ours`.
        tail_and_identifiers: The messages that `ours` keeps and the commonest identifiers before them, of as many tokens.
        compactions: Number of the controller's compactions.
    """

    ours: str
    tail: str
    tail_and_identifiers: str
    compactions: int


def contexts(messages: list[Chat], window: int) -> Contexts:
    """Replay a conversation call by call; if nothing was due, compact it once manually."""
    view, compactions = compact(messages, window)
    ours = chat_text(view)
    tokens = ESTIMATOR.estimate_tokens(ours)
    kept = count_kept(messages, view)
    return Contexts(
        ours=ours,
        tail=newest(chat_text(messages), tokens),
        tail_and_identifiers=with_identifiers(
            chat_text(messages[len(messages) - kept :]), messages[: len(messages) - kept], tokens
        ),
        compactions=compactions,
    )


def compact(messages: list[Chat], window: int) -> tuple[list[Chat], int]:
    """Return the view at the end of the conversation, and the number of compactions."""
    session = CompactionController(context_window=window).session("probes")
    for index, message in enumerate(messages):
        if index and message["role"] == "assistant":
            session.transform_context_sync(messages[:index])
    view = session.transform_context_sync(messages)
    if session.state().compaction_count == 0:
        keep = int(MANUAL_KEEP_RATIO * sum(map(tokens_of, messages)))
        view = session.compact_sync(messages, keep_recent_tokens=max(keep, 1)).messages
    return view, session.state().compaction_count


def tokens_of(message: Chat) -> int:
    """Return the estimate of one message; 0 for system messages, which are always kept."""
    if message["role"] == "system":
        return 0
    return sum(map(ESTIMATOR.estimate_message_tokens, FORMAT.read(message)))


def count_kept(messages: Sequence[Chat], view: Sequence[Chat]) -> int:
    """Return the number of messages at the end of both lists that are the same objects."""
    pairs = zip(reversed(messages), reversed(view), strict=False)
    return next((count for count, (one, other) in enumerate(pairs) if one is not other), min(len(messages), len(view)))


# -- the baselines


def newest(text: str, tokens: int) -> str:
    """Return the end of a text, of about this many tokens."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if ESTIMATOR.estimate_tokens(text[-middle:]) <= tokens else (low, middle - 1)
    return text[len(text) - low :]


def with_identifiers(tail: str, before: Sequence[Chat], tokens: int) -> str:
    """Return the tail after the commonest earlier words that contain a digit or name a path, an address or a symbol."""
    left = tokens - ESTIMATOR.estimate_tokens(tail)
    words = (word.strip(".:!?*") for word in _WORD.findall(chat_text(before)))
    chosen: list[str] = []
    for word, _ in Counter(word for word in words if _IDENTIFIER.search(word)).most_common():
        left -= ESTIMATOR.estimate_tokens(f"{word} ")
        if left < 0:
            break
        chosen.append(word)
    return f"{' '.join(chosen)}\n{tail}"


# -- texts and answers


def chat_text(messages: Iterable[Chat]) -> str:
    """Return all text of messages, including tool calls and results, without system messages."""
    read = (piece for message in messages for piece in FORMAT.read(message))
    return "\n".join(message_text(piece) for piece in read if piece.role != "system")


def message_text(message: Message) -> str:
    return "\n".join(_part_texts(message))


def _part_texts(message: Message) -> Iterator[str]:
    for part in message.parts:
        match part:
            case Text(text=text) | ToolResult(text=text):
                yield text
            case ToolCall():
                yield f"{part.name} {part.arguments}"
            case _:
                pass


def share_answered(answer: str | Sequence[str], context: str) -> float:
    """Return the share of an answer's items that are in the context word for word, regardless of case."""
    items = [answer] if isinstance(answer, str) else answer
    return sum(item.lower() in context.lower() for item in items) / len(items)


def share_of_words(answer: str, context: str) -> float:
    """Return the share of an answer's words in the context, for answers in other words; pairs of characters in Chinese."""
    words: list[str] = []
    for word in _ANSWER_WORD.findall(answer.lower()):
        words += [word] if word.isascii() else [word[i : i + 2] for i in range(len(word) - 1)]
    return sum(word in context.lower() for word in words) / max(len(words), 1)


# -- the table


def measure(window: int, folder: Path) -> None:
    """Print the table for one window."""
    shares: defaultdict[str, list[list[float]]] = defaultdict(list)
    compactions: list[int] = []
    impossible = 0
    for session in sessions(folder=folder):
        if not session.get("probes"):
            continue
        try:
            made = contexts(session["messages"], window)
        except ContextOverflowError:
            impossible += 1
            continue
        compactions.append(made.compactions)
        texts = (made.ours, made.tail, made.tail_and_identifiers)
        for probe in session["probes"]:
            shares[probe["kind"]].append([share_answered(probe["answer"], text) for text in texts])
            if probe["kind"] == "memory":
                shares["memory, by word"].append([share_of_words(probe["answer"], text) for text in texts])
    print(f"\nwindow {window:,}: {len(compactions)} conversations, {sum(compactions)} compactions", end="")
    print(f"; {impossible} conversations cannot be made to fit\n" if impossible else "\n")
    columns = ("kind", "probes", "default summary", "newest text", "newest messages and words")
    print_table(
        columns,
        (
            (kind, len(rows), *(f"{fmean(column):.1%}" for column in zip(*rows, strict=True)))
            for kind, rows in sorted(shares.items())
        ),
    )


def main() -> None:
    # Hide the warnings about conversations whose own request fills the window; the table counts them like others.
    logging.getLogger("compaction_hooks").setLevel(logging.CRITICAL)
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--window", type=int, nargs="+", default=[16_000], help="context windows, in tokens")
    add_data_options(parser)
    chosen = parser.parse_args()
    for window in chosen.window:
        measure(window, chosen.data)


if __name__ == "__main__":
    main()
