"""What providers reject, as data, and one checker over neutral messages.

`RULES` says which provider rejects what, and where that is seen. One walk over the messages finds every breach of every rule;
the provider in question only selects among them.

Not here, because a compaction cannot break it or neutral messages cannot show it: request parameters (thinking switched on
needs thinking blocks in the last turn; kept messages keep theirs), item ids (Responses wants the reasoning item of a call it
knows by id; the two are never cut apart), the form of call ids, limits on sizes and counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from compaction_hooks.messages import Message, Part, Role, Text, Thinking, ToolCall, ToolResult

Provider: TypeAlias = Literal["openai_chat", "openai_responses", "anthropic"]
"""Whose API will receive the messages; the same words as the names of the formats."""

RuleId: TypeAlias = Literal[
    "empty_list",
    "only_system",
    "first_not_user",
    "system_inside",
    "empty_content",
    "dangling_reasoning",
    "unanswered_call",
    "orphan_result",
    "detached_result",
    "split_step",
    "duplicate_result",
    "duplicate_call",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One thing that some providers reject.

    Attributes:
        says: What is wrong with a message that breaks it.
        sources: For each provider that rejects it, where its documentation or its error message was read (November 2026).
    """

    id: RuleId
    says: str
    sources: Mapping[Provider, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One breach of a rule. Holds no text of the conversation.

    Attributes:
        index: The message it shows at; None when it is the list as a whole.
        call_id: The tool call it is about; "" when it is about none.
        text: What is wrong, for people.
    """

    rule: RuleId
    index: int | None
    call_id: str
    text: str


_GITHUB: Final = "https://github.com/"

RULES: Final[tuple[Rule, ...]] = (
    Rule(
        id="empty_list",
        says="there are no messages",
        sources={
            "openai_chat": _GITHUB + "run-llama/llama_index/issues/9373",
            "openai_responses": "https://platform.openai.com/docs/api-reference/responses/create",
            "anthropic": _GITHUB + "Helicone/helicone/pull/5257",
        },
    ),
    Rule(
        id="only_system",
        says="there are only system messages, which this provider does not count as messages",
        sources={"anthropic": _GITHUB + "Helicone/helicone/pull/5257"},
    ),
    Rule(
        id="first_not_user",
        says="the first message after the system prompt is the assistant's",
        sources={"anthropic": _GITHUB + "lobehub/lobehub/issues/1601"},
    ),
    Rule(
        id="system_inside",
        says="a system message stands after the conversation began",
        sources={"anthropic": _GITHUB + "ianarawjo/ChainForge/issues/271"},
    ),
    Rule(
        id="empty_content",
        says="the message or one of its texts is empty or only white space",
        sources={"anthropic": _GITHUB + "anthropics/claude-code/issues/23440"},
    ),
    Rule(
        id="dangling_reasoning",
        says="reasoning is not followed by what it led to",
        sources={
            "openai_responses": _GITHUB + "continuedev/continue/issues/8933",
            "anthropic": _GITHUB + "tailcallhq/forgecode/issues/2107",
        },
    ),
    Rule(
        id="unanswered_call",
        says="a tool call has no result",
        sources={
            "openai_chat": _GITHUB + "evalstate/fast-agent/issues/314",
            "openai_responses": _GITHUB + "bytedance/trae-agent/issues/245",
            "anthropic": _GITHUB + "anthropics/claude-code/issues/8210",
        },
    ),
    Rule(
        id="orphan_result",
        says="a tool result answers no call before it",
        sources={
            "openai_chat": _GITHUB + "FoundationAgents/OpenManus/issues/744",
            "openai_responses": _GITHUB + "continuedev/continue/issues/10092",
            "anthropic": _GITHUB + "anthropics/claude-code/issues/18947",
        },
    ),
    Rule(
        id="detached_result",
        says="something else stands between a tool call and its result",
        sources={
            "openai_chat": _GITHUB + "evalstate/fast-agent/issues/314",
            "anthropic": _GITHUB + "anthropics/anthropic-sdk-typescript/issues/653",
        },
    ),
    Rule(
        id="split_step",
        says="another message of the assistant stands between a tool call and its result",
        sources={"openai_chat": _GITHUB + "evalstate/fast-agent/issues/314"},
    ),
    Rule(
        id="duplicate_result",
        says="a tool call is answered a second time",
        sources={
            "openai_chat": _GITHUB + "agno-agi/agno/issues/5116",
            "openai_responses": _GITHUB + "NousResearch/hermes-agent/issues/102629",
            "anthropic": _GITHUB + "QwenLM/qwen-code/pull/8163",
        },
    ),
    Rule(
        id="duplicate_call",
        says="two tool calls of the conversation have the same id",
        sources={
            "openai_responses": _GITHUB + "NousResearch/hermes-agent/issues/102629",
            "anthropic": _GITHUB + "trycua/cua/issues/524",
        },
    ),
)


def problems(messages: Sequence[Message], provider: Provider | None = None) -> list[Problem]:
    """Return what a provider would reject in these messages, in the order it shows; empty when they are valid.

    Time is linear in the messages. A call still open at the end counts as unanswered: ask before a request, not within a step.

    Args:
        messages: What is to be sent, system messages included, each speaker on its own as `MessageFormat.read` gives them.
        provider: Whose rules apply. None applies all, for messages that may go to any provider.
    """
    says = {rule.id: rule.says for rule in RULES if provider is None or provider in rule.sources}
    found = [breach for breach in _breaches(messages) if breach.rule in says]
    return [Problem(rule=rule, index=index, call_id=call_id, text=says[rule]) for rule, index, call_id in found]


def worsened(before: Sequence[Message], after: Sequence[Message], provider: Provider | None = None) -> list[Problem]:
    """Return the problems of `after` that `before` did not have already.

    A history may have been broken before us. Two problems are the same when rule and call id are, whatever their place; as
    many of a kind as there were before are forgiven.
    """
    found = problems(after, provider)
    if not found:
        return found
    forgiven = Counter((problem.rule, problem.call_id) for problem in problems(before, provider))
    fresh = list[Problem]()
    for problem in found:
        key = (problem.rule, problem.call_id)
        if forgiven[key]:
            forgiven[key] -= 1
        else:
            fresh.append(problem)
    return fresh


class _Breach(NamedTuple):
    rule: RuleId
    at: int | None = None
    call_id: str = ""


def _breaches(messages: Sequence[Message]) -> list[_Breach]:
    found = [*_list_breaches(messages), *_content_breaches(messages), *_Pairing().breaches(messages)]
    return sorted(found, key=lambda breach: -1 if breach.at is None else breach.at)


def _list_breaches(messages: Sequence[Message]) -> Iterator[_Breach]:
    if not messages:
        yield _Breach("empty_list")
        return
    first = next((index for index, message in enumerate(messages) if message.role != "system"), None)
    if first is None:
        yield _Breach("only_system")
        return
    if messages[first].role == "assistant":
        yield _Breach("first_not_user", first)
    for index in range(first + 1, len(messages)):
        if messages[index].role == "system":
            yield _Breach("system_inside", index)


def _content_breaches(messages: Sequence[Message]) -> Iterator[_Breach]:
    last = len(messages) - 1
    for index, message in enumerate(messages):
        is_last_word = index == last and message.role == "assistant"
        if (not message.parts and not is_last_word) or any(map(_is_blank, message.parts)):
            yield _Breach("empty_content", index)
        # Messages of the assistant in a row are one turn to the provider: only what ends the turn can dangle.
        ends_turn = index == last or messages[index + 1].role != "assistant"
        if ends_turn and message.role == "assistant" and message.parts and isinstance(message.parts[-1], Thinking):
            yield _Breach("dangling_reasoning", index)


def _is_blank(part: Part) -> bool:
    return isinstance(part, Text) and (not part.text or part.text.isspace())


class _Open(NamedTuple):
    """A call that waits: the message it stands in, the assistant's turn, how many interruptions there were until then."""

    at: int
    turn: int
    interruptions: int


class _Pairing:
    """Walks the messages once and matches each result to the newest open call with its id."""

    def __init__(self) -> None:
        self._open: dict[str, list[_Open]] = {}
        self._asked: set[str] = set()
        self._speaker = ""
        self._assistant_at = -1
        self._turn = 0
        self._interruptions = 0

    def breaches(self, messages: Sequence[Message]) -> Iterator[_Breach]:
        for index, message in enumerate(messages):
            self._enter(index, message.role)
            for part in message.parts:
                if isinstance(part, ToolCall):
                    yield from self._ask(index, part.id)
                elif isinstance(part, ToolResult):
                    yield from self._answer(index, part.call_id)
        for call_id, waiting in self._open.items():
            for call in waiting:
                yield _Breach("unanswered_call", call.at, call_id)

    def _enter(self, index: int, role: Role) -> None:
        if role == "assistant":
            if self._speaker != "assistant":
                self._turn += 1
            self._assistant_at = index
        elif role != "tool":
            self._interruptions += 1
        self._speaker = role

    def _ask(self, index: int, call_id: str) -> Iterator[_Breach]:
        if call_id and call_id in self._asked:  # calls of the legacy chat API all have the id ""
            yield _Breach("duplicate_call", index, call_id)
        self._asked.add(call_id)
        self._open.setdefault(call_id, []).append(_Open(index, self._turn, self._interruptions))

    def _answer(self, index: int, call_id: str) -> Iterator[_Breach]:
        waiting = self._open.get(call_id)
        if not waiting:
            yield _Breach("duplicate_result" if call_id in self._asked else "orphan_result", index, call_id)
            return
        call = waiting.pop()
        if call.turn != self._turn or call.interruptions != self._interruptions:
            yield _Breach("detached_result", index, call_id)
        elif call.at != self._assistant_at:
            yield _Breach("split_step", index, call_id)
