"""Counts of a server that cuts long prompts without an error, as Ollama does: they count a part of the view, and teach nothing.

1. A count is of a cut prompt if it is far below the estimate of the view's texts, or if it stands still while these grow.
2. Only texts and tool calls are compared: providers leave reasoning out, and media and blocks of hosted tools have any size.
3. The first such count ends what earlier ones taught, for they may be of cut prompts, too. From then on the estimate decides.
4. Once a cut is known, a count of a view that is estimated above it is used only if it is larger, and at least half the estimate.
5. If an option of the request lets the server shorten it, a smaller count is the size of the context.
6. Counts in a list from elsewhere may be of compacted views whose records are lost: they are not believed, but name no cut.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from compaction_hooks.engine.call import SMALLEST_WINDOW, SharedState
from compaction_hooks.engine.conversation import Conversation
from compaction_hooks.engine.sizes import UsageBaseline
from compaction_hooks.history import History
from compaction_hooks.history.history import Piece
from compaction_hooks.messages import Part, Text, ToolCall, ToolResult
from compaction_hooks.tokens.calibration import MINIMUM_GROWTH_TOKENS, MINIMUM_RATIO

LEAST_COUNTED_RATIO: Final = 1 / 8
"""Tokens per estimated token below which no model counts texts. The least of 8,305 recorded requests above `LEAST_TOKENS` has 0.67
(0.83 of its texts), and the least of 25 languages by o200k_base 0.20 (Marathi)."""
LEAST_LEFT_RATIO: Final = 0.4
"""The least part of the largest count that a cut leaves; Ollama leaves half. Smaller counts leave out what a cache had."""
LEAST_TOKENS: Final = 4_096
"""Estimated tokens of texts up to which no count is far below: the size at which Ollama cuts by default on most computers."""
GROWTH_RATIO: Final = 0.6
"""The growth of a view's texts since its largest count, as a part of it, after which a count that is no larger is of a cut prompt.
Counts fall for other reasons, too: some of 9,096 recorded ones are a quarter lower, since reasoning and old results were left out.
Their views grew by 0.29 at most until a larger count came, and by 0.47 after the recorded agent had compacted by itself.

Above its limit Ollama keeps half of it, so its counts fall as well (https://github.com/ollama/ollama/issues/17427)."""


def is_believable(
    conversation: Conversation[Any],
    shared: SharedState,
    history: History[Any],
    first_kept: int,
    counted: UsageBaseline,
    earlier: Iterable[UsageBaseline] = (),
    *,
    may_be_shortened: bool,
) -> bool:
    """Return whether a count may be that of its whole view; if the server seems to cut prompts, remember and report it.

    Args:
        first_kept: The first piece of the history from which on the view has the messages as they are.
        earlier: Counts in earlier answers of the list, for a view without an earlier count.
        may_be_shortened: Whether the request lets the server shorten it.
    """
    key, tokens, sizes = counted.key, counted.input_tokens, conversation.sizes
    if may_be_shortened or key.dressed.shows_items or key.dressed.start is not None:
        return True

    cut_at = sizes.counts_of(key.model).cut_at
    if cut_at is not None and cut_at < key.estimated and tokens <= max(cut_at, MINIMUM_RATIO * key.estimated):
        return False

    largest = sizes.largest_count
    if largest is None or not largest.key.is_prefix_of(key):
        largest = max(earlier, key=lambda count: count.input_tokens, default=None)
    sizes.largest_count = largest

    is_far_below = _is_far_below(history, first_kept, counted)
    is_larger = largest is None or _grows_with(counted, largest)
    # After a larger count, one far below is no proof: some gateways leave out of theirs what they read from a cache.
    is_cut = is_far_below if largest is None else not is_larger and _is_outgrown(history, first_kept, largest, counted)
    if is_cut and tokens >= SMALLEST_WINDOW:
        is_same = largest is not None and largest.input_tokens == tokens
        # Other counts in a list from elsewhere may be of compacted views whose records are lost.
        if is_same or conversation.last_sent is not None:
            _note_cut(conversation, shared, key.model, max(tokens, largest.input_tokens if largest else 0))
        return False

    if is_larger and not is_far_below:
        sizes.largest_count = counted
    return not is_far_below


def _is_far_below(history: History[Any], first_kept: int, counted: UsageBaseline) -> bool:
    most = int(counted.input_tokens / LEAST_COUNTED_RATIO)
    if counted.key.estimated <= max(most, LEAST_TOKENS):
        return False
    return _sum_texts(history.pieces(first_kept, counted.key.piece_count)) > max(most, LEAST_TOKENS)


def _grows_with(counted: UsageBaseline, largest: UsageBaseline) -> bool:
    """Return whether a count exceeds an earlier one by the least that the growth of the view explains."""
    growth = counted.key.estimated - largest.key.estimated
    return counted.input_tokens > largest.input_tokens + max(0, growth) * LEAST_COUNTED_RATIO


def _is_outgrown(history: History[Any], first_kept: int, largest: UsageBaseline, counted: UsageBaseline) -> bool:
    """Return whether the texts of a view grew so much since its largest count that a count of the whole view must be larger."""
    if counted.input_tokens < largest.input_tokens * LEAST_LEFT_RATIO:
        return False
    is_same = counted.input_tokens == largest.input_tokens
    least = MINIMUM_GROWTH_TOKENS if is_same else max(MINIMUM_GROWTH_TOKENS, int(largest.input_tokens * GROWTH_RATIO))
    if counted.key.estimated - largest.key.estimated < least:
        return False

    # Parts other than texts may be gone from the request: reasoning is left out when the user has spoken again.
    middle = largest.key.piece_count
    first = min(first_kept, middle)
    others = history.tokens(first, middle) - _sum_texts(history.pieces(first, middle))
    return _sum_texts(history.pieces(middle, counted.key.piece_count)) >= least + others


def _sum_texts(pieces: Iterable[Piece]) -> int:
    """Return the estimate of the pieces that have nothing but texts and tool calls."""
    return sum(piece.tokens for piece in pieces if all(map(_is_text, piece.message.parts)))


def _is_text(part: Part) -> bool:
    return isinstance(part, Text | ToolCall) or (isinstance(part, ToolResult) and not part.media)


def _note_cut(conversation: Conversation[Any], shared: SharedState, model: str | None, cut_at: int) -> None:
    """Remember and report the size of a cut, and forget what the server's counts taught."""
    sizes = conversation.sizes
    sizes.baseline = sizes.largest_count = None
    sizes.learn(model, None)
    sizes.models[model] = sizes.counts_of(model)._replace(cut_at=cut_at)
    shared.calibrations.pop(model, None)
    shared.windows.warn_of_cut(model, cut_at)
