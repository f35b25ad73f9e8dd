"""The rules of providers: each rule, the providers that have it, and the problems that a compaction caused."""

import time
from collections.abc import Sequence
from typing import get_args

import pytest

from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat, OpenAIResponsesFormat
from compaction_hooks.messages import (
    Media,
    Message,
    NativeSummary,
    Opaque,
    Part,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from compaction_hooks.validity import RULES, Problem, Provider, RuleId, is_alike, problems, provider_named, worsened
from tests.cases import folded

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


def opaque(kind: str, call_id: str = "") -> Message:
    return message("assistant", Opaque(kind, "{}", call_id))


@folded(
    "messages",
    {
        "one-request": [USER],
        "prose": [SYSTEM, SYSTEM, USER, ANSWER, USER],
        "one-call": [USER, ASK_A, TELL_A, ANSWER, USER],
        "parallel-in-one-message": [USER, ASK_BOTH, TELL_BOTH, USER],
        "only-an-image": [message("user", Media("image/png", "x")), ANSWER],
        "unknown-role": [USER, message("other", "no")],
        "unknown-kind": [USER, message("assistant", Opaque("a_kind_of_tomorrow", "{}"), "Done.")],
    },
)
@pytest.mark.parametrize("provider", [*ALL, None])
def test_valid_messages_have_no_problem(messages: list[Message], provider: Provider | None) -> None:
    assert problems(messages, provider) == []


@folded(
    "messages, providers",
    {
        "parallel-one-message-each": ([USER, ASK_BOTH, TELL_A, TELL_B], (CHAT, RESPONSES, ANTHROPIC)),
        "parallel-in-any-order": ([USER, ASK_BOTH, TELL_B, TELL_A], (CHAT, RESPONSES, ANTHROPIC)),
        "two-requests": ([USER, USER], (CHAT, RESPONSES, ANTHROPIC, GEMINI)),
        "reasoning-with-what-follows": ([USER, THOUGHT, ASK_A, TELL_A, THOUGHT, ANSWER], (RESPONSES, ANTHROPIC)),
        "legacy-calls-without-ids": (
            [USER, message("assistant", call("")), message("tool", result(""))] * 2,
            (CHAT, GEMINI),
        ),
        "answers-of-the-host": (
            [
                USER,
                THOUGHT,
                opaque("mcp_approval_request", "a"),
                opaque("tool_search_call", "b"),
                message("other", Opaque("mcp_approval_response", "{}", "a")),
                message("other", Opaque("tool_search_output", "{}", "b")),
            ],
            (RESPONSES,),
        ),
        "reasoning-with-a-server-tool": (
            [USER, THOUGHT, message("assistant", Opaque("web_search_call", "{}"))],
            (RESPONSES,),
        ),
        "a-projected-view-with-reasoning-and-an-id-of-another-provider": (
            [
                SYSTEM,
                USER,
                USER,
                message("assistant", Thinking("hm"), call("call|fc")),
                message("tool", result("call|fc")),
            ],
            (CHAT, RESPONSES, GEMINI),
        ),
    },
)
def test_faults_that_clients_repair_are_problems_of_named_providers_only(
    messages: list[Message], providers: Sequence[Provider]
) -> None:
    """A view may be system, summary as a user message, user message, parallel results one by one: every library joins them."""
    assert problems(messages, None) == []
    assert [provider for provider in ALL if problems(messages, provider) == []] == list(providers)


@folded(
    "messages, expected, providers",
    {
        "nothing": ([], ("empty_list", None, ""), ALL),
        "only-system": ([SYSTEM], ("only_system", None, ""), [ANTHROPIC, GEMINI, BEDROCK]),
        "assistant-first": ([SYSTEM, ANSWER, USER], ("first_not_user", 1, ""), [ANTHROPIC, BEDROCK]),
        "system-inside": ([SYSTEM, USER, SYSTEM], ("system_inside", 2, ""), [ANTHROPIC, GEMINI, BEDROCK]),
        "white-space": ([USER, ANSWER, message("user", " \n")], ("blank_text", 2, ""), [ANTHROPIC, BEDROCK]),
        "empty-text": ([message("user", "hi", ""), ANSWER], ("blank_text", 0, ""), [ANTHROPIC, BEDROCK]),
        "blank-answer": ([USER, message("assistant", " "), USER], ("blank_text", 1, ""), [ANTHROPIC, BEDROCK]),
        "no-content": ([USER, message("assistant"), USER], ("empty_content", 1, ""), PAIRED),
        "empty-last-request": ([message("user")], ("empty_content", 0, ""), PAIRED),
        "empty-last-answer": ([USER, message("assistant")], ("empty_answer", 1, ""), [CHAT, GEMINI, BEDROCK]),
        "reasoning-as-last-block": (
            [USER, message("assistant", "hi", Thinking("hm", 8))],
            ("dangling_reasoning", 1, ""),
            [RESPONSES, ANTHROPIC, BEDROCK],
        ),
        "call-at-the-end": ([USER, ASK_A], ("unanswered_call", 1, "a"), ALL),
        "unanswered-call": ([USER, ASK_A, USER], ("unanswered_call", 1, "a"), ALL),
        "half-answered-step": ([USER, ASK_BOTH, TELL_A, USER], ("unanswered_call", 1, "b"), ALL),
        "orphan-result": ([USER, TELL_A], ("orphan_result", 1, "a"), ALL),
        "begins-with-a-result": ([TELL_A, USER], ("orphan_result", 0, "a"), ALL),
        "result-without-an-id": ([USER, message("tool", result(""))], ("orphan_result", 1, ""), ALL),
        "text-before-result": ([USER, ASK_A, USER, TELL_A], ("detached_result", 3, "a"), PAIRED),
        "other-between": ([SYSTEM, USER, ASK_A, message("other", "no"), TELL_A], ("detached_result", 4, "a"), PAIRED),
        "answer-between": ([USER, ASK_BOTH, TELL_A, ANSWER, TELL_B], ("detached_result", 4, "b"), PAIRED),
        "answered-twice": ([USER, ASK_A, message("tool", result("a"), result("a"))], ("duplicate_result", 2, "a"), ALL),
        "id-used-again": ([USER, ASK_A, TELL_A, ASK_A, TELL_A], ("duplicate_call", 3, "a"), [RESPONSES, ANTHROPIC]),
        "one-id-for-two-parallel-calls": (
            [USER, message("assistant", call("a"), call("a")), message("tool", result("a"), result("a"))],
            ("twin_call", 1, "a"),
            [CHAT, RESPONSES, ANTHROPIC, BEDROCK],
        ),
        "messages-before-a-signed-compaction": (
            [
                USER,
                message("assistant", NativeSummary("native", "{}", content="so far", is_first=True)),
                message("user", NativeSummary("native", "{}", content="so far"), Text("Go on.")),
            ],
            ("late_summary", 1, ""),
            [ANTHROPIC],
        ),
        "open-search": ([*TALK, opaque("server_tool_use", "s"), SAID], ("open_server_call", 3, "s"), [ANTHROPIC]),
        "search-result-of-nobody": (
            [*TALK, opaque("web_search_tool_result", "s"), SAID],
            ("orphan_server_result", 3, "s"),
            [ANTHROPIC],
        ),
        "approval-of-nothing": (
            [*TALK, message("other", Opaque("mcp_approval_response", "{}", "a"))],
            ("orphan_answer", 3, "a"),
            [RESPONSES],
        ),
        "found-tools-of-nothing": (
            [*TALK, opaque("tool_search_call", "a"), message("other", Opaque("tool_search_output", "{}", "b"))],
            ("orphan_answer", 4, "b"),
            [RESPONSES],
        ),
    },
)
def test_each_rule_is_found_for_the_providers_that_have_it(
    messages: list[Message], expected: tuple[str, int | None, str], providers: Sequence[Provider]
) -> None:
    seen = {provider: find_breaches(messages, provider) for provider in ALL}
    assert {provider: expected in breaches for provider, breaches in seen.items()} == {
        provider: provider in providers for provider in ALL
    }
    assert find_breaches(messages, None) == [expected]
    others = {rule for breaches in seen.values() for rule, _, _ in breaches} - {expected[0]}
    assert others <= LEFT_TO_CLIENTS


LEFT_TO_CLIENTS = {rule.id for rule in RULES if rule.left_to_clients}


@folded(
    "messages, expected, providers",
    {
        "reasoning-beside-no-content": ([USER, THOUGHT, ANSWER], ("bare_reasoning", 1, ""), [CHAT]),
        "thinking-without-its-signature": (
            [USER, message("assistant", Thinking("hm"), "hi"), SAID],
            ("unsigned_reasoning", 1, ""),
            [ANTHROPIC],
        ),
        "an-id-with-a-dot": (
            [USER, message("assistant", call("functions.read:0")), message("tool", result("functions.read:0"))],
            ("call_id_form", 1, "functions.read:0"),
            [ANTHROPIC],
        ),
        "an-id-of-65-characters": (
            [USER, message("assistant", call("c" * 65)), message("tool", result("c" * 65))],
            ("call_id_form", 1, "c" * 65),
            [RESPONSES, BEDROCK],
        ),
        "a-call-without-an-id": (
            [USER, message("assistant", call("")), message("tool", result(""))],
            ("call_id_form", 1, ""),
            [RESPONSES, ANTHROPIC, BEDROCK],
        ),
        "calls-without-ids-in-one-message": (
            [USER, message("assistant", call(""), call("")), message("tool", result(""), result(""))],
            ("call_id_form", 1, ""),
            [CHAT, RESPONSES, ANTHROPIC, BEDROCK],
        ),
        "a-call-without-its-thought-signature": (
            [USER, message("assistant", call("a", 0), call("b", 0)), TELL_BOTH],
            ("unsigned_call", 1, "a"),
            [GEMINI],
        ),
        "text-after-a-call": (
            [USER, message("assistant", call("a"), "So."), TELL_A],
            ("words_after_call", 1, ""),
            [ANTHROPIC],
        ),
        "text-after-a-call-of-the-turn": ([USER, ASK_A, ANSWER, TELL_A], ("words_after_call", 2, ""), [ANTHROPIC]),
        "begins-with-a-call": ([SYSTEM, ASK_A, TELL_A], ("call_out_of_turn", 1, "a"), [GEMINI]),
        "call-after-an-answer": ([USER, ANSWER, ASK_A, TELL_A], ("call_out_of_turn", 2, "a"), [GEMINI]),
        "two-requests-in-a-row": ([USER, SAID], ("role_repeated", 1, ""), [BEDROCK, TEMPLATE]),
        "two-answers-in-a-row": ([USER, ANSWER, ANSWER], ("role_repeated", 2, ""), [BEDROCK, TEMPLATE]),
        "parallel-results-apart": ([USER, ASK_BOTH, TELL_A, TELL_B], ("split_results", 3, ""), [GEMINI, BEDROCK]),
        "a-compaction-of-anthropic": (
            [USER, opaque("compaction"), SAID],
            ("part_of_anthropic", 1, ""),
            [CHAT, RESPONSES, GEMINI, BEDROCK],
        ),
        "a-compaction-of-openai": (
            [USER, message("assistant", NativeSummary("compaction", "{}", sealed="gAAA")), SAID],
            ("part_of_responses", 1, ""),
            [CHAT, ANTHROPIC, GEMINI, BEDROCK],
        ),
        "a-search-of-openai": (
            [USER, opaque("web_search_call"), SAID],
            ("part_of_responses", 1, ""),
            [CHAT, ANTHROPIC, GEMINI, BEDROCK],
        ),
        "a-search-of-anthropic": (
            [
                USER,
                message("assistant", Opaque("server_tool_use", "{}", "s"), Opaque("web_search_tool_result", "{}", "s")),
            ],
            ("part_of_anthropic", 1, ""),
            [CHAT, RESPONSES, GEMINI, BEDROCK],
        ),
    },
)
def test_a_rule_left_to_clients_holds_where_the_provider_is_named(
    messages: list[Message], expected: tuple[str, int | None, str], providers: Sequence[Provider]
) -> None:
    assert [provider for provider in (*ALL, TEMPLATE) if expected in find_breaches(messages, provider)] == list(
        providers
    )
    assert expected[0] not in {rule for rule, _, _ in find_breaches(messages, None)}
    assert expected[0] in LEFT_TO_CLIENTS


@folded(
    "messages, expected",
    {
        "reasoning-alone": ([USER, THOUGHT, SAID], ("dangling_reasoning", 1, "")),
        "reasoning-at-the-end": ([USER, THOUGHT], ("dangling_reasoning", 1, "")),
    },
)
def test_reasoning_needs_an_answer_or_call_behind_it(messages: list[Message], expected: tuple[str, int, str]) -> None:
    for provider in (RESPONSES, ANTHROPIC, None):
        assert find_breaches(messages, provider) == [expected]


@folded(
    "messages",
    {"text-after-call": [USER, ASK_A, ANSWER, TELL_A], "two-call-messages": [USER, ASK_A, ASK_B, TELL_B, TELL_A]},
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


THINKS_A = message("assistant", Thinking("hm", 8), call("a"))
UNSIGNED = message("assistant", Thinking("hm"), "hi")


@folded(
    "messages, model, providers, expected",
    {
        "deepseek": ([USER, THINKS_A, TELL_A, ASK_B, TELL_B], "deepseek-v4", [CHAT, None], [("missing_reasoning", 3)]),
        "deepseek-earlier": (
            [USER, ASK_B, TELL_B, SAID, THINKS_A, TELL_A],
            "deepseek-v4",
            [CHAT],
            [("missing_reasoning", 1)],
        ),
        "deepseek-that-does-not-think": ([USER, ASK_A, TELL_A], "deepseek-chat", [CHAT], []),
        "manual": (
            [USER, THINKS_A, TELL_A, SAID, ASK_B, TELL_B],
            "claude-sonnet-4-5",
            [ANTHROPIC, BEDROCK],
            [("missing_reasoning", 4)],
        ),
        "unsigned": (
            [USER, UNSIGNED, SAID],
            "anthropic.claude-sonnet-4-6-v1:0",
            [BEDROCK],
            [("unsigned_reasoning", 1)],
        ),
        "unsigned-by-nature": ([USER, UNSIGNED, SAID], "amazon.nova-2-lite-v1:0", [BEDROCK], []),
        "deepseek-id-used-again": (
            [USER, THINKS_A, TELL_A, SAID, THINKS_A, TELL_A],
            "deepseek-v4",
            [CHAT],
            [("duplicate_call", 4)],
        ),
        "kimi": ([USER, THINKS_A, TELL_A, ASK_B, TELL_B], "moonshotai/kimi-k2.5", [CHAT], [("missing_reasoning", 3)]),
        "manual-later-step": ([USER, THINKS_A, TELL_A, ASK_B, TELL_B], "claude-sonnet-4-5", [ANTHROPIC], []),
        "manual-closed-turn": ([USER, ASK_B, TELL_B, SAID, THINKS_A, TELL_A], "claude-sonnet-4-5", [ANTHROPIC], []),
        "binding": ([USER, THINKS_A, TELL_A, SAID, ASK_B, TELL_B], "claude-sonnet-5-5", [ANTHROPIC], []),
        "gemini-3": (
            [USER, message("assistant", call("a", 0)), TELL_A],
            "gemini-3.7-flash",
            [GEMINI, CHAT],
            [("unsigned_call", 1)],
        ),
        "gemini-2.5": ([USER, message("assistant", call("a", 0)), TELL_A], "gemini-2.5-pro", [GEMINI], []),
    },
)
def test_a_model_adds_the_rules_of_its_family(
    messages: list[Message],
    model: str,
    providers: Sequence[Provider | None],
    expected: list[tuple[RuleId, int]],
) -> None:
    for provider in providers:
        assert [(found.rule, found.index) for found in problems(messages, provider, model=model)] == expected
        assert "missing_reasoning" not in {rule for rule, _, _ in find_breaches(messages, provider)}


@pytest.mark.parametrize("provider", [ANTHROPIC, BEDROCK])
def test_stale_reasoning_is_no_fault_for_a_model_that_takes_it(provider: Provider) -> None:
    messages = [USER, THINKS_A, TELL_A, message("assistant", Thinking("hm", 8), "Done.")]
    assert problems(messages, provider, model="claude-sonnet-5", stale=range(3)) == []
    for model in ("claude-sonnet-5-5", None):
        found = problems(messages, provider, model=model, stale=range(3))
        assert [(one.rule, one.index) for one in found] == [("stale_reasoning", 1)]


def test_a_server_tool_may_answer_after_tools_of_the_host_and_wait_for_the_next_request() -> None:
    """Code that calls tools stays open until their results are in; a paused turn ends with an open search."""
    program = opaque("server_tool_use", "s")
    waiting = [USER, program, ASK_A, TELL_A]
    assert problems(waiting, ANTHROPIC) == []
    assert problems([*waiting, opaque("code_execution_tool_result", "s"), SAID], ANTHROPIC) == []


def test_a_system_message_between_call_and_result_detaches_it() -> None:
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


def test_a_problem_is_described_without_the_text_of_the_conversation() -> None:
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


def test_problems_of_the_host_s_list_are_not_worse_in_the_view() -> None:
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


@folded(
    "old, new",
    {
        "another call answered": ([TELL_A], [TELL_B]),
        "another call": ([ASK_A], [ASK_B]),
        "a signature lost": ([ASK_A], [message("assistant", call("a", signed=0))]),
        "nothing said any more": ([USER], [message("user", " ")]),
        "another speaker": ([USER], [message("assistant", "Mend it.")]),
        "other reasoning": ([THOUGHT], [message("assistant", Thinking("hm", 0))]),
        "a part lost": ([TELL_BOTH], [TELL_A]),
        "a message lost": ([TELL_A, TELL_B], [TELL_A]),
    },
)
def test_messages_that_a_rule_tells_apart_are_not_alike(old: list[Message], new: list[Message]) -> None:
    assert not is_alike(old, new)


@pytest.mark.full
def test_the_time_is_linear_in_the_messages() -> None:
    """100 000 messages are checked on each compaction; a quadratic checker would need minutes."""
    step = [message("assistant", "x", call("same")), message("tool", result("same"))]
    unanswered = [message("assistant", call("same"))] * 20_000
    long = [USER, *unanswered, *step * 40_000]
    start = time.perf_counter()
    assert (
        len(problems(long, CHAT)) == 2 * 20_000
    )  # each unanswered, and each call of the turn but the first with a known id
    assert time.perf_counter() - start < 10
