"""Summaries by models: the help that the prompt gives, and the facts that a summary gets back."""

from typing import Any

import pytest

from compaction_hooks import CompactionController, CompactionSettings, SummaryRequest
from compaction_hooks.tokens import CharacterEstimator
from tests.conversations import Chat, Scripted, assistant, call, controller, prose, steps, talk, tool, user

RULE = "Never touch the public API."
HEADED = (
    "## Goal\n- port it\n## Progress\n### Done\n- [x] all\n### In Progress\n(none)\n### Blocked\n{}\n"
    "## Key Decisions\n(none)\n## Next Steps\n1. go on"
)
"""A summary with all our headings."""


def ran(id: str, command: str, result: str) -> list[Chat]:
    return [assistant(None, call(id, "bash", command=command)), tool(id, result)]


def compacted(messages: list[Chat], answer: str, keep: int = 200, **arguments: Any) -> tuple[str, list[SummaryRequest]]:
    """Return the summary that the view has, and the requests; the model reads the prompt."""
    asked: list[SummaryRequest] = []

    def model(request: SummaryRequest) -> str:
        asked.append(request)
        return answer if request.prompt else ""

    hooks = CompactionController(context_window=64_000, summarizer=model, **arguments)
    record = hooks.compact_sync(messages, keep_recent_tokens=keep).record
    assert record is not None
    return record.summary, asked


def kept_of(prompt: str) -> str:
    return prompt.partition("<kept-messages>\n")[2].partition("\n</kept-messages>\n")[0]


# -- the prompt


def test_the_prompt_begins_with_the_kept_messages() -> None:
    messages = [*talk(4), user("Now port it."), *steps(10, 200), assistant("The newest word.")]
    _, asked = compacted(messages, HEADED, keep=500)
    (request,) = asked
    assert request.prompt.startswith("<kept-messages>\n")
    assert "The newest word." in kept_of(request.prompt)
    assert "module_9.py" not in request.transcript


@pytest.mark.parametrize("window", [4_000, 16_000, 64_000])
def test_kept_messages_take_an_eighth_of_the_prompt_at_most_and_never_its_room(window: int) -> None:
    size = CharacterEstimator().estimate_tokens
    messages = [user("go"), *steps(60, 300), assistant("The newest word.")]
    settings = CompactionSettings(summarizer_window=window)
    _, asked = compacted(messages, HEADED, keep=12_000, settings=settings)
    for request in asked:
        assert size(kept_of(request.prompt)) <= min(2_000, window // 8)
        assert "The newest word." in kept_of(request.prompt)
        assert (
            size(request.system) + size(request.prompt) + request.max_tokens <= window + 2
        )  # sizes of parts are rounded


def test_kept_messages_give_way_before_a_second_request_is_paid_for() -> None:
    size = CharacterEstimator().estimate_tokens
    messages = [*talk(60), user("well?"), assistant("The newest word.")]
    _, [whole] = compacted(messages, HEADED, keep=1_000)
    needed = size(whole.system) + size(whole.prompt) - size(kept_of(whole.prompt)) + whole.max_tokens
    _, [alone] = compacted(messages, HEADED, keep=1_000, settings=CompactionSettings(summarizer_window=needed))
    assert kept_of(whole.prompt)
    assert not kept_of(alone.prompt)
    assert alone.transcript == whole.transcript


def test_a_model_whose_window_overflows_is_no_longer_shown_kept_messages() -> None:
    too_long = ValueError("This model's maximum context length is 20 tokens, however you requested 5000 tokens")
    asked = Scripted(too_long, HEADED)
    controller(64_000, summarizer=asked).compact_sync([*talk(8), user("well?")], keep_recent_tokens=500)
    assert [bool(kept_of(request.prompt)) for request in asked.requests][:2] == [True, False]


def test_a_prompt_names_facts_within_the_room_of_the_summary() -> None:
    said = [user(f"You must never touch module number {n}, which {prose(20)}.") for n in range(80)]
    messages = [*(one for each in said for one in (each, assistant("Yes."))), user("go"), *steps(10, 100)]
    _, (asked, *_) = compacted(messages, HEADED)
    facts = asked.prompt.partition("<facts>\n")[2].partition("\n</facts>")[0]
    assert "number 79," in facts
    assert "number 0," not in facts
    assert CharacterEstimator().estimate_tokens(facts) <= asked.max_tokens / 2


def test_without_facts_the_prompt_is_silent_about_them() -> None:
    _, (asked, *_) = compacted([*talk(8)], HEADED)
    assert "facts>" not in asked.prompt


FAILED = ran("a", "npm test", "Exit code 1\n3 failed: parser.test.ts")

# -- headings

TODO = [
    assistant(None, call("t", "todo_write", todos=[{"content": "Write the report", "status": "pending"}])),
    tool("t", "ok"),
]
WORK = [user("Port the parser."), *TODO, *FAILED, *steps(6, 150), assistant("Read."), user("well?")]


def test_headings_that_our_prompt_asked_for_are_filled_and_never_refused() -> None:
    summary, _ = compacted(WORK, "## Key Decisions\n- **Keep the lexer**: it is fast", keep=1)
    assert summary.startswith("## Key Decisions\n- **Keep the lexer**: it is fast\n")
    for line in ("## Requests\n- Port the parser.", "- [ ] Write the report", "bash(npm test) -> FAILED: 3 failed"):
        assert line in summary
    assert summary.count("## Key Decisions") == summary.count("## Progress") == 1


def test_a_heading_over_nothing_counts_as_an_answer() -> None:
    summary, _ = compacted(WORK, HEADED.format("(none)"), keep=1)
    assert "Write the report" not in summary


def test_tags_of_another_system_are_headings() -> None:
    answer = "<overall_goal>\nPort the lexer.\n</overall_goal>\n<key_knowledge>\n- it is slow\n</key_knowledge>"
    summary, _ = compacted([user("Port it."), *steps(12, 200)], answer)
    assert summary.startswith(f"{answer}\n\n## Progress\n")


def test_a_prompt_of_your_own_and_a_function_of_your_own_keep_their_form() -> None:
    settings = CompactionSettings(summary_prompt="One sentence, in French.", identifier_tokens=0)
    summary, (asked, *_) = compacted(WORK, "Le portage continue.", keep=1, settings=settings)
    assert summary == "Le portage continue."
    assert "<facts>\n" in asked.prompt  # the facts help in any form
    hooks = CompactionController(
        context_window=64_000,
        settings=CompactionSettings(identifier_tokens=0),
        summarizer=lambda request: f"{len(request.messages)} messages, {len(request.transcript) > 0}",
    )
    record = hooks.compact_sync(WORK, keep_recent_tokens=200).record
    assert record is not None
    assert record.summary.endswith(" messages, True")


def test_terminal_codes_and_control_characters_of_an_answer_are_left_out() -> None:
    summary, _ = compacted(WORK, "## Goal\n- p\x00ort \x1b[31mit\x1b[0m now")
    assert "## Goal\n- port it now\n" in summary


# -- what piles up


def test_paraphrases_of_constraints_do_not_pile_up() -> None:
    """A model words them anew each time; only the user's own words are put back."""
    answers = [f"## Constraints & Preferences\n- Wording number {n} of the rule, which must be kept" for n in range(5)]
    hooks = controller(64_000, summarizer=Scripted(*answers))
    messages: list[Chat] = [user("go"), user(RULE), assistant("Yes.")]
    summary = ""
    for n in range(5):
        messages = [*messages, *steps(6, 150, first=10 * n), user("Go on.")]
        record = hooks.compact_sync(messages, keep_recent_tokens=200).record
        assert record is not None
        summary = record.summary
    assert (summary.count("Wording number"), summary.count(RULE)) == (1, 1)


def test_a_constraint_over_two_lines_of_a_summary_is_not_said_twice() -> None:
    messages = [user("go"), user(RULE), assistant("Yes."), *steps(6, 150), user("well?")]
    summary, _ = compacted(
        messages,
        HEADED.format("(none)") + "\n- Never touch\n  the public API.",
        settings=CompactionSettings(identifier_tokens=0),
    )
    assert RULE not in summary


def test_repairs_never_exceed_the_target() -> None:
    target, added = CompactionSettings().budget(8_192).target, set[bool]()
    for tokens in range(2_200, 3_600, 50):
        messages = [{"role": "system", "content": prose(tokens)}, *WORK[:-2], user("well?")]
        hooks = controller(8_192, summarizer=Scripted("## Goal\n- npm test failed"))
        hooks_record = hooks.compact_sync(messages, keep_recent_tokens=100).record
        assert hooks_record is not None
        is_added = "Write the report" in hooks_record.summary
        added.add(is_added)
        assert hooks_record.tokens_after <= target or not is_added
    assert added == {True, False}
