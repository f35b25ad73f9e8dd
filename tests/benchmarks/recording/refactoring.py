"""A long refactoring: names of this project are changed in all its modules, one after the other."""

import re

from tests.benchmarks.recording.kit import Call, Chat, Recording, Workshop, source_files, workshop

SYSTEM = """
You are a coding agent in /project, the package compaction_hooks. Change what is asked and nothing else. Search
before you edit, edit one place at a time, and check that every module can still be imported before you say that
you are done.
"""
FIRST = """
I want clearer names in this package, one at a time, and I will tell you which. Some rules for all of it: Never
rename anything that compaction_hooks/__init__.py exports. Do not touch docstrings that describe a file format.
Make sure that tools/check_imports.py passes after every single rename. Always keep the old order of imports
where the linter allows it. Write tools/check_imports.py first: import every module of the package and print
those that fail. The ticket is CH-2291.
"""
CHECK = '''
"""Import every module of the package, and print those that fail."""

import importlib
import pkgutil
import sys
import traceback

sys.path.insert(0, "")

import compaction_hooks

failed = 0
names = [found.name for found in pkgutil.walk_packages(compaction_hooks.__path__, "compaction_hooks.")]
for name in names:
    if name.startswith("compaction_hooks.command") or name.endswith(("plugin", "tiktoken_estimator", "__main__")):
        continue
    try:
        importlib.import_module(name)
    except (ImportError, NameError, AttributeError) as error:
        failed += 1
        print(f"{name}: {type(error).__name__}: {error}")
print(f"{len(names)} modules, {failed} failed")
sys.exit(failed > 0)
'''
RENAMES = (
    ("find_native_start", "index_of_native_summary", "A function that is called 'find start' tells me nothing."),
    ("pair_all", "pair_calls_with_results", "What is paired with what? Say it."),
    ("one_line", "join_lines", "It does not return one line of many, it joins them."),
    ("strip_harness", "remove_harness_text", "'strip' is for white space."),
    ("Reading", "ErrorReading", "The overflow grammar has a Reading, history has readers: I mix them up."),
    ("has_wide", "has_wide_characters", "Wide what?"),
    ("take_snapshot", "measure_conversation", "Take your time with this one, it is in the middle of everything."),
    ("budget_for", "budget_of_call", "Everything else of a call is named after it."),
    ("words_of_refusal", "refusal_reason", "Shorter, and it says what comes back."),
    ("Aborted", "CallAborted", "Aborted is an adjective."),
    ("run_compaction", "compact_once", "It runs one, and the others wait for it."),
    ("items_under", "find_items", "Under what? The argument says it already."),
    ("Origin", "DigestOrigin", "I searched for an hour for the origin of an Origin."),
    ("render_summary", "summary_text", "It returns a text; nothing is rendered anywhere."),
    (
        "rejection",
        "reason_to_reject",
        "A verb in a noun's clothes. Mind that local variables are called so too: rename these as well.",
    ),
    (
        "transform",
        "prepare_view",
        ("The function only, and whatever imports it. Methods of the public session stay: see my first rule."),
    ),
)
KEPT = 24
"""Lines around the definition that the agent reads, at least."""


def record() -> Chat:
    """Record the session."""
    with workshop(source_files("compaction_hooks")) as project:
        session = Recording("rename-compaction-hooks", "coding-agent", SYSTEM, project)
        session.user(FIRST)
        session.agent(
            "First the check that has to pass after every rename.", ("list_files", {"path": "compaction_hooks"})
        )
        session.agent("", ("write_file", {"path": "tools/check_imports.py", "content": CHECK.lstrip()}))
        (result,) = session.agent("", ("run_python", {"path": "tools/check_imports.py"}))
        session.agent(
            f"tools/check_imports.py is there and says: {result.splitlines()[-2]}. I am ready for the first name."
        )
        done: list[str] = []
        for old, new, why in RENAMES:
            session.user(f"Rename {old} to {new}. {why}")
            files = _rename(session, project, old, new)
            done.append(f"{old} -> {new} ({', '.join(files)})")
        session.user(
            "That was the last name. List all renames of CH-2291 with the files of each, so that I can paste "
            "it into the ticket, and write the same to RENAMES.md."
        )
        session.agent(
            "", ("write_file", {"path": "RENAMES.md", "content": "\n".join(f"- {line}" for line in done) + "\n"})
        )
        (result,) = session.agent(
            "Once more the check, for all of them.", ("run_python", {"path": "tools/check_imports.py"})
        )
        session.agent(f"CH-2291 is done: {len(done)} names. {result.splitlines()[-2]}.\n\n" + "\n".join(done))
        return session.finish(
            ("entity", "Which ticket is this work for?", "CH-2291"),
            (
                "constraint",
                "Which names must not be renamed?",
                "Never rename anything that compaction_hooks/__init__.py exports",
            ),
            (
                "constraint",
                "Which check has to pass after every rename?",
                "tools/check_imports.py passes after every single rename",
            ),
        )


def _rename(session: Recording, project: Workshop, old: str, new: str) -> list[str]:
    """Change a name in every file; return the files."""
    word = re.compile(rf"(?<![.\w]){old}\b")
    (found,) = session.agent(f"Where is {old} used?", ("search", {"pattern": word.pattern, "path": "compaction_hooks"}))
    places: dict[str, list[int]] = {}
    for path, number in re.findall(r"^/project/(\S+?):(\d+): ", found, re.MULTILINE):
        places.setdefault(path, []).append(int(number))
    defined = re.search(rf"^/project/(\S+?):\d+: (?:class|def) {old}\b", found, re.MULTILINE)
    home = defined[1] if defined else next(iter(places))
    session.agent(f"It is defined in {home}; {len(places)} files name it.", ("read_file", {"path": home}))
    for path, numbers in places.items():
        if path != home:
            around = {"path": path, "start": max(min(numbers) - KEPT, 1), "end": max(numbers) + KEPT}
            session.agent(f"{path} has it in {_lines(numbers)}.", ("read_file", around))
        _edit(session, project, path, word, new)
    (result,) = session.agent("All places are changed; the check:", ("run_python", {"path": "tools/check_imports.py"}))
    (left,) = session.agent("", ("search", {"pattern": rf"\b{old}\b", "path": "compaction_hooks"}))
    rest = "Nothing is left of the old name." if left.startswith("nothing found") else "What is left is another name."
    session.agent(f"{old} is {new} now, in {', '.join(places)}. {result.splitlines()[-2]}. {rest}")
    return list(places)


def _edit(session: Recording, project: Workshop, path: str, word: re.Pattern[str], new: str) -> None:
    """Change a name in one file, line by line; a line that is not the only one of its kind is tried with the one before it."""
    while found := _next_line(project.text(path), word):
        lines, at = found
        call = _replacement(path, lines[at], word, new)
        (result,) = session.agent("", call)
        if "must occur exactly once" in result:
            block = "\n".join(lines[max(at - 1, 0) : at + 2])
            (result,) = session.agent(
                "That line is there twice; with its neighbours:", _replacement(path, block, word, new)
            )
        if "must occur exactly once" in result:
            whole = "\n".join(lines)
            session.agent(
                "Still not the only one. I write the file.",
                ("write_file", {"path": path, "content": word.sub(new, whole) + "\n"}),
            )
            return


def _next_line(text: str, word: re.Pattern[str]) -> tuple[list[str], int] | None:
    lines = text.splitlines()
    return next(((lines, index) for index, line in enumerate(lines) if word.search(line)), None)


def _replacement(path: str, old: str, word: re.Pattern[str], new: str) -> Call:
    return "edit_file", {"path": path, "old": old, "new": word.sub(new, old)}


def _lines(numbers: list[int]) -> str:
    return f"line {numbers[0]}" if len(numbers) == 1 else f"lines {', '.join(map(str, numbers))}"
