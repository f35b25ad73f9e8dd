"""A history that was broken before us, mended: what `validity` finds is put right, and nothing else is touched.

A call that no tool answered gets a result saying so; a result without a call goes, and so does a second answer; a result that
strayed from its call moves up behind it; ids that two calls share are told apart; what is empty goes. The same messages are
always mended the same way, in every process.

Where new messages only follow, what stood before is mended as it was: the prefix holds, and with it the provider's cache. It
moves where the new ones answer a call that was taken for interrupted: the real result takes the place of what we said, also
where the mended list was stored.
"""

from __future__ import annotations

from typing import Any, Final

from compaction_hooks.errors import ConfigurationError
from compaction_hooks.messages import M, MessageFormat, RepairingFormat, TidyingFormat
from compaction_hooks.repair.plan import INTERRUPTED, plan_of
from compaction_hooks.repair.rebuilding import NO_REQUEST, NO_WORDS, Rebuilder
from compaction_hooks.validity import RuleId, problems, provider_of, rules_of

__all__ = ["INTERRUPTED", "NO_REQUEST", "NO_WORDS", "repaired"]

_NOT_OURS: Final[frozenset[RuleId]] = frozenset(
    {"empty_list", "only_system", "role_repeated", "split_results", "call_out_of_turn", "unsigned_call"}
)
"""What is not mended here: somebody has to ask something first; messages are joined, and signatures supplied, by whoever
translates them."""


def repaired(messages: list[M], format: MessageFormat[Any]) -> list[M]:
    """Return a list that the format's provider accepts; the very same list when there is nothing to mend.

    Pure, and linear in the messages. Messages that need no change are the same objects, in their order. Which rules hold follows
    the format's provider; for formats that are translated further on, all that no client resolves (`rules_of(None)`), but a system
    message stays where it is. What cannot be mended without inventing a request stays: an empty list, system messages alone.

    Raises:
        ConfigurationError: something must be mended or not, but the format is no `RepairingFormat`.
        FormatError: a message cannot be read.
    """
    mender = _repairing(format)
    messages = _tidied(messages, mender)
    provider = provider_of(format)
    pieces = [tuple(format.read(message)) for message in messages]
    rules = rules_of(provider) - _NOT_OURS
    if provider is None:
        rules -= {"system_inside"}  # its place means something, and most providers keep it there
    found = problems([piece for host in pieces for piece in host], provider)
    if all(problem.rule not in rules for problem in found):
        return messages
    return Rebuilder(messages, pieces, mender, rules, plan_of(pieces, rules, provider)).run()


def _tidied(messages: list[M], format: MessageFormat[Any]) -> list[M]:
    """Mend what no part shows, where the format knows of such things; the very same list when there is nothing."""
    if not isinstance(format, TidyingFormat):
        return messages
    tidied: list[M] = [format.tidy(message) for message in messages]
    return tidied if any(new is not old for new, old in zip(tidied, messages, strict=True)) else messages


def _repairing(format: MessageFormat[Any]) -> RepairingFormat[Any]:
    if isinstance(format, RepairingFormat):
        return format
    missing = [name for name in ("request", "answer", "drop", "rename") if not hasattr(format, name)]
    raise ConfigurationError(
        f"repair=True needs a format that can mend messages: {format.name} lacks {', '.join(missing)} "
        "(see compaction_hooks.messages.RepairingFormat)"
    )
