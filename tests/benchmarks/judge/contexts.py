"""The texts to set next to the library's: what stands in front of the agent's next messages."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from tests.benchmarks.judge.moments import count_tokens
from tests.benchmarks.judge.names import find_names
from tests.benchmarks.judge.texts import CALL, SUMMARY, Moment, Turn, joined, shorten

FULL, CUT, OURS = "FULL", "CUT", "ours"
ALWAYS = (FULL, CUT, OURS)
CHEAP = ("newest", "list", "simple")
SECTIONS, WRITTEN, RECORDED = "sections", "written", "recorded"
OTHERS = (*CHEAP, SECTIONS, WRITTEN, RECORDED)
"""The values of `--contexts`; those of "written" are in `tests.benchmarks.judge.written`."""
NEWEST_REQUESTS = 3
MESSAGE_TOKENS = 6
"""What a message takes in addition to its text, about."""
LEAST_PIECE = 60
"""Tokens from which on the end of a message is worth showing."""

_FILES = re.compile(r"<(read|modified)-files>.*?</\1-files>\n*", re.DOTALL)


class Context(NamedTuple):
    """What the judge reads in front of the next messages."""

    name: str
    messages: list[Turn]


def contexts(moment: Moment, kinds: Sequence[str]) -> Iterator[Context]:
    """Yield the contexts of these kinds that need no model."""
    makers: dict[str, Callable[[], Iterable[Context]]] = {
        FULL: lambda: [Context(FULL, moment["head"] + moment["covered"] + moment["recent"])],
        CUT: lambda: [Context(CUT, moment["head"] + moment["pins"] + moment["recent"])],
        OURS: lambda: [Context(OURS, _with_message(moment, moment["summary"]))],
        "newest": lambda: [Context("newest", _with_newest(moment))],
        "list": lambda: [Context("list", with_summary(moment, name_list(uncovered(moment), _room(moment))))],
        "simple": lambda: [Context("simple", with_summary(moment, simple_summary(uncovered(moment), _room(moment))))],
        SECTIONS: lambda: without_sections(moment),
        RECORDED: lambda: recorded_contexts(moment),
    }
    for kind, make in makers.items():
        if kind in kinds:
            yield from make()


def recorded_contexts(moment: Moment) -> Iterator[Context]:
    """Yield the contexts with the summary that the recorded agent's own model wrote, bare and as the library completes it."""
    if "recorded" in moment and "completed" in moment:
        yield Context(RECORDED, _with_message(moment, moment["recorded"]))
        yield Context(f"{RECORDED}, completed", _with_message(moment, moment["completed"]))


def uncovered(moment: Moment) -> list[Turn]:
    """Return the covered messages that the view does not keep."""
    return [turn for at, turn in enumerate(moment["covered"]) if at not in moment["pinned"]]


def with_summary(moment: Moment, text: str) -> list[Turn]:
    """Return the library's context with another summary, in the library's own words around it."""
    opening, _, rest = _parts(moment)
    return _with_message(moment, opening + text + rest)


def _with_message(moment: Moment, message: str) -> list[Turn]:
    return [*moment["head"], ["user", message], *moment["pins"], *moment["recent"]]


def _parts(moment: Moment) -> tuple[str, str, str]:
    match = SUMMARY.match(moment["summary"])
    assert match, moment["case"]
    return match[1], match[2], match[3]


def _room(moment: Moment) -> int:
    return count_tokens(_parts(moment)[1])


# -- the library's summary without a part


def without_sections(moment: Moment) -> Iterator[Context]:
    """Yield the library's context without each section of its summary, and without its lists of files."""
    opening, body, rest = _parts(moment)
    for heading in dict.fromkeys(heading for heading, _ in _sections(body)):
        left = "\n".join("\n".join(lines) for other, lines in _sections(body) if other != heading)
        if left != body and heading:
            title = heading.strip("# ").partition(" (")[0].casefold()
            yield Context(f"no {title}", _with_message(moment, opening + left + rest))
    if _FILES.search(rest):
        yield Context("no files", _with_message(moment, opening + body + _FILES.sub("", rest)))


def _sections(body: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the headings of a summary, each with its lines; a heading with nothing but others below it has none of its own."""
    heading, lines, is_request = "", list[str](), False
    for line in body.split("\n"):
        if line.startswith("#") and not is_request:
            if lines:
                yield (heading if len(lines) > 1 else ""), lines
            heading, lines = line, []
        # A request may have several lines, also such that look like headings.
        is_request = (is_request or line.startswith("<request>")) and not line.endswith("</request>")
        lines.append(line)
    yield heading, lines


# -- texts of as many tokens


def fill(texts: Iterable[str], room: int, separator: str = "\n") -> list[str]:
    """Return the texts that fit into so many tokens, in their order; one that does not fit is left out."""
    fitting: list[str] = []
    for text in texts:
        tokens = count_tokens(separator + text)
        if tokens <= room:
            fitting.append(text)
            room -= tokens
    return fitting


def name_list(covered: Sequence[Turn], room: int) -> str:
    """Return a bare list of the commonest names."""
    counts = Counter(name.word for name in find_names(joined(covered)))
    return " ".join(fill((word for word, _ in counts.most_common()), room, " "))


def simple_summary(covered: Sequence[Turn], room: int) -> str:
    """Return a summary by a few lines of code: the first request and the last ones, then the newest calls with their results."""
    requests = [f"- {_line(shorten(text, 300))}" for role, text in covered if role == "user" and text.strip()]
    if len(requests) > NEWEST_REQUESTS + 1:
        requests = [requests[0], *requests[-NEWEST_REQUESTS:]]
    asked = fill(requests, room // 2)

    steps = [
        f"- {_line(call)[:140]} -> {_line(result)[:80]}"
        for (_, text), (_, result) in pairwise(covered)
        for call in CALL.findall(text)
    ]
    left = room - count_tokens("\n".join(asked)) - 8  # for the two headings
    done = fill(reversed(steps), left)[::-1]
    return "\n".join(["## Requests", *asked, "## Steps, oldest first", *done])


def _line(text: str) -> str:
    return " ".join(text.split())


def _with_newest(moment: Moment) -> list[Turn]:
    """Return the context with older messages word for word, of as many tokens as the summary."""
    newest = newest_messages(uncovered(moment), count_tokens(moment["summary"]))
    return moment["head"] + moment["pins"] + newest + moment["recent"]


def newest_messages(covered: Sequence[Turn], room: int) -> list[Turn]:
    """Return the newest messages that fit into so many tokens; of the oldest of them its end."""
    taken: list[Turn] = []
    for role, text in reversed(covered):
        tokens = count_tokens(text) + MESSAGE_TOKENS
        if tokens > room:
            return ([["user", f"[...]\n{text[-3 * room :]}"]] if room > LEAST_PIECE else []) + taken
        taken.insert(0, [role, text])
        room -= tokens
    return taken
