"""Files and other facts that code carries over, and the digest."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from compaction_hooks.files import FileOperations, file_tags, merge, remove_file_tags
from compaction_hooks.files.operations import digest, find_touched_files, is_failure, read_calls
from compaction_hooks.messages import Message, Text, ToolCall, ToolResult
from tests.cases import folded
from tests.file_lists import files_in


def step(name: str, arguments: object, result: str | None = "ok", *, is_error: bool = False) -> list[Message]:
    """A call and its answer; no answer when `result` is None."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    called = Message(role="assistant", parts=(ToolCall("c1", name, text),))
    if result is None:
        return [called]
    answered = ToolResult("c1", result, is_error=is_error)
    return [called, Message(role="tool", parts=(answered,))]


def file_operations(messages: list[Message]) -> FileOperations:
    return find_touched_files(read_calls(messages))


def touched(name: str, arguments: object, result: str | None = "ok") -> tuple[list[str], list[str]]:
    found = file_operations(step(name, arguments, result))
    return list(found.read), list(found.modified)


# -- by the shape of the arguments


@folded(
    "name, arguments",
    {
        "claude code": ("Edit", {"file_path": "a.py", "old_string": "x", "new_string": "y"}),
        "pi": ("edit", {"path": "a.py", "oldText": "x", "newText": "y"}),
        "unknown name, camel case": ("zap", {"filePath": "a.py", "oldString": "x", "newString": "y"}),
        "write": ("Write", {"file_path": "a.py", "content": "x"}),
        "notebook": ("NotebookEdit", {"notebook_path": "a.py", "new_source": "x"}),
        "cursor": ("edit_file", {"target_file": "a.py", "code_edit": "x"}),
        "create": ("str_replace_editor", {"command": "create", "path": "a.py", "file_text": "x"}),
        "replace": ("str_replace_editor", {"command": "str_replace", "path": "a.py", "old_str": "x"}),
        "insert": ("str_replace_editor", {"command": "insert", "path": "a.py", "insert_line": 3}),
        "by name alone": ("save", {"filename": "./a.py"}),
        "list of files": ("write_many", {"files": [{"path": "a.py", "content": "x"}]}),
        "patch": ("apply_patch", {"input": "*** Begin Patch\n*** Update File: a.py\n-x\n+y\n*** End Patch"}),
        "patch that is no JSON": ("apply_patch", "*** Begin Patch\n*** Add File: a.py\n+y\n*** End Patch"),
        "diff": ("apply_diff", {"diff": "--- a/a.py\n+++ b/a.py\n@@\n-x\n+y"}),
    },
)
def test_an_edit_is_known_by_its_arguments(name: str, arguments: object) -> None:
    assert touched(name, arguments) == ([], ["a.py"])


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        pytest.param("Read", {"file_path": "a.py", "offset": 3}, id="read"),
        pytest.param("zap", {"path": "a.py"}, id="unknown name"),
        pytest.param("str_replace_editor", {"command": "view", "path": "a.py"}, id="view"),
        pytest.param("read_many_files", {"paths": ["a.py"]}, id="list of paths"),
    ],
)
def test_a_path_alone_is_a_read(name: str, arguments: object) -> None:
    assert touched(name, arguments) == (["a.py"], [])


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [
        pytest.param("Grep", {"path": "src", "pattern": "x"}, "src/a.py:1:x", id="search"),
        pytest.param("ls", {"path": "src"}, "a.py", id="listing"),
        pytest.param("delete_file", {"path": "a.py"}, "ok", id="deletion"),
        pytest.param("view", {"path": "src"}, "Here's the files and directories up to 2 levels", id="directory view"),
        pytest.param("fetch", {"path": "https://example.org/a.py"}, "ok", id="address"),
        pytest.param("send", {"text": "hello"}, "ok", id="no path"),
        pytest.param("broken", "{", "ok", id="arguments that are no JSON"),
        pytest.param("list", "[1]", "ok", id="arguments that are no object"),
    ],
)
def test_other_calls_touch_no_file(name: str, arguments: object, result: str) -> None:
    assert touched(name, arguments, result) == ([], [])


# -- by what a command line says


@folded("command, read, modified", {
        "cat": ("cat a.py", ["a.py"], []),
        "sed prints, under a folder": ("cd /r && sed -n '1,5p' a.py | head -n 20", ["/r/a.py"], []),
        "sed in place": ("sed -i 's/a b/c/' a.py b.py", [], ["a.py", "b.py"]),
        "sed in place with -e": ("sed -i -e 's/x/y/' a.py", [], ["a.py"]),
        "sed of macOS": ("sed -i '' 's/x/y/' a.py", [], ["a.py"]),
        "redirection": ("echo hi > a.txt 2>/dev/null", [], ["a.txt"]),
        "appending": ("run >> logs/a.txt 2>&1", [], ["logs/a.txt"]),
        "in the background": ("serve & cat a.py", ["a.py"], []),
        "tee": ("run | tee -a out.txt", [], ["out.txt"]),
        "here-document, then cat": ("cat > a.py << 'EOF'\nopen(b, 'w') > c\nEOF\ncat a.py", [], ["a.py"]),
        "script in a here-document": ("python - <<EOF\np = 'x.py'\nopen(p, 'w').write('')\nEOF", [], ["x.py"]),
        "script as an argument": ("python -c \"open('x.py', mode='a')\"", [], ["x.py"]),
        "patch in a here-document": ("git apply <<'E'\n--- a/x.py\n+++ b/x.py\nE", [], ["x.py"]),
        "patch only written": ("cat > p.diff <<'E'\n+++ b/x.py\nE", [], ["p.diff"]),
        "nothing worth reading again": ("rm a; mv b c; mkdir d; touch e; cp f g", [], []),
        "no literal path": ("cat $FILE *.py < in.txt", [], []),
        "quoted path, variable before": ("FOO=1 cat 'a b.txt'", ["a b.txt"], []),
        "unbalanced quote": ("echo \"unbalanced > a.txt", [], ["a.txt"]),
        "comment": ("pytest # > a.txt", [], []),
    })  # fmt: skip
def test_a_command_line_names_the_files_it_reads_and_writes(command: str, read: list[str], modified: list[str]) -> None:
    assert touched("bash", {"command": command}) == (read, modified)


def test_files_that_patch_names_in_its_answer_are_written() -> None:
    assert touched("bash", {"command": "patch -p1 < x.diff"}, "patching file src/a.py\n") == ([], ["src/a.py"])


def test_a_command_may_be_a_list() -> None:
    assert touched("shell", {"command": ["bash", "-lc", "cat a.py"]}) == (["a.py"], [])
    assert touched("shell", {"command": ["cat", "a.py"]}) == (["a.py"], [])


# -- failures


@pytest.mark.parametrize(
    "text",
    [
        "Error: no such file",
        "<tool_use_error>String not found</tool_use_error>",
        "Exit code 1\nFAIL",
        "<returncode>2</returncode>\n<output>\n</output>",
        "fine until here\n[Command finished with exit code 1]",
        "Traceback (most recent call last):\n  ...",
        "The user doesn't want to proceed with this tool use.",
        '{"error": "not found"}',
        '{"id": 3, "success": false}',
        '{"status": "failed"}',
    ],
)
def test_an_answer_that_begins_or_ends_with_an_error_is_a_failure(text: str) -> None:
    assert is_failure(ToolResult("c1", text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "errors.py\nerror_handling.md",
        "<returncode>0</returncode>",
        "[Command finished with exit code 0]",
        '{"error": null, "id": 3}',
        '{"errors": []}',
        "1 failed, 3 passed, as expected",
    ],
)
def test_an_answer_that_only_speaks_of_errors_is_none(text: str) -> None:
    assert not is_failure(ToolResult("c1", text))


def test_a_failed_edit_modified_nothing() -> None:
    edit = {"path": "a.py", "new_string": "x"}
    assert file_operations(step("edit", edit, "done", is_error=True)) == FileOperations()
    assert file_operations(step("edit", edit, None)) == FileOperations(modified=("a.py",))


def test_of_several_commands_the_failing_one_need_not_be_the_one_that_wrote() -> None:
    assert touched("bash", {"command": "cd /r && cat > a.py"}, "Exit code 1") == ([], [])
    assert touched("bash", {"command": "echo > a.py && pytest"}, "Exit code 1") == ([], ["a.py"])


# -- order, promotion, merging


def test_files_are_in_the_order_of_their_last_use_and_a_read_is_promoted() -> None:
    messages = [
        *step("read", {"path": "a"}),
        *step("read", {"path": "b"}),
        *step("edit", {"path": "c", "new_string": ""}),
        *step("edit", {"path": "a", "new_string": ""}),
        *step("read", {"path": "c"}),
    ]
    assert file_operations(messages) == FileOperations(read=("b",), modified=("a", "c"))


def test_parallel_calls_are_taken_in_their_order_with_their_own_results() -> None:
    calls = (ToolCall("1", "read", '{"path": "a"}'), ToolCall("2", "read", '{"path": "b"}'))
    results = (ToolResult("2", "fine"), ToolResult("1", "Error: gone"), ToolResult("9", "nobody asked"))
    messages = [Message(role="assistant", parts=calls), *(Message(role="tool", parts=(part,)) for part in results)]
    assert file_operations(messages) == FileOperations(read=("b",))


def test_merging_is_cumulative() -> None:
    earlier = FileOperations(read=("a", "b", "c"), modified=("x", "y"))
    newer = FileOperations(read=("x", "d", "a"), modified=("b",))
    merged = merge(earlier, newer)
    assert merged == FileOperations(read=("c", "d", "a"), modified=("y", "x", "b"))
    assert merge(merged, FileOperations()) == merged == merge(FileOperations(), merged)


# -- tags


def test_tags_are_bounded_and_keep_modified_before_read_and_newer_before_older() -> None:
    operations = FileOperations(
        read=tuple(f"read/{n}.py" for n in range(50)), modified=tuple(f"src/{n:02}.py" for n in range(50))
    )
    for limit in range(0, 1500, 7):
        tags = file_tags(operations, max_chars=limit)
        assert len(tags) <= limit
        kept = files_in(tags)
        assert operations.modified[len(operations.modified) - len(kept.modified) :] == kept.modified
        assert not kept.read or len(kept.modified) == 50
    tags = file_tags(operations, max_chars=200)
    assert "(37 earlier files not listed)\nsrc/37.py" in tags
    assert "src/49.py\n</modified-files>" in tags


@pytest.mark.parametrize(
    "path", ["a</modified-files>", "a&lt;b", "a & b", "&amp;lt;", "<read-files>", "日本語.md", "a b"]
)
def test_no_path_can_close_its_tag_and_every_path_is_read_back(path: str) -> None:
    operations = FileOperations(read=("x",), modified=(path, "y"))
    tags = file_tags(operations)
    assert tags.count("</modified-files>") == 1
    assert files_in(f"summary\n{tags}\nmore") == operations


def test_tags_can_be_taken_out() -> None:
    tags = file_tags(FileOperations(read=("a",), modified=("b",)))
    assert remove_file_tags(f"before {tags} after <read-files>") == "before \n after <read-files>"


# -- the digest


def conversation() -> list[Message]:
    return [
        Message(role="user", parts=(Text("go"),)),
        *step("bash", {"command": "pytest  -q\n"}, "Exit code 1"),
        *step("bash", {"command": "ls"}, "a.py"),
        *step("edit", {"path": "a.py", "new_string": "x"}),
        *step("bash", {"command": "sleep 9"}, None),
    ]


def digest_of(messages: list[Message], hidden: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
    calls = read_calls(messages)
    return digest(messages, calls, find_touched_files(calls).modified, hidden)


def test_a_digest_lists_tools_files_and_commands() -> None:
    assert digest_of(conversation()) == {
        "messages": {"user": 1, "assistant": 4, "tool": 3},
        "tools": [{"tool": "bash", "calls": 3, "errors": 1}, {"tool": "edit", "calls": 1, "errors": 0}],
        "files_written": ["a.py"],
        "commands": [
            {"command": "pytest -q", "succeeded": False},
            {"command": "ls", "succeeded": True},
            {"command": "sleep 9", "succeeded": None},
        ],
        "hidden": [],
    }


def test_a_long_text_in_a_digest_loses_its_end() -> None:
    assert digest_of([], [("grep", "x" * 201)])["hidden"] == [{"tool": "grep", "replacement": "x" * 197 + "..."}]
    assert digest_of([], [("grep", "x" * 200)])["hidden"] == [{"tool": "grep", "replacement": "x" * 200}]
