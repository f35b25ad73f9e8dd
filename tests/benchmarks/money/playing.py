"""Play of one conversation with one strategy: every call is priced under all rules and searched for facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace

from compaction_hooks import ContextOverflowError, Usage
from compaction_hooks.replay.bills import Bill, Block, PromptCaches
from compaction_hooks.replay.prices import EXAMPLES
from compaction_hooks.replay.probes import Haystack, Vocabulary
from tests.benchmarks.counting import broken_pairs
from tests.benchmarks.money.conversations import FORMAT, Conversation
from tests.benchmarks.money.names import visible_text
from tests.benchmarks.money.strategies import Run, Strategy
from tests.benchmarks.money.wire import TOKENIZER, Chat, Reader


@dataclass(slots=True)
class Score:
    """The score of one or many conversations with one strategy.

    Attributes:
        bills: The provider's bill, by model.
        calls, refused: Model calls, and those larger than the window, which get an error and cost nothing.
        broken: Requests with a call that has no result, or a result that has no call.
        changes: Requests that do not begin with the whole request before them.
        names, names_known: Uses of names that were last mentioned long before, and those with the name in the request.
        probes, probes_known: Questions with an answer in the conversation, and those with an answer in the last request.
    """

    bills: dict[str, Bill] = field(default_factory=dict[str, Bill])
    calls: int = 0
    refused: int = 0
    broken: int = 0
    changes: int = 0
    names: int = 0
    names_known: int = 0
    probes: int = 0
    probes_known: int = 0

    def add(self, other: Score) -> None:
        """Add the score of another conversation."""
        for each in fields(self):
            if each.name != "bills":
                setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))
        for model, bill in other.bills.items():
            self.bills[model] = self.bills.get(model, Bill()) + bill


def play(conversation: Conversation, strategy: Strategy, window: int) -> Score:
    """Play a conversation call by call in a context window of this many tokens; return its score."""
    played = _Played(conversation, strategy.begin(window), window)
    for index in conversation.calls:
        played.call(index)
    return played.finish()


class _Played:
    """A running play of one conversation."""

    def __init__(self, conversation: Conversation, run: Run, window: int) -> None:
        self._conversation = conversation
        self._run = run
        self._window = window
        self._reader = Reader()
        self._caches = PromptCaches([prices.rules for prices in EXAMPLES], TOKENIZER)
        self._reused = conversation.find_reused(window)
        self._vocabularies: dict[str, Vocabulary] = {}
        self._last: list[Block] = []
        self._is_broken = False
        self._sent: Sequence[Chat] = ()
        self._score = Score(bills={prices.model: Bill() for prices in EXAMPLES})

    def call(self, index: int) -> None:
        """Play the call that produced one message."""
        score, names = self._score, self._reused.get(index, frozenset())
        score.calls += 1
        score.names += len(names)
        self._sent = ()
        try:
            sent = self._run.send(list(self._conversation.messages[:index]))
        except ContextOverflowError:
            score.refused += 1
            return
        blocks = self._reader.blocks(sent)
        is_longer = blocks[: len(self._last)] == self._last
        score.changes += not is_longer
        if not (self._last and is_longer):
            self._is_broken = broken_pairs(sent) > 0
        score.broken += self._is_broken
        size = sum(block.tokens for block in blocks)
        if size > self._window:
            score.refused += 1
            return
        self._last, self._sent = blocks, sent
        self._charge(blocks, size, self._conversation.sizes[index])
        if names:
            known = [self._vocabulary(message) for message in sent]
            score.names_known += sum(any(name in words for words in known) for name in names)

    def _charge(self, blocks: list[Block], size: int, output: int) -> None:
        for prices, bill in zip(EXAMPLES, self._caches.request(blocks), strict=True):
            self._score.bills[prices.model] += replace(bill, output=output)
        self._run.report_usage(Usage(input_tokens=size, output_tokens=output))

    def _vocabulary(self, message: Chat) -> Vocabulary:
        text = visible_text(FORMAT.read(message))
        words = self._vocabularies.get(text)
        if words is None:
            words = self._vocabularies[text] = Vocabulary()
            words.add(text)
        return words

    def finish(self) -> Score:
        """Return the score, including the summarizer's calls and the questions at the end."""
        score, summaries = self._score, self._run.summaries
        extra = Bill(asked=sum(s.asked for s in summaries), summaries=sum(s.answered for s in summaries))
        for model in score.bills:
            score.bills[model] += extra
        whole = _haystack(self._conversation.messages[: self._conversation.calls[-1]])
        known = _haystack(self._sent)
        asked = [probe for probe in self._conversation.probes if whole.holds(probe)]
        score.probes = len(asked)
        score.probes_known = sum(known.holds(probe) for probe in asked)
        return score


def _haystack(messages: Sequence[Chat]) -> Haystack:
    return Haystack(visible_text(piece for message in messages for piece in FORMAT.read(message)))
