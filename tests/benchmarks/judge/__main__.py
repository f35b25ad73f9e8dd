"""A small language model judges summaries: docs/judged.md.

    python -m tests.benchmarks.judge bits FOLDER --gguf MODEL.gguf [--data FOLDER | --public] [--half a]
    python -m tests.benchmarks.judge bits FOLDER --gguf MODEL.gguf --compare BEFORE AFTER
    python -m tests.benchmarks.judge ask FOLDER --gguf MODEL.gguf
    python -m tests.benchmarks.judge tables FOLDER

`bits` takes the compactions of recorded sessions, counts the bits of the agent's own next steps behind each context, and prints
the tables; `tables` prints them without a model. `ask` asks for the values that the agent's next calls need. FOLDER gets the
moments and the results, which hold text of the sessions; a run that was stopped goes on where it stopped.
"""

import argparse
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from tests.benchmarks.judge import compare
from tests.benchmarks.judge.ask import ask_all
from tests.benchmarks.judge.contexts import ALWAYS, CHEAP, OTHERS, RECORDED, WRITTEN, Context, contexts
from tests.benchmarks.judge.moments import ROOT, Sent, append_line, load_moments, name_of, read_lines, views_of
from tests.benchmarks.judge.score import JudgeModel, Writer, read_next, score
from tests.benchmarks.judge.server import ServerModel, chat, serve
from tests.benchmarks.judge.texts import Moment
from tests.benchmarks.judge.written import load_written
from tests.data import add_data_options

RESULTS = "results.jsonl"


def open_model(options: argparse.Namespace) -> JudgeModel:
    """Return the judge that the options name."""
    if options.server:
        return ServerModel(options.server, options.room)
    from tests.benchmarks.judge.llama import LlamaModel  # only a GGUF needs numpy

    return LlamaModel(Path(options.gguf), options.room, options.threads)


def open_server(options: argparse.Namespace, stack: ExitStack) -> str:
    """Return the address of a server of texts: the one that the options name, or one of a GGUF for this run."""
    model = options.writer or options.server or options.gguf
    return model if "://" in model else stack.enter_context(serve(Path(model), options.room, options.threads))


def judge(options: argparse.Namespace, moments: Sequence[Moment], extra: dict[str, list[Context]]) -> None:
    """Score every context of every moment that the folder has no result of."""
    path = options.folder / RESULTS
    known = read_lines(path)
    model = open_model(options)
    if any(line.get("model", model.name) != model.name for line in known):
        raise SystemExit(f"{path} has results of another model: name another folder")
    done = {(line["case"], line.get("name")) for line in known}
    writer = Writer(model)

    for number, moment in enumerate(moments, 1):
        case, following = moment["case"], read_next(moment, writer)
        print(f"moment {number} of {len(moments)}", flush=True)
        if (case, None) not in done:
            about = {"case": case, "session": moment["session"], "source": moment["source"], "nth": moment["nth"]}
            append_line(path, {"model": model.name, "scored": following.scored, "sizes": moment["sizes"], **about})
        for context in (*contexts(moment, [*ALWAYS, *options.contexts]), *extra.get(case, ())):
            if (case, context.name) not in done:
                result = score(case, context.name, writer.tokens(context.messages), following, model)
                if result:
                    append_line(path, result)


def compare_versions(options: argparse.Namespace, moments: Sequence[Moment]) -> Iterator[tuple[str, Context]]:
    """Yield what the second version sends at the moments at which the two differ."""
    sent: list[Sent] = [*views_of(options.compare[1], moments, options.data)]
    before = {moment["case"]: next(contexts(moment, ["ours"])).messages for moment in moments}
    differing = [each for each in sent if each.messages != before[each.case]]
    name, alone = name_of(sent), sum(each.is_same_cut for each in differing)
    print(f"{name}: {len(differing)} of {len(sent)} contexts differ, {alone} of them in the summary alone", flush=True)
    for each in differing:
        yield each.case, Context(name, each.messages)


def run_bits(options: argparse.Namespace) -> None:
    """Make the moments, judge them, and print the tables."""
    if options.contexts is None:
        options.contexts = (RECORDED,) if options.recorded else () if options.compare else CHEAP
    before = options.compare[0] if options.compare else ROOT
    moments = load_moments(options.folder, before, options)
    extra: dict[str, list[Context]] = {}
    if options.compare:
        extra = {case: [context] for case, context in compare_versions(options, moments)}
        moments = [moment for moment in moments if moment["case"] in extra]
    if WRITTEN in options.contexts:
        with ExitStack() as stack:
            ask = partial(chat, open_server(options, stack))
            for case, written in load_written(options.folder, moments, options.data, ask, options.prompt).items():
                extra.setdefault(case, []).extend(written)

    judge(options, moments, extra)
    cases = {moment["case"] for moment in moments}
    compare.print_tables([line for line in read_lines(options.folder / RESULTS) if line["case"] in cases])


def run_ask(options: argparse.Namespace) -> None:
    """Ask a served model for the values that the next calls need."""
    moments = load_moments(options.folder, ROOT, options)
    with ExitStack() as stack:
        ask_all(options.folder, moments, open_server(options, stack), options.gaps)


def run_tables(options: argparse.Namespace) -> None:
    """Print the tables of what was judged so far."""
    lines = [line for folder in options.folder for line in read_lines(folder / RESULTS)]
    compare.print_tables(lines, to=options.to, half=options.half, by=options.by)


def add_moments_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose moments and the model."""
    parser.add_argument("folder", type=Path, help="moments and results: keep it out of the project")
    model = parser.add_mutually_exclusive_group(required=True)
    model.add_argument("--gguf", help="a GGUF model, read by the package xllamacpp; none is downloaded")
    model.add_argument("--server", help="address of a server that returns the log probabilities of a prompt, as vLLM's")
    parser.add_argument(
        "--writer", help="address of an OpenAI-compatible server that writes texts, in place of the judge"
    )
    parser.add_argument(
        "--prompt", type=Path, nargs="*", default=(), help="files of further prompts for `written`, with {conversation}"
    )
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads for a GGUF; 1 on a busy machine")
    parser.add_argument("--room", type=int, default=20_480, help="the judge's own context, in tokens")
    parser.add_argument("--window", type=int, default=8_000, help="window of the sessions, in tokens")
    parser.add_argument("--keep", type=int, help="keep_recent_tokens; its default otherwise")
    parser.add_argument(
        "--recorded", action="store_true", help="compactions that the recorded agents made, with their own summaries"
    )
    parser.add_argument("--half", choices=("a", "b"), help="sessions for tuning, or those for figures")
    parser.add_argument("--per-source", type=int, default=8, help="sessions of a file, at most")
    parser.add_argument("--per-session", type=int, default=2, help="moments of a session, about")
    parser.add_argument("--most", type=int, help="only so many moments of a file, one per session, the cheapest")
    parser.add_argument("--most-full", type=int, default=14_000, help="tokens of a full context, at most")
    add_data_options(parser)


def main() -> None:
    texts = str(__doc__).partition("\n")
    parser = argparse.ArgumentParser(
        description=texts[0], epilog=texts[2], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    bits = commands.add_parser("bits", help="count the bits of the next steps behind each context")
    add_moments_options(bits)
    others = f"contexts in addition to {', '.join(ALWAYS)}; without it {', '.join(CHEAP)}, and none with --compare"
    bits.add_argument("--contexts", nargs="*", choices=OTHERS, help=others)
    versions = "two versions of the library: folders of sources, or Pythons that have one installed"
    bits.add_argument("--compare", nargs=2, type=Path, metavar=("BEFORE", "AFTER"), help=versions)
    bits.set_defaults(run=run_bits)

    ask = commands.add_parser("ask", help="ask for the values that the next calls need")
    add_moments_options(ask)
    ask.add_argument("--gaps", type=int, default=3, help="values of a moment, at most")
    ask.set_defaults(run=run_ask)

    tables = commands.add_parser("tables", help="print the tables without a model")
    tables.add_argument("folder", type=Path, nargs="+")
    tables.add_argument("--to", default="ours", help="the context that the others are compared with")
    tables.add_argument("--half", choices=("a", "b"))
    tables.add_argument("--by", choices=("source", "nth"), help="a table for each")
    tables.set_defaults(run=run_tables)

    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
