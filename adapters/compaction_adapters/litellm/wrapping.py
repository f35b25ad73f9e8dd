"""`with_compaction`: a function that takes messages, with the conversation kept inside the window of the model it calls.

litellm itself sends every failed request again: `num_retries` repeats an overflow like any other error, and fallbacks send the
same messages to another model. Here an overflow is compacted first; all other errors are retried, and fall back, as in litellm.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Generic, ParamSpec, TypeVar, Unpack, cast

from compaction_adapters.kit import (
    RECALL,
    ControllerKeywords,
    Flow,
    ModelTool,
    Twin,
    controller_from,
    model_tools,
    run,
    run_async,
    tool_schema,
)
from compaction_adapters.litellm.calls import (
    FORMAT,
    Arguments,
    Callee,
    ChatMessage,
    Conversations,
    SessionId,
    as_mapping,
    import_litellm,
    messages_of,
)
from compaction_adapters.litellm.summaries import call_options
from compaction_hooks import CompactionController, Message
from compaction_hooks.compact_tool import CompactTool
from compaction_hooks.formats import read_answer
from compaction_hooks.recall import RecallTool

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

logger = logging.getLogger("compaction_hooks")

LONGEST_WAIT_SECONDS: Final = 10.0
"""Longest wait between two attempts after a rate limit (litellm's `exponential_backoff_retry`)."""
_FULL_WINDOW: Final = re.compile(r'"(finish|stop)_reason"\s*:\s*"(model_context_window_exceeded|model_length)"')
"""Stop reasons in a raw response that litellm does not know."""
_NO_RETRIES: Final[Arguments] = {"num_retries": 0, "retry_policy": {"TimeoutErrorRetries": None}, "max_retries": 0}
"""To override `litellm.num_retries`, a sync call needs a policy without numbers and an async call a zero. litellm takes the policy
as a dict too, so that its class, which has moved before, is not needed here."""


class CompactingFunction(Conversations, Generic[P, R_co]):
    """A function whose messages are compacted to fit the window, with methods for its conversations.

    `with_compaction` returns a plain function around it that has these methods, so that it is still known for async or sync.
    """

    __name__: str

    def __init__(
        self,
        callee: Callee,
        controller: CompactionController[Any],
        session_id: SessionId | None,
        offered: Sequence[ModelTool],
        *,
        native: bool,
    ) -> None:
        super().__init__(controller, {}, session_id)
        self._callee = callee
        self._offered = offered
        self._native = native

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function."""
        flow = self._answer(self._callee.bind(args, kwargs))
        # The function's own result: for an async function, a coroutine.
        return cast("R_co", run_async(flow) if self._callee.is_async else run(flow))

    def recall_tool(self, messages: Sequence[ChatMessage], **arguments: object) -> RecallTool:
        """Return the recall tool of a conversation, for its whole list; `arguments` are those of its calls that name it."""
        return self.session(self._find_id(arguments, messages)).recall_tool(lambda: messages)

    def compact_tool(self, messages: Sequence[ChatMessage], **arguments: object) -> CompactTool:
        """Return the tool by which the model of a conversation asks for a compaction; `arguments` are those of `recall_tool`."""
        return self.session(self._find_id(arguments, messages)).compact_tool()

    def _answer(self, arguments: Arguments) -> Flow[object]:
        """Make one call with its retries, then its fallbacks."""
        callee, messages = self._callee, messages_of(arguments)
        if messages is None:
            return (yield Twin(callee.call, callee.call, arguments))

        session, sent = self.session(self._find_id(arguments, messages)), arguments
        if self._offered:
            schemas = (tool_schema(tool.name, tool.description, tool.parameters) for tool in self._offered)
            offered = [{"type": "function", "function": schema} for schema in schemas]
            sent = {**arguments, "tools": [*cast("Sequence[object]", arguments.get("tools") or ()), *offered]}
        if RECALL in self._offered:
            session.recall_tool(lambda: messages)  # so that views name it
        options, sender = call_options(callee, sent, native=self._native), _Sender(callee, sent)
        self._sessions.remember_call(session, options)
        call = Twin(session.call_sync, session.call, messages, sender.send, answer=sender.read, **options)
        waits: Iterator[float] | None = None
        while True:
            try:
                return (yield call)
            except Exception as error:
                if not callee.is_sdk:
                    raise
                is_overflow = self._sessions.is_curable(error, options.get("model"))
                waits = waits or sender.waits_after(error)
                wait_seconds = None if is_overflow else next(waits, None)
                if wait_seconds is None:
                    fallback = _next_request(arguments, error, is_overflow=is_overflow)
                    if fallback is None:
                        raise
                    return (yield from self._answer(fallback))
            yield Twin(time.sleep, asyncio.sleep, wait_seconds)


def with_compaction(
    function: Callable[P, R_co],
    controller: CompactionController[Any] | None = None,
    *,
    session_id: SessionId | None = None,
    recall: bool = False,
    compact: bool = False,
    native: bool = False,
    **keywords: Unpack[ControllerKeywords],
) -> CompactingFunction[P, R_co]:
    """Return a function with the same arguments that sends messages that fit; it has the methods of `CompactingFunction`.

    A context overflow is compacted and sent once more, before litellm's own retries and fallbacks see it. The caller's list is
    never changed. A stream is guarded up to its first chunk. If the controller has no summarizer, the called model writes the
    summary, with those arguments of the call that locate it.

    Args:
        function: `litellm.completion`, `litellm.acompletion`, these methods of a `litellm.Router`, a `functools.partial` of one of
            them, or any other sync or async function that takes chat messages as `messages=`.
        controller: A controller, shared or not, of any format. None: make one from the keywords.
        session_id: The conversation's id, or a function that finds it in the call's arguments. None: the id in the call's
            `metadata` or `litellm_session_id`, else a hash of the text up to the first user message.
        recall: Whether each call offers a tool by which the model reads again what its views leave out. Your program runs it, as
            its other tools: `completion.recall_tool(messages)(**json.loads(call.function.arguments))`.
        compact: Whether each call offers a tool by which the model asks for a compaction. Your program runs it in the same way:
            `completion.compact_tool(messages)`.
        native: Whether Anthropic itself writes the summaries of calls of its models, if the controller has no summarizer: the view
            then begins with its block.

    Raises:
        ConfigurationError: `function` takes no messages; or both a controller and keywords are given.
    """
    callee = Callee(function)
    shared = controller_from(controller, keywords, FORMAT, taker=with_compaction, sees_model=True)
    made = CompactingFunction[P, R_co](
        callee, shared, session_id, model_tools(recall=recall, compact=compact), native=native
    )

    async def answer(*args: P.args, **kwargs: P.kwargs) -> object:
        return await cast("Any", made(*args, **kwargs))

    def answer_sync(*args: P.args, **kwargs: P.kwargs) -> object:
        return made(*args, **kwargs)

    wrapper = functools.update_wrapper(answer if callee.is_async else answer_sync, function)
    wrapper.__dict__.update({name: getattr(made, name) for name in dir(made) if not name.startswith("_")})
    return cast("CompactingFunction[P, R_co]", wrapper)


class _Sender:
    """Sends the views of one call, and says when litellm would send again after an error that another view cannot cure."""

    def __init__(self, callee: Callee, arguments: Arguments) -> None:
        self._callee, self._is_window = callee, False
        self._retries: Any = arguments.get("num_retries")
        self._policy, self._logger_fn = arguments.get("retry_policy"), arguments.get("logger_fn")
        self._first: Arguments = {} if callee.router is None else {"context_window_fallbacks": [{"*": []}]}

        self._arguments = dict(arguments)
        if callee.is_litellms:
            self._arguments["logger_fn"] = self._log

        if callee.is_sdk:
            default = sys.modules["litellm"].num_retries  # litellm resets it when a call fails
            for name in ("num_retries", "retry_policy", "retry_strategy", "fallbacks", "context_window_fallback_dict"):
                self._arguments.pop(name, None)
            if default:
                self._retries = default if self._retries is None else self._retries
                self._arguments |= _NO_RETRIES
            elif self._retries is not None:
                # litellm gives the number to the provider's client too, which waits as long as the server says, and repeats
                # only requests that failed with 408, 409, 429 or a server error.
                self._arguments["max_retries"] = self._retries

    def send(self, view: object) -> Any:
        """Send a view; return the response, or the coroutine of an async function."""
        arguments, self._first = {**self._arguments, **self._first, "messages": view}, {}
        return self._callee.call(arguments)

    def waits_after(self, error: Exception) -> Iterator[float]:
        """Yield the seconds before each repetition of a request that first failed with this error, as litellm with tenacity."""
        self._arguments |= _NO_RETRIES
        is_limited = isinstance(error, sys.modules["openai"].RateLimitError)
        for number in range(self._count_retries(error)):
            yield min(2.0 ** (number - 1), LONGEST_WAIT_SECONDS) if is_limited and number else 0.0

    def _count_retries(self, error: Exception) -> int:
        """Return how often litellm would repeat a request that failed with this error."""
        if not isinstance(error, sys.modules["openai"].APIError):  # the root of all errors of litellm
            return 0
        by_policy: int | None = None
        if self._policy is not None:
            try:
                by_policy = import_litellm().get_num_retries_from_retry_policy(error, self._policy)
            except Exception as own:  # noqa: BLE001 - litellm has changed: its caller must see the provider's error, not this one
                logger.warning("no retry, because litellm's rules for it cannot be read (%s)", type(own).__name__)
                return 0
        return (self._retries or 0) if by_policy is None else by_policy

    def _log(self, details: Mapping[str, object]) -> None:
        """Read litellm's log entry of a raw response, because litellm turns stop reasons that it does not know into "stop"."""
        text = details.get("original_response")
        self._is_window = isinstance(text, str) and _FULL_WINDOW.search(text) is not None
        if callable(self._logger_fn):
            self._logger_fn(details)

    def read(self, response: object) -> Message | None:
        """Return an answer's usage, model and stop reason; None if the response or chunk has neither usage nor stop reason."""
        answer = read_answer(response)
        if answer is None:
            return None
        # A router may have fallen back to another model; but providers answer direct calls with other names than the request's.
        model = None if self._callee.is_sdk else answer.model
        return replace(answer, model=model, stop_reason="window" if self._is_window else answer.stop_reason)


def _next_request(arguments: Arguments, error: Exception, *, is_overflow: bool) -> Arguments | None:
    """Return the arguments of a call to the next fallback model, after all retries failed; None if there is no other model.

    After an overflow `context_window_fallback_dict` comes first. The messages are the caller's, for a view that fits the model.
    """
    model, larger = str(arguments.get("model")), as_mapping(arguments.get("context_window_fallback_dict"))
    given = cast("Sequence[object]", arguments.get("fallbacks") or ())
    fallbacks: list[Arguments] = [as_mapping(one) or {"model": one} for one in given]
    if is_overflow and model in larger:
        fallbacks.insert(0, {"model": larger[model], "context_window_fallback_dict": None})
    if not fallbacks:
        return None
    logger.warning("falling back to %s (%s)", fallbacks[0].get("model", model), type(error).__name__)
    return {**arguments, **fallbacks[0], "fallbacks": fallbacks[1:]}
