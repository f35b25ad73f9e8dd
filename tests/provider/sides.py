"""The provider's side of one conversation: its requests, answers and rejections."""

import asyncio
import json
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from compaction_hooks import Usage
from compaction_hooks.summary.prompts import SYSTEM_PROMPT
from compaction_hooks.testing import Answer
from tests.provider.call_signing import CallSigner
from tests.provider.compacting import Compactor
from tests.provider.counting import count, count_cached, pieces_of, text_tokens
from tests.provider.item_compacting import ItemCompactor
from tests.provider.item_signing import ItemSealer, ItemSigner
from tests.provider.signing import Signer
from tests.provider.validation import template_fault
from tests.provider.wordings import WORDINGS, Rejection, Sizes, anthropic_error, build_rejection

Overflow: TypeAlias = Literal["reject", "truncate", "crop", "halve", "length", "stop_reason", "cut"]

_SILENT = ("truncate", "crop", "halve")
LAST_ANSWER = Answer("Done.")
SUMMARY_TEXT = "## Goal\n- what the earlier conversation was about\n\n## Next Steps\n1. go on"
SYSTEM_ROLES = ("system", "developer")
MOST_SECONDS, POLL_SECONDS = 5.0, 0.01
"""How long the answer to a summary request is held back at most, and how often it is looked whether it is due."""
IN_PLACE_LINE = "[Request from the program, not from the user] The older messages"
SUMMARY_LINE = SYSTEM_PROMPT.splitlines()[0]


@dataclass(slots=True, kw_only=True)
class Received:
    """A received request.

    Attributes:
        system: The text of the system prompt or system messages.
        input_tokens: The provider's count.
        cached_tokens: The part of them read from a prompt cache.
        status: The HTTP status of its response.
    """

    path: str
    body: Mapping[str, Any]
    system: str
    input_tokens: int
    cached_tokens: int
    status: int = 200

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages, or the items of Responses, as sent."""
        return list(self.body.get("messages") or self.body.get("input") or ())

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tool schemas, as sent."""
        return list(self.body.get("tools") or ())

    @property
    def is_summary(self) -> bool:
        """Whether it asks for a summary."""
        return SUMMARY_LINE in self.system or self.is_compaction or self.is_in_place

    @property
    def is_in_place(self) -> bool:
        """Whether it asks for a summary at the end of the conversation, or in front of the last result, where Strands writes it."""
        return any(IN_PLACE_LINE in json.dumps(message) for message in self.messages[-2:])

    @property
    def is_compaction(self) -> bool:
        """Whether it asks the provider to compact."""
        return bool(self.body.get("compaction")) or self.path.endswith("/compact")

    @property
    def is_stream(self) -> bool:
        """Whether it asks for a stream."""
        return bool(self.body.get("stream"))

    @property
    def max_tokens(self) -> int:
        """The caller's limit for the answer; 0 if there is none."""
        names = ("max_completion_tokens", "max_output_tokens", "max_tokens")
        return int(next(filter(None, map(self.body.get, names)), 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The response to one request, independently of the API.

    Attributes:
        number: Its number among the answers, from 1 on.
        ids: The ids of the answer's tool calls.
        thoughts: Blocks of reasoning and of hosted tools, in the form of the API.
        chat_field: The field of a chat message with the reasoning.
        dropped: The reasoning of the request that was left out, in Anthropic's form.
        error: Sent after the first `chunks_before_error` chunks of a stream, instead of the rest.
    """

    answer: Answer
    usage: Usage
    number: int = 0
    ids: tuple[str, ...] = ()
    thoughts: Sequence[Mapping[str, Any]] = ()
    chat_field: str = ""
    dropped: Sequence[Mapping[str, Any]] = ()
    error: Rejection | None = None
    chunks_before_error: int = 0


@dataclass(slots=True, kw_only=True)
class Side:
    """One conversation, selected by its API key. All attributes may be changed while the provider runs.

    Attributes:
        window: Limit for requests, in tokens.
        wording: A key of `WORDINGS`; None: the API's own.
        overflow: The response to a request above the window. "truncate": an answer, as if the oldest messages were ignored,
            with the usage of the whole input; "crop", "halve": the same, with the usage of the window, or of the half that Ollama
            keeps (https://github.com/ollama/ollama/issues/17427); "length": an empty answer with the stop reason for length;
            "stop_reason": an empty answer with "model_context_window_exceeded"; "cut": a rejection, but an answer without enough
            room is cut, with Anthropic's stop reason or, on OpenAI's API, the one for length. The cut answer is given again next
            time.
        limit_bytes: A request with a larger body is rejected with status 413; None: no limit.
        reject_next: Number of next model requests to reject as too long, regardless of their size; the stated size is then at
            least one above the window.
        fail_summaries: Whether summary requests get status 500.
        summary_text: The summary in responses to summary requests.
        summarize: Makes the answer to a summary request, or its rejection; None: `summary_text`.
        summary_after: The answer to a summary request is held back until so many further model requests have arrived, or 5 seconds
            have passed.
        waited: Number of answers for which the 5 seconds have passed.
        think: Makes the answer to a model request; None: the next one of `answers`.
        stream_fail_after: The next streamed model request breaks off after this many chunks, with the event of an overflow.
            Anthropic's first chunk is "message_start". The answer is given again next time.
        wants_turns: Whether chat messages out of turn are rejected, as by the chat template of a model.
        signer: Signs the reasoning of answers, and rejects reasoning of other requests. None: answers have no reasoning.
        compactor: Compacts on demand, and rejects blocks that are not its own. None: the API refuses to compact.
        blocks: Blocks before the text of each answer, such as those of hosted tools, in Anthropic's form.
        requests: All requests, in order.
    """

    window: int
    answers: deque[Answer | Rejection]
    wording: str | None = None
    overflow: Overflow = "reject"
    limit_bytes: int | None = None
    reject_next: int = 0
    fail_summaries: bool = False
    summary_text: str = SUMMARY_TEXT
    summarize: Callable[[Received], str | Answer | Rejection] | None = None
    summary_after: int = 0
    waited: int = 0
    think: Callable[[Received], Answer] | None = None
    stream_fail_after: int | None = None
    wants_turns: bool = False
    signer: Signer | CallSigner | ItemSigner | ItemSealer | None = None
    compactor: Compactor | ItemCompactor | None = None
    blocks: Sequence[Mapping[str, Any]] = ()
    requests: list[Received] = field(default_factory=list[Received])
    _read: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    _kept: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict[str, list[Mapping[str, Any]]])
    _asked: int = 0
    _calls_made: int = 0
    _answers_given: int = 0

    @property
    def model_requests(self) -> list[Received]:
        """The requests other than those for summaries."""
        return [request for request in self.requests if not request.is_summary]

    @property
    def rejections(self) -> list[Received]:
        """The rejected requests."""
        return [request for request in self.requests if request.status >= 400]

    @property
    def remaining(self) -> int:
        """Number of answers not yet given."""
        return len(self.answers)

    def answer(
        self,
        path: str,
        body: Mapping[str, Any],
        system: str,
        wording: str,
        fault: Callable[[Mapping[str, Any]], Rejection | None],
        messages: Sequence[Mapping[str, Any]],
    ) -> Reply | Rejection:
        """Record a request and return its response.

        Args:
            system: The request's system prompt.
            wording: The API's own wording.
            fault: Returns the rejection of a malformed request.
            messages: The messages that count, in addition to those of an earlier response that the request names.
        """
        messages = [*self._kept.get(str(body.get("previous_response_id")), ()), *messages]
        for maker in (self.compactor, self.signer):
            if isinstance(maker, ItemCompactor):
                messages = maker.seen(messages)
        pieces = pieces_of(body.get("tools"), system, [one for one in messages if one.get("role") not in SYSTEM_ROLES])
        cached = count_cached(pieces, self._read)
        received = Received(path=path, body=body, system=system, input_tokens=count(pieces), cached_tokens=cached)
        decided = fault(body) or self._refusal(body) or self._decide(received, self.wording or wording)
        if isinstance(decided, Rejection):
            received.status = decided.status
        else:
            self._read.append(pieces)
            answer = {"role": "assistant", "content": decided.answer.text}
            self._kept[f"resp_{decided.number:04}"] = [*messages, answer]
        self.requests.append(received)
        self._asked += not received.is_summary
        return decided

    async def hold_back(self, is_gone: Callable[[], Awaitable[bool]]) -> None:
        """Hold the answer to the newest request back if it asks for a summary, as `summary_after` says.

        Args:
            is_gone: Whether the client waits no more.
        """
        if not self.summary_after or not self.requests[-1].is_summary:
            return

        due, end = self._asked + self.summary_after, time.monotonic() + MOST_SECONDS
        while self._asked < due and not await is_gone():
            if time.monotonic() > end:
                self.waited += 1
                return
            await asyncio.sleep(POLL_SECONDS)

    def _refusal(self, body: Mapping[str, Any]) -> Rejection | None:
        if self.wants_turns and (rejection := template_fault(body)):
            return rejection
        refusal = self.compactor.refusal(body) if self.compactor else None
        return refusal or (self.signer.refusal(body) if self.signer else None)

    def _decide(self, received: Received, wording: str) -> Reply | Rejection:
        if self.limit_bytes is not None and len(json.dumps(received.body)) > self.limit_bytes:
            return Rejection(413, anthropic_error("request_too_large", "Request exceeds the maximum size"))
        if not received.is_summary and self.reject_next > 0:
            self.reject_next -= 1
            return self._fake_overflow(received, wording)
        if self._is_too_long(received, wording) and self.overflow not in _SILENT:
            sizes = Sizes(self.window, received.input_tokens, received.max_tokens)
            return build_rejection(wording, sizes) if self.overflow in ("reject", "cut") else self._empty(received)
        if received.is_compaction:
            return self._compact(received)
        if received.is_summary:
            return self._summary(received)
        if received.is_stream and self.stream_fail_after is not None:
            chunks, self.stream_fail_after = self.stream_fail_after, None
            reply = self._reply(received, self.answers[0] if self.answers else LAST_ANSWER)
            error = self._fake_overflow(received, wording)
            return replace(reply, error=error, chunks_before_error=chunks) if isinstance(reply, Reply) else reply
        if self.think is not None:
            return self._reply(received, self.think(received))
        reply = self._reply(received, self.answers[0] if self.answers else LAST_ANSWER)
        if self.overflow == "cut" and isinstance(reply, Reply):
            room = self.window - received.input_tokens
            if reply.usage.output_tokens > room:
                return self._shorten(
                    reply, room, "model_context_window_exceeded" if wording == "anthropic" else "length"
                )
        if self.answers:
            self.answers.popleft()
        return reply

    def _shorten(self, reply: Reply, room: int, stop: str) -> Reply:
        text = reply.answer.text[: len(reply.answer.text) * room // reply.usage.output_tokens]
        return Reply(answer=Answer(text, stop=stop), usage=replace(reply.usage, output_tokens=room))

    def _fake_overflow(self, received: Received, wording: str) -> Rejection:
        """Return an overflow of a request that may fit; the stated size is above the window."""
        return build_rejection(
            wording, Sizes(self.window, max(received.input_tokens, self.window + 1), received.max_tokens)
        )

    def _is_too_long(self, received: Received, wording: str) -> bool:
        needed = received.input_tokens + (received.max_tokens if WORDINGS[wording].counts_output else 0)
        return needed > self.window

    def _summary(self, received: Received) -> Reply | Rejection:
        if self.fail_summaries:
            return Rejection(500, {"type": "error", "error": {"type": "api_error", "message": "Internal server error"}})
        made = self.summarize(received) if self.summarize else self.summary_text
        return self._reply(received, Answer(made) if isinstance(made, str) else made)

    def _compact(self, received: Received) -> Reply | Rejection:
        if self.compactor is None:
            return Rejection(
                400, anthropic_error("invalid_request_error", "compaction: Extra inputs are not permitted")
            )
        failure = self.compactor.failures.popleft() if self.compactor.failures else None
        if isinstance(failure, Rejection):
            return failure
        made, text = ([], "") if failure else self.compactor.compact(received.body)
        usage = Usage(input_tokens=received.input_tokens, output_tokens=text_tokens(text))
        return Reply(answer=Answer(stop=failure or "compaction"), usage=usage, thoughts=made)

    def _empty(self, received: Received) -> Reply:
        stop = "length" if self.overflow == "length" else "model_context_window_exceeded"
        usage = Usage(input_tokens=received.input_tokens, cache_read_tokens=received.cached_tokens)
        return Reply(answer=Answer(stop=stop), usage=usage)

    def _count_read(self, received: Received) -> int:
        """Return the tokens of a request that the model reads, as the usage tells them."""
        if self.overflow not in ("crop", "halve") or received.input_tokens <= self.window:
            return received.input_tokens
        return self.window if self.overflow == "crop" else self.window // 2 + 2

    def _reply(self, received: Received, answer: Answer | Rejection) -> Reply | Rejection:
        if isinstance(answer, Rejection):
            return answer
        first = self._calls_made
        self._calls_made += len(answer.calls)
        spoken = sum(text_tokens(f"{call.name}({dict(call.arguments)})") for call in answer.calls)
        read = self._count_read(received)
        counted = Usage(
            input_tokens=read,
            output_tokens=max(1, text_tokens(answer.text) + spoken),
            cache_read_tokens=min(received.cached_tokens, read),
        )
        ids = tuple(f"call_{number:04}" for number in range(first, self._calls_made))
        self._answers_given += 1
        reply = Reply(answer=answer, usage=answer.usage or counted, number=self._answers_given, ids=ids)
        if self.signer is None or received.is_summary:
            return replace(reply, thoughts=self.blocks)
        thoughts, dropped = self.signer.sign(received.body), self.signer.dropped(received.body)
        chat_field = getattr(self.signer, "chat_field", "")
        return replace(reply, thoughts=[*thoughts, *self.blocks], chat_field=chat_field, dropped=dropped)
