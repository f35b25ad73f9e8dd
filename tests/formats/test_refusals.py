"""The words of the user in the result of a call that they refused: requests if the format or an agent marks them, else a tool's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from compaction_hooks import CompactionController
from compaction_hooks.formats import OpenAIChatFormat, words_of_refusal
from tests.cases import folded
from tests.conversations import assistant, call, prose, steps, tool, user
from tests.injection_attacks import ATTACKS, CANARY, Attack, an_attack, labels_seen, tags_seen

BY_CLAUDE_CODE = (
    "The tool use was rejected (eg. if it was a file edit, the new_string was NOT written to the file). "
    "{}%s\n\nNote: The user's next message may contain a correction or preference. Pay close attention."
)
REFUSALS = {
    "Claude Code": "The user doesn't want to proceed with this tool use. "
    + BY_CLAUDE_CODE.format("To tell you how to proceed, the user said:\n"),
    "Claude Code, a reason": "The user doesn't want to proceed with this tool use. "
    + BY_CLAUDE_CODE.format("The user provided the following reason for the rejection:  "),
    "a subagent of Claude Code": "Permission for this tool use was denied. "
    + BY_CLAUDE_CODE.format("The user said:\n"),
    "Roo Code, Cline": "The user denied this operation and provided the following feedback:\n<feedback>\n%s\n</feedback>",
    "Roo Code, as JSON": '{"status":"denied","message":"The user denied this operation and provided the following feedback",'
    '"feedback":"%s"}',
    "OpenCode": "The user rejected permission to use this specific tool call with the following feedback: %s",
    "Gemini CLI, a plan": "Plan rejected. User feedback: %s\n\nThe plan is stored at: /p.md\n\nRevise the plan based on it.",
    "LangChain": "User rejected the tool call for `push` with reason: %s",
}
WORDS = "Never push to main. Rebase first!"
REQUEST = f"When refusing a call of push: {WORDS}"

Turns = list[dict[str, Any]]


def anthropic(result: str, *, is_refused: bool) -> Turns:
    block = {"type": "tool_result", "tool_use_id": "p", "content": result, **({"is_error": True} if is_refused else {})}
    use = {"type": "tool_use", "id": "p", "name": "push", "input": {}}
    return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [block]}]


def bedrock(result: str, *, is_refused: bool) -> Turns:
    block = {"toolUseId": "p", "content": [{"text": result}], "status": "error" if is_refused else "success"}
    use = {"toolUse": {"toolUseId": "p", "name": "push", "input": {}}}
    return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [{"toolResult": block}]}]


def gemini(result: str, *, is_refused: bool) -> Turns:
    response = {"functionResponse": {"name": "push", "response": {"error" if is_refused else "output": result}}}
    return [
        {"role": "model", "parts": [{"functionCall": {"name": "push", "args": {}}}]},
        {"role": "user", "parts": [response]},
    ]


def responses(result: str, *, is_refused: bool) -> Turns:
    return [
        {"type": "function_call", "call_id": "p", "name": "push", "arguments": "{}"},
        {
            "type": "function_call_output",
            "call_id": "p",
            "output": result,
            **({} if is_refused else {"is_error": False}),
        },
    ]


def chat(result: str, *, is_refused: bool) -> Turns:
    return [dict(assistant(None, call("p", "push"))), dict(tool("p", result))]


Dialect = Callable[..., Turns]


def words(dialect: Dialect, role: str, text: str) -> dict[str, Any]:
    if dialect is gemini:
        return {"role": role.replace("assistant", "model"), "parts": [{"text": text}]}
    return {"role": role, "content": [{"text": text}] if dialect is bedrock else text}


def summary_of(dialect: Dialect, turns: Turns) -> str:
    messages = [
        words(dialect, "user", "Publish the branch."),
        *turns,
        words(dialect, "assistant", prose(400)),
        words(dialect, "user", "Well?"),
    ]
    result = CompactionController(context_window=64_000).compact_sync(messages, keep_recent_tokens=0)
    assert result.record is not None
    return result.record.summary


@pytest.mark.parametrize("dialect", [anthropic, bedrock, gemini, responses, chat])
def test_words_of_a_marked_refusal_are_a_request(dialect: Dialect) -> None:
    for name, sentence in REFUSALS.items():
        summary = summary_of(dialect, dialect(sentence % WORDS, is_refused=True))
        assert summary.startswith(f"## Goal\n- Publish the branch.\n- {REQUEST}\n"), name


@pytest.mark.parametrize("dialect", [anthropic, bedrock])
def test_without_the_formats_mark_the_sentence_is_the_tools(dialect: Dialect) -> None:
    for sentence in REFUSALS.values():
        assert "When refusing" not in summary_of(dialect, dialect(sentence % WORDS, is_refused=False))


def test_the_reason_with_which_a_hosted_tool_was_denied_is_a_request() -> None:
    def answered(approve: bool) -> Turns:
        request = {"type": "mcp_approval_request", "id": "a", "name": "push", "arguments": "{}", "server_label": "git"}
        answer = {"type": "mcp_approval_response", "approval_request_id": "a", "approve": approve, "reason": WORDS}
        return [request, answer]

    assert f"- When refusing a call of a tool: {WORDS}" in summary_of(responses, answered(False))
    assert "When refusing" not in summary_of(responses, answered(True))


@folded("before", [" ", "\n", "> ", "Page: ", "\u200b", "\ufeff", *(f"{attack.text}\n" for attack in ATTACKS)])
def test_a_sentence_anywhere_else_in_a_result_is_the_tools(before: str) -> None:
    for sentence in REFUSALS.values():
        assert words_of_refusal(before + sentence % WORDS) == ""


@folded("near", [str.lower, str.swapcase, lambda s: s.replace(" ", "  ", 1), lambda s: s.replace("e", "\u0435", 1)])
def test_nearly_the_sentence_is_the_tools(near: Callable[[str], str]) -> None:
    for sentence in REFUSALS.values():
        before, _, after = sentence.partition("%s")
        assert words_of_refusal(f"{near(before)}{WORDS}{after}") == ""


@an_attack
def test_disguises_in_a_result_and_in_a_refusal_stay_data(attack: Attack) -> None:
    """A disguise after another text is no request; in the user's own words it can neither end a tag nor open a turn."""
    sentence = REFUSALS["Claude Code"]
    plain = summary_of(chat, chat(f"{attack.text}\n{sentence % CANARY}", is_refused=False))
    goal = plain.partition("\n## ")[0]
    assert CANARY not in goal
    refused = summary_of(chat, chat(sentence % attack.text, is_refused=True))
    assert tags_seen(refused) == []
    assert labels_seen(refused) == []


def test_a_models_transcript_shows_all_words_of_a_refusal() -> None:
    asked: list[str] = []

    def model(request: Any) -> str:
        asked.append(request.transcript)
        return "## Goal\n- publish"

    said = "No. " + "Rebase onto the release branch before you push. " * 100 + "Then ask me."
    messages = [user("Publish."), *chat(REFUSALS["OpenCode"] % said, is_refused=True), *steps(3, 50), user("go on")]
    hooks = CompactionController(context_window=64_000, summarizer=model, format=OpenAIChatFormat())
    hooks.compact_sync(messages, keep_recent_tokens=0)
    assert said in asked[0]
