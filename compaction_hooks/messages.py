"""The neutral message, its parts, and the protocol by which a framework's messages are read.

The host's messages are never changed. A format reads each of them once into `Message` values, on which every decision is
made, and builds the few new ones that a view needs: a summary, a copy with one result shortened, a message with a part left out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

Role: TypeAlias = Literal["system", "user", "assistant", "tool", "other"]
"""The speaker. "tool" holds results only; "other" is a role that the format does not know: counted and kept as it is."""

Provider: TypeAlias = Literal["openai_chat", "openai_responses", "anthropic", "gemini", "bedrock", "chat_template"]
"""The API that will receive the messages: OpenAI chat completions, OpenAI Responses, Anthropic messages, Gemini generateContent,
Bedrock Converse. "chat_template" is an OpenAI-compatible server (vLLM, llama.cpp) that writes the prompt by the model's own
template, some of which (Mistral, Gemma, Llama 2) refuse more; its rules are theirs alone."""

M = TypeVar("M")
"""The host's own message type."""


@dataclass(frozen=True, slots=True)
class Text:
    """Prose of the user, the assistant or the system."""

    text: str


@dataclass(frozen=True, slots=True)
class Thinking:
    """Reasoning of the assistant. Counted, never part of a digest, left out of a summarizer's transcript.

    Attributes:
        text: The visible reasoning; may be empty when the provider encrypts it.
        opaque_chars: Characters of signature or encrypted reasoning that travel along.
    """

    text: str
    opaque_chars: int = 0


@dataclass(frozen=True, slots=True)
class Media:
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


@dataclass(frozen=True, slots=True)
class ToolCall:
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


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call. `name` is empty if the host's message does not have it."""

    call_id: str
    text: str
    name: str = ""
    is_error: bool = False
    media: tuple[Media, ...] = ()


@dataclass(frozen=True, slots=True)
class Opaque:
    """A block of a tool that the provider ran itself, or one the format does not know.

    It is counted by its JSON text and kept as it is.

    Attributes:
        kind: The block's type, as the provider names it.
        call_id: The id that joins the call and the result of a tool that the provider ran itself; "" for other blocks.
        name: The tool's name, if the block has it.
        content: Its readable words and numbers, for digests and summaries: a query, titles, output; "" if
            nothing in it is readable. The same in every framework's form of the block.
    """

    kind: str
    text: str
    call_id: str = ""
    name: str = ""
    content: str = ""


@dataclass(frozen=True, slots=True)
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


def is_blank(part: Part) -> bool:
    """Return whether a part is a text without anything but white space."""
    return isinstance(part, Text) and (not part.text or part.text.isspace())


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The provider's count of one model call, in tokens.

    Attributes:
        input_tokens: The whole input: system prompt, tools and all messages, cached part included.
        output_tokens: The model's output, reasoning included.
        cache_read_tokens: The part of `input_tokens` that came from the cache.
        cache_write_tokens: The part of `input_tokens` that was written to the cache.
    """

    input_tokens: int
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
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
    """The way in which one framework writes its messages. Implementations hold no state and never change a message.

    One host message may hold several speakers (Anthropic: tool results and the user's next words in one user message). `read`
    then returns one `Message` for each, in their order, and `take` builds a message with some of them.

    A format may offer more: the protocols below each declare one optional ability, and a format has it if it has its members.
    """

    @property
    def name(self) -> str:
        """A short stable name, for events and error texts."""
        ...

    def read(self, message: M, /) -> Sequence[Message]:
        """Return the neutral reading of one host message: at least one `Message`, each of one speaker.

        Raises:
            FormatError: the message is not of this format; the text names the field.
        """
        ...

    def summary(self, text: str, /) -> M:
        """Return a new user message with this text."""
        ...

    def take(self, message: M, pieces: Sequence[int], /) -> M:
        """Return a new message with only these pieces (ascending indexes into `read(message)`), and the same part objects."""
        ...

    def rewrite(self, message: M, texts: Mapping[PartAddress, str], /) -> M:
        """Return a copy in which the named parts have these texts: results, calls (JSON arguments), `Text` of user or assistant.

        A text of the user takes the place of a user's `Media`. Everything else, unknown fields included, is the same
        object as before. Media inside a rewritten result is dropped.
        """
        ...


@runtime_checkable
class ProviderFormat(MessageFormat[M], Protocol[M]):
    """A format that names the provider whose rules its messages obey.

    The provider of any other format, and of a subclass that changes only the name, is the one with the format's name.
    """

    @property
    def provider(self) -> Provider | None:
        """The provider whose rules hold for a view; None if a client library translates the messages further."""
        ...


@runtime_checkable
class RecognizingFormat(MessageFormat[M], Protocol[M]):
    """A format that can recognize a message without a second reading."""

    def is_read_as(self, message: M, pieces: Sequence[Message], /) -> bool:
        """Return whether `read` surely still returns these pieces. False is always safe: the message is read again."""
        ...


PlainMessage: TypeAlias = tuple[bool, Sequence[str], Sequence[str], Sequence[str]]
"""A message of plain texts and tool calls, in which nothing else may change a view: whether the model wrote it; all its texts,
unchanged, names and arguments of calls included; the ids of its tool calls; and the ids of the calls that it answers."""


@runtime_checkable
class PlainFormat(MessageFormat[M], Protocol[M]):
    """A format that can tell the texts of a plain message without reading it."""

    def read_plain(self, message: M, /) -> PlainMessage | None:
        """Return the texts of a message; None if anything else is in it: media, reasoning, usage, unknown parts or fields."""
        ...


@runtime_checkable
class CachingFormat(MessageFormat[M], Protocol[M]):
    """A format whose messages can carry the mark of a prompt cache, as Anthropic's `cache_control`."""

    def cache_mark(self, message: M, /) -> object | None:
        """Return the last mark in a message; None without one."""
        ...

    def with_cache_mark(self, summary: M, mark: object, /) -> M:
        """Return a copy of a summary with this mark at its end; `read` returns the same for both."""
        ...


@runtime_checkable
class MergingFormat(MessageFormat[M], Protocol[M]):
    """A format that can write user messages in a row as one. Only `merge_user_messages=True` asks for it."""

    def merge(self, view: list[M], /) -> list[M]:
        """Return the view with one message for each row of user messages: a copy of its last with the content of all, in order.

        That message depends only on its row. Without a row, return the same list object.
        """
        ...


@runtime_checkable
class DroppingFormat(MessageFormat[M], Protocol[M]):
    """A format that can leave out parts of a message: reasoning that the provider would refuse, and parts that `repair` drops."""

    def drop(self, message: M, parts: Collection[PartAddress], /) -> M:
        """Return a copy without these parts; the other parts are the same objects as before.

        At least one part of the message stays. A piece that loses all parts is removed, and so is a piece without parts whose
        first part is named. Calls are never dropped.
        """
        ...


@runtime_checkable
class UntyingFormat(DroppingFormat[M], Protocol[M]):
    """A format whose messages are tied to reasoning by more than their place: by ids of items, or signatures of tool calls."""

    def untie(self, message: M, /) -> M:
        """Return a message of the assistant that is valid without the reasoning before it; the message itself if it has no tie."""
        ...


@runtime_checkable
class NativeFormat(MessageFormat[M], Protocol[M]):
    """A format whose messages can carry a provider's own compaction items."""

    def native(self, items: Sequence[Mapping[str, object]], /) -> list[M]:
        """Return new messages with these items, unchanged, for the beginning of a request."""
        ...


@runtime_checkable
class TidyingFormat(MessageFormat[M], Protocol[M]):
    """A format with faults that no part shows. Only `repair=True` asks for it."""

    def tidy(self, message: M, /) -> M:
        """Return a copy without these faults; the message itself if it has none."""
        ...


@runtime_checkable
class RepairingFormat(DroppingFormat[M], Protocol[M]):
    """A format that can also repair a broken history. Only `repair=True` asks for it; every other use needs a `MessageFormat`."""

    def request(self, text: str, /) -> M:
        """Return a new user message with this text that does not look like a summary."""
        ...

    def answer(self, message: M, call: PartAddress, text: str, /) -> M:
        """Return a new message with the result of this call of `message`: a failure with this text, under the call's id."""
        ...

    def rename(self, message: M, ids: Mapping[PartAddress, str], /) -> M:
        """Return a copy in which the named calls and results have these call ids, in every field that repeats them."""
        ...


def is_declared_for(format: MessageFormat[Any], ability: str, basis: str) -> bool:
    """Return whether a format's ability was declared for its present `basis`: no subclass has replaced `basis` alone.

    >>> from compaction_hooks.formats import AnthropicFormat
    >>> class Gateway(AnthropicFormat):
    ...     name = "gateway"
    >>> is_declared_for(AnthropicFormat(), "provider", "name"), is_declared_for(Gateway(), "provider", "name")
    (True, False)
    """
    members = (vars(cls).keys() & {ability, basis} for cls in type(format).__mro__)
    return ability in next(filter(None, members), {ability})
