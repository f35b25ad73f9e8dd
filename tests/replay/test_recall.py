from compaction_hooks import Message
from compaction_hooks.messages import Text, Thinking, ToolCall, ToolResult
from compaction_hooks.replay.recall import Vocabulary, names, spoken_text, visible_text
from tests.cases import folded


@folded(
    "text, found",
    {
        "paths": ("open src/app/main.py, then ./run.d/x", ["src/app/main.py", "run.d/x"]),
        "rooted paths": ("in /etc/hosts and ~/.config/app.toml.", ["/etc/hosts", "~/.config/app.toml"]),
        "urls": ("<https://a.org/b?c=1>, http://x.", ["https://a.org/b?c=1", "http://x"]),
        "e mail": ("write to jo@x.org!", ["jo@x.org"]),
        "ids": ("TX-48213 or #a1b2c3 or mia_li_3668", ["TX-48213", "#a1b2c3", "mia_li_3668"]),
        "numbers": ("on 2024-02-03 at 48213 (#12345)", ["2024-02-03", "48213", "#12345"]),
        "round and small numbers": ("timeout=120000, 1234 lines, 2024", []),
        "no names": ("and/or, 1/2, utf-8, 10ms, 1.5x, self.name, well-known", []),
        "data": ("x" * 90 + "1" * 200, []),
        "quoted": ('{"id": "ab12cd"}', ["ab12cd"]),
    },
)
def test_names_of_a_text(text: str, found: list[str]) -> None:
    assert list(names(text)) == found


@folded(
    "text, name, is_in",
    {
        "itself": ("see src/a/b.py:12", "src/a/b.py", True),
        "the end of a longer path": ("see /home/me/src/a/b.py", "src/a/b.py", True),
        "written relative": ("- a/b.py\n- c.py", "/home/me/src/a/b.py", True),
        "its name alone": ("- b.py", "/home/me/src/a/b.py", True),
        "another file of that name": ("see other/b.py", "/home/me/src/a/b.py", False),
        "part of a word": ("TX-48213", "TX-4821", False),
    },
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
