"""Constraints of the user, written by others, are in the view word for word after compactions, whatever a model wrote.

The corpora are the rules and summaries of compaction-guard and the side constraints of conpact, both released packages.
"""

import json
from itertools import chain, product, repeat
from pathlib import Path
from typing import Any

import pytest

from compaction_hooks import CompactionFinished, CompactionSettings, Summarizer, SummaryRequest
from compaction_hooks.events import CompactionEvent
from tests.cases import folded, sampled, sampled_rows
from tests.conversations import Chat, controller, prose, step, steps, system, talk, texts, user

SETTINGS = CompactionSettings(keep_user_tokens=0)
"""The settings of all tests of the two corpora."""
COMPACTIONS = 3

_FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"


def _read(name: str) -> Any:
    return json.loads((_FIXTURES / f"{name}.json").read_text(encoding="utf-8"))


RULES: dict[str, list[str]] = _read("corpora/compaction_guard")
"""The rules of compaction-guard, each with the summaries that keep, weaken, change, contradict or drop it."""
CONPACT = _read("corpora/conpact")
FORMS = ("Standing instruction: {}", "The shop has grown, so let us port its till.\n{}\nThe cart comes later.")
"""A rule as the corpus has it, and inside a longer request."""


def drop_all(request: SummaryRequest) -> str:
    """Return the summary of a model that fills our headings and drops what the user said."""
    return request.prompt and (
        "## Goal\n- go on\n## Progress\n- [x] worked\n### Blocked\n(none)\n## Key Decisions\n(none)\n## Next Steps\n(none)"
    )


def drop_all_too(_: SummaryRequest) -> str:
    """Return a summary in a form of its own, in which nothing but the user's constraints is put back."""
    return "The work goes on."


BY_RULE_AND_MODELS = [None, drop_all, drop_all_too]
PARTS = 5
"""The rules are checked in so many parts, of which the fast suite takes one."""


def last_view(asked: str, summarizer: Summarizer | None, compactions: int = COMPACTIONS) -> str:
    """Return all text of the view after so many compactions, the first of which covers a request."""
    session = controller(32_000, summarizer=summarizer, settings=SETTINGS).session("corpus")
    messages: list[Chat] = [system(), *talk(2, 50), user(asked)]
    view: list[Chat] = []
    for number in range(compactions):
        messages = [*messages, *steps(3, 200, first=10 * number), user(f"Go on with part {number}."), *talk(1, 50)]
        view = session.compact_sync(messages, keep_recent_tokens=50).messages
    return texts(view).replace('\\"', '"')


@pytest.mark.parametrize(
    ("part", "form", "summarizer"), sampled_rows(product(range(PARTS), FORMS, BY_RULE_AND_MODELS[:2]), 3)
)
def test_each_rule_of_compaction_guard_stays(part: int, form: str, summarizer: Summarizer | None) -> None:
    assert len(RULES) == 40
    assert [rule for rule in [*RULES][part::PARTS] if rule not in last_view(form.format(rule), summarizer)] == []


@pytest.mark.parametrize("part", sampled(range(PARTS), 1))
def test_a_rule_is_put_back_behind_each_summary_of_compaction_guard(part: int) -> None:
    cases = [(rule, summary) for rule, summaries in RULES.items() for summary in summaries]
    assert len(cases) == 300
    for rule, summary in cases[part::PARTS]:
        view = last_view(FORMS[0].format(rule), lambda _, summary=summary: summary, compactions=1)
        assert [sentence for sentence in rule.split(". ") if sentence not in view] == []


@pytest.mark.parametrize(("framing", "summarizer"), sampled_rows(product(CONPACT["framings"], BY_RULE_AND_MODELS), 3))
def test_each_side_constraint_of_conpact_stays_in_each_framing(framing: str, summarizer: Summarizer | None) -> None:
    """They are injected as conpact does it: in front of a request."""
    said = [text[0].lower() + text[1:] if framing else text for text in CONPACT["constraints"]]
    lost = [text for text in said if text not in last_view(f"{framing}{text}\nPort the till. {prose(60)}", summarizer)]
    assert (len(said), lost) == (15, [])


# -- constraints without a word that says so

UNMARKED: list[dict[str, str]] = _read("forty_constraints")
"""Requests with a constraint in their middle, most of which no word and no form shows."""


@pytest.mark.parametrize("result_tokens", sampled([200, 400, 1_000, 2_000], 2))
def test_constraints_that_no_word_shows_stay_whole_in_one_long_session(result_tokens: int) -> None:
    """Three summaries follow the last of them."""
    events: list[CompactionEvent] = []
    session = controller(32_000, events=events).session("unmarked")
    asked = [*(" ".join(request.values()) for request in UNMARKED), "Go on with all of it."]
    messages: list[Chat] = [system(), user("Help me with the work of this week.")]
    view: list[Chat] = []

    for number, request in enumerate(chain(asked, repeat(""))):
        messages = [*messages, *([user(request)] if request else []), *step(number, result_tokens)]
        view = session.transform_context_sync(messages)
        if number < len(asked):
            events.clear()
        if sum(isinstance(event, CompactionFinished) and event.record.summary != "" for event in events) == COMPACTIONS:
            break

    whole = [request["constraint"] in texts(view) for request in UNMARKED]
    assert len(whole) == 40
    assert sum(whole) >= 0.95 * len(whole)


# -- the user's sentences


def put_back(*asked: str) -> list[str]:
    """Return the constraints in the view behind a model that drops everything, next to nothing of its own."""
    messages = [user("go"), *map(user, asked), *steps(3, 150), user("well?")]
    hooks = controller(32_000, summarizer=drop_all_too, settings=SETTINGS)
    record = hooks.compact_sync(messages, keep_recent_tokens=50).record
    assert record is not None
    found = record.summary.partition("## Constraints & Preferences\n")[2].partition("\n\n")[0]
    return [line.removeprefix("- ") for line in found.splitlines()]


@folded(
    "said",
    [
        *("Don\u2019t rename the types.", "You must not change the headers.", "Do not add mocks!", "I prefer tabs."),
        *("I don't want new dependencies.", "Make sure that it builds.", "We should keep the old names."),
        *("From now on answer in JSON.", "For the rest of this session, call me Eva.", "Only Anna may release."),
        *("Bullet points only, no tables.", "Before you deploy, ask me.", "End your replies with a proverb."),
        *("The rule: spaces.", "Du darf nie raten.", "Il doit toujours signer.", "Siempre firma cada commit."),
        *("禁止重启生产服务器。", "不要添加新的依赖。", "必ず日本語で書いて。"),
    ],
)
def test_a_sentence_with_a_word_that_limits_or_prefers_is_a_constraint(said: str) -> None:
    assert put_back(f"The shop has grown. {said} It has a cart.") == [said]


@pytest.mark.parametrize(
    "said",
    [
        *("I don't remember my number.", "It can't be found.", "I still can't log in.", "This should work."),
        *("Should I never do that?", "Never do these:", "必须如下：", "Add a test.", "The parser reads every line."),
        "```\nYou must not do this.\n```",
    ],
)
def test_tales_questions_heads_of_lists_and_code_are_no_constraints(said: str) -> None:
    assert put_back(f"The shop has grown.\n{said}\nIt has a cart.") == []


# -- what the user pastes

RULE = "Never touch the public API."
ROOT = Path(__file__).resolve().parents[2]
TOPICS = ("retries", "time limits", "queues", "keys", "sessions")


def page(sentence: str) -> str:
    """Return a page with a section about each topic."""
    more = "Each value is read when the process starts and stays the same until it ends. " * 4
    sections = [f"## About {topic}\n\n{sentence.format(topic)} {more}" for topic in TOPICS]
    return "\n\n".join(["# Client", *sections, "Last changed in May."])


LINKED = "The client must never have more {0} than [the table](https://example.org/table) says, see ![this](a.png)."
MAIL = "You must refund me at once.\n\nNever write to me in this tone again.\n\nRegards\nMax"


PASTED = {
    "page": page(LINKED),
    "page without links": page("The client must never have more {0} than the server allows."),
    "README": "[![tests](https://example.org/a.svg)](https://example.org)\n\n" + page(LINKED.replace("{0}", "`{0}`")),
    "licence": (ROOT / "LICENSE").read_text(encoding="utf-8"),
    "mail": f"From: Max <max@example.org>\nTo: Shop\nDate: 3 May\nSubject: Lamp\n\nHello,\n\n{MAIL}",
    "quoted mail": f"On 3 May 2026 at 10:02, Max <max@example.org> wrote:\n\n{MAIL}",
    "thread": f"Am 3. Mai 2026 um 10:02 schrieb Max:\n\n{MAIL}\n\nVon: Eva\nBetreff: Lampe\n\n{MAIL}",
    "traceback": 'Traceback (most recent call last):\n  File "/app/main.py", line 20\n'
    '    raise ValueError("it must be above 1024")\n'
    "ValueError: it must be above 1024",
    "log": "2026-11-23 10:00:07 ERROR value must not be empty\nclose it before exit, always\n2026-11-23 10:00:08 WARN  never",
    "make": "error: you must specify a target\n  hint: always pass one\nmake: *** you must not be root",
    "quotation": "> You must refund me at once.\n> Never write to me again.",
    "npm": "npm ERR! You should not do that\nsh: 1: Permission denied: never run as root",
}


@pytest.mark.parametrize("note", [f"{{}}\n\nWhat do we do about it? {RULE}", f"What do we do about it? {RULE}\n\n{{}}"])
@folded("pasted", PASTED)
def test_pasted_text_next_to_a_note_is_not_what_the_user_says(note: str, pasted: str) -> None:
    assert put_back(note.replace("{}", pasted)) == [RULE]


BULLETS = "\n".join(
    f"- The till must never show {topic} to guests of the shop, whatever page they are on." for topic in TOPICS
)
LINKS = "".join(f"\n\nOur [{topic}](https://example.org/{number}) are there." for number, topic in enumerate(TOPICS))


@pytest.mark.parametrize(
    "said",
    [
        pytest.param("Implement the following plan:\n\n" + page(f"As follows:\n\n{BULLETS}\n\n"), id="plan with lists"),
        pytest.param(
            f"{page('It is ours.')}{LINKS}\n\n## Rules\n\n{BULLETS}\n\nThat is all.", id="specification with links"
        ),
        pytest.param(page(f"We sell lamps.\n\n{BULLETS}\n\nCould you do that for the {{0}}?"), id="briefing"),
        pytest.param(f"Book the flight.\nFrom: Rome\nTo: Bonn\n\n{BULLETS}\n\nPay by card.", id="form"),
        pytest.param(f"{BULLETS}\n\nAdd this to each file:\n\nCopyright (c) 2026 Eva\n\nThanks.", id="copyright"),
    ],
)
def test_a_description_by_the_user_himself_counts_with_all_its_lists(said: str) -> None:
    assert put_back(said) == [line.removeprefix("- ") for line in BULLETS.splitlines()]
