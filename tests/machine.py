"""The rehearsal as a Hypothesis state machine, which finds a short sequence of actions that breaks a promise."""

from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from compaction_hooks import CompactionSettings
from tests.rehearsal import WINDOWS, Rehearsal
from tests.strategies import choices, chosen_by

_SEVERAL: Final = st.lists(choices(), min_size=1, max_size=6)


class ConversationMachine(RuleBasedStateMachine):
    """State machine of a host's conversations; each returned view is checked."""

    host: Rehearsal

    @initialize(window=st.sampled_from(WINDOWS), clears=st.booleans(), is_async=st.booleans())
    def begin(self, window: int, clears: bool, is_async: bool) -> None:
        """Open the first conversation."""
        self.host = Rehearsal(window, settings=CompactionSettings(clear_tool_results=clears), is_async=is_async)

    @rule(recipe=choices())
    def say(self, recipe: list[int]) -> None:
        """Call `Rehearsal.say`; the other rules call the method of their name."""
        self.host.say(chosen_by(recipe))

    @rule(recipe=choices())
    def answer(self, recipe: list[int]) -> None:
        self.host.answer(chosen_by(recipe))

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

    @rule(recipe=choices())
    def compact(self, recipe: list[int]) -> None:
        self.host.compact(chosen_by(recipe))

    @rule(recipe=choices())
    def overflow(self, recipe: list[int]) -> None:
        self.host.overflow(chosen_by(recipe))

    @rule(recipe=choices())
    def call(self, recipe: list[int]) -> None:
        self.host.call(chosen_by(recipe))

    @precondition(lambda self: self.host.now.was_sent is not None)
    @rule()
    def report(self) -> None:
        self.host.report(chosen_by(()))

    @rule()
    def undo(self) -> None:
        self.host.undo(chosen_by(()))

    @rule(recipe=choices())
    def pin(self, recipe: list[int]) -> None:
        self.host.pin(chosen_by(recipe))

    @rule(recipe=choices())
    def edit(self, recipe: list[int]) -> None:
        self.host.edit(chosen_by(recipe))

    @rule()
    def store_view(self) -> None:
        self.host.store_view(chosen_by(()))

    @rule(recipe=choices())
    def write_into(self, recipe: list[int]) -> None:
        self.host.write_into(chosen_by(recipe))

    @rule(recipe=choices())
    def write_into_old(self, recipe: list[int]) -> None:
        self.host.write_into_old(chosen_by(recipe))

    @rule()
    def fork(self) -> None:
        self.host.fork(chosen_by(()))

    @precondition(lambda self: len(self.host.branches) > 1)
    @rule(recipe=choices())
    def switch(self, recipe: list[int]) -> None:
        self.host.switch(chosen_by(recipe))

    @rule()
    def crash(self) -> None:
        self.host.crash(chosen_by(()))

    @rule(recipe=choices())
    def move(self, recipe: list[int]) -> None:
        self.host.move(chosen_by(recipe))

    @rule(recipe=choices())
    def translate(self, recipe: list[int]) -> None:
        self.host.translate(chosen_by(recipe))

    @rule(recipe=choices())
    def hand_over(self, recipe: list[int]) -> None:
        self.host.hand_over(chosen_by(recipe))

    @rule(recipe=choices())
    def break_summarizer(self, recipe: list[int]) -> None:
        self.host.break_summarizer(chosen_by(recipe))

    @rule(recipe=choices())
    def change_tokenizer(self, recipe: list[int]) -> None:
        self.host.change_tokenizer(chosen_by(recipe))

    def teardown(self) -> None:
        """Check the last list once more."""
        self.host.send()
