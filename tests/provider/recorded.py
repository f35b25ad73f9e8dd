"""Recorded conversations as scripts: the provider plays the assistant, the host's tools return the recorded results."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from compaction_hooks.testing import Answer, Script, Turn
from tests.data import sessions
from tests.provider.counting import count, pieces_of


def script_of(session: Mapping[str, Any]) -> Script:
    """Return the script of one record of ../shared/data/sessions.

    Consecutive user messages become one, as do an answer without tool calls and the next answer. Answers before the first user
    message and user messages without an answer are left out. A turn that ends in tool results gets the answer "(interrupted)".
    Images are left out.
    """
    messages = session["messages"]
    system = "\n\n".join(_text(message) for message in messages if message["role"] == "system")
    return Script(system=system, turns=tuple(turn for turn in _turns(messages) if turn.answers))


def read_scripts(pattern: str = "*", *, minimum_tokens: int = 0) -> Iterator[tuple[str, Script]]:
    """Yield the id and script of the recorded conversations with at least this many tokens."""
    for session in sessions(pattern):
        if not minimum_tokens or count(pieces_of(None, "", session["messages"])) >= minimum_tokens:
            yield session["id"], script_of(session)


def _turns(messages: Sequence[Mapping[str, Any]]) -> Iterator[Turn]:
    user: list[str] = []
    answers: list[Answer] = []
    results: list[str] = []
    for message in messages:
        match message["role"]:
            case "user":
                if answers:
                    yield _end_turn(user, answers, results)
                    user, answers, results = [], [], []
                user.append(_text(message) or "(image)")
            case "assistant" if user:
                answers = _with(answers, Answer.from_openai(message))
            case "tool" if user:
                results.append(_text(message))
            case _:
                pass
    yield _end_turn(user, answers, results)


def _with(answers: list[Answer], answer: Answer) -> list[Answer]:
    """Return the answers with one more; it is joined to an answer without tool calls, after which no agent continues."""
    if answers and not answers[-1].calls:
        text = "\n\n".join(one.text for one in (answers[-1], answer) if one.text.strip())
        return [*answers[:-1], replace(answer, text=text)]
    return [*answers, answer] if answer.text.strip() or answer.calls else answers


def _end_turn(user: Sequence[str], answers: Sequence[Answer], results: Sequence[str]) -> Turn:
    is_open = bool(answers and answers[-1].calls)
    return Turn("\n\n".join(user), (*answers, Answer("(interrupted)")) if is_open else tuple(answers), tuple(results))


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(block["text"] for block in content if block.get("type") == "text")
    return content or ""
