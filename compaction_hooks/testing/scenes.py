"""A scripted conversation of the real framework, with the host, the provider's side, the tools and the events."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Generic, TypeAlias

from compaction_hooks import CompactionController, CompactionFinished, CompactionSettings, Summarizer
from compaction_hooks.events import CompactionEvent
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.messages import M, Message, MessageFormat, Text, ToolCall, ToolResult
from compaction_hooks.testing.demands import demand
from compaction_hooks.testing.harness import (
    AdapterHarness,
    ChatController,
    HostConversation,
    Opening,
    ProviderSide,
    ScriptedProvider,
    SeenRequest,
)
from compaction_hooks.testing.scripts import Script, ScriptedTool, Turn, long_script, tools_of

WINDOW: Final = 16_384
"""Window of the provider, in tokens, and of a controller with the right window."""
BELIEVED_WINDOW: Final = 131_072
"""Window of a controller with a wrong window, in tokens."""
MODEL: Final = "scripted-model"

Say: TypeAlias = Callable[[str], Awaitable[str]]
ChatMessages: TypeAlias = list[Mapping[str, object]]


@dataclass(slots=True)
class Direction:
    """A controller and its events."""

    controller: ChatController
    events: list[CompactionEvent]

    @property
    def compactions(self) -> list[CompactionFinished]:
        """The events of compactions."""
        return [event for event in self.events if isinstance(event, CompactionFinished)]


def direct(
    *, window: int = WINDOW, summarizer: Summarizer | None = None, settings: CompactionSettings | None = None
) -> Direction:
    """Return a new controller with this window, and its events."""
    events: list[CompactionEvent] = []
    controller = CompactionController(
        context_window=window, summarizer=summarizer, settings=settings, on_event=events.append
    )
    return Direction(controller, events)


@dataclass(slots=True)
class Scene(Generic[M]):
    """A running conversation."""

    harness: AdapterHarness[M]
    host: HostConversation[M]
    side: ProviderSide
    script: Script
    tools: Sequence[ScriptedTool]
    played: list[Turn] = field(default_factory=list[Turn])

    async def play(self, say: Say | None = None, *, until: int | None = None) -> None:
        """Play the next turns, up to number `until`, and demand the scripted last answer of each."""
        for turn in self.script.turns[len(self.played) : until]:
            text = await self._say(say or self.host.say, turn)
            self.played.append(turn)
            expected = turn.answers[-1].text
            demand(
                text.strip() == expected.strip(),
                f"turn {len(self.played)} of {len(self.script.turns)} must end with the model's last answer {expected!r}, "
                f"but say() gave {text!r}",
            )

    async def _say(self, say: Say, turn: Turn) -> str:
        try:
            return await say(turn.user)
        except AssertionError:
            raise
        except Exception as error:
            statuses = [request.status for request in self.side.requests[-3:]]
            raise AssertionError(
                f"in turn {len(self.played) + 1} of {len(self.script.turns)} say() raised {type(error).__name__}: {error} "
                f"(the last requests got {statuses})"
            ) from error

    # -- requests at the provider

    @property
    def model_requests(self) -> list[SeenRequest]:
        """The requests other than those for summaries."""
        return [request for request in self.side.requests if not request.is_summary]

    @property
    def summary_requests(self) -> list[SeenRequest]:
        """The requests for summaries."""
        return [request for request in self.side.requests if request.is_summary]

    @property
    def rejections(self) -> list[SeenRequest]:
        """The model requests that the provider rejected."""
        return [request for request in self.model_requests if request.status >= 400]

    def demand_no_rejection(self) -> None:
        """Demand that the provider accepted every model request."""
        at = [number for number, request in enumerate(self.model_requests) if request.status >= 400]
        demand(
            not at,
            f"the provider refused model requests number {at} of {len(self.model_requests)} (counted from 0): what was sent "
            "was too long, or had a call without its result or a result without its call. Does the adapter transform the "
            "list before every model call, and count the system prompt and the tools of the call?",
        )

    def demand_requests(self, expected: int) -> None:
        """Demand this number of model calls, and that every answer was given."""
        made, left = len(self.model_requests), self.side.remaining
        demand(
            made == expected and left == 0,
            f"the model was called {made} times where {expected} calls were due, and {left} answers are left: each answer is "
            "asked for once, and a request that is too long is sent once more",
        )

    # -- the host's history

    async def demand_history(self, *, is_under_way: bool = False) -> None:
        """Demand that the host's history is exactly the script so far; skipped if the harness keeps no history.

        Args:
            is_under_way: Whether the history may be longer because a turn is not finished.
        """
        if not self.harness.keeps_history:
            return

        kept = _contents(self.harness.format, await self.host.history())
        expected = _contents(OpenAIChatFormat(), chat_messages(self.script, self.played))
        kept = kept[: len(expected)] if is_under_way else kept

        at = _first_difference(kept, expected)
        demand(
            at is None,
            f"the host's history differs from the script: item {at} is {_short(kept, at)}, expected {_short(expected, at)} "
            f"({len(kept)} items, expected {len(expected)}). The view must be sent to the model and never stored in the "
            "host's state, and a failed attempt must leave nothing there",
        )

    def demand_tools_ran_once(self) -> None:
        """Demand that each scripted tool call was run exactly once."""
        ran = sorted(_key(tool.name, arguments) for tool in self.tools for arguments in tool.runs)
        expected = sorted(
            _key(call.name, call.arguments) for turn in self.played for answer in turn.answers for call in answer.calls
        )
        demand(
            ran == expected,
            f"{len(ran)} tool runs where the model asked for {len(expected)}: tool work already done must be kept when a "
            "request is sent again, neither lost nor done twice",
        )


@asynccontextmanager
async def scene(
    harness: AdapterHarness[M],
    provider: ScriptedProvider,
    controller: ChatController | None,
    script: Script,
    name: str,
    *,
    window: int = WINDOW,
) -> AsyncGenerator[Scene[M], None]:
    """Open a conversation on the provider and in the framework.

    Args:
        name: Unique in the harness; part of the conversation id and the API key.
        window: The provider's limit, in tokens.
    """
    key = f"{harness.name}-{name}"
    side = provider.conversation(key, window=window, answers=script.answers)
    tools = tools_of(script)

    opening = Opening(
        controller=controller,
        conversation_id=key,
        openai_url=provider.openai_url,
        anthropic_url=provider.anthropic_url,
        api_key=key,
        model=MODEL,
        system=script.system,
        tools=tools,
    )

    async with harness.open(opening) as host:
        yield Scene(harness, host, side, script, tools)


def session_script(topic: str = "ledger") -> Script:
    """Return a session of about 30,000 tokens, twice the provider's window."""
    return long_script(3, steps=3, text_chars=9_500, topic=topic)


def short_script() -> Script:
    """Return a session of a few hundred tokens."""
    return long_script(2, steps=2, text_chars=300)


# -- contents


def chat_messages(script: Script, turns: Sequence[Turn]) -> ChatMessages:
    """Return these turns as OpenAI chat dicts, after the system prompt."""
    results = iter([result for turn in turns for result in turn.results])
    messages: ChatMessages = [{"role": "system", "content": script.system}]
    for turn in turns:
        messages.append({"role": "user", "content": turn.user})
        for answer in turn.answers:
            ids = [f"chat_{len(messages)}_{index}" for index in range(len(answer.calls))]
            calls = [
                {"id": id, "type": "function", "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}
                for id, call in zip(ids, answer.calls, strict=True)
            ]
            messages.append({"role": "assistant", "content": answer.text, **({"tool_calls": calls} if calls else {})})
            messages += [{"role": "tool", "tool_call_id": id, "content": next(results)} for id in ids]

    return messages


def _contents(message_format: MessageFormat[M], messages: Sequence[M]) -> list[tuple[str, str]]:
    """Return the contents by speaker, independently of message borders: consecutive texts of one speaker are joined."""
    found: list[tuple[str, str]] = []
    for piece in (piece for message in messages for piece in message_format.read(message)):
        for kind, text in _items(piece):
            is_more = kind in ("user", "assistant") and found and found[-1][0] == kind
            found[-1:] = [(kind, found[-1][1] + text)] if is_more else [*found[-1:], (kind, text)]
    return found


def _items(piece: Message) -> Iterator[tuple[str, str]]:
    for part in piece.parts if piece.role in ("user", "assistant", "tool") else ():
        match part:
            case Text(text) if text:
                yield piece.role, text
            case ToolCall():
                yield "call", _key(part.name, json.loads(part.arguments or "{}"))
            case ToolResult():
                yield "result", part.text
            case _:
                pass


def _key(name: str, arguments: Mapping[str, object]) -> str:
    return f"{name} {json.dumps(arguments, sort_keys=True)}"


def _first_difference(one: Sequence[object], other: Sequence[object]) -> int | None:
    pairs = zip(one, other, strict=False)
    differing = (index for index, (left, right) in enumerate(pairs) if left != right)
    return next(differing, None if len(one) == len(other) else min(len(one), len(other)))


def _short(items: Sequence[object], at: int | None) -> str:
    text = repr(items[at]) if at is not None and at < len(items) else "nothing"
    return text if len(text) <= 160 else f"{text[:160]}..."
