"""Broken histories in the messages of any format, and the checks of their repair."""

from collections import Counter
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Any

from compaction_hooks.formats import AnthropicFormat, BedrockConverseFormat, OpenAIChatFormat, OpenAIResponsesFormat
from compaction_hooks.messages import Message, Text, ToolCall
from compaction_hooks.repair import INTERRUPTED, NO_REQUEST, NO_WORDS, repaired
from compaction_hooks.validity import problems, provider_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """A message form for these tests.

    Attributes:
        asks: Returns the messages of an answer from a text, tool calls as (id, number), and whether reasoning comes first.
        tells: Returns the messages with results, given as (id, number).
    """

    format: Any
    system: Callable[[str], Any]
    user: Callable[[str], Any]
    asks: Callable[[str, Sequence[tuple[str, int]], bool], list[Any]]
    tells: Callable[[Sequence[tuple[str, int]]], list[Any]]

    def read(self, messages: Sequence[Any]) -> list[Message]:
        return [piece for message in messages for piece in self.format.read(message)]

    def problems(self, messages: Sequence[Any]) -> list[tuple[str, str]]:
        """Return the problems that `repaired` repairs."""
        provider = provider_of(self.format)
        found = [(problem.rule, problem.call_id) for problem in problems(self.read(messages), provider)]
        left = {"only_system", "empty_list"} if provider else {"only_system", "empty_list", "system_inside"}
        left |= {"role_repeated", "split_results"}  # these messages are sent as one
        return [(rule, call_id) for rule, call_id in found if rule not in left]

    def shape(self, messages: Sequence[Any]) -> list[str]:
        """Return the messages in brief: u, a, s, with tool calls and results as ?id and =id, synthetic results as !id."""
        return [_brief(piece) for piece in self.read(messages)]


def _brief(piece: Message) -> str:
    calls = "".join(f"?{call.id}" for call in piece.calls)
    results = "".join(f"{'!' if result.text == INTERRUPTED else '='}{result.call_id}" for result in piece.results)
    return (piece.role[0] if piece.role != "tool" else "") + calls + results


def history(random: Random, dialect: Dialect) -> list[Any]:
    """Return a valid history: turns of texts and steps with one to three parallel tool calls, answered together or one by one."""
    messages = [dialect.system("Be brief.")] if random.random() < 0.5 else []
    number = 0
    for turn in range(random.randint(1, 4)):
        messages.append(dialect.user(f"request {turn}"))
        for _ in range(random.randint(0, 3)):
            calls = [(f"c{number + n}", number + n) for n in range(random.randint(1, 3))]
            number += len(calls)
            messages += dialect.asks(random.choice(["", f"step {number}"]), calls, random.random() < 0.3)
            random.shuffle(calls)
            cut = random.randint(0, len(calls))
            for group in (calls[:cut], calls[cut:]):
                messages += dialect.tells(group) if group else []
        if random.random() < 0.7:
            messages += dialect.asks(f"answer {turn}", [], random.random() < 0.3)
    return messages


def broken(random: Random, dialect: Dialect) -> list[Any]:
    """Return a history with up to five faults: messages lost, repeated, moved, emptied, ids reused, results without a call."""
    messages = history(random, dialect)
    for _ in range(random.randint(0, 5)):
        at = random.randrange(len(messages) + 1)
        match random.randrange(9):
            case 0 | 1:
                del messages[at : at + random.randint(1, 2)]
            case 2:
                messages[at:at] = messages[at : at + 1]
            case 3 | 4:
                moved = messages[at : at + 1]
                del messages[at : at + 1]
                to = random.randrange(len(messages) + 1)
                messages[to:to] = moved
            case 5:
                messages.insert(at, dialect.user(random.choice(["", " \n"])))
            case 6:
                messages[at:at] = dialect.asks(random.choice(["", " "]), [], random.random() < 0.5)
            case 7:
                messages[at:at] = dialect.asks("again", [(f"c{random.randrange(4)}", 90)], random.random() < 0.5)
            case _:
                messages[at:at] = dialect.tells([(f"c{random.randrange(6)}", 91)])
    return messages


def check_repair(dialect: Dialect, before: list[Any]) -> list[Any]:
    """Repair a history, check the result, and return it."""
    untouched = deepcopy(before)
    after = repaired(before, dialect.format)
    shapes = (dialect.shape(before), dialect.shape(after))
    assert list(map(repr, before)) == list(map(repr, untouched)), "the input was changed"
    assert dialect.problems(after) == [], shapes
    assert repaired(after, dialect.format) is after, shapes
    assert list(map(repr, repaired(deepcopy(before), dialect.format))) == list(map(repr, after)), shapes
    if dialect.problems(before) == []:
        assert after is before, shapes
    _check_nothing_is_lost(dialect.read(before), dialect.read(after), shapes)
    return after


def _check_nothing_is_lost(before: list[Message], after: list[Message], shapes: object) -> None:
    assert _words(after, "user") == _words(before, "user"), shapes
    assert _words(after, "assistant") == _words(before, "assistant"), shapes
    assert [(c.name, c.arguments) for c in _calls(after)] == [(c.name, c.arguments) for c in _calls(before)], shapes
    wrong = Counter(problem.rule for problem in problems(before, None))
    kept = Counter(result.text for piece in after for result in piece.results)
    synthetic = kept.pop(INTERRUPTED, 0)
    had = Counter(result.text for piece in before for result in piece.results)
    had.pop(INTERRUPTED, None)
    assert synthetic == wrong["unanswered_call"], shapes
    assert kept <= had, shapes
    assert had.total() - kept.total() == wrong["orphan_result"] + wrong["duplicate_result"], shapes


def _words(pieces: Sequence[Message], role: str) -> list[str]:
    parts = [part for piece in pieces if piece.role == role for part in piece.parts]
    texts = [part.text for part in parts if isinstance(part, Text) and part.text.strip()]
    return [text for text in texts if text not in (NO_WORDS, NO_REQUEST)]


def _calls(pieces: Sequence[Message]) -> list[ToolCall]:
    return [call for piece in pieces for call in piece.calls]


def check_prefix(dialect: Dialect, shorter: list[Any], added: list[Any]) -> bool:
    """Check that a longer list is repaired like the shorter one; return False if the added messages answer its tool calls."""
    pieces = dialect.read(shorter)
    open_ids = {problem.call_id for problem in problems(pieces, None) if problem.rule == "unanswered_call"}
    news = dialect.read(added)
    answers = any(result.call_id in open_ids for piece in news for result in piece.results)
    if answers or not news or news[0].role != "user" or any(piece.role == "system" for piece in news):
        return False
    if pieces and pieces[-1].role == "assistant" and not pieces[-1].parts:
        return False  # an empty message is valid only at the end
    first = repaired(shorter, dialect.format)
    longer = repaired(shorter + added, dialect.format)
    assert list(map(repr, longer[: len(first)])) == list(map(repr, first)), (
        dialect.shape(first),
        dialect.shape(longer),
    )
    return True


Calls = Sequence[tuple[str, int]]


def _chat_asks(text: str, calls: Calls, thinks: bool) -> list[Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if thinks:
        message["reasoning_content"] = "hm"
    if calls:
        message["tool_calls"] = [
            {"id": id, "type": "function", "function": {"name": "run", "arguments": f'{{"n":{n}}}'}} for id, n in calls
        ]
    return [message]


def _chat_tells(results: Calls) -> list[Any]:
    return [{"role": "tool", "tool_call_id": id, "content": f"result {n}"} for id, n in results]


CHAT = Dialect(
    format=OpenAIChatFormat(),
    system=lambda text: {"role": "system", "content": text},
    user=lambda text: {"role": "user", "content": text or None},
    asks=_chat_asks,
    tells=_chat_tells,
)


def _anthropic_asks(text: str, calls: Calls, thinks: bool) -> list[Any]:
    blocks: list[Any] = [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}] if thinks else []
    blocks += [{"type": "text", "text": text}] if text else []
    blocks += [{"type": "tool_use", "id": id, "name": "run", "input": {"n": n}} for id, n in calls]
    return [{"role": "assistant", "content": blocks}]


def _anthropic_tells(results: Calls) -> list[Any]:
    blocks = [{"type": "tool_result", "tool_use_id": id, "content": f"result {n}"} for id, n in results]
    return [{"role": "user", "content": blocks}]


ANTHROPIC = Dialect(
    format=AnthropicFormat(),
    system=lambda text: {"role": "system", "content": text},
    user=lambda text: {"role": "user", "content": text},
    asks=_anthropic_asks,
    tells=_anthropic_tells,
)


def _responses_asks(text: str, calls: Calls, thinks: bool) -> list[Any]:
    items: list[Any] = [{"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "gAAA"}] if thinks else []
    items += (
        [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}] if text else []
    )
    for id, n in calls:
        items.append({"type": "function_call", "call_id": id, "name": "run", "arguments": f'{{"n":{n}}}'})
    return items


def _responses_tells(results: Calls) -> list[Any]:
    return [{"type": "function_call_output", "call_id": id, "output": f"result {n}"} for id, n in results]


RESPONSES = Dialect(
    format=OpenAIResponsesFormat(),
    system=lambda text: {"role": "developer", "content": text},
    user=lambda text: {"role": "user", "content": text},
    asks=_responses_asks,
    tells=_responses_tells,
)


def _converse_asks(text: str, calls: Calls, thinks: bool) -> list[Any]:
    reasoning = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}}
    blocks: list[Any] = [reasoning] if thinks else []
    blocks += [{"text": text}] if text else []
    blocks += [{"toolUse": {"toolUseId": id, "name": "run", "input": {"n": n}}} for id, n in calls]
    return [{"role": "assistant", "content": blocks}]


def _converse_tells(results: Calls) -> list[Any]:
    blocks = [{"toolResult": {"toolUseId": id, "content": [{"text": f"result {n}"}]}} for id, n in results]
    return [{"role": "user", "content": blocks}]


CONVERSE = Dialect(
    format=BedrockConverseFormat(),
    system=lambda text: {"role": "system", "content": [{"text": text}]},
    user=lambda text: {"role": "user", "content": [{"text": text}]},
    asks=_converse_asks,
    tells=_converse_tells,
)

ALL = {"chat": CHAT, "anthropic": ANTHROPIC, "responses": RESPONSES, "converse": CONVERSE}
