from __future__ import annotations

import pytest

from compaction_hooks import Message
from compaction_hooks.messages import Text, Thinking, ToolCall, ToolResult
from compaction_hooks.replay.recall import Vocabulary, names, spoken_text, visible_text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("open src/app/main.py, then ./run.d/x", ["src/app/main.py", "run.d/x"], id="paths"),
        pytest.param("in /etc/hosts and ~/.config/app.toml.", ["/etc/hosts", "~/.config/app.toml"], id="rooted-paths"),
        pytest.param("<https://a.org/b?c=1>, http://x.", ["https://a.org/b?c=1", "http://x"], id="urls"),
        pytest.param("write to jo@x.org!", ["jo@x.org"], id="e-mail"),
        pytest.param("TX-48213 or #a1b2c3 or mia_li_3668", ["TX-48213", "#a1b2c3", "mia_li_3668"], id="ids"),
        pytest.param("on 2024-02-03 at 48213 (#12345)", ["2024-02-03", "48213", "#12345"], id="numbers"),
        pytest.param("timeout=120000, 1234 lines, 2024", [], id="round-and-small-numbers"),
        pytest.param("and/or, 1/2, utf-8, 10ms, 1.5x, self.name, well-known", [], id="no-names"),
        pytest.param("x" * 90 + "1" * 200, [], id="data"),
        pytest.param('{"id": "ab12cd"}', ["ab12cd"], id="quoted"),
    ],
)
def test_names_of_a_text(text: str, found: list[str]) -> None:
    assert list(names(text)) == found


@pytest.mark.parametrize(
    ("text", "name", "is_in"),
    [
        pytest.param("see src/a/b.py:12", "src/a/b.py", True, id="itself"),
        pytest.param("see /home/me/src/a/b.py", "src/a/b.py", True, id="the-end-of-a-longer-path"),
        pytest.param("- a/b.py\n- c.py", "/home/me/src/a/b.py", True, id="written-relative"),
        pytest.param("- b.py", "/home/me/src/a/b.py", True, id="its-name-alone"),
        pytest.param("see other/b.py", "/home/me/src/a/b.py", False, id="another-file-of-that-name"),
        pytest.param("TX-48213", "TX-4821", False, id="part-of-a-word"),
    ],
)
def test_a_path_is_found_by_its_end(text: str, name: str, is_in: bool) -> None:
    vocabulary = Vocabulary()
    vocabulary.add(text)
    assert (name in vocabulary) is is_in


CALL = ToolCall("c1", "write", '{"path": "a\\u00e9.py", "lines": ["one\\ntwo", 3], "old": null}')
PIECES = [
    Message(role="user", parts=(Text("please"),)),
    Message(role="assistant", parts=(Thinking("hm"), Text("sure"), CALL, ToolCall("c2", "run", "not json"))),
    Message(role="tool", parts=(ToolResult("c1", "done"),)),
]


def test_visible_text_is_all_that_can_be_quoted() -> None:
    assert visible_text(PIECES).split("\n") == [
        *("please", "sure"),
        *("write", "aé.py", "one", "two", "3", "run", "not json"),
        *("", "done"),
    ]


def test_spoken_text_is_the_assistants() -> None:
    assert spoken_text(PIECES).split("\n") == ["sure", "write", "aé.py", "one", "two", "3", "run", "not json"]
