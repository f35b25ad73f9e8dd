"""Summaries by a real model: with prompts of LangChain and of files, with ours, and with ours as the library completes it."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from compaction_hooks import ExtractiveSummarizer, SummaryRequest
from tests.benchmarks.judge.contexts import Context, uncovered, with_summary
from tests.benchmarks.judge.moments import append_line, read_lines
from tests.benchmarks.judge.replaying import Replay
from tests.benchmarks.judge.texts import Moment, Turn, render
from tests.data import sessions

LANGCHAIN, OURS, COMPLETED = "LangChain's prompt", "our prompt", "our prompt, completed"
PLACE = "{conversation}"
"""The place of the conversation in the file of a prompt."""

Ask = Callable[[Sequence[Mapping[str, str]], int], str]
"""Returns a model's answer to chat messages, of at most so many tokens."""


class _Writer:
    """The default summarizer, but for one compaction, whose summary a model writes.

    Attributes:
        text: The model's answer; empty if it was not asked.
        max_tokens: The most tokens that it might have.
    """

    def __init__(self, ask: Ask, at: int) -> None:
        self.text, self.max_tokens = "", 0
        self.replay: Replay | None = None
        self._ask, self._at, self._by_rule = ask, at, ExtractiveSummarizer()

    def __call__(self, request: SummaryRequest) -> Any:
        if self.replay is None or self.replay.at != self._at:
            return self._by_rule(request)
        self.max_tokens = request.max_tokens
        self.text = self._ask(
            [{"role": "system", "content": request.system}, {"role": "user", "content": request.prompt}],
            request.max_tokens,
        )
        return self.text


def written_contexts(
    moment: Moment, messages: Sequence[Mapping[str, Any]], ask: Ask, prompts: Sequence[Path]
) -> Iterator[Context]:
    """Yield the contexts with summaries by a model: as the library sends them, and the bare texts in our wrapping."""
    writer = _Writer(ask, moment["at"])
    writer.replay = Replay(messages, moment["window"], moment["keep"], writer)
    last = None
    for last in writer.replay.calls(until=moment["at"]):  # noqa: B007 - the last one is wanted
        pass
    if not writer.text:
        print(f"no summary was asked of the model: {moment['case']}", file=sys.stderr)
        return
    if last and last.made and not last.made.used_fallback:
        yield Context(COMPLETED, [render(message) for message in last.view])
    else:
        print(f"the library refused the model's summary: {moment['case']}", file=sys.stderr)
    yield Context(OURS, with_summary(moment, writer.text))

    covered = uncovered(moment)
    others = {LANGCHAIN: langchain_prompt(covered), **{path.stem: fill_prompt(path, covered) for path in prompts}}
    for name, prompt in others.items():
        yield Context(name, with_summary(moment, ask([{"role": "user", "content": prompt}], writer.max_tokens)))


def langchain_prompt(covered: Sequence[Turn]) -> str:
    """Return LangChain's own prompt for a summary, with these messages written as it writes them."""
    from langchain.agents.middleware.summarization import DEFAULT_SUMMARY_PROMPT  # only these contexts need it

    kinds = {"user": "human", "assistant": "ai"}
    told = (f'<message type="{kinds.get(role, role)}">{escape(text)}</message>' for role, text in covered)
    prompt: str = DEFAULT_SUMMARY_PROMPT
    return prompt.format(messages="\n".join(told)).rstrip()


def fill_prompt(path: Path, covered: Sequence[Turn]) -> str:
    """Return the prompt in a file with these messages in its place."""
    before, place, behind = path.read_text(encoding="utf-8").partition(PLACE)
    if not place:
        sys.exit(f"{path}: the prompt has no {PLACE}, where the messages go")
    told = "\n\n".join(f"[{role.capitalize()}]: {text}" for role, text in covered)
    return f"{before}{told}{behind}".rstrip()


def load_written(
    folder: Path, moments: Sequence[Moment], data: Path, ask: Ask, prompts: Sequence[Path] = ()
) -> dict[str, list[Context]]:
    """Return the contexts of moments by their cases; those that the folder lacks are written first."""
    path = folder / "written.jsonl"
    found: dict[str, list[Context]] = {}
    for line in read_lines(path):
        found.setdefault(line["case"], []).append(Context(line["name"], line["messages"]))
    missing = [moment for moment in moments if moment["case"] not in found]
    wanted = {moment["session"] for moment in missing}
    listed = {one["id"]: one["messages"] for one in sessions(folder=data) if one["id"] in wanted}

    for number, moment in enumerate(missing, 1):
        made = [*written_contexts(moment, listed[moment["session"]], ask, prompts)]
        for context in made:
            append_line(path, {"case": moment["case"], "name": context.name, "messages": context.messages})
        found[moment["case"]] = made
        print(f"summaries by the model: {number} of {len(missing)} moments", flush=True)
    return found
