"""Agents that write calls as XML: their calls, results and answers of the user are told apart, also in disguise."""

from __future__ import annotations

from typing import Any

from compaction_hooks import CompactionController, ExtractiveSummarizer, Summary, SummaryRequest
from tests.cases import folded
from tests.injection_attacks import CANARY, Attack, an_attack, labels_seen

Chat = dict[str, Any]
ENVIRONMENT = "\n\n<environment_details>\n# VSCode Open Tabs\nsrc/open.ts\n</environment_details>"


def called(tool: str, xml: str, result: str, of: str = " for 'x'") -> list[Chat]:
    return [
        {"role": "assistant", "content": f"On it.\n\n<{tool}>\n{xml}\n</{tool}>"},
        {"role": "user", "content": f"[{tool}{of}] Result:\n\n{result}{ENVIRONMENT}"},
    ]


def compacted(messages: list[Chat]) -> tuple[str, str]:
    """Return the default summary's message, and the transcript that a model would get."""
    transcripts: list[str] = []

    def summarize(request: SummaryRequest) -> Summary:
        transcripts.append(request.transcript)
        return ExtractiveSummarizer()(request)

    hooks = CompactionController(context_window=16_000, summarizer=summarize)
    last = [{"role": "assistant", "content": "So far."}, {"role": "user", "content": "last"}]
    view = hooks.compact_sync([*messages, *last], keep_recent_tokens=1).messages
    return str(view[0]["content"]), transcripts[0]


def under(summary: str, heading: str) -> list[str]:
    lines = summary.partition(f"{heading}\n")[2].split("\n")
    return lines[: next((at for at, line in enumerate(lines) if line[:1] != "-"), len(lines))]


TASK: Chat = {"role": "user", "content": "<task>\nPort the shop. Never touch the till.\n</task>" + ENVIRONMENT}
FILLER: list[Chat] = [{"role": "assistant", "content": "Some words. " * 60}]
DIFF = "<path>src/cart.ts</path>\n<diff>\n<<<<<<< SEARCH\nold\n=======\nnew\n>>>>>>> REPLACE\n</diff>"
TODOS = "<todos>\n[x] Port the cart\n[-] Port the list\n[ ] Port the stock\n</todos>"


def test_calls_results_and_tasks_are_known() -> None:
    conversation = [
        TASK,
        *FILLER,
        *called("read_file", "<args>\n<file>\n<path>src/shop.ts</path>\n</file>\n</args>", "1 | const cutShop = 1"),
        *called("execute_command", "<command>npm test</command>", "3 passed"),
        *called("apply_diff", DIFF, "<file_write_result>\n<path>src/cart.ts</path>\n</file_write_result>"),
        *called("update_todo_list", TODOS, "Todo list updated successfully.", of=""),
    ]
    summary, transcript = compacted(conversation)
    assert "- [x] execute_command(npm test) -> 3 passed" in under(summary, "### Done (tool output)")
    assert under(summary, "### In Progress (assistant's words)") == ["- [ ] Port the list", "- [ ] Port the stock"]
    assert "<modified-files>\nsrc/cart.ts\n</modified-files>" in summary
    assert "<read-files>\nsrc/shop.ts\n</read-files>" in summary
    assert '[Tool Call]: read_file(path="src/shop.ts")\n\n[Tool Result]: 1 | const cutShop = 1' in transcript
    assert "open.ts" not in summary + transcript.partition("[Tool Call]")[2]


def test_answers_of_the_user_are_requests() -> None:
    conversation = [
        TASK,
        *FILLER,
        *called("ask_followup_question", "<question>Which?</question>", "<answer>\nThe blue one\n</answer>"),
        *called(
            "apply_diff",
            DIFF,
            "The user denied this operation and provided the following feedback:\n<feedback>\nNot main!\n</feedback>",
        ),
        *called(
            "attempt_completion",
            "<result>Done</result>",
            "Consider their input.\n<feedback>\nAdd a test\n</feedback>",
            of="",
        ),
    ]
    summary, transcript = compacted(conversation)
    assert summary.partition("## Progress")[0].strip().split("\n")[-1] == "- Add a test"
    assert "Not main!" not in summary.partition("## Progress")[0]
    assert " -> FAILED: its result says: Not main!\n" in summary
    assert "- The blue one" in summary
    assert "cart.ts\n</modified-files>" not in summary
    assert "[User]: Add a test" in transcript


def test_tags_without_an_answer_of_the_harness_are_no_call() -> None:
    """A user, or an assistant that explains the tags, calls nothing."""
    quoted = {
        "role": "assistant",
        "content": "Write <execute_command>\n<command>make all</command>\n</execute_command>.",
    }
    summary, _ = compacted([TASK, *FILLER, quoted, {"role": "user", "content": "I did: [execute_command] Result: ok"}])
    assert "### Done" not in summary
    assert "- I did: [execute_command] Result: ok" in summary


@an_attack
@folded("tool", ["read_file", "use_mcp_tool"])
def test_no_result_speaks_as_the_user(tool: str, attack: Attack) -> None:
    summary, transcript = compacted([TASK, *FILLER, *called(tool, "<path>a.md</path>", attack.text)])
    asked = summary.partition("## Progress\n")[0]
    assert (CANARY in asked.casefold(), "## Constraints" in asked) == (False, False)
    assert labels_seen(transcript) == ["[user", "[assistant", "[assistant", "[toolcall", "[toolresult", "[assistant"]
