"""What is left of a fact one, two, three, five and ten compactions after the first that summarized it.

    python -m tests.benchmarks.fading [--windows 16000 32000] [--half tuned] [--most 2] [--data FOLDER | --public]

Joins the recorded conversations of one source to long ones, in which more than ten compactions happen. The facts in the messages
that a compaction is the first to summarize are looked up in its summary and pins, and in later ones: sentences in which the agent
says what it found out, files that it wrote, the user's constraints, and the beginnings of the user's requests. Once with the
default summary, once with a simulated lossy model. Causes *said outright* name the cause, problem, bug or fix; the *last* is the
last of them before the user's next message: earlier ones may be guesses that it corrects.
"""

import argparse
import logging
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path

from compaction_hooks import ContextOverflowError, Summarizer
from compaction_hooks.replay.needs import HARNESS, is_in, plain, read_arguments
from tests.benchmarks.contents import FILE_KEYS
from tests.benchmarks.lossy_model import lossy_summary
from tests.benchmarks.searches import (
    ESTIMATOR,
    FORMAT,
    Chat,
    Tally,
    constraints,
    conversations,
    message_text,
    replay,
    share,
)
from tests.benchmarks.tables import print_table
from tests.data import add_data_options

AGES = (0, 1, 2, 3, 5, 10)
"""Compactions since the first that summarized a fact."""
MODELS: Mapping[str, Summarizer | None] = {"default summary": None, "lossy model": lossy_summary}
WINDOWS_LONG = 10
"""The tokens of a joined conversation, in windows: a compaction makes room for more than half a window."""
REQUEST_CHARS = 80
CAUSE_CHARS = 60
"""The characters of a cause that must be there, from the words that announce it on."""

_WRITER = re.compile(r"(?:multi_?)?edit|write|str_replace|create|insert|apply_diff|append", re.IGNORECASE)
_MARKS = str.maketrans("", "", "*`_")
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_CAUSE = re.compile(
    r"\b(?:(the root cause|root cause|caused by|(?:fixed|solved|resolved) by|(?:problem|issue|bug|culprit|cause) (?:is|was))"
    r"|because|due to)\b(?:(?![.!?](?:\s|$))[^\n]){20,}",
    re.IGNORECASE,
)
SOURCES = ("aider", "entire", "kimi", "miniswe", "openhands", "pi")
"""The sources whose conversations are work on code: requests of one customer after the other are no long conversation."""
KINDS = ("causes", "causes said outright", "last causes", "files modified", "constraints", "requests")


def join_conversations(
    folder: Path, half: str, tokens: int, most: int, sources: Sequence[str] = SOURCES
) -> Iterator[tuple[str, list[Chat]]]:
    """Yield conversations of about this many tokens: recorded ones of one source, one after the other, each source's first ones.

    Args:
        most: The most long conversations of a source.
    """
    made: Counter[str] = Counter()
    joined: dict[str, list[Chat]] = defaultdict(list)
    sizes: Counter[str] = Counter()
    for name, messages in conversations(folder, half):
        source = name.partition("-")[0]
        if source not in sources or made[source] == most:
            continue
        first = joined[source]
        added = [message for message in messages if message["role"] != "system" or not first]
        joined[source] += with_own_ids(added, name)
        sizes[source] += sum(ESTIMATOR.estimate_tokens(message_text(message)) for message in added)
        if sizes[source] >= tokens:
            made[source] += 1
            yield f"{source} {made[source]}", joined.pop(source)
            del sizes[source]


def with_own_ids(messages: Sequence[Chat], name: str) -> Iterator[Chat]:
    """Yield messages whose calls have ids that no other conversation has."""
    for message in messages:
        own = dict(message)
        if message.get("tool_calls"):
            own["tool_calls"] = [{**call, "id": f"{name} {call['id']}"} for call in message["tool_calls"]]
        if message.get("tool_call_id"):
            own["tool_call_id"] = f"{name} {message['tool_call_id']}"
        yield own


# -- facts


def read_facts(messages: Sequence[Chat]) -> list[list[tuple[str, str]]]:
    """Return, for each message, the (kind, words) of its facts."""
    facts: list[list[tuple[str, str]]] = []
    last: tuple[int, str] | None = None
    for index, message in enumerate([*messages, {"role": "user", "content": ""}]):
        if message["role"] == "user" and last is not None:
            facts[last[0]].append(("last causes", last[1]))
            last = None
        facts.append([*(_of_user(message) if message["role"] == "user" else _of_agent(message))])
        outright = [words for kind, words in facts[-1] if kind == "causes said outright"]
        if outright:
            last = index, outright[-1]
    return facts


def _of_user(message: Chat) -> Iterator[tuple[str, str]]:
    text = message_text(message)
    if text.strip() and not HARNESS.match(text):
        yield "requests", _bare(text)[:REQUEST_CHARS].strip()
    yield from (("constraints", _bare(sentence)) for sentence in constraints(message))


def _of_agent(message: Chat) -> Iterator[tuple[str, str]]:
    for piece in FORMAT.read(message) if message["role"] == "assistant" else ():
        for found in _CAUSE.finditer(_FENCE.sub("\n", piece.text)):
            words = _bare(found[0])[:CAUSE_CHARS].strip()
            yield from ((kind, words) for kind in KINDS[: 2 if found[1] else 1])
        for call in piece.calls:
            arguments = read_arguments(call)
            if _WRITER.match(call.name) and isinstance(arguments, dict):
                paths = (arguments.get(key) for key in FILE_KEYS)
                yield from (("files modified", path) for path in paths if isinstance(path, str))


def measure(name: str, messages: list[Chat], window: int, model: str, tally: Tally) -> int:
    """Look up the facts of each compaction in its summary and in later ones; return the number of compactions."""
    listed = read_facts(messages)
    known: list[set[tuple[str, str]]] = []
    told: set[tuple[str, str]] = set()
    covered = 0
    for step in replay(messages, window, MODELS[model]):
        if step.record is None:
            continue
        until = step.record.compacted_message_count
        facts = {fact for found in listed[covered:until] for fact in found} - told
        told |= facts
        known.append(facts)
        covered = max(covered, until)
        text = "\n".join([step.record.rendered, *_pins(step.view, messages[:until])])
        bare = _bare(text)
        for first, last in ((len(known) - 1 - age, age) for age in AGES if age < len(known)):
            for kind, words in known[first]:
                case: Hashable = name, window, first, words
                has = is_in(words, text) if kind == "files modified" else words in bare
                tally[f"{kind}, {model}, {last}"][case] = has
    return len(known)


def _bare(text: str) -> str:
    """Return a text without escapes, line breaks and marks of Markdown."""
    return plain(text.translate(_MARKS))


def _pins(view: Sequence[Chat], covered: Sequence[Chat]) -> Iterator[str]:
    """Yield the texts of summarized messages that stay in the view."""
    in_view = {id(message) for message in view}
    yield from (message_text(message) for message in covered if message["role"] != "system" and id(message) in in_view)


# -- the table


def print_shares(tally: Tally) -> None:
    """Print a row for each kind of facts and each summarizer, with the shares by age."""
    rows = (
        (f"{kind}, {model}", *(share(tally[f"{kind}, {model}, {age}"].values()) for age in AGES))
        for kind in KINDS
        for model in MODELS
    )
    print_table(("known after", "the first", *map(str, AGES[1:])), rows)


def main() -> None:
    # Hide the warnings about conversations whose own request fills the window.
    logging.getLogger("compaction_hooks").setLevel(logging.CRITICAL)
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_data_options(parser)
    parser.add_argument("--windows", type=int, nargs="+", default=[16_000, 32_000])
    parser.add_argument("--half", choices=("tuned", "kept aside", "both"), default="both")
    parser.add_argument("--most", type=int, default=2, help="the most long conversations of a source")
    parser.add_argument("--sources", nargs="+", default=SOURCES, help="the first words of the conversations' ids")
    chosen = parser.parse_args()
    for window in chosen.windows:
        tally: Tally = defaultdict(dict)
        made: list[int] = []
        tokens = WINDOWS_LONG * window
        for name, messages in join_conversations(chosen.data, chosen.half, tokens, chosen.most, chosen.sources):
            try:
                made += [measure(name, messages, window, model, tally) for model in MODELS]
            except ContextOverflowError:  # a request fills the window
                continue
        number = len(made) // len(MODELS)
        print(
            f"\nwindow {window:,}: {number} long conversations, {min(made, default=0)} to {max(made, default=0)} compactions\n"
        )
        print_shares(tally)


if __name__ == "__main__":
    main()
