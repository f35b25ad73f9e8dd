"""What the assistant found out stays in the default summary, word for word, until it takes it back."""

import pytest

from compaction_hooks.recall import find_facts
from tests.conversations import Chat, assistant, controller, steps, user

HEADING = "### Found out (assistant's words)"
CAUSE = "The root cause is that the lexer drops the last token of a file without a newline."


def found_out(*rounds: list[Chat]) -> list[str]:
    """Return the causes in the summary after one compaction for each of these rounds."""
    session = controller(16_000).session("thread")
    messages: list[Chat] = [user("Port the parser.")]
    for number, said in enumerate(rounds):
        messages += [*said, *steps(14, 300, first=20 * number)]
        result = session.compact_sync(messages, keep_recent_tokens=600)
    assert result.record is not None
    under = result.record.summary.partition(f"{HEADING}\n")[2].split("\n#")[0]
    return [line.removeprefix("- ") for line in under.splitlines() if line]


def test_a_cause_stays_over_three_compactions() -> None:
    other = "The tests failed because `setup.cfg` names a folder that is gone."
    assert {*found_out([assistant(CAUSE)], [assistant(other)], [])} == {CAUSE, other}
    assert found_out([assistant(CAUSE)], [], [], []) == [CAUSE]


def test_the_last_cause_told_outright_before_a_request_stays_longest() -> None:
    guesses = [assistant(f"The problem is that module{number}.py has no setting{number}x.") for number in range(12)]
    reasons = [
        assistant(f"Step {number} is slow because module{number}.py waits{number}x.") for number in range(20, 32)
    ]
    found = found_out([user("Find it."), *guesses, assistant(CAUSE)], [user("Go on."), *reasons], [])
    assert found[-1] == CAUSE


@pytest.mark.parametrize(
    "rival",
    [
        "Actually, the issue is a race in the cache.",
        "The lexer drops the last token of a file because it strips the newline first.",
        "The real cause is an old grammar.",
    ],
)
@pytest.mark.parametrize("is_later_round", [False, True])
def test_of_rival_causes_the_last_one_stays(rival: str, is_later_round: bool) -> None:
    before, after = [assistant(CAUSE)], [assistant(rival)]
    assert found_out(*([before, after] if is_later_round else [before + after])) == [rival]


@pytest.mark.parametrize("said", ["No, that wasn't it.", "I was wrong about the lexer."])
def test_a_cause_that_is_taken_back_is_left_out(said: str) -> None:
    assert found_out([assistant(CAUSE), assistant(said)]) == []


def test_messages_that_stay_take_back_causes_too() -> None:
    session = controller(16_000).session("thread")
    messages = [user("Port it."), assistant(CAUSE), *steps(14, 300), assistant("Hmm, that wasn't it.")]
    record = session.compact_sync(messages, keep_recent_tokens=600).record
    assert record is not None
    assert CAUSE not in record.summary


@pytest.mark.parametrize(
    "said",
    [
        "It might be because the lexer drops the last token.",
        "If the parser fails because of the lexer, the grammar is fine.",
        "Is it because the lexer drops the last token?",
        "Let me check whether the issue is in the lexer.",
        "Probably the bug is in the old lexer.",
        "We handle all of the four files because:",
        "The issue is fixed now, and the tests pass.",
        "```\n# The bug is in the old lexer of the parser\n```",
        "> The bug is in the old lexer of the parser.",
    ],
)
def test_guesses_conditions_questions_and_code_are_no_causes(said: str) -> None:
    assert found_out([assistant(said)]) == []
    assert "cause" not in find_facts([user("Go."), assistant(said)]) or not find_facts([assistant(said)])["cause"]


@pytest.mark.parametrize(
    "said",
    [
        "Das Problem liegt daran, dass der Lexer das letzte Zeichen verliert.",
        "Le problème vient du cache, qui garde une vieille grammaire.",
        "El error ocurre porque el lexer pierde el último token.",
        "根本原因是缓存没有失效。",
        "原因はキャッシュが古いことです。",
        "It turns out the cache keeps an old grammar.",
        "Fixed by sorting the keys before they are hashed.",
    ],
)
def test_causes_are_read_in_several_languages(said: str) -> None:
    assert found_out([assistant(said)]) == [said]


def test_causes_of_users_and_of_tools_are_not_the_assistants() -> None:
    assert found_out([user(CAUSE)]) == []


def test_many_causes_take_a_bounded_part_and_the_newest_stay() -> None:
    def cause(number: int) -> str:
        return f"The failure of step {number} is because module{number}.py lacks setting{number}x."

    found = found_out([assistant(cause(number)) for number in range(100, 160)])
    assert cause(159) in found
    assert cause(100) not in found
    assert sum(map(len, found)) < 0.08 * 1_600 * 4
