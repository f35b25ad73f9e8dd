"""An agent whose answers are scripted and whose tools are real: files in a temporary folder, and programs that run in it."""

import io
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from recording.probes import add_evidence, derive_probes, tool_schema
from recording.tools import Project, Tool, ToolError

ROOT = Path(__file__).resolve().parents[3]
SOURCE = "20162f83c4452f6e2cf0e09187da9d3625feac07"
"""The commit of this project whose files some sessions work on: another commit would give other sessions."""

Call: TypeAlias = tuple[str, dict[str, Any]]
"""A tool and its arguments."""
Chat: TypeAlias = dict[str, Any]


@cache
def source_files(folder: str) -> Mapping[str, str]:
    """Return path and content of this project's files below a folder, at the commit `SOURCE`."""
    command = ("git", "archive", SOURCE, folder)
    archive = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        listed = {member.name: files.extractfile(member) for member in files if member.name.endswith((".py", ".md"))}
        return {name: file.read().decode() for name, file in sorted(listed.items()) if file}


class Workshop(Project):
    """The working folder of an agent that may run programs, too."""

    def tools(self) -> list[Tool]:
        """Return the tools for files, and `run_python` in place of `run_tests`."""
        run = Tool(
            name="run_python",
            description="Run a Python program in the project folder.",
            parameters={"path": ("string", "The program"), "arguments": ("array", "Its arguments")},
            required=("path",),
            run=self.run_python,
        )
        return [*(tool for tool in super().tools() if tool.name != "run_tests"), run]

    def text(self, path: str) -> str:
        """Return the content of a file."""
        return self._require(path).read_text(encoding="utf-8")

    def run_python(self, path: str, arguments: tuple[str, ...] = ()) -> str:
        command = (sys.executable, "-S", str(self._require(path)), *arguments)
        output = subprocess.PIPE
        run = subprocess.run(
            command, cwd=self._root, stdout=output, stderr=subprocess.STDOUT, encoding="utf-8", check=False
        )
        return f"{self._stabilize(run.stdout)}\nexit code {run.returncode}"


class Recording:
    """A session while it is recorded.

    Args:
        system: The system prompt.
        project: The folder that the tools work in; None: the agent has no tools.
    """

    def __init__(self, name: str, domain: str, system: str, project: Workshop | None = None) -> None:
        self._name, self._domain = name, domain
        self._tools = project.tools() if project else []
        self._by_name = {tool.name: tool for tool in self._tools}
        self._messages: list[Chat] = [{"role": "system", "content": _unwrap(system)}]
        self._calls = 0

    def user(self, text: str, pasted: str = "") -> None:
        """Add a request of the user, with what the user pasted below it."""
        self._messages.append({"role": "user", "content": f"{_unwrap(text)}\n\n{pasted}".strip()})

    def agent(self, text: str, *calls: Call) -> list[str]:
        """Add an answer of the model, make its calls, and return their results."""
        answer: Chat = {"role": "assistant", "content": text.strip()}
        results = [self._run(*call) for call in calls]
        if results:
            answer["tool_calls"] = [
                {
                    "id": result["tool_call_id"],
                    "type": "function",
                    "function": {"name": name, "arguments": _json(given)},
                }
                for (name, given), result in zip(calls, results, strict=True)
            ]
        self._messages += [answer, *results]
        return [result["content"] for result in results]

    def finish(self, *probes: tuple[str, str, str]) -> Chat:
        """Return the session; probes are (kind, question, answer), of which a message of the user has the answer."""
        own = ({"kind": kind, "question": question, "answer": answer} for kind, question, answer in probes)
        return {
            "id": self._name,
            "model": "scripted",
            "domain": self._domain,
            "license": "MIT",
            "messages": self._messages,
            "tools": [tool_schema(tool) for tool in self._tools],
            "probes": [*derive_probes(self._messages), *(add_evidence(probe, self._messages) for probe in own)],
        }

    def _run(self, name: str, arguments: dict[str, Any]) -> Chat:
        self._calls += 1
        result: Chat = {"role": "tool", "tool_call_id": f"call_{self._calls:04d}", "name": name}
        try:
            return {**result, "content": self._by_name[name].run(**arguments)}
        except ToolError as error:
            return {**result, "content": str(error), "is_error": True}


def _unwrap(text: str) -> str:
    """Return a text as one line, as people type it."""
    return " ".join(text.split())


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


@contextmanager
def workshop(files: Mapping[str, str]) -> Iterator[Workshop]:
    """Make a working folder with these files, for as long as the session is recorded."""
    with tempfile.TemporaryDirectory() as folder:
        yield Workshop(Path(folder), files)
