"""The moments of a folder of recorded sessions, and what another version of the library sends at the same calls."""

import hashlib
import json
import os
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain, zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, cast

from compaction_hooks.tiktoken_estimator import TiktokenEstimator
from tests.benchmarks.judge.recorded import compact, covered_before, find_recorded
from tests.benchmarks.judge.texts import RESULT_CHARS, SCORED_CHARS, Moment, Turn, joined, render
from tests.benchmarks.runner import Worker
from tests.data import sessions

ROOT = Path(__file__).resolve().parents[3]
LEAST_TOKENS = {"summary": 350, "covered": 2_000, "next": 200}
"""With `--most`, the least tokens of a moment that is worth judging."""
MOST_CHARS_PER_TOKEN = 8
"""Characters of a token, at most: more of them are certainly too many tokens."""
CHARS_PER_TOKEN = 3.6


class Sent(NamedTuple):
    """What another version of the library sends at the call of a moment.

    Attributes:
        is_same_cut: Whether it differs from the moment's view in the summary alone.
    """

    case: str
    messages: list[Turn]
    is_same_cut: bool


@cache
def _tokenizer() -> TiktokenEstimator:
    tokenizer = TiktokenEstimator("o200k_base")
    if tokenizer.name == "characters":
        sys.exit("no rank file of o200k_base: pip install litellm, or set TIKTOKEN_CACHE_DIR")
    return tokenizer


def count_tokens(text: str) -> int:
    """Return the tokens of a text by o200k_base; those of the judge differ."""
    return _tokenizer().estimate_tokens(text)


def half_of(session: str) -> str:
    """Return the half of a session: "a" is for tuning, "b" for figures."""
    return "ab"[hashlib.sha256(f"half {session}".encode()).digest()[0] % 2]


@contextmanager
def open_library(place: Path) -> Iterator[Worker]:
    """Run a version of the library: of a folder with its sources, or of the environment of a Python."""
    with TemporaryDirectory() as folder:
        # The process finds the package in its folder or its environment, and this benchmark in this checkout.
        Path(folder, "tests").symlink_to(ROOT / "tests")
        python = str(place)
        if place.is_dir():
            if not (place / "compaction_hooks").is_dir():
                sys.exit(f"{place}: no folder with the sources of the library")
            Path(folder, "compaction_hooks").symlink_to(place.resolve() / "compaction_hooks")
            python = sys.executable
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        worker = Worker(python, "tests.benchmarks.judge.replaying", folder=folder, environment=environment)
        try:
            print(f"library: {worker.ask({'task': 'about'})}", file=sys.stderr)
            yield worker
        finally:
            worker.close()


# -- choosing


def choose(library: Worker, options: Namespace) -> list[Moment]:
    """Return the moments of the sessions of a folder, sources in turn, so that a judge that is stopped early has seen them all."""
    by_source: list[list[Moment]] = []
    for path in sorted(options.data.glob("*.jsonl.gz")):
        source = path.name.split(".")[0]
        found = [*_of_source(library, source, options)]
        if options.most:
            found = sorted(found, key=_cost)[: options.most]
        print(f"{source}: {len(found)} moments", file=sys.stderr)
        by_source.append([moment for moment in found if options.half in (None, half_of(moment["session"]))])
    return [moment for moment in chain(*zip_longest(*by_source)) if moment]


def _of_source(library: Worker, source: str, options: Namespace) -> Iterator[Moment]:
    """Yield the moments of a file: of so many sessions, and so many of each, spread over it, or the cheapest."""
    records = sorted(sessions(source, options.data), key=lambda record: hashlib.sha256(record["id"].encode()).digest())
    taken = 0
    for record in records:
        if taken == options.per_source:
            return
        if len(joined(map(render, record["messages"]))) < 2 * options.window:
            continue  # too short for a compaction
        found = [*_of_session(library, record, source, options)]
        if options.most:
            found = sorted(filter(_is_worth_it, found), key=_cost)[:1]
        else:
            found = found[:: -(-len(found) // options.per_session) or 1]
        taken += bool(found)
        yield from found


def choose_recorded(library: Worker, options: Namespace) -> list[Moment]:
    """Return the moments of the compactions that recorded agents made themselves, one of each session."""
    chosen: list[Moment] = []
    for path in sorted(options.data.glob("*.jsonl.gz")):
        source = path.name.split(".")[0]
        for record in sessions(source, options.data):
            if options.half in (None, half_of(record["id"])):
                chosen += [_with_sizes(found) for found in [*find_recorded(record, source, library, count_tokens)][:1]]
    return chosen


def _with_sizes(moment: dict[str, Any]) -> Moment:
    parts = ("head", "covered", "pins", "recent", "next")
    sizes = {part: sum(count_tokens(text) for _, text in moment[part]) for part in parts}
    return cast("Moment", {**moment, "sizes": sizes | {"summary": count_tokens(moment["summary"])}})


def _of_session(library: Worker, record: dict[str, Any], source: str, options: Namespace) -> Iterator[Moment]:
    question = {"task": "moments", "record": record, "source": source, "window": options.window, "keep": options.keep}
    for found in library.ask(question | {"most_chars": MOST_CHARS_PER_TOKEN * options.most_full}):
        moment = _with_sizes(found)
        if sum(moment["sizes"][part] for part in ("head", "covered", "recent")) > options.most_full:
            return
        yield moment


def _is_worth_it(moment: Moment) -> bool:
    return moment["steps"] == 3 and all(moment["sizes"][part] >= least for part, least in LEAST_TOKENS.items())


def _cost(moment: Moment) -> float:
    """Return about how many tokens a context with a summary has, with the next steps behind it."""
    following = (min(len(text), SCORED_CHARS if role == "assistant" else RESULT_CHARS) for role, text in moment["next"])
    context = sum(moment["sizes"][part] for part in ("head", "pins", "recent", "summary"))
    return context + sum(size / CHARS_PER_TOKEN for size in following)


# -- files


def read_lines(path: Path) -> list[Any]:
    """Return the lines of a file of JSON; none if there is no file."""
    return [json.loads(line) for line in path.open(encoding="utf-8")] if path.exists() else []


def append_line(path: Path, line: object) -> None:
    with path.open("a", encoding="utf-8") as lines:
        print(json.dumps(line, ensure_ascii=False), file=lines)


def load_moments(folder: Path, library: Path, options: Namespace) -> list[Moment]:
    """Return the moments of a folder of results; the first time, make them by the options and write them there."""
    path = folder / "moments.jsonl"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with open_library(library) as worker:
            made = choose_recorded(worker, options) if options.recorded else choose(worker, options)
        part = path.with_suffix(".part")
        part.write_text("".join(f"{json.dumps(moment, ensure_ascii=False)}\n" for moment in made), encoding="utf-8")
        part.rename(path)

    moments: list[Moment] = read_lines(path)
    wanted = (options.window, options.keep)
    others = [moment for moment in moments if "recorded" not in moment and (moment["window"], moment["keep"]) != wanted]
    if others or any(("recorded" in moment) != options.recorded for moment in moments):
        sys.exit(f"{path} has moments of another --window, --keep or --recorded: name another folder")
    print(
        f"{len(moments)} moments of {len({moment['session'] for moment in moments})} sessions: {path}", file=sys.stderr
    )
    return moments


# -- another version


def views_of(library: Path, moments: Sequence[Moment], data: Path) -> Iterator[Sent]:
    """Yield what a version of the library sends at the calls of moments."""
    wanted = {moment["session"] for moment in moments}
    messages = {one["id"]: one["messages"] for one in sessions(folder=data) if one["id"] in wanted}
    with open_library(library) as worker:
        for moment in moments:
            listed = messages[moment["session"]]
            if "recorded" in moment:
                made = compact(worker, covered_before(listed, moment["at"]), count_tokens(moment["recorded"]))
                yield Sent(moment["case"], [["user", made["summary"]], *moment["recent"]], is_same_cut=True)
                continue
            question = {"task": "view", "messages": listed, "at": moment["at"]}
            sent = worker.ask(question | {"window": moment["window"], "keep": moment["keep"]})
            if sent is not None:
                others = [turn for turn in sent["messages"] if sent["summary"] and turn[1] != sent["summary"]]
                is_same_cut = others == moment["head"] + moment["pins"] + moment["recent"]
                yield Sent(moment["case"], sent["messages"], is_same_cut)


def name_of(sent: Iterable[Sent]) -> str:
    """Return a name for a state of another version: what it sends decides."""
    return f"after {hashlib.sha256(json.dumps([*sent]).encode()).hexdigest()[:6]}"
