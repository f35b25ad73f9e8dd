"""The conversation of examples/local_model.py with a real small model, in llama.cpp's server on the loopback interface.

    python -m tests.benchmarks.real_model --gguf MODEL.gguf [--context 8192] [--threads 2]

Five runs: with the model's own summaries, with summaries by rule, without the library if the oldest messages are dropped and if
nothing is, and with the tools by which a model reads again what is left out and asks for a compaction.

Half an hour on two cores with a model of 270 million parameters.
"""

import argparse
import logging
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from openai import OpenAI

from tests.benchmarks.tables import print_table

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
COLUMNS = (
    "summaries",
    "turns",
    "requests refused",
    "compactions",
    "input tokens",
    "read from the cache",
    "seconds waited",
    "seconds in all",
    "questions answered",
    "tools called",
)


@contextmanager
def served(gguf: Path, context: int, threads: int) -> Iterator[str]:
    """Yield the address of a server with the model and one slot."""
    import xllamacpp

    parameters: Any = xllamacpp.CommonParams()
    parameters.model.path, parameters.n_ctx, parameters.n_parallel = str(gguf), context, 1
    parameters.port, parameters.use_jinja, parameters.verbosity = 0, True, -1
    # Without it a model with sliding windows, such as Gemma 3, reads each prompt from its beginning.
    parameters.swa_full = True
    for each in (parameters.cpuparams, parameters.cpuparams_batch):
        each.n_threads = threads
    server: Any = xllamacpp.Server(parameters)
    yield f"{server.listening_address}/v1"


def rows(address: str, context: int) -> Iterator[Sequence[object]]:
    """Yield a row for each run."""
    sys.path.insert(0, str(EXAMPLES))
    import local_model

    with OpenAI(base_url=address, api_key="none", max_retries=0, timeout=1_200) as client:
        asked: Any = [{"role": "user", "content": "Hello"}]
        name = client.chat.completions.create(model="any", messages=asked, max_tokens=1).model
        for title, summaries, offers_tools in (
            ("by the model", "model", False),
            ("by rule", "rule", False),
            ("none: the oldest messages are dropped", "drop", False),
            ("none: all is sent", "none", False),
            ("by rule, with the tools", "rule", True),
        ):
            began = time.monotonic()
            got = local_model.run(client, name, context, summaries, offers_tools=offers_tools)
            seconds = f"{time.monotonic() - began:.0f}"
            called = ", ".join(f"{tool} {count}" for tool, count in sorted(got.called.items())) or "-"
            cached = f"{got.cached_tokens / max(1, got.input_tokens):.0%}"
            figures = (got.turns, got.refused, got.compactions, f"{got.input_tokens:,}", cached, f"{got.waited:.0f}")
            yield title, *figures, seconds, f"{got.right} of {got.questions}", called


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--gguf", type=Path, required=True, help="file of the model")
    parser.add_argument("--context", type=int, default=8_192, help="the window of the server, in tokens")
    parser.add_argument("--threads", type=int, default=2)
    chosen = parser.parse_args()
    logging.getLogger("compaction_hooks").setLevel(logging.ERROR)
    with served(chosen.gguf, chosen.context, chosen.threads) as address:
        print_table(COLUMNS, rows(address, chosen.context))


if __name__ == "__main__":
    main()
