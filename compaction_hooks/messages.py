"""The neutral message, its parts, and the format by which a framework's messages are read.

The host's messages are never changed. A format reads each of them once into `Message` values, on which every decision is
made, and builds the few new ones that a view needs: a summary, a copy with one result shortened, a message with a part left out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from operator import attrgetter
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Literal,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
    get_args,
)

from compaction_hooks.arguments import refusal

__all__ = [
    "Format",
    "M",
    "Media",
    "Message",
    "MessageFormat",
    "NativeSummary",
    "Opaque",
    "Part",
    "PartAddress",
    "Provider",
    "Role",
    "StopReason",
    "Text",
    "Thinking",
    "ToolCall",
    "ToolResult",
    "Usage",
    "UsageReport",
    "Value",
    "as_format",
    "can",
    "is_blank",
    "provider_named",
]

Role: TypeAlias = Literal["system", "user", "assistant", "tool", "other"]
"""The speaker. "tool" holds results only; "other" is a role that the format does not know: counted and kept as it is."""

Provider: TypeAlias = Literal["openai_chat", "openai_responses", "anthropic", "gemini", "bedrock", "chat_template"]
"""The API that will receive the messages: OpenAI chat completions, OpenAI Responses, Anthropic messages, Gemini generateContent,
Bedrock Converse. "chat_template" is an OpenAI-compatible server (vLLM, llama.cpp) that writes the prompt by the model's own
template, some of which (Mistral, Gemma, Llama 2) refuse more; its rules are theirs alone."""

M = TypeVar("M")
"""The host's own message type."""


class Value:
    """The base of frozen data classes, which are compared, hashed and shown by their fields.

    `dataclass` would write and compile these methods anew for each class: a third of the time in which the class is made.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        read = _read_compared(cast("Any", self.__class__))
        return read(self) == read(other)

    def __hash__(self) -> int:
        return hash(_read_compared(cast("Any", self.__class__))(self))

    def __repr__(self) -> str:
        pairs = [f"{each.name}={getattr(self, each.name)!r}" for each in fields(cast("Any", self)) if each.repr]
        return f"{type(self).__qualname__}({', '.join(pairs)})"


@cache
def _read_compared(kind: Any) -> Callable[[object], object]:
    """Return a function that reads the fields by which objects of a class are compared."""
    return attrgetter(*(each.name for each in fields(kind) if each.compare))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Text(Value):
    """Prose of the user, the assistant or the system."""

    text: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Thinking(Value):
    """Reasoning of the assistant. Counted, never part of a digest, left out of a summarizer's transcript.

    Attributes:
        text: The visible reasoning; may be empty when the provider encrypts it.
        opaque_chars: Characters of signature or encrypted reasoning that travel along.
    """

    text: str
    opaque_chars: int = 0


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Media(Value):
    """An image, a document or a sound.

    Attributes:
        media_type: MIME type, or its first half ("image") if only that is known.
        identity: SHA-256 (hex) of the decoded bytes, or the URL or file id if the host sends a reference.
        is_reference: Whether `identity` is a URL or file id rather than a hash.
        low_detail: Whether the host asked the provider for a low-resolution reading.
        name: The name of its file, if the host's message has one.
        data_chars: Characters it takes in a request, as base64; 0 for a reference.
    """

    media_type: str
    identity: str
    is_reference: bool = False
    low_detail: bool = False
    name: str = field(default="", compare=False)
    data_chars: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ToolCall(Value):
    """A tool call of the assistant.

    Attributes:
        id: The provider's call id; unique only among calls that are open at the same time.
        arguments: The arguments as JSON text, exactly as the host holds them if it holds text.
        opaque_chars: Characters of a signature that travels along (Gemini's thought signatures); 0 without one.
    """

    id: str
    name: str
    arguments: str
    opaque_chars: int = 0


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ToolResult(Value):
    """The result of a tool call. `name` is empty if the host's message does not have it.

    Attributes:
        finds: The tools that it makes known to the model; the provider hides their definitions without it.
    """

    call_id: str
    text: str
    name: str = ""
    is_error: bool = False
    media: tuple[Media, ...] = ()
    finds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Opaque(Value):
    """A block of a tool that the provider ran itself, or one the format does not know.

    It is counted by its JSON text and kept as it is.

    Attributes:
        kind: The block's type, as the provider names it.
        call_id: The id that joins the call and the result of a tool that the provider ran itself, or a block of the assistant's and
            the block by which the host answers it, such as an approval; "" for other blocks.
        name: The tool's name, if the block has it.
        content: Its readable words and numbers, for digests and summaries: a query, titles, output; "" if
            nothing in it is readable. The same in every framework's form of the block.
        finds: The tools that it makes known to the model; the provider hides their definitions without it.
    """

    kind: str
    text: str
    call_id: str = ""
    name: str = ""
    content: str = ""
    finds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NativeSummary(Opaque):
    """The provider's own summary of the messages before it: a `compaction` block of Anthropic, or such an item of OpenAI or xAI.

    Attributes:
        content: The summary; "" if only the provider can read it: then it is a piece of its own.
        sealed: The encrypted summary; "" if it is readable.
        is_first: Whether no message may be sent before it, system messages excepted; else the provider ignores such messages.
    """

    sealed: str = ""
    is_first: bool = False


Part: TypeAlias = Text | Thinking | Media | ToolCall | ToolResult | Opaque
"""A part of a message."""


def is_blank(part: Part) -> bool:
    """Return whether a part is a text without anything but white space."""
    return isinstance(part, Text) and (not part.text or part.text.isspace())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Usage(Value):
    """The provider's count of one model call, in tokens, or the sum or the estimate of such counts.

    Attributes:
        input_tokens: The whole input: system prompt, tools and all messages, cached part included.
        output_tokens: The model's output, reasoning included.
        cache_read_tokens: The part of `input_tokens` that came from the cache.
        cache_write_tokens: The part of `input_tokens` that was written to the cache.
        is_estimate: Whether any part of it is estimated, because no provider's count was given.
    """

    input_tokens: int
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    is_estimate: bool = False

    def __add__(self, other: Usage) -> Usage:
        """Return the sum, which is an estimate if either is."""
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            is_estimate=self.is_estimate or other.is_estimate,
        )


if TYPE_CHECKING:

    class ClientUsage(Protocol):
        """The usage object of a provider's client: OpenAI's, Anthropic's, LiteLLM's."""

        def model_dump(self, *, exclude_none: bool = ...) -> Mapping[str, object]: ...

else:
    ClientUsage = object  # pydantic has no schema for a protocol, and durable runs of hosts build one from a `Summary`


UsageReport: TypeAlias = Usage | Mapping[str, object] | ClientUsage | None
"""A provider's count in any form that hosts have: read already, the client's object, or JSON; None is no report."""

StopReason: TypeAlias = Literal["complete", "tool_calls", "length", "window", "error", "aborted"]
"""How a call ended. "window": the provider itself says that the context window ended the answer; "length": another limit did."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Message(Value):
    """One speaker's contribution, free of any framework.

    Attributes:
        role: The speaker.
        parts: Its content, in order.
        usage: The provider's count of the call that produced this assistant message, if the host stores it there.
        model: The model that produced it, if known.
        stop_reason: How the call ended, if known; usage of "error" and "aborted" calls is never used.
        is_summary: Whether the host itself marks this message as the product of an earlier compaction.
    """

    role: Role
    parts: tuple[Part, ...]
    usage: Usage | None = None
    model: str | None = None
    stop_reason: StopReason | None = None
    is_summary: bool = False

    @property
    def text(self) -> str:
        """The message's `Text` parts, joined without a separator."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Its tool calls, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """Its tool results, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolResult))


PartAddress: TypeAlias = tuple[int, int]
"""The place of a part in one host message: (index into `read(message)`, index into that `Message.parts`)."""


class MessageFormat(Protocol[M]):
    """The members that each format has; `Format` tells what they do, and what else a format may have.

    A format with these members alone, or with some of the optional ones, need not derive from `Format`.
    """

    @property
    def name(self) -> str:
        """A short stable name."""
        ...

    def read(self, message: M, /) -> Sequence[Message]:
        """Return the neutral reading of one host message."""
        ...

    def summary(self, text: str, /) -> M:
        """Return a new user message with this text."""
        ...

    def take(self, message: M, pieces: Sequence[int], /) -> M:
        """Return a new message with only these pieces."""
        ...

    def rewrite(self, message: M, texts: Mapping[PartAddress, str], /) -> M:
        """Return a copy in which the named parts have these texts."""
        ...


class Format(ABC, Generic[M]):
    """The way in which one framework writes its messages. Implementations hold no state and never change a message.

    Required are `name` and the abstract methods. Everything else is optional: what a format does not define, it cannot do.
    A class that replaces only `name` or `read` of its parent loses what the parent declared for these: `provider` and `is_read_as`.

    One host message may hold several speakers (Anthropic: tool results and the user's next words in one user message). `read`
    then returns one `Message` for each, in their order, and `take` builds a message with some of them.

    Attributes:
        name: A short stable name, for events and error texts.
        provider: The provider whose rules hold for a view; None if a client library translates the messages further. If a class
            does not say, it is the one with the format's name.
    """

    name: str
    provider: Provider | None = None

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Take back what a parent declared for a `name` or a `read` that the class does not have."""
        super().__init_subclass__(**keywords)
        for ability, basis in _BASES.items():
            owner = next(vars(each) for each in cls.__mro__ if not vars(each).keys().isdisjoint((ability, basis)))
            if ability not in owner:
                default = provider_named(vars(cls).get("name")) if basis == "name" else vars(Format)[ability]
                setattr(cls, ability, default)

    # -- required

    @abstractmethod
    def read(self, message: M, /) -> Sequence[Message]:
        """Return the neutral reading of one host message: at least one `Message`, each of one speaker.

        Raises:
            FormatError: the message is not of this format; the text names the field.
        """

    @abstractmethod
    def summary(self, text: str, /) -> M:
        """Return a new user message with this text."""

    @abstractmethod
    def take(self, message: M, pieces: Sequence[int], /) -> M:
        """Return a new message with only these pieces (ascending indexes into `read(message)`), and the same part objects."""

    @abstractmethod
    def rewrite(self, message: M, texts: Mapping[PartAddress, str], /) -> M:
        """Return a copy in which the named parts have these texts: results, calls (JSON arguments), `Text` of user or assistant.

        A text of the user takes the place of a user's `Media`. Everything else, unknown fields included, is the same
        object as before. Media inside a rewritten result is dropped.
        """

    # -- optional: to be quick

    def is_read_as(self, message: M, pieces: Sequence[Message], /) -> bool:
        """Return whether `read` surely still returns these pieces. False is always safe: the message is read again."""
        return False

    # -- optional: what a view may have

    def drop(self, message: M, parts: Collection[PartAddress], /) -> M:
        """Return a copy without these parts, such as reasoning that the provider would refuse; the others are the same objects.

        At least one part of the message stays. A piece that loses all parts is removed, and so is a piece without parts whose
        first part is named. Calls are never dropped.
        """
        return message

    def untie(self, message: M, /) -> M:
        """Return a message of the assistant that is valid without the reasoning before it; the message itself if it has no tie.

        For messages that are tied to reasoning by more than their place: by ids of items, or signatures of tool calls.
        """
        return message

    def merge(self, view: list[M], /) -> list[M]:
        """Return the view with one message for each row of user messages: a copy of its last with the content of all, in order.

        That message depends only on its row. Without a row, return the same list object.
        """
        return view

    def native(self, items: Sequence[Mapping[str, object]], /) -> list[M]:
        """Return new messages with a provider's own compaction items, unchanged, for the beginning of a request."""
        return []

    def cache_mark(self, message: M, /) -> object | None:
        """Return the last mark of a prompt cache in a message, as Anthropic's `cache_control`; None without one."""
        return None

    def with_cache_mark(self, summary: M, mark: object, /) -> M:
        """Return a copy of a summary with this mark at its end; `read` returns the same for both."""
        return summary

    # -- optional: for `repair=True`, which needs `drop` too, and all of these but the last two

    def request(self, text: str, /) -> M:
        """Return a new user message with this text that does not look like a summary."""
        raise NotImplementedError

    def answer(self, message: M, call: PartAddress, text: str, /) -> M:
        """Return a new message with the result of this call of `message`: a failure with this text, under the call's id."""
        raise NotImplementedError

    def rename(self, message: M, ids: Mapping[PartAddress, str], /) -> M:
        """Return a copy in which the named calls and results have these call ids, in every field that repeats them."""
        raise NotImplementedError

    def tidy(self, message: M, /) -> M:
        """Return a copy without faults that no part shows; the message itself if it has none."""
        return message

    def fill_reasoning(self, message: M, /) -> M:
        """Return a copy with empty reasoning next to its tool calls; the message itself if it has no calls, or has reasoning."""
        return message


_BASES: Final = {"provider": "name", "is_read_as": "read"}
"""What each ability is declared for."""


def can(format: Format[Any], *methods: str) -> bool:
    """Return whether a format has these optional methods of its own.

    Raises:
        ConfigurationError: `Format` has no method of such a name.

    >>> from compaction_hooks.formats import AnthropicFormat
    >>> can(AnthropicFormat(), "merge", "drop"), can(AnthropicFormat(), "untie")
    (True, False)
    """
    for name in methods:
        if name not in vars(Format):
            raise refusal("methods", name, 'be names of methods of Format, such as "merge"')
    return not any(getattr(getattr(format, name), "__func__", None) is vars(Format)[name] for name in methods)


def as_format(format: MessageFormat[M]) -> Format[M]:
    """Return a format with all members of `Format`: itself, or one that has the defaults for those that it lacks."""
    if isinstance(format, Format):
        return format
    methods = {name: getattr(format, name, None) for name, default in vars(Format).items() if callable(default)}
    own = {name: staticmethod(method) for name, method in methods.items() if name[0] != "_" and callable(method)}
    provider = getattr(format, "provider", provider_named(format.name))
    made = type(type(format).__name__, (Format,), {**own, "name": format.name, "provider": provider})
    return cast("Format[M]", made())


def provider_named(name: object) -> Provider | None:
    """Return the provider with this name; None if there is none."""
    return next((provider for provider in get_args(Provider) if provider == name), None)
