"""One walk over neutral messages that finds every breach of the rules that hold.

Not found, because neutral messages do not show it: what depends on the request's parameters or on the model (thinking switched
on needs thinking blocks in the last turn; whether the assistant may have the last word), ids of items (Responses wants the
reasoning item of a call it knows by id; the two are never cut apart), limits on sizes and counts, and whether results and words
of the user that follow one another are one message or two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from compaction_hooks.messages import Message, Opaque, Part, Provider, Text, Thinking, ToolCall, ToolResult, is_blank
from compaction_hooks.reasoning import is_reasoning
from compaction_hooks.validity.rules import RULES, RuleId, rules_of, takes_call_id


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


def problems(messages: Sequence[Message], provider: Provider | None = None, *, stale_until: int = 0) -> list[Problem]:
    """Return what a provider would reject in these messages, in the order it shows; empty when they are valid.

    Time is linear in the messages. A call still open at the end counts as unanswered: ask before a request, not within a step.

    Args:
        messages: What is to be sent, system messages included, each speaker on its own as `MessageFormat.read` gives them.
        provider: Whose rules apply. None applies all that no client library puts right by itself (`Rule.left_to_clients`),
            for messages that may go to any provider.
        stale_until: Reasoning in the messages before this index was made behind another beginning of the conversation than the
            one in front of it now. For a model that does not bind its reasoning (`binds_reasoning`) that is no problem: 0.
    """
    return _Walk(rules_of(provider), provider).problems(messages, stale_until)


def worsened(
    before: Sequence[Message], after: Sequence[Message], provider: Provider | None = None, *, stale_until: int = 0
) -> list[Problem]:
    """Return the problems of `after` that `before` did not have already.

    A history may have been broken before us. Two problems are the same when rule and call id are, whatever their place; as
    many of a kind as there were before are forgiven.

    Args:
        stale_until: Of `after`, as in `problems`.
    """
    found = problems(after, provider, stale_until=stale_until)
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


def is_alike(old: Sequence[Message], new: Sequence[Message]) -> bool:
    """Whether messages differ in nothing but words, results and arguments, so that no rule tells them apart.

    A text that says something must go on saying something. False says nothing.
    """
    return len(old) == len(new) and all(
        before.role == after.role
        and len(before.parts) == len(after.parts)
        and all(map(_is_alike, before.parts, after.parts))
        for before, after in zip(old, new, strict=True)
    )


def _is_alike(old: Part, new: Part) -> bool:
    match old, new:
        case ToolResult(), ToolResult():
            return old.call_id == new.call_id
        case ToolCall(), ToolCall():
            return (old.id, old.opaque_chars) == (new.id, new.opaque_chars)
        case Text(), Text():
            return is_blank(old) or not is_blank(new)
        case _:
            return old == new


def is_server_call(part: Part) -> bool:
    """Whether a part asks for a tool that the provider runs itself, and gives its result in a part of its own."""
    return isinstance(part, Opaque) and part.kind in _SERVER_CALLS and part.call_id != ""


def is_server_result(part: Part) -> bool:
    """Whether a part is the result of a tool that the provider ran itself."""
    return isinstance(part, Opaque) and part.kind.endswith(_SERVER_RESULT) and part.call_id != ""


def foreign_rule(part: Opaque) -> RuleId | None:
    """Return the rule that a part breaks where it is sent to another provider than the one it came from."""
    if part.kind == "compaction":  # both have one; only that of OpenAI is sealed
        return "part_of_responses" if _SEALED in part.text else "part_of_anthropic"
    if part.kind in _OF_RESPONSES:
        return "part_of_responses"
    return "part_of_anthropic" if part.kind in _OF_ANTHROPIC or part.kind.endswith(_SERVER_RESULT) else None


_SAYS: Final = {rule.id: rule.says for rule in RULES}

_SERVER_CALLS: Final = frozenset({"server_tool_use", "mcp_tool_use"})
_SERVER_RESULT: Final = "_tool_result"
_SEALED: Final = '"encrypted_content"'

_OF_ANTHROPIC: Final = _SERVER_CALLS | {"container_upload"}
"""Blocks of Anthropic beside its server tools' results (https://docs.claude.com/en/api/messages)."""

_OF_RESPONSES: Final = frozenset(
    {
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "mcp_call",
        "mcp_list_tools",
        "mcp_approval_request",
        "mcp_approval_response",
        "tool_search_call",
        "tool_search_output",
        "additional_tools",
        "item_reference",
        "compaction_summary",
    }
)
"""Items of OpenAI Responses (as typed in the `openai` package 2.54)."""


class _Open(NamedTuple):
    """A call that waits: the message it stands in, the assistant's turn, how many interruptions there were until then."""

    at: int
    turn: int
    interruptions: int


class _Walk:
    """Walks the messages once and matches each result to the newest open call with its id."""

    def __init__(self, rules: frozenset[RuleId], provider: Provider | None) -> None:
        self._rules = rules
        self._provider: Provider | None = provider if "call_id_form" in rules else None
        self._found: list[Problem] = []
        self._open: dict[str, list[_Open]] = {}
        self._asked: dict[str, int] = {}
        self._server: dict[str, int] = {}
        self._unsigned: list[Problem] = []
        self._speaker = ""
        self._has_begun = False
        self._assistant_at = -1
        self._turn = 0
        self._called_turn = 0
        self._interruptions = 0

    def problems(self, messages: Sequence[Message], stale_until: int) -> list[Problem]:
        if not messages:
            self._find("empty_list", None)
        for index, message in enumerate(messages[:stale_until]):
            if any(map(is_reasoning, message.parts)):
                self._find("stale_reasoning", index)
        last = len(messages) - 1
        for index, message in enumerate(messages):
            role = message.role
            if role == "assistant":
                self._hear_assistant(index, message, None if index == last else messages[index + 1].role)
            else:
                self._hear_other(index, message)
            self._speaker = role
        if messages and not self._has_begun:
            self._find("only_system", None)
        for call_id, waiting in self._open.items():
            for call in waiting:
                self._find("unanswered_call", call.at, call_id)
        self._found += self._unsigned
        return sorted(self._found, key=lambda problem: -1 if problem.index is None else problem.index)

    def _find(self, rule: RuleId, at: int | None, call_id: str = "") -> None:
        if rule in self._rules:
            self._found.append(Problem(rule=rule, index=at, call_id=call_id, text=_SAYS[rule]))

    def _hear_assistant(self, index: int, message: Message, follower: str | None) -> None:
        if self._speaker != "assistant":
            self._turn += 1
        else:
            self._find("role_repeated", index)
        if not self._has_begun:
            self._has_begun = True
            self._find("first_not_user", index)
        self._assistant_at = index
        parts = message.parts
        if not parts:
            self._find("empty_content" if follower else "empty_answer", index)
            return
        has_call = False
        for part in parts:
            if isinstance(part, ToolCall):
                self._ask(index, part, is_first=not has_call)
                has_call = True
                continue
            if self._called_turn == self._turn and isinstance(part, Text | Thinking):
                self._find("words_after_call", index)
            if isinstance(part, Text):
                if is_blank(part):
                    self._find("blank_text", index)
            else:
                self._check_odd(index, part)
        if isinstance(parts[-1], Thinking):
            # Messages of the assistant in a row are one turn to the provider: only what ends the turn can dangle.
            if follower != "assistant":
                self._find("dangling_reasoning", index)
            if all(isinstance(part, Thinking) for part in parts):
                self._find("bare_reasoning", index)

    def _hear_other(self, index: int, message: Message) -> None:
        role = message.role
        if role == "tool":
            if self._speaker == "tool":
                self._find("split_results", index)
        else:
            self._interruptions += 1
            if role == "system":
                if self._has_begun:
                    self._find("system_inside", index)
            elif role == "user":
                self._hear_user(index)
        self._has_begun = self._has_begun or role != "system"
        if not message.parts:
            self._find("empty_content", index)
        for part in message.parts:
            if isinstance(part, ToolResult):
                self._answer(index, part)
            elif isinstance(part, Text):
                if is_blank(part):
                    self._find("blank_text", index)
            else:
                self._check_odd(index, part)

    def _hear_user(self, index: int) -> None:
        if self._speaker == "user":
            self._find("role_repeated", index)
        self._unsigned.clear()
        for call_id, at in self._server.items():
            self._find("open_server_call", at, call_id)
        self._server.clear()

    def _check_odd(self, index: int, part: Part) -> None:
        if isinstance(part, Thinking):
            if not part.opaque_chars:
                self._find("unsigned_reasoning", index)
        elif isinstance(part, Opaque):
            if rule := foreign_rule(part):
                self._find(rule, index)
            if is_server_call(part):
                if (earlier := self._server.get(part.call_id)) is not None:
                    self._find("open_server_call", earlier, part.call_id)
                self._server[part.call_id] = index
            elif is_server_result(part) and self._server.pop(part.call_id, None) is None:
                self._find("orphan_server_result", index, part.call_id)

    def _ask(self, index: int, call: ToolCall, *, is_first: bool) -> None:
        call_id = call.id
        if is_first:
            self._check_turn(index, call)
        turn = self._turn
        asked = self._asked.get(call_id)
        if asked is not None and call_id:  # calls of the legacy chat API all have the id ""
            self._find("twin_call" if asked == turn else "duplicate_call", index, call_id)
        self._asked[call_id] = turn
        if self._provider and not takes_call_id(self._provider, call_id):
            self._find("call_id_form", index, call_id)
        self._open.setdefault(call_id, []).append(_Open(index, turn, self._interruptions))

    def _check_turn(self, index: int, call: ToolCall) -> None:
        if self._speaker in ("assistant", "system", ""):
            self._find("call_out_of_turn", index, call.id)
        if self._called_turn != self._turn and not call.opaque_chars and "unsigned_call" in self._rules:
            self._unsigned.append(
                Problem(rule="unsigned_call", index=index, call_id=call.id, text=_SAYS["unsigned_call"])
            )
        self._called_turn = self._turn

    def _answer(self, index: int, result: ToolResult) -> None:
        call_id = result.call_id
        waiting = self._open.get(call_id)
        if not waiting:
            self._find("duplicate_result" if call_id in self._asked else "orphan_result", index, call_id)
            return
        call = waiting.pop()
        if call.turn != self._turn or call.interruptions != self._interruptions:
            self._find("detached_result", index, call_id)
        elif call.at != self._assistant_at:
            self._find("split_step", index, call_id)
