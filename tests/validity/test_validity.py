"""The rules of providers: each rule, the providers that have it, and the problems that a compaction caused."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import get_args

import pytest

from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat, OpenAIResponsesFormat
from compaction_hooks.messages import Media, Message, Opaque, Part, Role, Text, Thinking, ToolCall, ToolResult
from compaction_hooks.validity import (
    RULES,
    Problem,
    Provider,
    RuleId,
    is_alike,
    problems,
    provider_named,
    worsened,
)

CHAT: Provider = "openai_chat"
RESPONSES: Provider = "openai_responses"
ANTHROPIC: Provider = "anthropic"
GEMINI: Provider = "gemini"
BEDROCK: Provider = "bedrock"
TEMPLATE: Provider = "chat_template"
ALL = (CHAT, RESPONSES, ANTHROPIC, GEMINI, BEDROCK)
PAIRED = (CHAT, ANTHROPIC, GEMINI, BEDROCK)
"""The providers that demand a result right behind its call; Responses finds it anywhere after."""


def message(role: Role, *parts: Part | str) -> Message:
    return Message(role=role, parts=tuple(Text(part) if isinstance(part, str) else part for part in parts))


def call(call_id: str, signed: int = 9) -> ToolCall:
    return ToolCall(call_id, "read", "{}", signed)


def result(call_id: str) -> ToolResult:
    return ToolResult(call_id, "ok")


SYSTEM = message("system", "Be brief.")
USER = message("user", "Mend it.")
ANSWER = message("assistant", "Done.")
ASK_A, ASK_B = message("assistant", call("a")), message("assistant", call("b"))
ASK_BOTH = message("assistant", "Reading.", call("a"), call("b"))
TELL_A, TELL_B = message("tool", result("a")), message("tool", result("b"))
TELL_BOTH = message("tool", result("a"), result("b"))
THOUGHT = message("assistant", Thinking("hm", 8))


def find_breaches(messages: Sequence[Message], provider: Provider | None) -> list[tuple[str, int | None, str]]:
    return [(problem.rule, problem.index, problem.call_id) for problem in problems(messages, provider)]


SAID = message("user", "And now?")
TALK = [USER, ANSWER, SAID]


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([USER], id="one-request"),
        pytest.param([SYSTEM, SYSTEM, USER, ANSWER, USER], id="prose"),
        pytest.param([USER, ASK_A, TELL_A, ANSWER, USER], id="one-call"),
        pytest.param([USER, ASK_BOTH, TELL_BOTH, USER], id="parallel-in-one-message"),
        pytest.param([message("user", Media("image/png", "x")), ANSWER], id="only-an-image"),
        pytest.param([USER, message("other", "no")], id="unknown-role"),
        pytest.param([USER, message("assistant", Opaque("a_kind_of_tomorrow", "{}"), "Done.")], id="unknown-kind"),
    ],
)
@pytest.mark.parametrize("provider", [*ALL, None])
def test_valid_messages_have_no_problem(messages: list[Message], provider: Provider | None) -> None:
    assert problems(messages, provider) == []


@pytest.mark.parametrize(
    ("messages", "providers"),
    [
        pytest.param([USER, ASK_BOTH, TELL_A, TELL_B], (CHAT, RESPONSES, ANTHROPIC), id="parallel-one-message-each"),
        pytest.param([USER, ASK_BOTH, TELL_B, TELL_A], (CHAT, RESPONSES, ANTHROPIC), id="parallel-in-any-order"),
        pytest.param([USER, USER], (CHAT, RESPONSES, ANTHROPIC, GEMINI), id="two-requests"),
        pytest.param(
            [USER, THOUGHT, ASK_A, TELL_A, THOUGHT, ANSWER], (RESPONSES, ANTHROPIC), id="reasoning-with-what-follows"
        ),
        pytest.param(
            [USER, message("assistant", call("")), message("tool", result(""))] * 2,
            (CHAT, GEMINI),
            id="legacy-calls-without-ids",
        ),
        pytest.param(
            [USER, THOUGHT, message("assistant", Opaque("web_search_call", "{}"))],
            (RESPONSES,),
            id="reasoning-with-a-server-tool",
        ),
        pytest.param(
            [
                SYSTEM,
                USER,
                USER,
                message("assistant", Thinking("hm"), call("call|fc")),
                message("tool", result("call|fc")),
            ],
            (CHAT, RESPONSES, GEMINI),
            id="a-projected-view-with-reasoning-and-an-id-of-another-provider",
        ),
    ],
)
def test_what_clients_put_right_is_no_problem_of_messages_for_anyone(
    messages: list[Message], providers: Sequence[Provider]
) -> None:
    """A view may be system, summary as a user message, user message, parallel results one by one: every library joins them."""
    assert problems(messages, None) == []
    assert [provider for provider in ALL if problems(messages, provider) == []] == list(providers)


def opaque(kind: str, call_id: str = "", text: str = "{}") -> Message:
    return message("assistant", Opaque(kind, text, call_id))


@pytest.mark.parametrize(
    ("messages", "expected", "providers"),
    [
        pytest.param([], ("empty_list", None, ""), ALL, id="nothing"),
        pytest.param([SYSTEM], ("only_system", None, ""), [ANTHROPIC, GEMINI, BEDROCK], id="only-system"),
        pytest.param([SYSTEM, ANSWER, USER], ("first_not_user", 1, ""), [ANTHROPIC, BEDROCK], id="assistant-first"),
        pytest.param(
            [SYSTEM, USER, SYSTEM], ("system_inside", 2, ""), [ANTHROPIC, GEMINI, BEDROCK], id="system-inside"
        ),
        pytest.param(
            [USER, ANSWER, message("user", " \n")], ("blank_text", 2, ""), [ANTHROPIC, BEDROCK], id="white-space"
        ),
        pytest.param([message("user", "hi", ""), ANSWER], ("blank_text", 0, ""), [ANTHROPIC, BEDROCK], id="empty-text"),
        pytest.param(
            [USER, message("assistant", " "), USER], ("blank_text", 1, ""), [ANTHROPIC, BEDROCK], id="blank-answer"
        ),
        pytest.param([USER, message("assistant"), USER], ("empty_content", 1, ""), PAIRED, id="no-content"),
        pytest.param([message("user")], ("empty_content", 0, ""), PAIRED, id="empty-last-request"),
        pytest.param(
            [USER, message("assistant")], ("empty_answer", 1, ""), [CHAT, GEMINI, BEDROCK], id="empty-last-answer"
        ),
        pytest.param(
            [USER, message("assistant", "hi", Thinking("hm", 8))],
            ("dangling_reasoning", 1, ""),
            [RESPONSES, ANTHROPIC],
            id="reasoning-as-last-block",
        ),
        pytest.param([USER, ASK_A], ("unanswered_call", 1, "a"), ALL, id="call-at-the-end"),
        pytest.param([USER, ASK_A, USER], ("unanswered_call", 1, "a"), ALL, id="unanswered-call"),
        pytest.param([USER, ASK_BOTH, TELL_A, USER], ("unanswered_call", 1, "b"), ALL, id="half-answered-step"),
        pytest.param([USER, TELL_A], ("orphan_result", 1, "a"), ALL, id="orphan-result"),
        pytest.param([TELL_A, USER], ("orphan_result", 0, "a"), ALL, id="begins-with-a-result"),
        pytest.param([USER, message("tool", result(""))], ("orphan_result", 1, ""), ALL, id="result-without-an-id"),
        pytest.param([USER, ASK_A, USER, TELL_A], ("detached_result", 3, "a"), PAIRED, id="text-before-result"),
        pytest.param(
            [SYSTEM, USER, ASK_A, message("other", "no"), TELL_A],
            ("detached_result", 4, "a"),
            PAIRED,
            id="other-between",
        ),
        pytest.param(
            [USER, ASK_BOTH, TELL_A, ANSWER, TELL_B], ("detached_result", 4, "b"), PAIRED, id="answer-between"
        ),
        pytest.param(
            [USER, ASK_A, message("tool", result("a"), result("a"))],
            ("duplicate_result", 2, "a"),
            ALL,
            id="answered-twice",
        ),
        pytest.param(
            [USER, ASK_A, TELL_A, ASK_A, TELL_A], ("duplicate_call", 3, "a"), [RESPONSES, ANTHROPIC], id="id-used-again"
        ),
        pytest.param(
            [USER, message("assistant", call("a"), call("a")), message("tool", result("a"), result("a"))],
            ("twin_call", 1, "a"),
            [RESPONSES, ANTHROPIC, BEDROCK],
            id="one-id-for-two-parallel-calls",
        ),
        pytest.param(
            [*TALK, opaque("server_tool_use", "s"), SAID], ("open_server_call", 3, "s"), [ANTHROPIC], id="open-search"
        ),
        pytest.param(
            [*TALK, opaque("web_search_tool_result", "s"), SAID],
            ("orphan_server_result", 3, "s"),
            [ANTHROPIC],
            id="search-result-of-nobody",
        ),
    ],
)
def test_each_rule_is_found_for_the_providers_that_have_it(
    messages: list[Message], expected: tuple[str, int | None, str], providers: Sequence[Provider]
) -> None:
    """The list covers every rule that a cut can break."""
    seen = {provider: find_breaches(messages, provider) for provider in ALL}
    assert {provider: expected in breaches for provider, breaches in seen.items()} == {
        provider: provider in providers for provider in ALL
    }
    assert find_breaches(messages, None) == [expected]
    others = {rule for breaches in seen.values() for rule, _, _ in breaches} - {expected[0]}
    assert others <= LEFT_TO_CLIENTS


LEFT_TO_CLIENTS = {rule.id for rule in RULES if rule.left_to_clients}


@pytest.mark.parametrize(
    ("messages", "expected", "providers"),
    [
        pytest.param([USER, THOUGHT, ANSWER], ("bare_reasoning", 1, ""), [CHAT], id="reasoning-beside-no-content"),
        pytest.param(
            [USER, message("assistant", Thinking("hm"), "hi"), SAID],
            ("unsigned_reasoning", 1, ""),
            [ANTHROPIC],
            id="thinking-without-its-signature",
        ),
        pytest.param(
            [USER, message("assistant", call("functions.read:0")), message("tool", result("functions.read:0"))],
            ("call_id_form", 1, "functions.read:0"),
            [ANTHROPIC],
            id="an-id-with-a-dot",
        ),
        pytest.param(
            [USER, message("assistant", call("c" * 65)), message("tool", result("c" * 65))],
            ("call_id_form", 1, "c" * 65),
            [RESPONSES, BEDROCK],
            id="an-id-of-65-characters",
        ),
        pytest.param(
            [USER, message("assistant", call("")), message("tool", result(""))],
            ("call_id_form", 1, ""),
            [RESPONSES, ANTHROPIC, BEDROCK],
            id="a-call-without-an-id",
        ),
        pytest.param(
            [USER, message("assistant", call("a", 0), call("b", 0)), TELL_BOTH],
            ("unsigned_call", 1, "a"),
            [GEMINI],
            id="a-call-without-its-thought-signature",
        ),
        pytest.param(
            [USER, message("assistant", call("a"), "So."), TELL_A],
            ("words_after_call", 1, ""),
            [ANTHROPIC],
            id="text-after-a-call",
        ),
        pytest.param(
            [USER, ASK_A, ANSWER, TELL_A], ("words_after_call", 2, ""), [ANTHROPIC], id="text-after-a-call-of-the-turn"
        ),
        pytest.param([SYSTEM, ASK_A, TELL_A], ("call_out_of_turn", 1, "a"), [GEMINI], id="begins-with-a-call"),
        pytest.param([USER, ANSWER, ASK_A, TELL_A], ("call_out_of_turn", 2, "a"), [GEMINI], id="call-after-an-answer"),
        pytest.param([USER, SAID], ("role_repeated", 1, ""), [BEDROCK, TEMPLATE], id="two-requests-in-a-row"),
        pytest.param([USER, ANSWER, ANSWER], ("role_repeated", 2, ""), [BEDROCK, TEMPLATE], id="two-answers-in-a-row"),
        pytest.param(
            [USER, ASK_BOTH, TELL_A, TELL_B], ("split_results", 3, ""), [GEMINI, BEDROCK], id="parallel-results-apart"
        ),
        pytest.param(
            [USER, opaque("compaction", text='{"type":"compaction","content":"so far"}'), SAID],
            ("part_of_anthropic", 1, ""),
            [CHAT, RESPONSES, GEMINI, BEDROCK],
            id="a-compaction-of-anthropic",
        ),
        pytest.param(
            [USER, opaque("compaction", text='{"type":"compaction","encrypted_content":"gAAA"}'), SAID],
            ("part_of_responses", 1, ""),
            [CHAT, ANTHROPIC, GEMINI, BEDROCK],
            id="a-compaction-of-openai",
        ),
        pytest.param(
            [USER, opaque("web_search_call"), SAID],
            ("part_of_responses", 1, ""),
            [CHAT, ANTHROPIC, GEMINI, BEDROCK],
            id="a-search-of-openai",
        ),
        pytest.param(
            [
                USER,
                message("assistant", Opaque("server_tool_use", "{}", "s"), Opaque("web_search_tool_result", "{}", "s")),
            ],
            ("part_of_anthropic", 1, ""),
            [CHAT, RESPONSES, GEMINI, BEDROCK],
            id="a-search-of-anthropic",
        ),
    ],
)
def test_a_rule_left_to_clients_holds_where_the_provider_is_named(
    messages: list[Message], expected: tuple[str, int | None, str], providers: Sequence[Provider]
) -> None:
    assert [provider for provider in (*ALL, TEMPLATE) if expected in find_breaches(messages, provider)] == list(
        providers
    )
    assert expected[0] not in {rule for rule, _, _ in find_breaches(messages, None)}
    assert expected[0] in LEFT_TO_CLIENTS


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param([USER, THOUGHT, SAID], ("dangling_reasoning", 1, ""), id="reasoning-alone"),
        pytest.param([USER, THOUGHT], ("dangling_reasoning", 1, ""), id="reasoning-at-the-end"),
    ],
)
def test_reasoning_needs_what_it_led_to(messages: list[Message], expected: tuple[str, int, str]) -> None:
    for provider in (RESPONSES, ANTHROPIC, None):
        assert find_breaches(messages, provider) == [expected]


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([USER, ASK_A, ANSWER, TELL_A], id="text-after-call"),
        pytest.param([USER, ASK_A, ASK_B, TELL_B, TELL_A], id="two-call-messages"),
    ],
)
def test_openai_chat_wants_the_results_behind_the_very_message_with_the_calls(messages: list[Message]) -> None:
    expected = ("split_step", len(messages) - 1, "a")
    assert find_breaches(messages, CHAT) == find_breaches(messages, None) == [expected]
    assert problems(messages, RESPONSES) == []


def test_thought_signatures_are_wanted_for_the_present_turn_and_the_first_call_of_a_step() -> None:
    before = [USER, message("assistant", call("a", 0)), TELL_A, ANSWER]
    signed = [SAID, message("assistant", call("b"), call("c", 0)), message("tool", result("b"), result("c"))]
    assert problems([*before, *signed], GEMINI) == []
    assert find_breaches([*signed, message("assistant", call("d", 0)), message("tool", result("d"))], GEMINI) == [
        ("unsigned_call", 3, "d")
    ]


def test_a_server_tool_may_answer_after_tools_of_the_host_and_wait_for_the_next_request() -> None:
    """Code that calls tools stays open until their results are in; a paused turn ends with an open search."""
    program = opaque("server_tool_use", "s")
    waiting = [USER, program, ASK_A, TELL_A]
    assert problems(waiting, ANTHROPIC) == []
    assert problems([*waiting, opaque("code_execution_tool_result", "s"), SAID], ANTHROPIC) == []


def test_a_system_message_between_call_and_result_detaches_it() -> None:
    """A developer message inside a pair."""
    messages = [USER, ASK_A, SYSTEM, TELL_A]
    assert find_breaches(messages, CHAT) == [("detached_result", 3, "a")]
    assert find_breaches(messages, ANTHROPIC) == [("system_inside", 2, ""), ("detached_result", 3, "a")]


def test_a_result_answers_the_newest_call_with_its_id() -> None:
    """An id left open by a crash and used again must not make the later, whole pair look broken."""
    messages = [USER, ASK_A, USER, ASK_A, TELL_A, ANSWER]
    assert find_breaches(messages, CHAT) == [("unanswered_call", 1, "a")]


def test_every_rule_has_a_source_for_each_of_its_providers() -> None:
    assert [rule.id for rule in RULES] == list(get_args(RuleId))
    for rule in RULES:
        assert rule.sources
        assert set(rule.sources) <= set(get_args(Provider))
        assert all(source.startswith("https://") for source in rule.sources.values())


def test_a_problem_says_what_is_wrong_without_the_text_of_the_conversation() -> None:
    (problem,) = problems([message("user", "secret"), ASK_A], CHAT)
    assert problem == Problem(rule="unanswered_call", index=1, call_id="a", text="a tool call has no result")


def test_providers_are_named_as_the_formats_are() -> None:
    names = {format_.name for format_ in (OpenAIChatFormat(), OpenAIResponsesFormat(), AnthropicFormat())}
    assert names == set(get_args(Provider)) - {GEMINI, BEDROCK, TEMPLATE}
    assert [provider_named(name) for name in (CHAT, "langchain")] == [CHAT, None]


def test_text_before_a_tool_result_in_one_message_is_rejected_by_anthropic() -> None:
    """Results must come first in the user message that holds them."""
    asked: dict[str, object] = {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}],
    }
    text, block = {"type": "text", "text": "here"}, {"type": "tool_result", "tool_use_id": "a", "content": "ok"}

    def read(content: list[dict[str, str]]) -> list[Message]:
        host: list[dict[str, object]] = [{"role": "user", "content": "hi"}, asked, {"role": "user", "content": content}]
        return [piece for each in host for piece in AnthropicFormat().read(each)]

    assert problems(read([block, text]), ANTHROPIC) == []
    assert find_breaches(read([text, block]), ANTHROPIC) == [("detached_result", 3, "a")]


BROKEN = [USER, ASK_A, USER, TELL_B, USER, ASK_BOTH, TELL_BOTH]


def test_what_was_broken_before_is_not_held_against_us() -> None:
    assert worsened(BROKEN, BROKEN) == []
    assert worsened(BROKEN, [message("user", "summary"), *BROKEN[2:]], CHAT) == []


def test_a_pair_that_is_cut_apart_is_held_against_us() -> None:
    """The call went into the summary, the result stayed, and the other way about."""
    whole = [USER, ASK_A, TELL_A, ANSWER]
    assert [problem.rule for problem in worsened(whole, [USER, TELL_A, ANSWER])] == ["orphan_result"]
    assert [problem.rule for problem in worsened(whole, [USER, ASK_A, ANSWER])] == ["unanswered_call"]


def test_only_as_many_problems_are_forgiven_as_there_were() -> None:
    before = [USER, message("user", ""), ANSWER]
    after = [USER, message("user", ""), message("user", " "), ANSWER]
    assert [problem.index for problem in worsened(before, after, ANTHROPIC)] == [2]


def test_a_view_without_messages_is_worse_than_anything() -> None:
    assert [problem.rule for problem in worsened(BROKEN, [])] == ["empty_list"]


def test_other_words_in_the_same_parts_are_alike() -> None:
    shortened = [
        message("assistant", "Read", ToolCall("a", "read", '{"short": 1}', 9)),
        message("tool", ToolResult("a", "[...]")),
    ]
    assert is_alike([message("assistant", "Reading.", call("a")), TELL_A], shortened)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param([TELL_A], [TELL_B], id="another call answered"),
        pytest.param([ASK_A], [ASK_B], id="another call"),
        pytest.param([ASK_A], [message("assistant", call("a", signed=0))], id="a signature lost"),
        pytest.param([USER], [message("user", " ")], id="nothing said any more"),
        pytest.param([USER], [message("assistant", "Mend it.")], id="another speaker"),
        pytest.param([THOUGHT], [message("assistant", Thinking("hm", 0))], id="other reasoning"),
        pytest.param([TELL_BOTH], [TELL_A], id="a part lost"),
        pytest.param([TELL_A, TELL_B], [TELL_A], id="a message lost"),
    ],
)
def test_whatever_a_rule_may_tell_apart_is_not_alike(old: list[Message], new: list[Message]) -> None:
    assert not is_alike(old, new)


def test_the_time_is_linear_in_the_messages() -> None:
    """100 000 messages are checked on each compaction; a quadratic checker would need minutes."""
    step = [message("assistant", "x", call("same")), message("tool", result("same"))]
    unanswered = [message("assistant", call("same"))] * 20_000
    long = [USER, *unanswered, *step * 40_000]
    start = time.perf_counter()
    assert len(problems(long, CHAT)) == 20_000
    assert time.perf_counter() - start < 10
