"""One walk over neutral messages that finds every breach of a provider's rules.

Neutral messages do not show, and this module does not find:

- rules that depend on the request's parameters: some models refuse a conversation that ends with the assistant while they think
- ids of items: Responses demands the reasoning item of a tool call that it knows by id (`testing.check_view` finds it missing)
- limits on sizes and counts
- whether a lone call without an id is one of OpenAI's legacy API, which has none, or lacks it
- whether tool results and a user's text in a row are one message or two
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from compaction_hooks.errors import FormatError
from compaction_hooks.formats.pairing import pair_all
from compaction_hooks.messages import (
    Media,
    Message,
    NativeSummary,
    Opaque,
    Part,
    Provider,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Value,
    is_blank,
)
from compaction_hooks.reasoning import Needed, find_family, has_reasoning
from compaction_hooks.validity.rules import RULES, RuleId, rules_of, takes_call_id


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Problem(Value):
    """One breach of a rule. Holds no text of the conversation.

    Attributes:
        index: The index of the message with the fault; None if the list as a whole has it.
        call_id: The id of the tool call concerned; "" if there is none.
        text: A description of the fault for people.
    """

    rule: RuleId
    index: int | None
    call_id: str
    text: str


def problems(
    messages: Sequence[Message], provider: Provider | None = None, *, model: str | None = None, stale: range = range(0)
) -> list[Problem]:
    """Return the faults for which a provider would reject these messages, in their order; empty if the messages are valid.

    Time is linear in the messages. A tool call still open at the end counts as unanswered: check before a request, not within
    a step.

    Args:
        messages: The messages to send, system messages included, one per speaker as `MessageFormat.read` returns them.
        provider: The provider whose rules apply. None, for messages that may go to any provider, applies all rules that no
            client library resolves by itself (`Rule.left_to_clients`).
        model: The model that will read the messages; None: any model of the provider. Some models need the reasoning of earlier
            answers. That it is missing shows only if other answers of the list have theirs.
        stale: Indexes of messages whose reasoning was made behind another beginning of the conversation than the present one. None
            for a model that does not bind its reasoning (`binds_reasoning`).

    Raises:
        FormatError: a message is no `Message`.
    """
    for message in cast("Sequence[object]", messages):
        if not isinstance(message, Message):
            wanted = "a message to check must be a Message(...)"
            raise FormatError(f"{wanted}, not {type(message).__name__}: read it with a MessageFormat")

    messages = pair_all(messages)
    family = find_family(model)
    faults: dict[RuleId, Iterable[int]] = {
        "stale_reasoning": [index for index in stale if has_reasoning(messages[index])],
        "missing_reasoning": _lacking_reasoning(messages, family.needed) if family else (),
    }
    return _Walk(rules_of(provider, model), provider).problems(messages, faults)


def worsened(
    before: Sequence[Message],
    after: Sequence[Message],
    provider: Provider | None = None,
    *,
    model: str | None = None,
    stale: range = range(0),
) -> list[Problem]:
    """Return the problems of `after` that `before` did not have already.

    The host's history may be broken already. Two problems are the same if their rule and tool call id are, in any place; as
    many of a kind as there were before are forgiven.

    Args:
        model: As in `problems`.
        stale: As in `problems`, for `after`.
    """
    faults = problems(after, provider, model=model, stale=stale)
    if not faults:
        return faults

    forgiven = Counter((problem.rule, problem.call_id) for problem in problems(before, provider, model=model))
    fresh = list[Problem]()
    for problem in faults:
        key = (problem.rule, problem.call_id)
        if forgiven[key]:
            forgiven[key] -= 1
        else:
            fresh.append(problem)
    return fresh


def is_alike(old: Sequence[Message], new: Sequence[Message]) -> bool:
    """Return whether messages surely differ only in texts, results and arguments, so that the same rules hold for both.

    A text that is not blank must not become blank. False is no proof of another difference.
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


def _lacking_reasoning(messages: Sequence[Message], needed: Needed) -> list[int]:
    """Return the indexes of messages whose tool calls lack the reasoning that a model needs, if it reasons in others."""
    if not any(map(has_reasoning, messages)):
        return []  # the model may not have been asked to reason

    calling = [index for index, message in enumerate(messages) if message.calls and not has_reasoning(message)]
    if needed == "tool calls":
        return calling

    request = max((index for index, message in enumerate(messages) if message.role == "user"), default=-1)
    answer = next((n for n in range(request + 1, len(messages)) if messages[n].role == "assistant"), None)
    return [index for index in calling if needed == "open turn" and index == answer]


def is_server_call(part: Part) -> bool:
    """Return whether a part calls a tool that the provider runs itself and answers in another part."""
    return isinstance(part, Opaque) and part.kind in _SERVER_CALLS and part.call_id != ""


def is_server_result(part: Part) -> bool:
    """Return whether a part is the result of a tool that the provider ran itself."""
    return isinstance(part, Opaque) and part.kind.endswith(_SERVER_RESULT) and part.call_id != ""


def is_hosts_answer(part: Part) -> bool:
    """Return whether a part is the host's answer to an item of the model that is no tool call: an approval, or found tools."""
    return isinstance(part, Opaque) and part.kind in _ANSWERED.values() and part.call_id != ""


def foreign_rule(part: Opaque) -> RuleId | None:
    """Return the rule that a part breaks if it is sent to another provider than the one it came from."""
    if part.kind == "compaction":
        return "part_of_responses" if isinstance(part, NativeSummary) and part.sealed else "part_of_anthropic"
    if part.kind in _OF_RESPONSES:
        return "part_of_responses"
    return "part_of_anthropic" if part.kind in _OF_ANTHROPIC or part.kind.endswith(_SERVER_RESULT) else None


_SAYS: Final = {rule.id: rule.says for rule in RULES}
_REPEATED: Final[Mapping[str, RuleId]] = {
    "assistant": "role_repeated",
    "user": "role_repeated",
    "tool": "split_results",
}
"""By role, the rule against two messages in a row."""

_SERVER_CALLS: Final = frozenset({"server_tool_use", "mcp_tool_use"})
_SERVER_RESULT: Final = "_tool_result"

_ANSWERED: Final[Mapping[str, str]] = {
    "mcp_approval_request": "mcp_approval_response",
    "tool_search_call": "tool_search_output",
}
"""Items of OpenAI Responses that the host answers, without tool calls; a search only if the client runs it."""

_OF_ANTHROPIC: Final = _SERVER_CALLS | {"container_upload"}
"""Blocks of Anthropic, without the results of its server tools (https://docs.claude.com/en/api/messages)."""

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


class _Walk:
    """One walk over the messages; it matches each result to the newest open tool call with its id.

    A turn is the messages of one speaker in a row, and those of the tools behind them.
    """

    def __init__(self, rules: frozenset[RuleId], provider: Provider | None) -> None:
        self._rules = rules
        self._provider: Provider | None = provider if "call_id_form" in rules else None
        self._found: list[Problem] = []

        self._open: dict[str, list[tuple[int, int]]] = {}
        """By id, the tool calls without a result so far: the index of each call's message, and its turn."""
        self._call_turns: dict[str, int] = {}
        self._server_calls: dict[str, int] = {}
        self._asked: set[str] = set()
        self._unsigned: list[tuple[int, str]] = []

        self._speaker = ""
        self._first = -1
        self._assistant_at = -1
        self._called_at = -1
        self._turn = 0
        self._called_turn = -1

    def problems(self, messages: Sequence[Message], faults: Mapping[RuleId, Iterable[int]]) -> list[Problem]:
        if not messages:
            self._report("empty_list", None)
        for rule, indexes in faults.items():
            for index in indexes:
                self._report(rule, index)

        followers = (*(message.role for message in messages[1:]), None)
        for index, (message, follower) in enumerate(zip(messages, followers, strict=False)):
            self._check_speaker(index, message)
            self._check_parts(index, message, follower)
            self._speaker = message.role

        if messages and self._first < 0:
            self._report("only_system", None)
        for call_id, waiting in self._open.items():
            for at, _ in waiting:
                self._report("unanswered_call", at, call_id)
        for at, call_id in self._unsigned:
            self._report("unsigned_call", at, call_id)
        return sorted(self._found, key=lambda problem: -1 if problem.index is None else problem.index)

    def _report(self, rule: RuleId, at: int | None, call_id: str = "") -> None:
        if rule in self._rules:
            self._found.append(Problem(rule=rule, index=at, call_id=call_id, text=_SAYS[rule]))

    def _check_speaker(self, index: int, message: Message) -> None:
        role = message.role
        if role != self._speaker:
            self._turn += role != "tool"
        elif role in _REPEATED:
            self._report(_REPEATED[role], index)

        if role == "system":
            if self._first >= 0:
                self._report("system_inside", index)
            return
        if self._first < 0:
            self._first = index
            # A request may begin with a summary of the provider's own.
            if role == "assistant" and not any(isinstance(part, NativeSummary) for part in message.parts[:1]):
                self._report("first_not_user", index)
        if role == "assistant":
            self._assistant_at = index
        elif role == "user":
            # Gemini checks signatures only in the present turn, which begins with the user's message.
            self._unsigned.clear()
            for call_id, at in self._server_calls.items():
                self._report("open_server_call", at, call_id)
            self._server_calls.clear()

    def _check_parts(self, index: int, message: Message, follower: str | None) -> None:
        parts = message.parts
        if not parts:
            self._report("empty_answer" if message.role == "assistant" and not follower else "empty_content", index)
        for part in parts:
            if isinstance(part, ToolCall):
                self._open_call(index, part, is_legacy=not part.id and len(message.calls) == 1)
            elif isinstance(part, ToolResult):
                self._close_call(index, part)
            elif isinstance(part, Opaque):
                self._check_block(index, part)
            elif not isinstance(part, Media):
                if self._called_turn == self._turn:
                    self._report("words_after_call", index)
                if is_blank(part):
                    self._report("blank_text", index)
                elif isinstance(part, Thinking) and not part.opaque_chars:
                    self._report("unsigned_reasoning", index)

        if parts and isinstance(parts[-1], Thinking):
            # Providers see assistant messages in a row as one turn: only reasoning at the end of the turn can dangle.
            if follower != "assistant":
                self._report("dangling_reasoning", index)
            if all(isinstance(part, Thinking) for part in parts):
                self._report("bare_reasoning", index)

    def _check_block(self, index: int, part: Opaque) -> None:
        if rule := foreign_rule(part):
            self._report(rule, index)

        if isinstance(part, NativeSummary):
            if part.is_first and not part.sealed and index != self._first:
                self._report("late_summary", index)
        elif is_server_call(part):
            if (earlier := self._server_calls.get(part.call_id)) is not None:
                self._report("open_server_call", earlier, part.call_id)
            self._server_calls[part.call_id] = index
        elif is_server_result(part) and self._server_calls.pop(part.call_id, None) is None:
            self._report("orphan_server_result", index, part.call_id)
        elif part.kind in _ANSWERED:
            self._asked.add(part.call_id)
        elif is_hosts_answer(part) and part.call_id not in self._asked:
            self._report("orphan_answer", index, part.call_id)

    def _open_call(self, index: int, call: ToolCall, *, is_legacy: bool) -> None:
        call_id, turn = call.id, self._turn
        if self._called_at != index and self._speaker in ("assistant", "system", ""):
            self._report("call_out_of_turn", index, call_id)
        if self._called_turn != turn and not call.opaque_chars:
            self._unsigned.append((index, call_id))
        self._called_at, self._called_turn = index, turn

        earlier_turn = self._call_turns.get(call_id)
        if earlier_turn is not None and call_id:  # calls of the legacy chat API all have the id ""
            self._report("twin_call" if earlier_turn == turn else "duplicate_call", index, call_id)
        self._call_turns[call_id] = turn

        is_exempt = is_legacy and self._provider == "openai_chat"
        if self._provider and not is_exempt and not takes_call_id(self._provider, call_id):
            self._report("call_id_form", index, call_id)
        self._open.setdefault(call_id, []).append((index, turn))

    def _close_call(self, index: int, result: ToolResult) -> None:
        call_id = result.call_id
        waiting = self._open.get(call_id)
        if not waiting:
            self._report("duplicate_result" if call_id in self._call_turns else "orphan_result", index, call_id)
            return

        at, turn = waiting.pop()
        if turn != self._turn:
            self._report("detached_result", index, call_id)
        elif at != self._assistant_at:
            self._report("split_step", index, call_id)
