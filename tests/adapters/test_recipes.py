"""The programs of the pages of recipes: models are played on loopback, servers are real."""

import importlib
import io
import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

import compaction_hooks
from compaction_hooks import CompactionController
from compaction_hooks.stores import SQLiteStore
from tests.conversations import WORDS, prose, talk
from tests.provider import Answer, Call, LoopbackProvider, Received, Side
from tests.stores.servers import PASSWORD, postgres_server, redis_server

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("recipes", "recipes-services")
PROGRAMS: dict[str, str] = {
    name: program
    for page in PAGES
    for program, name in re.findall(
        r"^```python\n(# (\w+)\.py\n.*?)^```$",
        (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    )
}
"""By the name of its file, without its ending."""
GUARD = """\
from typing import Any

from compaction_hooks import CompactionController, CompactionSession
from openai_loop import FUNCTIONS, MODEL, read_file, run

messages: list[Any] = [{"role": "user", "content": "Port the parser as the guide says."}]
session: CompactionSession[Any] = CompactionController(model=MODEL).session("thread-1")
seen: dict[str, int] = {}  # by path: the place of its result


def read_once(path: str) -> str:
    if path in seen and seen[path] not in {part.message for part in session.covered(messages)}:
        return "You have read this file, and it has not changed: see above."
    text, seen[path] = read_file(path), len(messages)
    return text


FUNCTIONS["read_file"] = read_once
print(run(messages, session))
"""
"""The guard that a page of recipes describes in words."""
WINDOW = 12_000
SUMMARY = "[Conversation summary]"
APART = """
import json, sys
from tests.adapters.test_recipes import run_programs

run_programs(*json.loads(sys.argv[1]))
"""
"""Runs programs in a process of their own."""


class InSmallWindow(CompactionController[Any]):
    """A controller for which every model has a small window."""

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**{**keywords, "context_window": WINDOW})


def run_programs(names: Sequence[str], arguments: Sequence[str] = (), then: str = "") -> None:
    """Run programs in this folder, with small windows, and then more code that has the names of the last."""
    known: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction_hooks, "CompactionController", InSmallWindow)
        patch.syspath_prepend(os.getcwd())
        sys.modules.pop("openai_loop", None)  # of another folder
        for name in names:
            patch.setattr(sys, "argv", [f"{name}.py", *arguments])
            known = runpy.run_path(f"{name}.py", run_name="__main__")
        exec(then, known)


class Stage:
    """A folder in which programs run, and the side of the provider that they reach."""

    def __init__(self, folder: Path, provider: LoopbackProvider, side: Side) -> None:
        self.folder = folder
        self.side = side
        self.environment = {
            "OPENAI_API_KEY": "recipes",
            "OPENAI_BASE_URL": provider.openai_url,
            "ANTHROPIC_API_KEY": "recipes",
            "ANTHROPIC_BASE_URL": provider.anthropic_url,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "adapters")]),
        }

    def start(
        self, name: str, arguments: Sequence[str] = (), then: str = "", **environment: str
    ) -> subprocess.Popen[str]:
        """Start a program in a process of its own, with more code after it that has its names."""
        self._write(name)
        return subprocess.Popen(
            [sys.executable, "-c", APART, json.dumps([[name], arguments, then])],
            cwd=self.folder,
            env=os.environ | self.environment | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run_apart(self, name: str, arguments: Sequence[str] = (), then: str = "", **environment: str) -> str:
        """Run a program in a process of its own to its end; return what it printed."""
        process = self.start(name, arguments, then, **environment)
        printed, told = process.communicate()
        assert process.returncode == 0, told
        assert self.side.rejections == []
        return printed

    def run(self, *names: str, then: str = "", typed: str = "") -> str:
        """Run programs in this process, with more code after them that has the names of the last; return what they printed."""
        self._write(*names)
        printed = io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed):
            patch.chdir(self.folder)
            patch.setattr(sys, "stdin", io.StringIO(typed))
            for name, value in self.environment.items():
                patch.setenv(name, value)
            run_programs(names, then=then)
        assert self.side.rejections == []
        return printed.getvalue()

    def _write(self, *names: str) -> None:
        for name in {*names, "openai_loop"}:  # others import from it
            (self.folder / f"{name}.py").write_text(PROGRAMS.get(name, GUARD), encoding="utf-8")

    def read_files(self, count: int) -> None:
        """Let the model read a file so many times before it answers."""
        (self.folder / "src.py").write_text(prose(1_000), encoding="utf-8")
        self.side.answers.extend(
            Answer(f"Step {number}. {prose(400)}", (Call("read_file", {"path": path}),))
            for number, path in enumerate(["missing.py", *["src.py"] * count])
        )
        self.answer(1)

    def answer(self, count: int) -> None:
        """Let the model give so many answers."""
        self.side.answers.extend([Answer("It is ported.")] * count)


@pytest.fixture
def stage(tmp_path: Path, provider: LoopbackProvider) -> Stage:
    return Stage(tmp_path, provider, provider.conversation("recipes", window=WINDOW))


def needs(*modules: str) -> Callable[[Any], Any]:
    """Skip a test unless these modules are installed."""
    missing = [module for module in modules if not _is_installed(module)]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {missing}")


def _is_installed(module: str) -> bool:
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True


@needs("openai")
def test_a_loop_of_openai_goes_on_behind_a_summary_and_a_stream_tells_its_usage(stage: Stage) -> None:
    stage.read_files(20)
    stage.answer(1)
    shown = "print(session.state().is_estimate, messages[-1]['content'])"
    assert stage.run("openai_loop", "openai_stream", then=shown) == PRINTED
    check_loop(stage.side, "gpt-5.4-mini")


@needs("anthropic")
def test_a_loop_of_anthropic_has_two_cache_marks_in_each_request_and_a_stream_tells_its_usage(stage: Stage) -> None:
    stage.read_files(20)
    stage.answer(1)
    shown = "print(session.state().is_estimate, messages[-1]['content'][0].text)"
    assert stage.run("anthropic_loop", "anthropic_stream", then=shown) == PRINTED
    check_loop(stage.side, "claude-haiku-5-5")
    for request in stage.side.model_requests[:-1]:
        assert request.body["cache_control"] == request.body["system"][-1]["cache_control"] == {"type": "ephemeral"}
        assert str(request.body).count("cache_control") == 2


PRINTED = "It is ported.\nIt is ported.False It is ported.\n"
"""By a loop, a stream, and the code after it: the size is no estimate, and the answer is in the list."""


def check_loop(side: Side, writer: str) -> None:
    """Check that the whole task was done, that this model wrote summaries, and that the requests behind them have them."""
    *loop, _ = side.model_requests
    assert len(loop) == 22
    assert {request.body["model"] for request in side.requests if request.is_summary} == {writer}
    assert SUMMARY in str(loop[-1].messages)
    assert "No such file" in str(loop[1].messages)


@needs("openai")
def test_skills_come_back_word_for_word_behind_each_summary_and_the_plan_as_it_is_now(stage: Stage) -> None:
    skills = {
        name: f"# {name}\n" + "".join(f"- rule {n} of {name}: {WORDS}\n" for n in range(6)) for name in ("style", "pdf")
    }
    for name, text in skills.items():
        (stage.folder / "skills" / name).mkdir(parents=True)
        (stage.folder / "skills" / name / "SKILL.md").write_text(text, encoding="utf-8")
    stage.side.answers.append(Answer("I load it.", (Call("skill", {"name": "pdf"}),)))
    plans = [f"1. Read all.\n2. Port {name}.\n" for name in ("the lexer", "the parser")]
    for plan in plans:
        stage.side.answers.append(Answer("I plan.", (Call("write_plan", {"text": plan}),)))
        stage.side.answers.extend([Answer(f"I read. {prose(400)}", (Call("read_file", {"path": "src.py"}),))] * 10)
    (stage.folder / "src.py").write_text(prose(1_000), encoding="utf-8")
    stage.answer(1)
    stage.run("skills")
    shown = list_summaries(stage.side)
    assert len({*shown}) > 1
    assert all(text.strip() in summary for summary in shown for text in skills.values())
    for summary, plan in ((shown[0], plans[0]), (shown[-1], plans[1])):
        assert f'<carried name="PLAN.md">\n{plan.strip()}' in summary


def list_summaries(side: Side) -> list[str]:
    """Return the message with the summary of each request that has one."""
    texts = [str(message.get("content")) for request in side.model_requests for message in request.messages]
    return [text for text in texts if SUMMARY in text]


@needs("openai")
def test_the_whole_list_is_archived_before_the_shorter_one_is_kept(stage: Stage) -> None:
    questions = [f"Question {number}: {prose(900)}" for number in range(20)]
    (stage.folder / "questions.txt").write_text("\n".join(questions), encoding="utf-8")
    stage.answer(len(questions))
    kept = int(stage.run("archive").split()[0])
    lines = (stage.folder / "archive.jsonl").read_text(encoding="utf-8").splitlines()
    archived = {message["content"] for line in lines for message in json.loads(line)["messages"]}
    assert len(lines) > 1
    assert 0 < kept < len(questions)
    assert {*questions[:-6]} <= archived


@needs("openai")
def test_a_guard_blocks_a_second_reading_only_while_the_first_is_in_view(stage: Stage) -> None:
    names = ["guide", "guide", "a", "b", "c", "guide", "guide"]
    for name in names:
        (stage.folder / name).write_text(f"The {name}: {prose(2_600)}", encoding="utf-8")
    stage.side.answers.extend(Answer(f"I read {name}.", (Call("read_file", {"path": name}),)) for name in names)
    stage.answer(1)
    stage.run("loop_guard")
    results = [str(request.messages[-1]["content"]) for request in stage.side.model_requests[1:]]
    assert ["have read this file" in result for result in results] == [False, True, False, False, False, False, True]
    assert str(stage.side.requests[-1].messages).count("The guide: ") == 1, "the guard tells what is in view"


@needs("openai")
def test_a_chat_is_compacted_and_the_compaction_undone(stage: Stage) -> None:
    lines = [f"Read this: {prose(700)}"] * 8
    stage.answer(9)
    printed = stage.run("chat", typed="\n".join([*lines, "/compact the API", "/undo", "Go on."])).splitlines()
    compacted, small, undone, large, ported, size = printed[2 * len(lines) :]
    page = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    assert without_figures(f"```\n{compacted}\n{small}\n```") in without_figures(page)
    assert (undone, ported) == ("undone", "It is ported.")
    assert without_figures(size) == without_figures(small).replace("about ", "")
    assert int(small.split()[1].replace(",", "")) < int(large.split()[1].replace(",", ""))
    (asked,) = (request for request in stage.side.requests if request.is_summary)
    assert "the API" in str(asked.messages)


def without_figures(text: str) -> str:
    """Return a text without the sizes in it, which depend on the tokenizers that are installed."""
    return re.sub(r"[\d,]+", "", text)


def test_the_data_of_one_user_is_deleted_and_nothing_else(stage: Stage) -> None:
    store = SQLiteStore(stage.folder / "records.db")
    controller: Any = CompactionController(context_window=WINDOW, store=store)
    for id in ("user-7/a", "user-7/b", "user-70/a", "user-8/thread-1"):
        controller.session(id).compact_sync(talk(20), keep_recent_tokens=300)
    assert stage.run("delete") == "['user-7/a', 'user-7/b']\n"
    assert store.session_ids() == ["user-70/a"]
    store.close()


GRAPH = """
for _ in range(8):
    graph.invoke({"messages": [HumanMessage("Read this: " + "the parser reads every line of the file. " * 200)]}, thread)
print(len(graph.get_state(thread).values["messages"]), PostgresStore(pool).session_ids("user-7/"))
compact.forget_sync(graph, thread)
print(graph.get_state(thread).values, PostgresStore(pool).session_ids())
pool.close()
"""


@pytest.mark.full
@needs("langchain_openai", "langgraph.checkpoint.postgres", "psycopg_pool")
def test_a_graph_keeps_checkpoints_and_records_in_one_database(stage: Stage) -> None:
    stage.answer(9)
    with postgres_server() as server:
        url = f"postgresql://worker:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{server.port}/postgres"
        printed = stage.run_apart("graph", then=GRAPH, DATABASE_URL=url)
    assert printed.splitlines() == ["It is ported.", "18 ['user-7/thread-1']", "{} []"]
    assert SUMMARY in str(stage.side.model_requests[-1].messages)


WEB = f"""
import asyncio, httpx, runpy

async def use():
    workers = [app, runpy.run_path("web.py")["app"]]
    clients = [httpx.AsyncClient(transport=httpx.ASGITransport(worker), base_url="http://web") for worker in workers]

    async def ask(client, text):
        assert (await client.post("/chat/user-7/a", json={{"text": text}})).json() == {{"text": "It is ported."}}

    for number in range(6):
        await asyncio.gather(*(ask(client, "Read this: " + "{prose(1_200)}") for client in clients))
    said = [message["role"] for message in json.loads(await redis.hget("messages:user-7", "a"))]
    print(said == ["user", "assistant"] * 12, await RedisStore(redis).session_ids())
    for client in clients:
        assert (await client.delete("/users/user-7")).status_code == 204
        await client.aclose()
    print(await redis.keys("*"))
    await redis.aclose()

asyncio.run(use())
"""


@needs("openai", "redis", "starlette", "httpx")
def test_two_workers_serve_one_conversation_at_once(stage: Stage) -> None:
    stage.answer(12)
    with redis_server() as server:
        printed = stage.run_apart(
            "web", then=WEB, REDIS_URL=f"redis://:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{server.port}/0"
        )
    assert printed.splitlines() == ["True ['user-7/a']", "[]"]
    assert SUMMARY in str(stage.side.model_requests[-1].messages)


@pytest.mark.full
@needs("openai", "dbos")
def test_a_workflow_that_is_killed_goes_on_with_the_same_view_and_pays_for_no_summary_twice(stage: Stage) -> None:
    tasks = [f"{prose(700)} {number}" for number in range(17)]
    running = stage.start("workflow", tasks)

    def kill(received: Received) -> Answer:
        if len(stage.side.model_requests) == 15:  # the last but one comes in
            running.kill()
        return Answer("It is ported.")

    stage.side.think = kill
    running.communicate()
    before = [*stage.side.requests]
    assert SUMMARY in str(before[-1].messages)
    assert stage.run_apart("workflow", tasks) == "It is ported.\n"
    after = stage.side.requests[len(before) :]
    assert [request.is_summary for request in after] == [False] * 2
    assert after[0].body == before[-1].body


def test_every_recipe_is_run() -> None:
    runs = re.findall(r"stage\.run\w*\(([^)]*)", Path(__file__).read_text(encoding="utf-8"))
    assert {name for run in runs for name in re.findall(r'(?<!=)"(\w+)"', run)} == {*PROGRAMS, "loop_guard"}
