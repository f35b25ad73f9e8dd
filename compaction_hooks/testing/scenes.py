"""One scripted conversation of the real framework on its stage: the host, the provider's side, the tools and the events."""

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
"""The window of the provider, in tokens, and of the controller where it is to know the truth."""
BELIEVED_WINDOW: Final = 131_072
"""What the controller believes where it is to be wrong."""
MODEL: Final = "scripted-model"

Say: TypeAlias = Callable[[str], Awaitable[str]]
ChatMessages: TypeAlias = list[Mapping[str, object]]


def demand(is_so: object, broken: str) -> None:
    """Raise an AssertionError with this text unless it is so."""
    if not is_so:
        raise AssertionError(broken)


@dataclass(slots=True)
class Direction:
    """A controller for the stage, and the events it told of."""

    controller: ChatController
    events: list[CompactionEvent]

    @property
    def finished(self) -> list[CompactionFinished]:
        """The compactions."""
        return [event for event in self.events if isinstance(event, CompactionFinished)]


def direct(
    *, window: int = WINDOW, summarizer: Summarizer | None = None, settings: CompactionSettings | None = None
) -> Direction:
    """Return a new controller that believes in this window, with its events."""
    events: list[CompactionEvent] = []
    controller = CompactionController(
        context_window=window, summarizer=summarizer, settings=settings, on_event=events.append
    )
    return Direction(controller, events)


@dataclass(slots=True)
class Scene(Generic[M]):
    """One conversation under way."""

    harness: AdapterHarness[M]
    host: HostConversation[M]
    side: ProviderSide
    script: Script
    tools: Sequence[ScriptedTool]
    played: list[Turn] = field(default_factory=list[Turn])

    async def play(self, say: Say | None = None, *, until: int | None = None) -> None:
        """Let the user say the turns that follow, up to the `until`th, and demand the scripted end of each."""
        for turn in self.script.turns[len(self.played) : until]:
            text = await self._said(say or self.host.say, turn)
            self.played.append(turn)
            expected = turn.answers[-1].text
            demand(
                text.strip() == expected.strip(),
                f"turn {len(self.played)} of {len(self.script.turns)} must end with the model's last answer {expected!r}, "
                f"but say() gave {text!r}",
            )

    async def _said(self, say: Say, turn: Turn) -> str:
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

    # -- what reached the provider

    @property
    def model_requests(self) -> list[SeenRequest]:
        """The requests that ask for no summary."""
        return [request for request in self.side.requests if not request.is_summary]

    @property
    def summary_requests(self) -> list[SeenRequest]:
        """The requests that ask for a summary."""
        return [request for request in self.side.requests if request.is_summary]

    @property
    def rejected(self) -> list[SeenRequest]:
        """The model requests that were refused."""
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
        """Demand that the model was called so often, and every answer given."""
        made, left = len(self.model_requests), self.side.remaining
        demand(
            made == expected and left == 0,
            f"the model was called {made} times where {expected} calls were due, and {left} answers are left: each answer is "
            "asked for once, and a request that is too long is sent once more",
        )

    # -- what the host keeps

    async def demand_history(self, *, is_under_way: bool = False) -> None:
        """Demand that the host's history holds all that was said, and nothing else; exempt are forms that persist.

        Args:
            is_under_way: More may have been said since the last turn that was played to its end.
        """
        if not self.harness.keeps_history:
            return
        kept = _contents(self.harness.format, await self.host.history())
        expected = _contents(OpenAIChatFormat(), chat_messages(self.script, self.played))
        kept = kept[: len(expected)] if is_under_way else kept
        at = _first_difference(kept, expected)
        demand(
            at is None,
            f"the host's history is not what was said: item {at} is {_short(kept, at)}, expected {_short(expected, at)} "
            f"({len(kept)} items, expected {len(expected)}). The view must be sent to the model and never stored in the "
            "host's state, and a failed attempt must leave nothing there",
        )

    def demand_tools_ran_once(self) -> None:
        """Demand that each scripted call was run once: nothing lost, nothing repeated."""
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
    """Open one conversation.

    Args:
        name: Unique among those of the harness; conversation id and API key are made of it.
        window: Tokens the provider accepts.
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
    """A session of about 40,000 tokens, several times the provider's window."""
    return long_script(4, steps=4, text_chars=6_000, topic=topic)


def short_script() -> Script:
    """A session of a few hundred tokens."""
    return long_script(2, steps=2, text_chars=300)


# -- contents


def chat_messages(script: Script, turns: Sequence[Turn]) -> ChatMessages:
    """Return what was said in these turns as OpenAI chat dicts, the system prompt first."""
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
    """Return who said what, however the framework cuts it into messages: texts of one speaker in a row are one."""
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
