"""`CompactionSettings(identifier_tokens=...)`, and the constraints of the user: a summary gets back what it lacks."""

from itertools import cycle

import pytest

from compaction_hooks import CompactionSettings, Summarizer
from compaction_hooks.tokens import CharacterEstimator
from tests.conversations import Chat, Scripted, assistant, call, controller, prose, steps, system, tool, user

ESTIMATE = CharacterEstimator().estimate_tokens
RULES = [
    "Never touch the public API.",
    "The report must be in French.",
    "Always run the linter before you commit.",
    "No, use httpx instead of requests.",
]
ORDER = [assistant(None, call("o", "get_order", order_id="TX-48213")), tool("o", '{"order_id": "TX-48213"}')]


def round_of(number: int) -> list[Chat]:
    return [*steps(10, 150, first=100 * number), user("Go on.")]


def conversation(rounds: int = 1) -> list[Chat]:
    opening = [message for rule in RULES for message in (user(rule), assistant("Understood."))]
    return [user("Port the parser."), *opening, *ORDER, *(one for n in range(rounds) for one in round_of(n))]


def summary_of(rounds: int, summarizer: Summarizer | None, window: int = 200_000, identifier_tokens: int = 200) -> str:
    """Return the summary after so many compactions."""
    hooks = controller(window, summarizer=summarizer, settings=CompactionSettings(identifier_tokens=identifier_tokens))
    for n in range(1, rounds + 1):
        result = hooks.compact_sync(conversation(n), keep_recent_tokens=300)
    assert result.record is not None
    assert result.record.tokens_after <= CompactionSettings().budget(window).target
    return result.record.summary


@pytest.mark.parametrize("rounds", [1, 3, 10])
@pytest.mark.parametrize("summarizer", [Scripted("- facts"), None], ids=["a model", "the default"])
def test_constraints_are_word_for_word_after_any_number_of_compactions(
    rounds: int, summarizer: Summarizer | None
) -> None:
    summary = summary_of(rounds, summarizer)
    assert [rule for rule in RULES if summary.count(rule) < 1] == []


def test_a_constraint_that_the_summary_has_is_not_said_twice() -> None:
    assert summary_of(1, Scripted(f"- they said: {RULES[0]}", "- rest")).count(RULES[0]) == 1
    headed = summary_of(1, Scripted("## Constraints & Preferences\n- be quick\n\n## Next Steps\n1. go on", "- rest"))
    assert headed.count("## Constraints & Preferences") == 1
    assert headed.index(RULES[1]) < headed.index("## Next Steps")


def test_a_stored_view_keeps_the_constraints_of_the_messages_that_it_no_longer_has() -> None:
    hooks = controller(200_000, summarizer=Scripted("- facts"))
    stored = hooks.compact_sync(conversation(), keep_recent_tokens=300).messages
    again = hooks.compact_sync([*stored, *round_of(5), *round_of(6)], keep_recent_tokens=300).record
    assert again is not None
    assert [rule for rule in RULES if rule not in again.summary] == []


@pytest.mark.parametrize("summarizer", [Scripted("- facts"), None], ids=["a model", "the default"])
def test_of_more_than_half_of_the_summary_the_newest_constraints_are_kept_and_the_others_are_counted(
    summarizer: Summarizer | None,
) -> None:
    many = [user(f"You must never touch module number {n}, which {prose(20)}.") for n in range(80)]
    messages = [message for said in many for message in (said, assistant("Yes."))] + [user("go"), *round_of(1)]
    settings = CompactionSettings(keep_user_tokens=0)
    for has_tool in (True, False):
        session = controller(16_384, summarizer=summarizer, settings=settings).session("thread")
        if has_tool:
            session.recall_tool(lambda: messages)
        for newer in (0, 1):  # what is counted is counted again, once
            record = session.compact_sync(messages + newer * round_of(2), keep_recent_tokens=300).record
        assert record is not None
        missing = [said["content"] for said in many if said["content"] not in record.summary]
        ending = "; the recall tool finds them" * has_tool
        assert f"(Left out: {len(missing)} earlier constraints of the user{ending})" in record.summary
        assert missing == [said["content"] for said in many[:80] if said["content"] in missing]
        assert str(many[79]["content"]) in record.summary
        assert record.tokens_after <= CompactionSettings().budget(16_384).target


def test_identifiers_that_a_summary_lacks_are_added_up_to_the_setting() -> None:
    bare, short, long = (summary_of(1, Scripted("- facts"), identifier_tokens=tokens) for tokens in (0, 60, 400))
    assert "TX-48213" not in bare
    assert "order_id: TX-48213" in long
    assert ESTIMATE(bare) < ESTIMATE(short) <= ESTIMATE(bare) + 100
    assert "TX-48213" in summary_of(1, None, identifier_tokens=0)  # the default summarizer has its own
    assert summary_of(1, Scripted("- order TX-48213", "- rest")).count("TX-48213") == 1


def test_what_an_answer_leaves_empty_is_for_steps_and_three_tenths_for_names() -> None:
    written = "## Goal\nPort the parser.\n\n## Progress\n### Done\n- [x] read the plan"
    orders = [
        message
        for n in range(200)
        for message in (
            assistant(None, call(f"c{n}", "run", command=f"make part-{n}")),
            tool(f"c{n}", f'{{"order_id": "TX-{50_000 + n}", "state": "{prose(20)}"}}'),
        )
    ]
    settings = CompactionSettings(max_summary_tokens=2_000)
    hooks = controller(200_000, summarizer=Scripted(written), settings=settings)
    record = hooks.compact_sync([user("Port the parser."), *orders, user("Go on.")], keep_recent_tokens=300).record
    assert record is not None
    steps_added = "".join(line for line in record.summary.splitlines() if line.startswith("- [x] run("))
    names = record.summary.partition("### Identifiers")[2]
    assert 0.2 < ESTIMATE(names) / ESTIMATE(steps_added + names) < 0.4


def test_no_identifier_is_added_beyond_the_target() -> None:
    """Next to system prompts of more and more tokens, up to one that leaves no room."""
    target, added = CompactionSettings().budget(8_192).target, set[bool]()
    for tokens in range(2_400, 3_600, 40):
        hooks = controller(8_192, summarizer=Scripted("- facts"))
        record = hooks.compact_sync([system(prose(tokens)), *conversation()], keep_recent_tokens=300).record
        assert record is not None
        added.add("TX-48213" in record.summary)
        assert record.tokens_after <= target or "TX-48213" not in record.summary
    assert added == {True, False}


def test_next_to_a_system_prompt_larger_than_the_target_constraints_have_the_room_of_the_summary() -> None:
    """No view reaches the target, so a summary has its allowance: as much as the default one takes."""
    hooks = controller(8_192, summarizer=Scripted("- facts"))
    record = hooks.compact_sync([system(prose(4_200)), *conversation()], keep_recent_tokens=300).record
    assert record is not None
    assert record.tokens_after > CompactionSettings().budget(8_192).target
    assert [rule for rule in RULES if rule not in record.summary] == []
    assert "TX-48213" not in record.summary


FACTS = [
    "FACT: The warehouse database is MariaDB 11 in ap-south-2.",
    "FACT: The ticket of this work is OPS-5521, due on 2031-04-09.",
    "FACT: Invoices are served from https://billing.example.net/v3.",
    "FACT: Dana Okafor is on call this week.",
]
PREFERENCES = [
    "I prefer short answers without tables.",
    "I prefer distances in kilometres.",
    "I prefer one recommendation over several options.",
    "I prefer examples in Kotlin, not in Java.",
]


THINGS = (
    "draft",
    "memo",
    "dashboard",
    "roadmap",
    "changelog",
    "survey",
    "invoice",
    "banner",
    "gateway",
    "sitemap",
    "glossary",
)
PLACES = ("shared drive", "wiki", "second office", "sales folder", "north region", "archive", "cellar", "printer room")


@pytest.mark.parametrize(
    ("answer", "read"), [("- nothing", "prompt"), ("- nothing", "focus"), ("Nothing of note was said.", "focus")]
)
def test_facts_and_preferences_outlast_a_summarizer_that_drops_everything_in_a_fifth_of_the_size(
    answer: str, read: str
) -> None:
    """A host stores the view, and the talk goes on: five compactions. Whoever reads the prompt is asked for headings."""
    told = [one for three in zip(RULES, FACTS, PREFERENCES, strict=True) for one in three]
    rules = [f"Never send the {thing} to anyone outside of the {place}." for thing, place in zip(THINGS, cycle(PLACES))]
    small_talk = [
        f"The {THINGS[n % 11]} about {THINGS[(5 * n + 3) % 11]}s went to the {PLACES[n % 8]} {n + 2} days ago."
        for n in range(60)
    ]
    talk = [line for n, one in enumerate(told) for line in (*small_talk[4 * n : 4 * n + 4], *rules[n : n + 1], one)]
    messages = [message for line in talk for message in (user(line), assistant("Noted. Going on with the plan."))]
    chars = sum(len(str(message["content"])) for message in messages)
    settings = CompactionSettings(
        keep_user_tokens=0, max_summary_tokens=chars // 25
    )  # a fifth, of five characters a token
    hooks = controller(16_384, summarizer=lambda request: (getattr(request, read), answer)[1], settings=settings)
    for n in range(5):
        messages = [*messages, *(one for line in small_talk[:6] for one in (user(f"{n}: {line}"), assistant("Yes.")))]
        messages = hooks.session(f"{n}").compact_sync(messages, keep_recent_tokens=1).messages
        view = "\n".join(str(message["content"]) for message in messages)
        assert len(view) <= chars // 4  # with what is around the summary
        for kind, least in ((RULES, 1), (FACTS, 2), (PREFERENCES, 2)):
            assert sum(one in view for one in kind) >= least
