"""A very long session: every module of this project's core is read and judged, room by room, with questions in between."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import NamedTuple

from tests.benchmarks.recording.kit import Chat, Recording, source_files, workshop

SYSTEM = """
You review code in /project. Read every module whole before you judge it. Report what you measured, with names
and line numbers, and keep what belongs to a room in the file notes/<room>.md.
"""
FIRST = """
Please review the core of this package, one room (folder) after the other; I will say which is next. What I want
for each module: the longest function, functions without a docstring, and who imports the module. Always give
line numbers. Do not change any code in this review. Make sure that each finding is written to notes/<room>.md
before you go on. The review is for Ines Albrecht; its number is RV-0457.
"""
ROOMS = (
    "text",
    "tokens",
    "files",
    "history",
    "overflow",
    "validity",
    "formats",
    "repair",
    "view",
    "recall",
    "summary",
    "summary/extractive",
    "strategies",
    "runtime",
    "engine",
    "session",
    "stores",
)
"""By their names at the commit whose files are read."""
LONG_LINES = 40
"""A function of more lines is worth a remark."""
QUESTION_EVERY = 3


class Function(NamedTuple):
    """A function of a module, by its place."""

    path: str
    name: str
    line: int
    lines: int
    has_docstring: bool

    def __str__(self) -> str:
        return f"{self.name} ({self.path}:{self.line}, {self.lines} lines)"


def record() -> Chat:
    """Record the session."""
    files = source_files("compaction_hooks")
    longest: list[Function] = []
    with workshop(files) as project:
        session = Recording("review-compaction-hooks", "coding-agent", SYSTEM, project)
        session.user(FIRST)
        session.agent("I look at what there is.", ("list_files", {"path": "compaction_hooks"}))
        session.agent("There are " + str(len(files)) + " modules. I will begin with the room that you name.")
        for number, room in enumerate(ROOMS, 1):
            longest += _review_room(session, files, room)
            if number % QUESTION_EVERY == 0:
                _ask_back(session, longest, number)
        ranked = sorted(longest, key=lambda function: -function.lines)[:20]
        session.user(
            "That was the last room. Give me the twenty longest functions of all rooms, with their places, "
            "as notes/summary.md under the number of the review, and tell me where you would begin."
        )
        summary = "\n".join(f"{place}. {function}" for place, function in enumerate(ranked, 1))
        session.agent("", ("write_file", {"path": "notes/summary.md", "content": f"# RV-0457\n\n{summary}\n"}))
        session.agent(f"notes/summary.md is written. I would begin with {ranked[0]} and {ranked[1]}.\n\n{summary}")
        return session.finish(
            ("entity", "What is the number of the review?", "RV-0457"),
            ("entity", "For whom is the review?", "Ines Albrecht"),
            ("constraint", "What must not be done in the review?", "Do not change any code in this review"),
        )


def _review_room(session: Recording, files: Mapping[str, str], room: str) -> list[Function]:
    """Read all modules of a room, and write what was found; return the longest function of each."""
    session.user(f"Next room: {room}.")
    here = [path for path in files if str(PurePosixPath(path).parent) == f"compaction_hooks/{room}"]
    longest: list[Function] = []
    notes: list[str] = []
    for path in here:
        functions = list(_functions(path, files[path]))
        module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        search = {"pattern": rf"^\s*(from|import) {re.escape(module)}\b", "path": "compaction_hooks"}
        _, importers = session.agent(f"Now {path}.", ("read_file", {"path": path}), ("search", search))
        users = sorted(set(re.findall(r"^/project/(\S+?):", importers, re.MULTILINE)))
        notes += [f"## {path}", *_findings(functions, users)]
        longest += sorted(functions, key=lambda function: -function.lines)[:1]
    content = "\n".join([f"# {room}", *notes]) + "\n"
    session.agent(
        f"All {len(here)} modules of {room} are read.", ("write_file", {"path": f"notes/{room}.md", "content": content})
    )
    worst = max(longest, key=lambda function: function.lines)
    session.agent(f"{room} is done, see notes/{room}.md. Its longest function is {worst}.")
    return longest


def _findings(functions: list[Function], users: list[str]) -> Iterator[str]:
    longest = max(functions, key=lambda function: function.lines, default=None)
    if longest:
        yield f"- longest: {longest}{': should be divided' if longest.lines > LONG_LINES else ''}"
    bare = [function for function in functions if not function.has_docstring and not function.name.startswith("_")]
    if bare:
        yield f"- without a docstring: {', '.join(f'{function.name}:{function.line}' for function in bare)}"
    yield f"- imported by {', '.join(users) or 'no other module'}"


def _ask_back(session: Recording, longest: list[Function], number: int) -> None:
    """Let the user ask for a function of an earlier room, and the agent look at it again."""
    asked = sorted(longest[: len(longest) // 2], key=lambda function: -function.lines)[number % 4]
    session.user(
        f"Before you go on: why is {asked.name} so long? You named it earlier. Could a part of it be a function of its own?"
    )
    place = {"path": asked.path, "start": asked.line, "end": asked.line + asked.lines - 1}
    (text,) = session.agent(f"{asked.name} is in {asked.path}; I read it again.", ("read_file", place))
    branches = len(re.findall(r"\t\s*(?:if|for|while|try|match|case|elif)\b", text))
    loop = re.search(r"^ *(\d+)\t\s*(?:for|while) ", text, re.MULTILINE)
    part = (
        f"The loop at line {loop[1]} could be one."
        if loop
        else "There is no loop in it, so nothing falls out by itself."
    )
    session.agent(
        f"{asked.name} has {asked.lines} lines and {branches} branches. {part} I have not changed anything, as you wished."
    )


def _functions(path: str, text: str) -> Iterator[Function]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            yield Function(path, node.name, node.lineno, lines, ast.get_docstring(node) is not None)
