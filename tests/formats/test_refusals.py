"""Results of refused calls with words that they give as the user's: never the user's in a summary, whoever writes it."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from compaction_hooks import CompactionController, CompactionSettings, SummaryRequest
from tests.cases import crossed
from tests.conversations import assistant, call, prose, tool
from tests.injection_attacks import CANARY, Attack, an_attack, labels_seen, tags_seen

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
WORDS = "Never push {} to main. Rebase first!"

Turns = list[dict[str, Any]]


def anthropic(id: str, result: str, *, is_refused: bool) -> Turns:
    block = {"type": "tool_result", "tool_use_id": id, "content": result, **({"is_error": True} if is_refused else {})}
    use = {"type": "tool_use", "id": id, "name": "push", "input": {}}
    return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [block]}]


def bedrock(id: str, result: str, *, is_refused: bool) -> Turns:
    block = {"toolUseId": id, "content": [{"text": result}], "status": "error" if is_refused else "success"}
    use = {"toolUse": {"toolUseId": id, "name": "push", "input": {}}}
    return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [{"toolResult": block}]}]


def gemini(id: str, result: str, *, is_refused: bool) -> Turns:
    response = {"functionResponse": {"name": "push", "response": {"error" if is_refused else "output": result}}}
    return [
        {"role": "model", "parts": [{"functionCall": {"name": "push", "args": {}}}]},
        {"role": "user", "parts": [response]},
    ]


def responses(id: str, result: str, *, is_refused: bool) -> Turns:
    mark = {} if is_refused else {"is_error": False}
    return [
        {"type": "function_call", "call_id": id, "name": "push", "arguments": "{}"},
        {"type": "function_call_output", "call_id": id, "output": result, **mark},
    ]


def chat(id: str, result: str, *, is_refused: bool) -> Turns:
    return [dict(assistant(None, call(id, "push"))), dict(tool(id, result))]


Dialect = Callable[..., Turns]


def words(dialect: Dialect, role: str, text: str) -> dict[str, Any]:
    if dialect is gemini:
        return {"role": role.replace("assistant", "model"), "parts": [{"text": text}]}
    return {"role": role, "content": [{"text": text}] if dialect is bedrock else text}


def summaries(dialect: Dialect, turns: Turns, summarizer: Any, host: str) -> Iterator[str]:
    """Yield the summaries of compactions in a row, with two messages more before each.

    Args:
        host: Whether it "keeps" its list, "stores" the views, or "hands on" each to another session, behind other messages.
    """
    hooks = CompactionController(context_window=64_000, summarizer=summarizer)
    session = hooks.session("s")
    messages = [words(dialect, "user", "Publish the branch."), *turns]
    for number in range(10):
        messages += words(dialect, "assistant", prose(400)), words(dialect, "user", f"Well, {number}?")
        result = session.compact_sync(messages, keep_recent_tokens=0)
        assert result.record is not None
        yield result.record.summary
        if host != "keeps":
            messages = [*result.messages]
        if host == "hands on":
            session = hooks.session(f"s{number}")
            messages = [words(dialect, "user", "Hello?"), words(dialect, "assistant", "Yes?"), *messages]


def parts_of(summary: str) -> tuple[str, str]:
    """Return what a summary has under Goal and Constraints, and all other lines."""
    parts = {True: "", False: ""}
    is_users = False
    for line in summary.split("\n"):
        is_users = line.startswith(("## Goal", "## Constraints")) if line.startswith("#") else is_users
        parts[is_users] += f"{line}\n"
    return parts[True], parts[False]


def copying(request: SummaryRequest) -> str:
    """Return a summary with all that a model was shown under the user's headings, next to the earlier summary."""
    seen = [said for number in range(len(REFUSALS)) if (said := WORDS.format(number)) in request.prompt]
    lines = [f"- The user said: {said}\n* {said}" for said in seen]
    return "\n".join(["## Goal", "- Publish.", *lines, "## Constraints", *lines, request.previous_summary or ""])


def forgetting(request: SummaryRequest) -> str:
    """Return a summary that keeps nothing."""
    return request.prompt and "## Goal\n- Publish.\n- And more."


@crossed(
    dialect=[anthropic, bedrock, gemini, responses, chat],
    host=["keeps", "stores", "hands on"],
    summarizer=[None, forgetting],
    is_refused=[True, False],
)
def test_words_of_a_refusal_are_its_results(dialect: Dialect, summarizer: Any, host: str, is_refused: bool) -> None:
    said = [WORDS.format(number) for number in range(len(REFUSALS))]
    refused = zip(REFUSALS.values(), said, strict=True)
    turns = [dialect(f"c{at}", text % words_, is_refused=is_refused) for at, (text, words_) in enumerate(refused)]
    made = summaries(dialect, [turn for step in turns for turn in step], summarizer, host)
    users, others = zip(*map(parts_of, islice(made, 4)), strict=True)
    assert "Publish" in users[0]
    assert not any(word in text for text in users for word in ("main", "Rebase", "push")), users
    assert [words for words in said if f"push() -> FAILED: its result says: {words}" not in others[0]] == []


def test_words_that_the_user_says_too_are_the_users() -> None:
    said = "Never push to main."
    turns = [words(chat, "user", said), *chat("c", REFUSALS["OpenCode"] % said, is_refused=True)]
    for summarizer in (None, copying, forgetting):
        for summary in islice(summaries(chat, turns, summarizer, "stores"), 4):
            assert said in parts_of(summary)[0], summarizer


@an_attack
def test_disguises_in_a_refusal_stay_data(attack: Attack) -> None:
    turns = chat("c", REFUSALS["Claude Code"] % attack.text, is_refused=True)
    refused = next(summaries(chat, turns, None, "keeps"))
    assert (CANARY in parts_of(refused)[0], tags_seen(refused), labels_seen(refused)) == (False, [], [])


def test_a_result_that_is_nested_without_end_is_read() -> None:
    text = REFUSALS["Roo Code, as JSON"].partition('"%s"')[0] + "[" * 100_000
    assert "push()" in next(summaries(chat, chat("c", text, is_refused=True), None, "keeps"))


def test_a_refused_plan_is_told_though_plans_are_no_steps() -> None:
    turns = [
        dict(assistant(None, call("c", "exit_plan_mode"))),
        dict(tool("c", REFUSALS["Gemini CLI, a plan"] % "No!")),
    ]
    lines = next(summaries(chat, turns, None, "keeps")).splitlines()
    assert any(line.endswith("exit_plan_mode() -> FAILED: its result says: No!") for line in lines)


def test_many_refusals_leave_the_users_words_their_room() -> None:
    refused = [chat(f"c{n}", REFUSALS["OpenCode"] % f"{n} {prose(150)}", is_refused=True) for n in range(60)]
    rule = "Always run the linter before you commit."
    work = [(call(f"m{n}", "bash", command=f"make part{n}"), tool(f"m{n}", "ok")) for n in range(20)]
    messages = [
        *(words(chat, "user", text) for text in ("Publish the branch.", rule)),
        *(dict(message) for made, result in work for message in (assistant(None, made), result)),
        *(message for turn in refused for message in turn),
        *(
            words(chat, role, text)
            for role, text in (("user", "Now another."), ("assistant", "Yes."), ("user", "Well?"))
        ),
    ]
    hooks = CompactionController[Any](context_window=32_000, settings=CompactionSettings(keep_user_tokens=0))
    result = hooks.compact_sync(messages, keep_recent_tokens=0)
    assert result.record is not None
    said, told = parts_of(result.record.summary)
    assert [text for text in ("Publish the branch.", rule, "Now another.") if text not in said] == []
    assert "its result says: 59" in told
