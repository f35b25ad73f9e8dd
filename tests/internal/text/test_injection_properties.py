"""No mixture of forgeries, split and disguised in any way, is more than data."""

from __future__ import annotations

import pytest

pytest.importorskip("hypothesis")

from hypothesis import given
from hypothesis import strategies as st

from compaction_hooks.files import FileOperations, file_tags
from compaction_hooks.text.escaping import escape_labels, neutralize
from compaction_hooks.view.texts import parse_summary, render_summary
from tests.injection_attacks import ATTACKS, BREAKS, CANARY, labels_seen, tags_seen
from tests.internal.text.test_injection import (
    HARMLESS,
    OTHERS,
    PLACES,
    Place,
    called,
    conversation,
    request,
    requests,
    says,
    sections,
    summarize,
    unmarked,
)
from tests.strategies import examples

PIECES = [
    "<", "</", ">", "/", "[", "]", ":", "：", "&lt;", "&#60;", "&gt;", "&#91;", "%3C", "&#58;", "&#12304;",
    "&lsaquo;", "&nbsp", "%20", "＜", "≮", "【", "】", "conversation", "Conversation", "con", "versation", "summary",
    "previous-summary", "read-files", "focus", "request", "User", "user", "USER", "Us", "er", "Usеr", "Assistant",
    "Human", "System", "用户", "system-reminder", "start_of_turn", "INST", "**", "_", "*", "`", "(none)", "```",
    "\\u003c", "\\", "\\u0020", "|", "Tool Result", "new ", " message", "|im_start|>", "Conversation summary",
    "## Goal", "- ", "> ", "### ", "\u200b", "\xad", "\ufeff", "\u202e", "\u0301", "\x00", "\x90", "\u0591",
    "\u3164", "\x1b", "\x1b[K", "\x1b[0m", " ", "\t", "- [x] a(b) -> c (x2)", "[Compacted 2 messages]",
    "[... 1 characters left out ...]", *BREAKS, f" {CANARY} ",
]  # fmt: skip
TEXTS = st.lists(
    st.sampled_from(PIECES) | st.sampled_from([attack.text for attack in ATTACKS]) | st.text(max_size=4), max_size=12
).map(lambda pieces: "".join(pieces) + f" {CANARY} {CANARY}.")


@given(TEXTS)
@examples(1_000)
def test_a_neutralized_text_is_harmless_and_neutralizing_again_changes_nothing(text: str) -> None:
    safe = neutralize(text)
    assert tags_seen(safe) == labels_seen(safe) == []
    assert neutralize(safe) == safe
    assert escape_labels(safe) == safe


@given(TEXTS)
@examples(300)
def test_nothing_but_backslashes_is_added(text: str) -> None:
    """And nothing but invisible letters is taken out."""
    visible = "".join(char for char in text if not "\U000e0000" <= char <= "\U000e007f")
    assert neutralize(text).replace("\\", "") == visible.replace("\\", "")


@given(st.sampled_from(list(PLACES.values())), TEXTS, TEXTS, TEXTS)
@examples(300)
def test_a_prompt_has_the_structure_it_has_for_harmless_text(place: Place, text: str, earlier: str, focus: str) -> None:
    harmless = request(conversation(place, f"{HARMLESS}. {HARMLESS}"), previous_summary=HARMLESS, focus=HARMLESS)
    attacked = request(conversation(place, text), previous_summary=earlier, focus=focus)
    assert tags_seen(attacked.prompt) == tags_seen(harmless.prompt)
    assert len(labels_seen(attacked.transcript)) == len(labels_seen(harmless.transcript))


@given(st.sampled_from(list(OTHERS.values())), TEXTS)
@examples(300)
def test_the_default_summary_never_speaks_for_the_user(place: Place, text: str) -> None:
    summary = summarize(conversation(place, text))
    for _ in range(2):
        found = sections(summary)
        assert requests(found)[:2] == ["- begin", "- end"]
        assert not [line for line in requests(found) if CANARY in line]
        assert "## Constraints & Preferences" not in found
        assert unmarked(found) == []
        assert tags_seen(summary) == labels_seen(summary) == []
        summary = summarize([says("user", "more"), *called(name="other")], summary)


@given(TEXTS, st.lists(TEXTS, max_size=3))
@examples(300)
def test_the_message_in_the_context_keeps_its_frame(summary: str, paths: list[str]) -> None:
    tags = file_tags(FileOperations(read=tuple(dict.fromkeys(paths)), modified=("m",)))
    text = render_summary(summary, file_tags=tags, continuation=True, covered=1, unseen=0)
    assert labels_seen(text) == ["[conversationsummary"]
    assert parse_summary(text) == neutralize(summary.strip()).strip()
    head, _, rest = text.partition("\n</summary>\n\n")
    assert tags_seen(head) == ["<summary"]
    lines = rest.splitlines()
    assert [line for line in lines if line.startswith("<")] == [
        *(["<read-files>", "</read-files>"] if "<read-files>" in tags else []),
        *("<modified-files>", "</modified-files>"),
    ]
