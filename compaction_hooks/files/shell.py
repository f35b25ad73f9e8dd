"""The files that a shell command obviously reads or writes.

Only the command line itself counts: redirections, `tee`, `sed -i`, here-documents, scripts that open a literal path
for writing. `rm`, `mv`, `cp`, `mkdir` and `touch` change no text an agent would want to read again and are left out.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from itertools import dropwhile
from typing import NamedTuple

SCAN_CHARS = 20_000
"""Characters read of a command line without its here-documents, and of each here-document. The longest of 4,413 recorded ones
have 2,564 and 8,907."""

READERS = frozenset({"cat", "head", "tail", "less", "more", "nl", "bat", "tac"})
"""Programs whose plain arguments are files they print."""

_HEREDOC = re.compile(r"<<-?\s*([\"']?)\\?([A-Za-z_]\w*)\1")
_TOKEN = re.compile(
    r"'(?P<single>[^']*)'"
    r'|"(?P<double>(?:[^"\\]|\\.)*)"'
    r"|(?P<space>(?:[^\S\n]|\\\n)+)"
    r"|\\(?P<escaped>.)"
    r"|(?P<operator>&&|\|\||;;|<<<|>>|[;|&<>\n()])"
    r"|(?P<comment>(?<!\S)#[^\n]*)"
    r"""|(?P<plain>[^\s'"\\;|&<>()]+|.)""",
    re.DOTALL,
)
_OPEN_FOR_WRITING = re.compile(
    r"""open\(\s*(?:(["'])(?P<path>[^"'\n]{1,300})\1|(?P<name>[A-Za-z_]\w*))\s*,\s*(?:mode\s*=\s*)?["'][wax]"""
)
_WRITE_TEXT = re.compile(
    r"""Path\(\s*(?:(["'])(?P<path>[^"'\n]{1,300})\1|(?P<name>[A-Za-z_]\w*))\s*\)\.write_(?:text|bytes)\("""
)
_ASSIGNED_PATH = re.compile(r"""^[ \t]*([A-Za-z_]\w*)[ \t]*=[ \t]*(["'])([^"'\n]{1,300})\2[ \t]*$""", re.MULTILINE)
_PATCHED = re.compile(
    r"^(?:\*\*\* (?:Update|Add) File: |\*\*\* Move to: |\+\+\+ (?:b/)?)(?!/dev/null)([^\t\n\r]{1,300})", re.MULTILINE
)
_RUNS_SCRIPT = re.compile(r"\s-[ce]\s")
_APPLIES_PATCH = re.compile(r"\bgit\s+apply\b|\bapply_patch\b|(?:^|[;&|])[^\S\n]*patch\s", re.MULTILINE)
_IN_PLACE = re.compile(r"-[a-zA-Z]{0,3}i|--in-place")
_SCRIPT_OPTION = re.compile(r"-[a-zA-Z]*e|-f|--expression|--file")
_TOUCHING = (">", "<<", "-c", "-e", "tee", "sed", "perl", "patch", "git", *sorted(READERS))
"""A command line without any of these touches no file that is looked for."""
_ODD_IN_PATH = re.compile(r"[$*?{}`<>|\n]")


class Touch(NamedTuple):
    """One file a call names. `modified` says whether it is written rather than read."""

    path: str
    modified: bool


def find_patched_files(text: str) -> list[str]:
    """Return the files a patch changes: `*** Update File:` headers and the `+++` lines of unified diffs."""
    return [path.strip() for path in _PATCHED.findall(text)]


def shell_touches(command: str) -> list[Touch]:
    """Return the files a command line touches, in the order it names them; relative paths under a leading `cd` are joined to it.

    >>> [touch.path for touch in shell_touches("cd /repo && sed -i 's/a/b/' x.py && cat y.py | head -5 > /tmp/out.txt")]
    ['/repo/x.py', '/repo/y.py', '/tmp/out.txt']
    """
    if not any(word in command for word in _TOUCHING):
        return []
    line, documents = split_heredocs(command)
    line = line[:SCAN_CHARS]

    touches: list[Touch] = []
    folder = ""
    for words, targets in simple_commands(line):
        if words[:1] == ["cd"] and len(words) == 2 and words[1].startswith("/"):
            folder = words[1]
            continue
        named = [*_argument_touches(words), *(Touch(path, True) for path in targets)]
        touches += (_resolve(touch, folder) for touch in named if _is_path(touch.path))

    # A script or a patch names the files it writes in its own text, not in the arguments of a program.
    is_patch = _APPLIES_PATCH.search(line) is not None
    for script in [*documents, line] if documents or _RUNS_SCRIPT.search(line) else []:
        script = script[:SCAN_CHARS]
        written = _script_writes(script) + (find_patched_files(script) if is_patch else [])
        touches += (_resolve(Touch(path, True), folder) for path in written if _is_path(path))
    return touches


def is_compound(command: str) -> bool:
    """Return whether a command line holds several commands, so that a failure does not say that nothing was written."""
    line, _ = split_heredocs(command)
    return len([words for words, _ in simple_commands(line[:SCAN_CHARS]) if words[:1] != ["cd"]]) > 1


def split_heredocs(command: str) -> tuple[str, list[str]]:
    """Return a command without the bodies of its here-documents, and those bodies."""
    kept: list[str] = []
    bodies: list[str] = []
    lines = iter(command.split("\n"))

    for line in lines:
        kept.append(line)
        for marker in _HEREDOC.finditer(line):
            body: list[str] = []
            for inner in lines:
                if inner.strip() == marker[2]:
                    break
                body.append(inner)
            bodies.append("\n".join(body))

    return "\n".join(kept), bodies


def simple_commands(line: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield (words, redirection targets) for each simple command of a line that holds no here-document."""
    words: list[str] = []
    targets: list[str] = []
    redirect = ""

    for word, operator in _words(line):
        if word:
            if redirect.startswith(">"):
                targets.append(word)
            elif not redirect:
                words.append(word)
            redirect = ""

        if operator in ("<", ">", ">>", "<<<"):
            redirect = operator
        elif operator == "&" and redirect:
            # `>&1` redirects to a descriptor: the next word is no file.
            redirect = "&"
        elif operator:
            if words or targets:
                yield words, targets
            words, targets, redirect = [], [], ""


def _words(line: str) -> Iterator[tuple[str, str]]:
    """Yield (word, the operator that ends it); either may be empty. Quoted and bare pieces that touch are one word."""
    word = ""
    for token in _TOKEN.finditer(line):
        kind = token.lastgroup
        if kind in ("space", "comment"):
            if word:
                yield word, ""
            word = ""
        elif kind == "operator":
            # "2>" is a file descriptor, not an argument.
            yield ("" if word.isdigit() and token[0] in (">", ">>") else word), token[0]
            word = ""
        else:
            word += token[kind] if kind else ""

    yield word, ";"


def _argument_touches(words: list[str]) -> list[Touch]:
    """Return the files that a simple command names in its arguments."""
    words = [*dropwhile(lambda word: "=" in word or word in ("sudo", "then", "do", "time", "env"), words)]
    if not words:
        return []

    program = posixpath.basename(words[0])
    arguments = [word for word in words[1:] if not word.startswith("-")]

    if program == "tee":
        return [Touch(path, True) for path in arguments]
    if program in READERS:
        return [Touch(path, False) for path in arguments if not path.lstrip("+").isdigit()]
    if program in ("sed", "perl"):
        return _editor_touches(words[1:])
    return []


def _editor_touches(words: list[str]) -> list[Touch]:
    """Return the files of a `sed` or `perl`: the first plain word is the script unless `-e` gave one; `-i` writes the others."""
    in_place = script_given = is_script = False
    plain: list[str] = []

    for word in words:
        if is_script:
            is_script = False
        elif word.startswith("-"):
            in_place = in_place or bool(_IN_PLACE.match(word))
            is_script = bool(_SCRIPT_OPTION.fullmatch(word))
            script_given = script_given or is_script
        else:
            plain.append(word)

    return [Touch(path, in_place) for path in (plain if script_given else plain[1:])]


def _script_writes(script: str) -> list[str]:
    """Return the literal paths a Python script opens for writing."""
    names = {name: path for name, _, path in _ASSIGNED_PATH.findall(script)}
    written = [
        match["path"] or names.get(match["name"], "")
        for pattern in (_OPEN_FOR_WRITING, _WRITE_TEXT)
        for match in pattern.finditer(script)
    ]
    return [path for path in written if path]


def _is_path(word: str) -> bool:
    return bool(word) and word != "-" and not word.startswith(("/dev/", "&")) and not _ODD_IN_PATH.search(word)


def _resolve(touch: Touch, folder: str) -> Touch:
    """Return the touch with its path normalized and, if it is relative, under the folder the command went to."""
    return Touch(posixpath.normpath(posixpath.join(folder, touch.path)), touch.modified)
