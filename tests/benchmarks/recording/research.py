"""Research in long pages: questions are answered from this project's documentation, with quotations."""

import re

from tests.benchmarks.recording.kit import Chat, Recording, source_files, workshop

SYSTEM = """
You answer questions from the pages below /project/docs. Search, open the pages that may have the answer, and
quote the sentence that settles it with its page. Say so if the pages do not settle it.
"""
FIRST = """
We are choosing a library that keeps our support agents inside the context window, and I have to write the memo.
I will ask one thing after the other. Always name the page of a quotation. Do not quote more than two sentences
for one question. The memo is due on 2026-12-09 and goes to Teodor Lindqvist; file it under MEMO-118. First:
what does the library do with the list that we keep ourselves?
"""
QUESTIONS: tuple[tuple[str, str, str], ...] = (
    ("", r"[Yy]our list is never changed", "docs/architecture.md docs/why.md"),
    (
        "Which providers' message formats are read without an adapter of our own?",
        r"OpenAI chat, OpenAI Responses",
        "docs/settings.md",
    ),
    (
        "What happens if our PostgreSQL is down for five minutes while a summary is saved?",
        r"store is (?:down|back)|STORE_COOLDOWN",
        "docs/stores.md docs/reliability.md",
    ),
    (
        "How far off is the size that it estimates before a provider has reported anything?",
        r"before any usage report",
        "docs/tokens.md",
    ),
    ("Does a compaction make the prompt cache worthless?", r"changes the beginning once", "docs/prompt-caches.md"),
    (
        "Our model refuses a request as too long now and then. Which errors are recognized?",
        r"too long",
        "docs/overflow.md",
    ),
    (
        "We use LangGraph for the triage graph. Where does compaction go in there?",
        r"CompactionNode\(",
        "docs/langgraph.md",
    ),
    ("And the two agents in pydantic-ai?", r"Compaction\(\)", "docs/pydantic-ai.md"),
    ("Can a support agent read again what was left out of its view?", r"recall", "docs/recall.md"),
    (
        "Which facts are lost most easily? I need a figure for the memo.",
        r"first_request|files_modified",
        "docs/probes.md",
    ),
    (
        "Legal asks: does log output contain what customers write?",
        r"(?:log|Log lines).*(?:text|message)",
        "docs/reliability.md docs/tracing.md",
    ),
    (
        "Can the provider's own compaction be used instead?",
        r"[Tt]he server compacts|context_management",
        "docs/native.md docs/settings.md",
    ),
    (
        "What does a due compaction that is not made mean? Our operators will see that in the log.",
        r"skipped",
        "docs/outcomes.md",
    ),
    ("Could we test on our recorded sessions before we buy in?", r"replay", "docs/replay.md docs/check.md"),
)
PAGE_LINES = 230
SHOWN_MATCHES = 2


def record() -> Chat:
    """Record the session."""
    with workshop(source_files("docs")) as project:
        session = Recording("research-documentation", "research", SYSTEM, project)
        quoted: list[str] = []
        for number, (question, pattern, pages) in enumerate(QUESTIONS):
            session.user(question or FIRST)
            session.agent(
                "I search the pages.",
                ("search", {"pattern": pattern, "path": "docs"}),
                *([] if number else [("list_files", {"path": "docs"})]),
            )
            results = session.agent("", *(("read_file", {"path": page, "end": PAGE_LINES}) for page in pages.split()))
            found = [
                f'"{line.strip()}" ({page}:{place})'
                for page, text in zip(pages.split(), results, strict=True)
                for place, line in re.findall(r"^ *(\d+)\t(.*)$", text, re.MULTILINE)
                if re.search(pattern, line)
            ][:SHOWN_MATCHES]
            answer = "\n".join(found) or f"None of {pages} settles this; I would ask the authors."
            quoted.append(f"{number + 1}. {found[0] if found else 'open: ' + question}")
            session.agent(answer)
        session.user(
            "Good. Write the memo with one quotation for each question, in the order in which I asked, and its head."
        )
        memo = "\n".join(["# MEMO-118", "To: Teodor Lindqvist. Due: 2026-12-09.", "", *quoted, ""])
        session.agent("", ("write_file", {"path": "memo/MEMO-118.md", "content": memo}))
        session.agent("memo/MEMO-118.md is written, with a quotation or an open question for each of your questions.")
        session.user(
            "Which pages did you quote for stores and for caches? I want to read these myself before I sign it."
        )
        session.agent("docs/stores.md or docs/reliability.md for the store, docs/prompt-caches.md for the cache.")
        return session.finish(
            ("entity", "Under which number is the memo filed?", "MEMO-118"),
            ("entity", "To whom does the memo go?", "Teodor Lindqvist"),
            ("entity", "When is the memo due?", "2026-12-09"),
            ("constraint", "How much may be quoted?", "Do not quote more than two sentences for one question"),
        )
