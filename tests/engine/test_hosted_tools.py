"""Tools that the provider runs itself: their queries and output reach the summarizer, bounded, and name the conversation.

And items of the model that the host answers without a tool call: approvals, and searches for tools.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from compaction_hooks import CompactionController, CompactionSettings, ExtractiveSummarizer
from compaction_hooks.events import CompactionEvent, CompactionFailed, CompactionFinished
from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat, OpenAIResponsesFormat
from compaction_hooks.testing import check_view
from tests.conversations import Scripted, prose

Block = Mapping[str, Any]

SEARCH: list[Block] = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "parser release notes"}},
    {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [
            {
                "type": "web_search_result",
                "title": "Parser 4.2 mends the defect",
                "url": "https://example.org/notes",
                "encrypted_content": "Eq4BCioISEALED",
            }
        ],
    },
]
TICKET: list[Block] = [
    {"type": "mcp_tool_use", "id": "m1", "name": "find_ticket", "server_name": "tracker", "input": {"words": "parser"}},
    {"type": "mcp_tool_result", "tool_use_id": "m1", "is_error": True, "content": [{"type": "text", "text": "down"}]},
]
CODE: list[Block] = [
    {"type": "server_tool_use", "id": "s2", "name": "bash_code_execution", "input": {"command": "make check"}},
    {
        "type": "bash_code_execution_tool_result",
        "tool_use_id": "s2",
        "content": {"type": "bash_code_execution_result", "stdout": "3 failed", "stderr": "", "return_code": 2},
    },
]
ITEMS: list[Block] = [
    {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {
            "type": "search",
            "query": "parser release notes",
            "sources": [{"type": "url", "url": "https://e.org"}],
        },
    },
    {
        "type": "mcp_call",
        "id": "mcp_1",
        "name": "find_ticket",
        "server_label": "tracker",
        "arguments": '{"words": "parser"}',
        "output": "no ticket",
    },
    {
        "type": "code_interpreter_call",
        "id": "ci_1",
        "code": "print(6 * 7)",
        "container_id": "cntr_1",
        "outputs": [{"type": "logs", "logs": "42"}, {"type": "image", "url": "data:image/png;base64,iVBOR"}],
    },
    {
        "type": "file_search_call",
        "id": "fs_1",
        "queries": ["defect"],
        "results": [{"file_id": "file-1", "filename": "notes.md", "score": 0.5, "text": "4.2 mends it"}],
    },
]
LITELLM: list[Block] = [
    {
        "role": "assistant",
        "content": "Release 4.2.",
        "tool_calls": None,
        "provider_specific_fields": {"citations": None, "web_search_results": SEARCH[1:], "tool_results": CODE[1:]},
    }
]

ANTHROPIC = [{"role": "assistant", "content": [*SEARCH, *TICKET, *CODE, {"type": "text", "text": "Release 4.2."}]}]
TAIL = [{"role": "user", "content": "And now?"}, {"role": "assistant", "content": "Done."}]

FORMS = [
    pytest.param(AnthropicFormat(), ANTHROPIC, id="anthropic"),
    pytest.param(OpenAIResponsesFormat(), ITEMS, id="responses"),
    pytest.param(OpenAIChatFormat(), LITELLM, id="chat, as LiteLLM writes it"),
]


def conversation(said: Sequence[Block]) -> list[Any]:
    return [{"role": "user", "content": "Which release mends it?"}, *said, *TAIL]


def controller(form: Any, summarizer: Any = None) -> CompactionController[Any]:
    settings = CompactionSettings(auto_compact=False)
    return CompactionController(
        context_window=1_000_000, format=form, summarizer=summarizer or Scripted(), settings=settings
    )


@pytest.mark.parametrize(
    ("form", "said", "shown"),
    [
        (
            AnthropicFormat(),
            ANTHROPIC,
            "[Tool Result]: web_search\nparser release notes\n\n"
            "[Tool Result]: web_search_tool_result\nParser 4.2 mends the defect\nhttps://example.org/notes\n\n"
            "[Tool Result]: find_ticket\nparser\n\n"
            "[Tool Result]: mcp_tool_result\ndown\nis_error=true\n\n"
            "[Tool Result]: bash_code_execution\nmake check\n\n"
            "[Tool Result]: bash_code_execution_tool_result\nreturn_code=2\n3 failed\n\n"
            "[Assistant]: Release 4.2.",
        ),
        (
            OpenAIResponsesFormat(),
            ITEMS,
            "[Tool Result]: web_search_call\nparser release notes\nhttps://e.org\n\n"
            "[Tool Result]: find_ticket\nparser\nno ticket\n\n"
            "[Tool Result]: code_interpreter_call\nprint(6 * 7)\n42\n\n"
            "[Tool Result]: file_search_call\ndefect\nnotes.md\nscore=0.5\n4.2 mends it",
        ),
        (
            OpenAIChatFormat(),
            LITELLM,
            "[Assistant]: Release 4.2.\n\n"
            "[Tool Result]: web_search_tool_result\nParser 4.2 mends the defect\nhttps://example.org/notes\n\n"
            "[Tool Result]: bash_code_execution_tool_result\nreturn_code=2\n3 failed",
        ),
    ],
    ids=["anthropic", "responses", "chat"],
)
def test_the_summarizer_reads_their_queries_and_output(form: Any, said: list[Block], shown: str) -> None:
    """Queries, titles and output; neither ids nor sealed text nor files."""
    summarizer = Scripted()
    controller(form, summarizer).compact_sync(conversation(said), keep_recent_tokens=1)
    (request,) = summarizer.requests
    assert shown in request.transcript


def test_a_long_page_is_cut_as_a_result_is() -> None:
    page = {"type": "web_fetch_tool_result", "tool_use_id": "f", "content": {"content": "word " * 100_000}}
    summarizer = Scripted()
    controller(AnthropicFormat(), summarizer).compact_sync(
        conversation([{"role": "assistant", "content": [page]}]), keep_recent_tokens=1
    )
    shown = summarizer.requests[0].transcript
    assert len(shown) < 2_500
    assert "characters left out" in shown


@pytest.mark.parametrize(
    ("form", "said", "search"),
    [
        (AnthropicFormat(), ANTHROPIC, "- [x] web_search(input=parser release notes)"),
        (OpenAIResponsesFormat(), ITEMS, "- [x] web_search_call(input=parser release notes https://e.org)"),
    ],
    ids=["anthropic", "responses"],
)
def test_the_default_summary_names_searches_also_after_the_next_one(form: Any, said: list[Block], search: str) -> None:
    hooks = controller(form, ExtractiveSummarizer())
    first = hooks.compact_sync(conversation(said), keep_recent_tokens=1).record
    second = hooks.compact_sync([*conversation(said), *TAIL, *TAIL], keep_recent_tokens=1).record
    assert first is not None
    assert second is not None
    assert search in first.summary
    assert search in second.summary
    assert first.digest["tools"] == []  # those are the host's


@pytest.mark.parametrize(("form", "said"), FORMS)
@pytest.mark.parametrize(
    ("old", "new"), [("4.2 mends", "4.3 mends"), ("example.org", "elsewhere.org"), ("no ticket", "one ticket")]
)
def test_an_edit_of_their_output_makes_a_summary_untrue(form: Any, said: list[Block], old: str, new: str) -> None:
    hooks = controller(form)
    messages = conversation(said)
    view = hooks.compact_sync(messages, keep_recent_tokens=1).messages
    assert len(view) < len(messages)
    edited = json.loads(json.dumps(messages).replace(old, new))
    assert (hooks.transform_context_sync(edited) == edited) is (edited != messages)


@pytest.mark.parametrize(("form", "said"), FORMS)
def test_ids_and_sealed_texts_are_no_content(form: Any, said: list[Block]) -> None:
    """A framework that gives new ids, or a provider that seals anew, leaves the summary true."""
    hooks = controller(form)
    view = hooks.compact_sync(conversation(said), keep_recent_tokens=1).messages
    anew = json.dumps(conversation(said)).replace("Eq4BCioISEALED", "Fr5CDjpJ").replace("cntr_1", "cntr_9")
    assert (
        hooks.transform_context_sync(json.loads(anew.replace("ws_1", "ws_9").replace("srvtoolu_1", "srvtoolu_9")))
        == view
    )


def approval(number: int, **answer: Any) -> list[Block]:
    """Return a call of a hosted MCP tool that the user decides on; it runs in the next answer."""
    name = {"name": "find", "server_label": "docs", "arguments": json.dumps({"word": number})}
    asked = f"mcpr_{number}"
    return [
        {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "gAAAA" * 40},
        {"type": "mcp_approval_request", "id": asked, **name},
        {"type": "mcp_approval_response", "approval_request_id": asked, **answer},
        {"type": "mcp_call", "id": f"mcp_{number}", "approval_request_id": asked, **name, "output": prose(600)},
    ]


def approved(number: int) -> list[Block]:
    return approval(number, approve=True)


def approved_together(number: int) -> list[Block]:
    """Return two approvals in one step."""
    both = zip(approval(2 * number, approve=True), approval(2 * number + 1, approve=True), strict=True)
    return [item for pair in both for item in pair][1:]


def found_tools(number: int) -> list[Block]:
    """Return a search for tools that the client runs."""
    tools = [{"type": "function", "name": f"tool_{number}", "description": prose(700)}]
    search = {"call_id": f"call_{number}", "execution": "client"}
    return [
        {"type": "tool_search_call", **search, "arguments": {"word": number}},
        {"type": "tool_search_output", **search, "tools": tools},
    ]


@pytest.mark.parametrize("step", [approved, approved_together, found_tools])
def test_an_answer_of_the_host_ends_a_step(step: Callable[[int], list[Block]]) -> None:
    """All in one turn: without a place to cut, the run would end when the window is full."""
    events: list[CompactionEvent] = []
    form = OpenAIResponsesFormat()
    hooks = CompactionController[Any](context_window=64_000, format=form, on_event=events.append)
    messages: list[Block] = [{"role": "user", "content": "Find every word."}]
    for number in range(150):
        for item in step(number):
            messages.append(item)
            if form.read(item)[0].role == "other":
                sent, view = [*messages], hooks.transform_context_sync(messages)

    summaries = {event.record.rendered for event in events if isinstance(event, CompactionFinished)}
    assert len(summaries) > 1
    assert not any(isinstance(event, CompactionFailed) for event in events)
    check_view(sent, view, format=form, summaries=summaries)


@pytest.mark.parametrize("place", [0, 1], ids=["the request", "the approval"])
def test_a_pinned_approval_stays_with_its_request(place: int) -> None:
    hooks, said = controller(OpenAIResponsesFormat()), approved(0)[1:]
    hooks.session("default").pin(said[place])
    view = hooks.compact_sync(conversation([*said, *ITEMS]), keep_recent_tokens=1).messages
    assert [item for item in view if "approval" in str(item.get("type"))] == said[:2]


def test_a_refused_approval_is_told_to_the_summarizer_with_its_reason() -> None:
    summarizer = Scripted()
    said = approval(0, approve=False, reason="Not before Monday.")[:3]
    controller(OpenAIResponsesFormat(), summarizer).compact_sync(conversation(said), keep_recent_tokens=1)
    assert "approve=false\nNot before Monday." in summarizer.requests[0].transcript
