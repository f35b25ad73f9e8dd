"""A model whose summaries drop and contradict facts, over HTTP: how it is asked, and what its summaries get back."""

from collections.abc import Sequence
from typing import Any

from compaction_hooks import CompactionController, CompactionSettings, Summarizer
from tests.conversations import assistant, call, step, steps, tool, user
from tests.provider import Received, Side

RULES = (
    "Never touch the public API.",
    "The report must be in French.",
    "Always run the linter before you commit.",
    "No, use httpx instead of requests.",
)
REFUSED = "The user rejected permission to use this specific tool call with the following feedback: "
SAID = "Not main, push to a branch!"
TASK, ORDER, WINDOW = "Write the report", "TX-48213", 100_000
CARELESS = (
    "## Goal\n- Port the parser.\n\n## Progress\n### Blocked\n- npm test fails: 3 failed\n- ruff check: E501 in a.py\n"
)


def ran(id: str, command: str, result: str) -> list[Any]:
    return [assistant(None, call(id, "bash", command=command)), tool(id, result)]


def opening() -> list[Any]:
    """Return the facts; the linter passes in the newest messages alone."""
    todos = [{"content": TASK, "status": "pending"}, {"content": "Read it", "status": "completed"}]
    return [
        user("Port the parser."),
        *(message for rule in RULES for message in (user(rule), assistant("Understood."))),
        assistant(None, call("p", "git_push", branch="main")),
        tool("p", REFUSED + SAID),
        assistant(None, call("o", "get_order", order_id=ORDER), call("t", "todo_write", todos=todos)),
        tool("o", f'{{"order_id": "{ORDER}"}}'),
        tool("t", "ok"),
        *ran("n1", "npm test", "Exit code 1\n3 failed"),
        *ran("r1", "ruff check .", "Exit code 1\nE501 in a.py"),
        *ran("n2", "npm test", "all passed"),
    ]


def conversation(rounds: int) -> list[Any]:
    turns = (one for n in range(rounds) for one in (*steps(10, 150, first=100 * n), user("Go on.")))
    return [*opening(), *turns, *ran(f"r{rounds + 1}", "ruff check .", "All checks passed"), *step(7, 20)]


async def check(summarizer: Summarizer, side: Side) -> None:
    """Compact ten times with a model that always answers the same."""
    side.summarize = lambda _: CARELESS
    hooks = CompactionController(context_window=WINDOW, summarizer=summarizer)
    target = CompactionSettings().budget(WINDOW).target
    for number in range(1, 11):
        record = (await hooks.compact(conversation(number), keep_recent_tokens=300)).record
        assert record is not None
        if number in (1, 3, 10):
            assert [text for text in (*RULES, TASK) if record.summary.count(text) != 1] == [], record.summary
            assert record.tokens_after <= target
        if number == 1:
            assert ORDER in record.summary
            check_questions(side.requests)


def check_questions(asked: Sequence[Received]) -> None:
    """The prompts of one compaction have the newest messages in front, and name the facts behind the older ones."""
    named = ""
    for request in asked:
        content = request.messages[-1]["content"]
        prompt = content if isinstance(content, str) else "".join(block["text"] for block in content)
        kept, _, rest = prompt.partition("\n</kept-messages>\n")
        assert kept.startswith("<kept-messages>\n")
        assert "All checks passed" in kept
        assert "All checks passed" not in rest
        named += rest.partition("</conversation>\n\n<facts>\n")[2].partition("\n</facts>\n")[0]
    assert [text for text in (*RULES, TASK, ORDER) if text not in named] == [], named
    assert SAID not in named
