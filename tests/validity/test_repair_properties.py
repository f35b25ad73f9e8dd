"""Histories broken in every way that hypothesis finds are repaired; the loopback provider's own checks judge them too."""

from random import Random
from typing import Any

import pytest

pytest.importorskip("hypothesis")

from collections import Counter
from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from compaction_hooks.messages import Message, Part, Text, Thinking, ToolCall, ToolResult
from compaction_hooks.repair import repaired
from compaction_hooks.validity import RULES, Provider, problems, worsened
from tests.provider.validation import anthropic_fault, openai_fault
from tests.repairs import ALL, ANTHROPIC, CHAT, Dialect, broken, check_prefix, check_repair

dialects = pytest.mark.parametrize("dialect", [pytest.param(dialect, id=name) for name, dialect in ALL.items()])
randoms = st.randoms(use_true_random=False)


@dialects
@given(random=randoms)
@settings(deadline=None)
def test_a_broken_history_is_repaired_and_nothing_is_lost(dialect: Dialect, random: Random) -> None:
    """Valid, idempotent, the same each time, the input untouched, all words, calls and answers kept."""
    check_repair(dialect, broken(random, dialect))


@dialects
@given(random=randoms)
@settings(deadline=None)
def test_a_longer_history_is_repaired_as_the_shorter_one_was(dialect: Dialect, random: Random) -> None:
    check_prefix(dialect, broken(random, dialect), [dialect.user("and now?"), *broken(random, dialect)])


def chat_fault(messages: list[Any]) -> object:
    return openai_fault({"messages": messages})


def claude_fault(messages: list[Any]) -> object:
    spoken = [message for message in messages if message["role"] != "system"]
    return anthropic_fault({"max_tokens": 1, "messages": [*spoken, {"role": "user", "content": "Go on."}]})


@given(random=randoms)
@settings(deadline=None)
def test_faults_that_the_chat_provider_rejects_are_found_and_repaired(random: Random) -> None:
    """Two judges that know nothing of each other: the checker, and the provider that the adapters' tests talk to."""
    messages = broken(random, CHAT)
    assert (chat_fault(messages) is None) == (problems(CHAT.read(messages), "openai_chat") == [])
    after = repaired(messages, CHAT.format)
    assert chat_fault(after) is None or after == []


@given(random=randoms)
@settings(deadline=None)
def test_faults_that_the_anthropic_provider_rejects_are_found_and_repaired(random: Random) -> None:
    messages = [*broken(random, ANTHROPIC), {"role": "user", "content": "Go on."}]
    if claude_fault(messages) is not None:
        assert problems(ANTHROPIC.read(messages), "anthropic") != []
    assert claude_fault(repaired(messages, ANTHROPIC.format)) is None


call_ids = st.sampled_from(["", "a", "b", "c"])
texts = st.builds(Text, st.sampled_from(["hi", "", " "]))
calls = st.builds(ToolCall, call_ids, st.just("f"), st.just("{}"))
results = st.builds(ToolResult, call_ids, st.just("ok"))
thoughts = st.builds(Thinking, st.just("hm"))


def spoken(role: str, parts: st.SearchStrategy[Part]) -> st.SearchStrategy[Message]:
    return st.builds(Message, role=st.just(role), parts=st.lists(parts, max_size=3).map(tuple))


any_message = st.one_of(
    spoken("system", texts),
    spoken("user", texts),
    spoken("assistant", texts | calls | thoughts),
    spoken("tool", results),
    spoken("other", texts),
)
histories = st.lists(any_message, max_size=14)


@given(histories)
def test_calls_and_results_are_counted_out(messages: list[Message]) -> None:
    """For each id, calls without a result and results without a call remain when all pairs are removed."""
    found = Counter((problem.rule, problem.call_id) for problem in problems(messages))
    for call_id in ["", "a", "b", "c"]:
        waiting = left_over = 0
        for part in (part for message in messages for part in message.parts):
            if isinstance(part, ToolCall) and part.id == call_id:
                waiting += 1
            elif isinstance(part, ToolResult) and part.call_id == call_id:
                left_over += waiting == 0
                waiting = max(0, waiting - 1)
        assert found[("unanswered_call", call_id)] == waiting
        assert found[("orphan_result", call_id)] + found[("duplicate_result", call_id)] == left_over


@given(histories)
def test_results_that_follow_directly_are_neither_detached_nor_split(messages: list[Message]) -> None:
    """The reverse: between a call and its result are only other results."""
    bad = {
        problem.index
        for problem in problems(messages, "openai_chat")
        if "result" in problem.rule or problem.rule == "split_step"
    }
    for index, message in enumerate(messages):
        if message.results and index not in bad:
            before = next(earlier for earlier in reversed(messages[:index]) if earlier.role != "tool")
            assert before.role == "assistant"
            assert {result.call_id for result in message.results} <= {call.id for call in before.calls}


@given(histories, histories)
def test_nothing_is_worse_than_itself_and_only_its_own_problems_are_new(
    one: list[Message], other: list[Message]
) -> None:
    assert worsened(one, one) == []
    fresh = worsened(one, other)
    assert all(problem in problems(other) for problem in fresh)
    assert len(fresh) >= len(problems(other)) - len(problems(one))


@given(histories)
def test_all_providers_together_reject_the_problems_of_each(messages: list[Message]) -> None:
    """Beside what every client library puts right by itself."""
    left = {rule.id for rule in RULES if rule.left_to_clients}
    single = {repr(problem) for provider in get_args(Provider) for problem in problems(messages, provider)}
    together = {repr(problem) for problem in problems(messages)}
    assert together == {problem for problem in single if not any(f"rule='{rule}'" in problem for rule in left)}
