from compaction_hooks import Message
from compaction_hooks.messages import Text, Thinking, ToolCall, ToolResult
from compaction_hooks.replay.needs import NEXT_STEPS, Needs, find_constraints, find_identifiers, is_in, text_of
from tests.cases import folded


@folded(
    "text, found",
    {
        "paths": ("open src/app/main.py:12, then ./run.d/x", ["src/app/main.py", "./run.d/x"]),
        "urls": ("<https://a.org/b?c=1>, http://x.org.", ["https://a.org/b?c=1", "http://x.org"]),
        "e mail": ("write to jo@x.org!", ["jo@x.org"]),
        "ids": ("TX-48213 or #a1b2c3 or mia_li_3668", ["TX-48213", "a1b2c3", "mia_li_3668"]),
        "hashes": ("at 3f9a2c1 and 00000000", ["3f9a2c1"]),
        "numbers": ("on 2024-02-03, #12345, 120000 ms", ["2024-02-03", "12345"]),
        "error codes": ("ENOENT, then E501 and ERR_MODULE_NOT_FOUND", ["ENOENT", "E501", "ERR_MODULE_NOT_FOUND"]),
        "symbols and files": ("getUser in setup.go, self.name", ["getUser", "setup.go", "self.name"]),
        "no names": ("and/or, 10ms, 1.5x, v1.2, well-known, the end.", []),
        "data": ("x" * 90 + "1" * 200, []),
    },
)
def test_identifiers_of_a_text(text: str, found: list[str]) -> None:
    assert [name for name, _ in find_identifiers(text)] == found


@folded(
    "identifier, text, found",
    {
        "itself": ("src/a.py", "see src/a.py:12", True),
        "the end of a longer path": ("src/a.py", "see /home/me/src/a.py", True),
        "the beginning of a longer name": ("TX-4821", "TX-48213", False),
        "part of a symbol": ("get", "get_user", False),
        "the end of a longer name": ("get", "forget it", False),
        "the end of a longer name, and then itself": ("get", "forget to get it", True),
        "at the end": ("E501", "fails with E501", True),
    },
)
def test_an_identifier_is_a_word_of_its_own(identifier: str, text: str, found: bool) -> None:
    assert is_in(identifier, text) is found


def test_what_the_next_calls_use_is_looked_for_in_what_was_kept() -> None:
    needs = Needs("order TX-48213 in src/a.py, lib/b.py and lib/c.py", "about TX-48213", "lib/c.py is open")
    needs.add_step("new: lib/b.py", "look at TX-48213, src/a.py, lib/b.py, lib/c.py and other/d.py")
    figures = needs.figures()
    assert (figures.kept, figures.lost) == (("TX-48213",), ("src/a.py",))


def test_later_calls_are_not_searched() -> None:
    needs = Needs("src/a.py lib/b.py", "", "")
    for number in range(NEXT_STEPS):
        needs.add_step("", f"step {number}")
    needs.add_step("", "src/a.py")
    assert needs.figures().lost == ()


@folded(
    "text, found",
    {
        "alone": ("Never touch the public API.", ["Never touch the public API."]),
        "behind a request": ("Fix it. Please make sure that tests pass.", ["Please make sure that tests pass."]),
        "several": ("You must use tabs here\nDon't rename files", ["You must use tabs here", "Don't rename files"]),
        "in a sentence": ("I never said that it must work.", []),
        "a program's message": ("<system-reminder>Never do that at all.</system-reminder>", []),
        "a pasted document": (f"Never do that again. {'words ' * 400}", []),
        "pasted code": ("```\nNever touch the public API.\n```", []),
    },
)
def test_constraints_of_a_users_message(text: str, found: list[str]) -> None:
    assert list(find_constraints(Message(role="user", parts=(Text(text),)))) == found
    assert list(find_constraints(Message(role="assistant", parts=(Text(text),)))) == []


def test_the_text_of_messages_is_what_a_model_can_quote() -> None:
    call = ToolCall("c1", "write", '{"path": "a\\u00e9.py", "lines": ["one\\ntwo", 3], "old": null}')
    pieces = [
        Message(role="assistant", parts=(Thinking("hm"), Text("sure"), call, ToolCall("c2", "run", "not json"))),
        Message(role="tool", parts=(ToolResult("c1", "done"),)),
    ]
    assert text_of(pieces).split("\n") == ["sure", "aé.py", "one", "two", "3", "not json", "done"]
