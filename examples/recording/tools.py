"""The tools of the recorded agent. They work on real files, with the same results on every machine.

A tool that fails raises `ToolError`, which the agent loop gives to the model as a failed result.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FAKE_ROOT = "/project"
"""The folder shown to the agent instead of the temporary folder."""

TESTS_TIMEOUT_SECONDS = 60


_VARIABLE_OUTPUT = (
    (re.compile(r"(Ran \d+ tests?) in [\d.]+s"), r"\1 in 0.020s"),
    # Marks under a line of code, and hints after an error: they differ between versions of Python.
    (re.compile(r"^ +[~^]+\n", re.MULTILINE), ""),
    (re.compile(r"(NameError: name '\w+' is not defined)\..*"), r"\1"),
)


class ToolError(Exception):
    """A tool failed; the text tells the model why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool as a model sees it, and its function. Each parameter maps to its JSON type and meaning."""

    name: str
    description: str
    parameters: Mapping[str, tuple[str, str]]
    required: tuple[str, ...]
    run: Callable[..., str]

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the arguments."""
        properties = {name: {"type": kind, "description": meaning} for name, (kind, meaning) in self.parameters.items()}
        return {"type": "object", "properties": properties, "required": list(self.required)}


class Project:
    """The working folder of the tools."""

    def __init__(self, root: Path, files: Mapping[str, str]) -> None:
        self._root = root.resolve()
        for path, content in files.items():
            self.write_file(path, content)

    def tools(self) -> list[Tool]:
        """Return the agent's tools."""
        path = ("string", "Path below the project folder")
        return [
            Tool(
                name="list_files",
                description="List all files below a folder with their sizes in bytes.",
                parameters={"path": path},
                required=("path",),
                run=self.list_files,
            ),
            Tool(
                name="read_file",
                description="Read a text file with line numbers, or a part of it.",
                parameters={
                    "path": path,
                    "start": ("integer", "First line, from 1"),
                    "end": ("integer", "Last line, included"),
                },
                required=("path",),
                run=self.read_file,
            ),
            Tool(
                name="search",
                description="Search the lines of all files below a folder for a regular expression.",
                parameters={"pattern": ("string", "A Python regular expression"), "path": path},
                required=("pattern",),
                run=self.search,
            ),
            Tool(
                name="edit_file",
                description="Replace a text that occurs exactly once in a file.",
                parameters={
                    "path": path,
                    "old": ("string", "The text to replace"),
                    "new": ("string", "What takes its place"),
                },
                required=("path", "old", "new"),
                run=self.edit_file,
            ),
            Tool(
                name="write_file",
                description="Write a file, new or in place of the old one.",
                parameters={"path": path, "content": ("string", "The whole content")},
                required=("path", "content"),
                run=self.write_file,
            ),
            Tool(
                name="run_tests",
                description="Run the unittest suite, or one module of it.",
                parameters={
                    "target": ("string", "A dotted name such as tests.test_money; all tests without it"),
                    "verbose": ("boolean", "Name every test"),
                },
                required=(),
                run=self.run_tests,
            ),
        ]

    def list_files(self, path: str) -> str:
        files = self._files(self._require(path))
        return "\n".join(f"{file.stat().st_size:>6}  {self._display_path(file)}" for file in files)

    def read_file(self, path: str, start: int = 1, end: int | None = None) -> str:
        file = self._require(path)
        if file.is_dir():
            raise ToolError(f"{self._display_path(file)} is a folder: use list_files")
        lines = file.read_text(encoding="utf-8").splitlines()
        chosen = list(enumerate(lines, 1))[start - 1 : end]
        if not chosen:
            raise ToolError(f"{self._display_path(file)} has {len(lines)} lines, none from {start} to {end}")
        return "\n".join(f"{number:>4}\t{line}" for number, line in chosen)

    def search(self, pattern: str, path: str = ".") -> str:
        try:
            wanted = re.compile(pattern)
        except re.error:
            raise ToolError(f"not a regular expression: {pattern}") from None
        found = [
            f"{self._display_path(file)}:{number}: {line.strip()}"
            for file in self._files(self._require(path))
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
            if wanted.search(line)
        ]
        return "\n".join(found) or f"nothing found for {pattern}"

    def edit_file(self, path: str, old: str, new: str) -> str:
        file = self._require(path)
        text = file.read_text(encoding="utf-8")
        count = text.count(old)
        if count != 1:
            problem = f"occurs {count} times" if count else "does not occur"
            raise ToolError(
                f"{self._display_path(file)} is unchanged: the old text {problem} in it, it must occur exactly once"
            )
        file.write_text(text.replace(old, new), encoding="utf-8")
        line = text[: text.index(old)].count("\n") + 1
        return f"{self._display_path(file)}: replaced {_lines(old)} at line {line} with {_lines(new)}"

    def write_file(self, path: str, content: str) -> str:
        file = self._inside(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")
        return f"{self._display_path(file)}: wrote {_lines(content)}"

    def run_tests(self, target: str | None = None, verbose: bool = False) -> str:
        command = [sys.executable, "-m", "unittest", *(["-v"] if verbose else []), *([target] if target else [])]
        quiet = {"PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1", "COLUMNS": "100", "PYTHONIOENCODING": "utf-8"}
        run = subprocess.run(
            command,
            cwd=self._root,
            env={**os.environ, **quiet},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=TESTS_TIMEOUT_SECONDS,
            check=False,
        )
        return f"{self._stabilize(run.stdout)}\nexit code {run.returncode}"

    def _stabilize(self, output: str) -> str:
        """Return test output without parts that differ between runs, machines and versions of Python."""
        output = output.replace(str(self._root), FAKE_ROOT)
        for pattern, replacement in _VARIABLE_OUTPUT:
            output = pattern.sub(replacement, output)
        return output.rstrip()

    def _inside(self, path: str) -> Path:
        file = (self._root / path.removeprefix(FAKE_ROOT).lstrip("/")).resolve()
        if not file.is_relative_to(self._root):
            raise ToolError(f"{path} is outside {FAKE_ROOT}")
        return file

    def _require(self, path: str) -> Path:
        file = self._inside(path)
        if not file.exists():
            raise ToolError(f"no such file: {self._display_path(file)}")
        return file

    def _files(self, folder: Path) -> list[Path]:
        return [folder] if folder.is_file() else sorted(file for file in folder.rglob("*") if file.is_file())

    def _display_path(self, file: Path) -> str:
        return f"{FAKE_ROOT}/{file.relative_to(self._root).as_posix()}"


def _lines(text: str) -> str:
    count = len(text.splitlines())
    return "1 line" if count == 1 else f"{count} lines"
