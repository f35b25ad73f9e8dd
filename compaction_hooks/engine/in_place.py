"""A summary asked in place: of the conversation's own model, by the list that this call would send, and one instruction behind it.

1. The request begins with the last request, byte for byte, and has its options: what the provider has cached costs a tenth.
2. It is asked only if that is cheaper than a transcript and sure to fit; never after an overflow (`find_in_place`).
3. The instruction is in this one request: no list, view, record or cached size has it, and no cache mark moves for it.
4. An answer that is refused, such as a call of a tool, is no failure yet: the transcript is asked then, once (`summarizing.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, cast

from compaction_hooks.dress import Behind, Request
from compaction_hooks.dress.insert import insert
from compaction_hooks.engine.call import Call
from compaction_hooks.engine.conversation import Conversation
from compaction_hooks.engine.pressure import can_follow
from compaction_hooks.messages import M, Message, Text
from compaction_hooks.native import NESTED, find_server_compaction
from compaction_hooks.runtime.effects import Instant
from compaction_hooks.strategies.summary_plan import SummaryPlan
from compaction_hooks.summary.prompts import make_instruction
from compaction_hooks.summary.request import InPlace, LiveCall
from compaction_hooks.text.escaping import neutralize
from compaction_hooks.tokens.budget import Budget
from compaction_hooks.validity import needs_merging
from compaction_hooks.view import CompactionReason
from compaction_hooks.view.snapshot import CallFrame, Snapshot
from compaction_hooks.view.texts import quote_call

logger = logging.getLogger("compaction_hooks")

CACHE_SECONDS: Final = 300
"""The shortest time after the last call for which Anthropic and OpenAI keep a cache
(https://platform.claude.com/docs/en/build-with-claude/prompt-caching, https://developers.openai.com/api/docs/guides/prompt-caching)."""
CACHED_PART: Final = 0.1
"""The part of the price of input that cached input costs at Anthropic, OpenAI and Google, for a model without known prices."""
ANSWER_TOKENS: Final = 8_192
"""The room for reasoning in an answer, next to the summary: what our summarizers ask for."""
MOST_NAMED: Final = 8
"""The most messages from before the cut that the instruction names."""
_QUOTED_CHARS: Final = 80
_SCHEMAS: Final = (
    *("response_format", "text_format", "output_format", "output_schema", "output_type"),
    *("response_schema", "response_json_schema", "response_mime_type"),
    *("guided_json", "guided_regex", "guided_grammar", "guided_choice", "grammar", "json_schema"),
)
"""Options that give the answer a form: of OpenAI, Anthropic, the frameworks, Google, and of vLLM and llama.cpp."""
_STOPS: Final = ("stop", "stop_sequences", "stopSequences", "stop_words")
"""Options that end the answer at a text, which a summary may have in its middle."""
_CHOICES: Final = ("tool_choice", "toolChoice", "function_call")
_NESTED: Final = NESTED | {
    *("config", "generation_config", "generationConfig", "inferenceConfig", "inference_config"),
    *("toolConfig", "tool_config"),
}
"""Options that hold further ones, of Google and Bedrock too."""


class LastCall(NamedTuple):
    """The model call before a compaction, as far as the provider's cache may have it.

    Attributes:
        seconds_ago: When it began.
    """

    frame: CallFrame
    model: str | None
    seconds_ago: float


def find_last_call(
    conversation: Conversation[M], call: Call[M], reason: CompactionReason, now: Instant
) -> LastCall | str:
    """Return the call before a compaction; in words why it has no cache to read."""
    sent, began = conversation.last_sent, conversation.called_at
    if reason is CompactionReason.OVERFLOW:
        return "the context has overflowed"
    if sent is None or began is None:
        return "this process has sent no call before"
    seconds = call.seconds_since_last_call
    return LastCall(
        sent.snapshot.call_frame, sent.snapshot.model, now.monotonic - began if seconds is None else seconds
    )


def find_in_place(
    snapshot: Snapshot[M],
    budget: Budget,
    call: Call[M],
    plan: SummaryPlan,
    focus: str | None,
    name_facts: Callable[[], str],
    last: LastCall | str,
    size_transcript: Callable[[], int],
) -> InPlace | None:
    """Return the request in place of one with a transcript; None if that is better, which the log says.

    Args:
        size_transcript: Returns the tokens of the request with a transcript, before calibration.
    """
    why = last if isinstance(last, str) else _find_obstacle(snapshot, last)
    if isinstance(last, str) or why:
        logger.debug("the summary is asked by a transcript: %s", why)
        return None

    text = make_instruction(
        "update" if plan.previous_summary else "history",
        focus=focus,
        max_tokens=plan.allowance,
        form=call.settings.summary_prompt,
        instructions=call.settings.summary_instructions,
        stays=_name_staying(snapshot, plan),
        facts=name_facts(),
    )
    instruction = Message(role="user", parts=(Text(text),))
    tokens = snapshot.most_tokens + snapshot.calibration.predict_growth(snapshot.text_tokens(text))
    if not can_follow(snapshot, instruction, joins_results=True):
        why = "no message of the user may follow the list"
    elif tokens + int(plan.allowance * max(snapshot.ratio, 1.0)) + _reasoning_room(last) > budget.window:
        why = "the window has no room for the instruction and the answer"
    elif _price(snapshot, tokens) >= size_transcript() * snapshot.ratio:
        why = "a transcript is cheaper"
    if why:
        logger.debug("the summary is asked by a transcript: %s", why)
        return None

    frame = last.frame
    live = LiveCall(
        messages=_write_with(snapshot, text),
        provider=snapshot.format.provider,
        model=snapshot.model,
        system=frame.system,
        tools=frame.tools,
        request=frame.request,
    )
    return InPlace(live, text, tokens)


def _reasoning_room(last: LastCall) -> int:
    """Return the room for reasoning: that of our summarizers, or the budget that the call names for it."""
    budget = _mapping((last.frame.request or {}).get("thinking")).get("budget_tokens")
    return max(ANSWER_TOKENS, budget if isinstance(budget, int) else 0)


def _find_obstacle(snapshot: Snapshot[Any], last: LastCall) -> str:
    """Return in words why the last request cannot be read from a cache; "" if it can."""
    options = last.frame.request
    if options is None:
        return "the options of the last call are not known: give the call request="
    if last.model != snapshot.model:
        return "the last call had another model"
    if option := _find_binding(options):
        return f"the option {option} binds the answer"
    if last.seconds_ago > CACHE_SECONDS:
        return f"the last call was {last.seconds_ago:,.0f} seconds ago"
    if not snapshot.cached_tokens:
        return "the last answer reported nothing read from a cache"
    return ""


def _find_binding(options: Mapping[str, object]) -> str | None:
    """Return the option of a request by which its answer could be no summary, or would change what the server keeps; or None.

    >>> _find_binding({"temperature": 0, "tool_choice": "auto"}), _find_binding({"tool_choice": {"type": "any"}})
    (None, 'tool_choice')
    """
    for name, value in options.items():
        if (name in _SCHEMAS and value and not _is_plain_text(value)) or (name in _STOPS and value):
            return name
        if name in ("text", "output_config") and not _is_plain_text(_mapping(value).get("format")):
            return name
        is_choice = name in _CHOICES or name in ("function_calling_config", "functionCallingConfig")
        if is_choice and _forces(_mapping(value).get("mode") or value):
            return name
        inner = _find_binding(_mapping(value)) if name in _NESTED else None
        if inner is not None:
            return inner
    return find_server_compaction(options)


def _forces(choice: object) -> bool:
    """Whether a choice of tools forces a call; that of Bedrock is the key of a mapping, and that of Gemini a mode."""
    kind = _kind_of(choice) or next(iter(_mapping(choice)), None)
    return str(kind or "auto").lower() not in ("auto", "none")


def _is_plain_text(value: object) -> bool:
    return _kind_of(value) in (None, "text", "text/plain")


def _kind_of(value: object) -> object:
    """Return the type that an option names, in a mapping or plainly."""
    return _mapping(value).get("type") or (None if isinstance(value, Mapping) else value)


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def _price(snapshot: Snapshot[Any], tokens: int) -> float:
    """Return the tokens of full price that a request of this list costs, as far as its last answer tells what is cached."""
    prices, cached = snapshot.prices, snapshot.cached_tokens or 0
    part = prices.cached_input / prices.input if prices is not None and prices.input else CACHED_PART
    return tokens - cached * (1 - part)


def _name_staying(snapshot: Snapshot[Any], plan: SummaryPlan) -> list[str]:
    """Return the names of the messages and texts that stay: those behind the cut as one, and the earlier ones."""
    history = snapshot.history
    newest = filter(None, (_name(piece.message) for piece in history.pieces(history.run_start(plan.cut))))
    names = [f"the newest messages, from {name} on" for name in newest][:1]
    names += filter(None, (_name(history.piece(index).message) for index in plan.pinned[-MOST_NAMED:]))
    if plan.frame.carried:
        names.append("the texts in <carried> tags, which come back by themselves")
    return names


def _name(message: Message) -> str:
    """Return how a message begins; "" for results of tools, whose words are no instructions, and for what says nothing."""
    words = " ".join(message.text[: 2 * _QUOTED_CHARS].split())[:_QUOTED_CHARS]
    if words and message.role in ("user", "assistant"):
        return f'the message of the {message.role} that begins with "{neutralize(words)}"'
    return f"the call {quote_call(message.calls[0])}" if message.calls else ""


def _write_with(snapshot: Snapshot[M], text: str) -> list[M]:
    """Return the list of this call with a user's message at its end, joined to the one before where roles must alternate."""
    history, format = snapshot.history, snapshot.format
    behind = (Behind(history.piece_count, text),)
    record: Any = snapshot.record
    request = Request(history, record, format, snapshot.estimator.estimate_message_tokens, behind=behind)
    view = insert(snapshot.view, request)
    return snapshot.write(view, joins_rows=snapshot.joins_rows or needs_merging(format))
