"""Whatever a conversation says, it is text on the page."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

pytest.importorskip("hypothesis")
pytest.importorskip("jinja2", reason="needs the extra report")

from hypothesis import example, given
from hypothesis import strategies as st

from compaction_hooks.replay.page import write_report
from compaction_hooks.replay.page.texts import visible
from tests.conversations import assistant, call, prose, steps, system, tool, user
from tests.replay.samples import session
from tests.replay.test_page import Page, report
from tests.strategies import examples

DIRECTIONS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""All characters with Unicode's property Bidi_Control."""
HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "<!--<script>",
    "-->",
    "]]>",
    "</template></pre></summary>",
    "<svg onload=alert(1)>",
    '" onclick="alert(1)',
    "' autofocus onfocus='alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(1)",
    "&lt;b&gt;&#x3c;",
    "\u2028\u2029",
    "\u202etxt.exe",
    DIRECTIONS,
    "\x00\x1b[2J\r\n\x85",
    "\ud800",
]
hostile = st.lists(st.sampled_from(HOSTILE) | st.text(max_size=20), min_size=1, max_size=4).map("".join)


def page_with(text: str) -> tuple[str, dict[str, Any]]:
    """Return the page of a conversation that has a text everywhere, and what the page is made of."""
    path = f"src/{text}.py"
    messages = [
        system(f"Be careful. {text}"),
        user(f"Never touch the file {text} again. {text}"),
        assistant(text, call("first", name="open", path=path)),
        tool("first", f"TX-48213 {text}\n{prose(900)}"),
        *steps(10, 600),
        assistant(f"It was TX-48213. {text}", call("last", name="open", path=path)),
        tool("last", text),
        assistant(text),
    ]
    recorded = session(messages, id=f"id {text}", skipped=(text,), system=text)
    data = report(recorded)
    return write_report(data), data["sessions"][0]["conversation"]  # type: ignore[return-value]


def count_elements(page: Page, conversation: Mapping[str, Any]) -> dict[str, int]:
    """Return how often a page has some elements, without those of each compaction: a longer text makes more of them."""
    views = conversation["views"]
    summaries = sum(view["covered"] > 0 for view in views)
    own = {"title": len(views), "summary": len(views), "button": len(views), "pre": summaries}
    return {tag: page.tags[tag] - own.get(tag, 0) for tag in ("script", "style", "template", "svg", *own)}


OUR_PAGE, OUR_CONVERSATION = page_with("harmless")
OURS = Page(OUR_PAGE)
COMPACTED_TWICE = "\U0001514a" * 80


@given(hostile)
@example(COMPACTED_TWICE)
@example(DIRECTIONS)
@examples(50)
def test_a_text_makes_no_element_and_no_attribute_and_is_shown_as_it_is(text: str) -> None:
    page, conversation = page_with(text)
    found = Page(page)
    assert found.tags.keys() <= OURS.tags.keys()
    assert found.attributes <= OURS.attributes
    assert count_elements(found, conversation) == count_elements(OURS, OUR_CONVERSATION)
    assert found.comments == OURS.comments
    assert {name: found.code[name] for name in ("script", "style")} == {
        name: OURS.code[name] for name in ("script", "style")
    }
    assert json.loads(found.code["script conversation-0"]) == conversation
    assert visible(f"id {text}") in "".join(found.words)
    assert visible(text) in "".join(found.words)
    assert page.isprintable() or not {char for char in page if not char.isprintable()} & set(
        f"\x00\x1b\x85\ud800{DIRECTIONS}"
    )
