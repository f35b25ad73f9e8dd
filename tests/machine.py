"""The rehearsal as a Hypothesis state machine, which finds a short sequence of actions that breaks a promise."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from compaction_hooks import CompactionSettings
from tests.rehearsal import WINDOWS, Rehearsal
from tests.strategies import choices, chosen_by

_SEVERAL: Final = st.lists(choices(), min_size=1, max_size=6)


class ConversationMachine(RuleBasedStateMachine):
    """State machine of a host's conversations; each returned view is checked. The rules below it call the method of their name."""

    host: Rehearsal
    say: Callable[[list[int]], None]

    @initialize(window=st.sampled_from(WINDOWS), clears=st.booleans(), is_async=st.booleans())
    def begin(self, window: int, clears: bool, is_async: bool) -> None:
        """Open the first conversation."""
        self.host = Rehearsal(window, settings=CompactionSettings(clear_tool_results=clears), is_async=is_async)

    @rule(recipes=_SEVERAL)
    def steps(self, recipes: list[list[int]]) -> None:
        for recipe in recipes:
            self.host.step(chosen_by(recipe))

    @rule(recipes=_SEVERAL)
    def turns(self, recipes: list[list[int]]) -> None:
        for recipe in recipes:
            self.host.turn(chosen_by(recipe))

    @rule(recipes=_SEVERAL)
    def beats(self, recipes: list[list[int]]) -> None:
        for recipe in recipes:
            self.host.beat(chosen_by(recipe))

    @rule()
    def send(self) -> None:
        self.host.send()

    @precondition(lambda self: self.host.now.was_sent is not None)
    @rule()
    def report(self) -> None:
        self.host.report(chosen_by(()))

    @precondition(lambda self: len(self.host.branches) > 1)
    @rule(recipe=choices())
    def switch(self, recipe: list[int]) -> None:
        self.host.switch(chosen_by(recipe))

    def teardown(self) -> None:
        """Check the last list once more."""
        self.host.send()


def _rule_of(name: str, **drawn: Any) -> Callable[..., None]:
    """Return the rule that calls the method of this name."""

    def act(self: ConversationMachine, recipe: Sequence[int] = ()) -> None:
        getattr(self.host, name)(chosen_by(recipe))

    act.__name__ = name
    made: Callable[..., None] = rule(**drawn)(act)  # type: ignore[no-untyped-call]
    return made


_WITHOUT_CHOICE: Final = "undo store_view fork crash"
_WITH_CHOICES: Final = (
    "say answer compact overflow call pin edit write_into write_into_old move translate hand_over break_summarizer "
    "change_tokenizer"
)
for _name in _WITHOUT_CHOICE.split():
    setattr(ConversationMachine, _name, _rule_of(_name))
for _name in _WITH_CHOICES.split():
    setattr(ConversationMachine, _name, _rule_of(_name, recipe=choices()))
