"""What a summary costs that is asked in place, next to one asked by a transcript, in four caches and price tables.

    python -m tests.benchmarks.money.in_place [--window 200000 64000 16000] [--data FOLDER | --public]

Each recorded conversation is played call by call; the provider's caches read and write as its rules say, and report what they read.
Before each summary both requests are made: *in place* is the list of the call with the instruction at its end, where the library
offers it, *by a transcript* the other form; both have the same answer. *Prefix* is the part of the request in place that the
request before it has too. No model, no network.
"""

import argparse
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import mean

from compaction_hooks import (
    CompactionController,
    CompactionSettings,
    ContextOverflowError,
    Summary,
    SummaryRequest,
    Usage,
)
from compaction_hooks.replay.bills import Bill, PromptCaches
from compaction_hooks.replay.prices import EXAMPLES
from tests.benchmarks.lossy_model import lossy_summary
from tests.benchmarks.money.conversations import FORMAT, Conversation, conversations
from tests.benchmarks.money.wire import TOKENIZER, Chat, Reader, tokens_of
from tests.benchmarks.tables import print_table
from tests.data import add_data_options

ANSWER_TOKENS = 8_192
"""The room for reasoning that a summarizer asks for next to the summary."""
REQUEST = {"temperature": 1}
"""The options of a call: without any, nothing is asked in place."""


@dataclass(slots=True)
class Score:
    """The summaries of some conversations.

    Attributes:
        summaries: All of them.
        offered: Those that the library would ask in place.
        too_large: Those of these whose request and answer do not fit the window.
        prefixes: By request in place, the part that the request before it has too.
        dollars: By price table, what each summary costs in place where it is offered, and all of them by a transcript.
    """

    summaries: int = 0
    offered: int = 0
    too_large: int = 0
    prefixes: list[float] = field(default_factory=list[float])
    dollars: list[list[tuple[float, float]]] = field(default_factory=lambda: [[] for _ in EXAMPLES])


class Player:
    """An agent whose provider has one of the caches."""

    def __init__(self, window: int, place: int, score: Score) -> None:
        self.window, self.place, self.score = window, place, score
        self._reader = Reader()
        self._caches = PromptCaches([EXAMPLES[place].rules], TOKENIZER)
        self._sent: list[Chat] = []
        self._session = CompactionController(
            context_window=window,
            format=FORMAT,
            model=EXAMPLES[place].model,
            settings=CompactionSettings(),
            summarizer=self._summarize,
        ).session("in place")

    def _summarize(self, request: SummaryRequest) -> Summary:
        self.score.summaries += 1
        text = lossy_summary(request)
        output = tokens_of(text)
        live = request.in_place
        plain = Bill(asked=tokens_of(request.system) + tokens_of(request.prompt), summaries=output)
        dollars = EXAMPLES[self.place].dollars
        if live is not None:
            self._read_in_place(list(live.messages), request.max_tokens, plain, output)
        else:
            self.score.dollars[self.place].append((dollars(plain), dollars(plain)))
        return Summary(text=text, usage=Usage(input_tokens=plain.asked, output_tokens=output))

    def _read_in_place(self, messages: list[Chat], max_tokens: int, plain: Bill, output: int) -> None:
        score, dollars = self.score, EXAMPLES[self.place].dollars
        blocks, before = self._reader.blocks(messages), self._reader.blocks(self._sent)
        size = sum(block.tokens for block in blocks)
        same = next((n for n, pair in enumerate(zip(blocks, before, strict=False)) if pair[0] != pair[1]), len(before))
        (bill,) = self._caches.request(blocks)
        score.offered += 1
        score.too_large += size + max_tokens + ANSWER_TOKENS > self.window
        score.prefixes.append(sum(block.tokens for block in blocks[:same]) / size)
        score.dollars[self.place].append((dollars(bill + Bill(summaries=output)), dollars(plain)))

    def play(self, conversation: Conversation) -> None:
        """Make all calls of a conversation."""
        for index in conversation.calls:
            try:
                self._sent = self._view(conversation, index)
            except ContextOverflowError:
                return
            blocks = self._reader.blocks(self._sent)
            (bill,) = self._caches.request(blocks)
            self._session.report_usage(
                Usage(input_tokens=sum(block.tokens for block in blocks), output_tokens=1, cache_read_tokens=bill.read)
            )

    def _view(self, conversation: Conversation, index: int) -> list[Chat]:
        messages = list(conversation.messages[:index])
        return list(self._session.transform_context_sync(messages, request=REQUEST))


def measure(played: Sequence[Conversation], window: int) -> Score:
    """Play all conversations with each of the caches."""
    score = Score()
    for conversation in played:
        for place in range(len(EXAMPLES)):
            Player(window, place, score).play(conversation)
    return score


def rows(played: Sequence[Conversation], windows: Sequence[int]) -> Iterator[tuple[object, ...]]:
    """Yield a row for each window."""
    for window in windows:
        score = measure(played, window)
        least = f"{min(score.prefixes):.0%}" if score.prefixes else "-"
        prefix = f"{mean(score.prefixes):.0%}" if score.prefixes else "-"
        prices = map(partial(_cents), score.dollars)
        yield f"{window:,}", score.summaries, score.offered, prefix, least, score.too_large, *prices


def _cents(pairs: Sequence[tuple[float, float]]) -> str:
    if not pairs:
        return "-"
    in_place, by_transcript = (100 * mean(each) for each in zip(*pairs, strict=True))
    return f"{in_place:.1f} / {by_transcript:.1f}"


def main() -> None:
    """Print the table."""
    logging.getLogger("compaction_hooks").setLevel(logging.CRITICAL)
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--window", type=int, nargs="+", default=(200_000, 64_000, 16_000), help="in tokens")
    add_data_options(parser)
    chosen = parser.parse_args()
    recorded = [*conversations(chosen.data, 0)]
    columns = ("window", "summaries", "in place", "prefix, mean", "least", "above the window")
    print_table((*columns, *(f"cents, {prices.model}" for prices in EXAMPLES)), rows(recorded, chosen.window))


if __name__ == "__main__":
    main()
