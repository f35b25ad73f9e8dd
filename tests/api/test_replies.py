"""The user's short replies are facts: a question of the assistant is in a summary with its answer or not at all."""

import pytest

from compaction_hooks import CompactionController, CompactionSettings
from compaction_hooks.formats import OpenAIResponsesFormat
from compaction_hooks.recall import loss_of
from tests.cases import folded
from tests.conversations import Chat, Scripted, assistant, call, controller, prose, steps, talk, tool, user

HEADING = "### Answered by the user (questions in the assistant's words)"
DONE = "W1 to W3 are done."
REPLIES = {
    "May I start W4?": ("No, leave W4 out.", "W4 is left out: the user refused it."),
    "Shall I delete the old tables?": ("yes", "The user agreed to delete the old tables."),
    "Which variant do you want, the first or the second?": ("the second", "The user wants the second variant."),
    "Should I merge the branch now?": ("No.", "The user does not want a merge of the branch."),
    "Do you want me to keep the legacy adapter?": ("Drop it.", "The legacy adapter is dropped."),
    "Which port should the server use?": ("8042", "The server gets port 8042."),
    "Darf ich mit W4 anfangen?": ("Nein, lass W4 weg.", "W4 entfällt, so der Benutzer."),
    "我可以开始做 W4 吗？": ("不，先不要做 W4。", "用户决定先不做 W4。"),
}
CASES = {question: (question, *said) for question, said in REPLIES.items()}
FORMS = {
    "choices before": (
        ["I see two ways:\n\n1. Rewrite the lexer.\n2. Patch the parser.\n\nWhich one do you prefer?"],
        "2",
        "I see two ways: 1. Rewrite the lexer. 2. Patch the parser. Which one do you prefer?",
    ),
    "choices before, on its line": (
        ["1. Rewrite the lexer. 2. Patch the parser. Which one do you prefer?"],
        "2",
        "1. Rewrite the lexer. 2. Patch the parser. Which one do you prefer?",
    ),
    "choices with letters": (
        ["Should we:\nA) drop the column\nB) keep the column\nC) ask the DBA?"],
        "B",
        "Should we: A) drop the column B) keep the column C) ask the DBA?",
    ),
    "choices behind": (
        ["Which one?\n\n1. Rewrite the lexer.\n2. Patch the parser."],
        "the second",
        "Which one? 1. Rewrite the lexer. 2. Patch the parser.",
    ),
    "a list that is no choice": (["I did:\n- the lexer\n- the parser\n\nShall I go on?"], "yes", "Shall I go on?"),
    "several": (
        ["1. Should I keep Python 3.8? 2. May I delete the legacy folder? 3. Which database do you use?"],
        "1. no 2. yes 3. Postgres",
        "1. Should I keep Python 3.8? 2. May I delete the legacy folder? 3. Which database do you use?",
    ),
    "several and a statement": (
        [f"{DONE} Should I keep Python 3.8? It costs us much. And which database do you use?"],
        "no, and Postgres",
        "Should I keep Python 3.8? It costs us much. And which database do you use?",
    ),
    "Japanese": (
        ["旧テーブルを削除してもよろしいでしょうか。"],
        "いいえ",
        "旧テーブルを削除してもよろしいでしょうか。",
    ),
    "Chinese": (["要删除旧表吗。"], "不", "要删除旧表吗。"),
    "Chinese, a choice": (["哪个方案更好呢。"], "第二个", "哪个方案更好呢。"),
    "call for a word": ([f"{DONE} Please confirm that I may delete the legacy folder."], "no", None),
    "call for a name": (["Let me know which port to use."], "8042", None),
    "no sign": (["Shall I delete the legacy folder"], "no", None),
    "go ahead": (["Shall I delete the backups?"], "go ahead", None),
    "continue": (["Shall I delete the backups?"], "Continue.", None),
    "weiter": (["Soll ich die alten Tabellen löschen?"], "weiter", None),
    "继续": (["要删除备份吗？"], "继续", None),
    "an empty message behind": (["Shall I delete the backups?", ""], "no", None),
    "a second message behind": (
        ["Shall I delete the backups?", "(waiting)"],
        "no",
        "Shall I delete the backups? (waiting)",
    ),
}
PLANS = {
    "next step": ("no", "## Next Steps\n1. Delete the old tables"),
    "next step with a word of the answer": ("no", "## Next Steps\n1. Delete the old tables, not the new ones"),
    "open box": ("yes", "### In Progress\n- [ ] Delete the old tables: agreed"),
    "matter alone": ("no", "## Key Decisions\n- Delete the old tables now"),
    "done": ("no", "## Key Decisions\n- The old tables are deleted"),
    "the contrary": ("yes", "## Key Decisions\n- The user does not want to delete the old tables"),
    "still open": ("no", "## Key Decisions\n- Not decided whether to delete the old tables"),
    "half of the answer": ("yes, but keep accounts", "## Key Decisions\n- The user agreed to delete the old tables"),
}
REST = "Now do the rest of the work packages, one after another, with a test for each of them."


def asked(question: str, answer: str) -> list[Chat]:
    return [user("Plan the work packages."), *steps(6), assistant(f"{DONE} {question}"), user(answer)]


def silent(count: int, first: int) -> list[Chat]:
    """Return several tool steps without a word of the assistant."""
    return [
        message
        for number in range(first, first + count)
        for message in (assistant(None, call(f"s{number}", path=f"src/{number}.py")), tool(f"s{number}", prose(300)))
    ]


def told(summary: str) -> list[str]:
    """Return the lines of a summary with replies; the questions are nowhere else."""
    under = summary.partition(f"{HEADING}\n")[2].split("\n#")[0]
    lines = [line.removeprefix("- ") for line in under.splitlines() if line]
    assert not any(question in summary.replace(under, "") for question in REPLIES)
    return lines


@pytest.mark.parametrize("behind", [14, 1], ids=["the question is covered with its reply", "the reply stays"])
@folded("question, answer, words", CASES)
def test_the_default_summary_has_a_reply_with_its_question_over_three_compactions(
    question: str, answer: str, words: str, behind: int
) -> None:
    session = controller(32_000).session("thread")
    messages = [*asked(question, answer), *silent(behind, first=20)]
    for number in range(3):
        record = session.compact_sync(messages, keep_recent_tokens=600).record
        assert record is not None
        assert record.covered_runs > 12
        if number or behind > 1:
            assert told(record.summary) == [f"{question} -> {answer}"]
            assert DONE in record.summary
        if number:  # in the first view the reply is shown, as the present request
            assert loss_of(messages, record)["answer"] == (1, 0, 0)
        messages += [user(f"{number}. {REST}"), *silent(14, first=50 + 20 * number)]


@pytest.mark.parametrize("behind", [14, 1], ids=["the question is covered with its reply", "the reply stays"])
@folded("question, answer, words", CASES)
def test_a_list_that_begins_with_the_earlier_summary_has_it_too(
    question: str, answer: str, words: str, behind: int
) -> None:
    session = controller(32_000).session("thread")
    stored = session.compact_sync([*asked(question, answer), *silent(behind, 20)], keep_recent_tokens=600).messages
    record = session.compact_sync([*stored, user(REST), *silent(14, 50)], keep_recent_tokens=600).record
    assert record is not None
    assert told(record.summary) == [f"{question} -> {answer}"]


@folded("said, answer, question", FORMS)
def test_questions_are_found_in_many_forms_and_choices_and_other_questions_go_with_them(
    said: list[str], answer: str, question: str | None
) -> None:
    session = controller(32_000).session("thread")
    messages = [user("Plan the work packages."), *steps(6), *map(assistant, said), user(answer), *steps(14, first=20)]
    line = f"{question or said[0].removeprefix(DONE).strip()} -> {answer}"
    for number in range(2):
        record = session.compact_sync(messages, keep_recent_tokens=600).record
        assert record is not None
        assert told(record.summary) == [line]
        if number:
            assert loss_of(messages, record)["answer"] == (1, 0, 0)
        messages += [user(f"{number}. {REST}"), *steps(14, first=50 + 20 * number)]


@pytest.mark.parametrize("behind", ["reasoning", "web_search_call"])
def test_an_item_that_is_no_message_does_not_part_a_question_from_its_answer(behind: str) -> None:
    item = {"type": behind, "id": "i", "summary": [], "encrypted_content": "x", "status": "completed"}
    messages: list[Chat] = [user("Plan it."), *talk(20, 300), assistant("May I start W4?"), item, user("no")]
    messages = [*messages, *talk(20, 300, first=20)]
    hooks = CompactionController(context_window=32_000, format=OpenAIResponsesFormat())
    record = hooks.compact_sync(messages, keep_recent_tokens=600).record
    assert record is not None
    assert told(record.summary) == ["May I start W4? -> no"]
    assert loss_of(messages, record)["answer"] == (1, 0, 0)


@folded("question, answer, words", CASES)
def test_a_chat_tells_a_reply_once_and_other_questions_of_the_assistant_not_at_all(
    question: str, answer: str, words: str
) -> None:
    chat = [*talk(20, 60), assistant("Did you see the Eiffel Tower?"), user(prose(60)), assistant(f"{DONE} {question}")]
    record = (
        controller(32_000).compact_sync([*chat, user(answer), assistant("All right."), *talk(30, 60, first=20)]).record
    )
    assert record is not None
    assert told(record.summary) == [f"{question} -> {answer}"]
    assert "Eiffel Tower" not in record.summary


@pytest.mark.parametrize("summarizer", [None, Scripted("## Goal\n- the packages")], ids=["by rule", "by a model"])
def test_the_question_of_a_reply_that_stayed_is_read_again(summarizer: Scripted | None) -> None:
    session = controller(32_000, summarizer=summarizer).session("thread")
    messages = [
        *talk(20, 300),
        assistant(f"{DONE} Shall I delete the old tables?"),
        user("yes"),
        assistant("All right."),
    ]
    first = session.compact_sync(messages, keep_recent_tokens=30)
    assert first.record is not None
    assert first.record.compacted_message_count == 41
    other = controller(32_000, summarizer=summarizer).session("the list begins with the earlier summary")
    for later, shown in ((session, messages), (other, first.messages)):
        second = later.compact_sync([*shown, *talk(20, 300, first=20)], keep_recent_tokens=600).record
        assert second is not None
        assert told(second.summary) == ["Shall I delete the old tables? -> yes"]


@folded("answer, text", PLANS)
def test_a_text_that_speaks_of_the_matter_without_the_answer_gets_it(answer: str, text: str) -> None:
    question = "Shall I delete the old tables?"
    summarizer = Scripted(f"## Goal\n- the packages\n## Progress\n### Done\n- [x] the first\n{text}")
    messages = [*asked(question, answer), assistant("Done."), user(REST), *steps(14, first=20)]
    record = controller(32_000, summarizer=summarizer).compact_sync(messages, keep_recent_tokens=600).record
    assert record is not None
    assert told(record.summary) == [f"{question} -> {answer}"]
    assert loss_of(messages, record)["answer"] == (1, 0, 0)


@pytest.mark.parametrize("fills", [True, False])
def test_a_reply_that_a_text_does_not_tell_is_put_back_with_its_question_or_counted(fills: bool) -> None:
    settings = CompactionSettings(identifier_tokens=None if fills else 0)
    summarizer = Scripted("## Goal\n- the packages\n## Progress\n### Done\n- [x] the first")
    messages = [*asked("Shall I delete the old tables?", "yes"), assistant("Done."), user(REST), *steps(14, first=20)]
    hooks = controller(32_000, summarizer=summarizer, settings=settings)
    record = hooks.compact_sync(messages, keep_recent_tokens=600).record
    assert record is not None
    assert told(record.summary) == ["Shall I delete the old tables? -> yes"] * fills
    assert loss_of(messages, record)["answer"] == (fills, not fills, 0)


def test_lines_of_a_model_that_follow_a_reply_in_its_summary_are_read_back() -> None:
    answers = [f"## Goal\n- the packages\n## Critical Context\n- Names: lexer, {name}" for name in ("parser", "writer")]
    session = controller(32_000, summarizer=Scripted(*answers)).session("s")
    messages = [*asked("Shall I delete the old tables?", "yes"), assistant("Done."), user(REST), *steps(14, first=20)]
    assert session.compact_sync(messages, keep_recent_tokens=600).record is not None
    messages += steps(14, first=40)
    record = session.compact_sync(messages, keep_recent_tokens=600).record
    assert record is not None
    assert "Shall I delete the old tables? -> yes" in told(record.summary)


def test_a_question_that_a_tool_asked_is_a_step_with_its_answer_and_no_state() -> None:
    question = "Shall I delete the old tables?"
    calls = [assistant(f"{DONE} {question}", call("q", "ask_user", question=question)), tool("q", "yes")]
    record = controller(32_000).compact_sync([user("Plan it."), *calls, *steps(20)], keep_recent_tokens=600).record
    assert record is not None
    assert [line for line in record.summary.splitlines() if question in line] == [
        f"- [x] ask_user(question={question}) -> yes"
    ]


def test_the_newest_replies_have_a_share_of_the_summary_and_the_older_ones_are_counted() -> None:
    said: list[Chat] = [user("Port the parser.")]
    for number in range(60):
        said += [*steps(1, 40, first=number), assistant(f"Shall I port module{number}.py now?"), user(f"yes, {number}")]
    messages = [*said, user(REST), *steps(14, first=80)]
    record = controller(16_000).compact_sync(messages, keep_recent_tokens=600).record
    assert record is not None
    lines = told(record.summary)
    assert 1 < len(lines) < 20
    assert lines[-1] == "Shall I port module59.py now? -> yes, 59"
    assert loss_of(messages, record)["answer"].recallable > 30


def test_a_long_reply_and_a_request_after_a_statement_or_an_offer_are_no_replies() -> None:
    messages = [*asked("Shall I delete the old tables?", prose(60)), *steps(3), assistant("Done."), user("Go further.")]
    messages += [*steps(3, first=10), assistant("If you need anything else, let me know!"), user("Sort the imports.")]
    record = controller(32_000).compact_sync([*messages, user(REST), *steps(14, first=20)]).record
    assert record is not None
    assert told(record.summary) == []
    assert "answer" not in loss_of(messages, record)
