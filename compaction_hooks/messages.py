"""The neutral message, its parts, and the protocol by which a framework's messages are read.

The host's messages are never changed. A format reads each of them once into `Message` values, on which every decision is
made, and builds the few new ones a view needs: a summary, a copy with one result shortened, a message with a part left out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

Role: TypeAlias = Literal["system", "user", "assistant", "tool", "other"]
"""Who speaks. "tool" holds results only; "other" is a role the format does not know: counted, passed through untouched."""

Provider: TypeAlias = Literal["openai_chat", "openai_responses", "anthropic", "gemini", "bedrock", "chat_template"]
"""Whose API will receive the messages: OpenAI chat completions, OpenAI Responses, Anthropic messages, Gemini generateContent,
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
    """Reasoning of the assistant. Counted, never part of a digest, left out of a summariser's transcript.

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
        media_type: MIME type, or its first half ("image") when only that is known.
        identity: SHA-256 (hex) of the decoded bytes, or the URL or file id where the host sends a reference.
        is_reference: Whether `identity` is a URL or file id rather than a hash.
        low_detail: Whether the host asked the provider for a low-resolution reading.
        name: The name of its file, where the host's message has one.
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
    """The assistant asks for a tool.

    Attributes:
        id: The provider's call id; unique only among calls that are open at the same time.
        arguments: The arguments as JSON text, exactly as the host holds them when it holds text.
        opaque_chars: Characters of a signature that travels along (Gemini's thought signatures); 0 where there is none.
    """

    id: str
    name: str
    arguments: str
    opaque_chars: int = 0


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answered. `name` is empty when the host's message does not carry it."""

    call_id: str
    text: str
    name: str = ""
    is_error: bool = False
    media: tuple[Media, ...] = ()


@dataclass(frozen=True, slots=True)
class Opaque:
    """A block of a tool that the provider ran itself, or one the format does not know.

    It is counted by its JSON text and passed through untouched.

    Attributes:
        kind: The block's type, in the provider's word.
        call_id: What joins the call of a tool that the provider ran itself with its result; "" for everything else.
        name: The tool's name, if the block has it.
        content: The words and numbers that a reader may know of it, for digests and summaries: a query, titles, output; "" if
            nothing in it is readable. The same in every framework's form of the block.
    """

    kind: str
    text: str
    call_id: str = ""
    name: str = ""
    content: str = ""


Part: TypeAlias = Text | Thinking | Media | ToolCall | ToolResult | Opaque


def is_blank(part: Part) -> bool:
    """Return whether a part is a text without anything but white space."""
    return isinstance(part, Text) and (not part.text or part.text.isspace())


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What the provider counted for one model call, in tokens.

    Attributes:
        input_tokens: The whole input: system prompt, tools and all messages, cached part included.
        output_tokens: What the model produced, reasoning included.
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
"""A provider's count as hosts have it: read already, or as the client or the wire gives it; None is no report."""

StopReason: TypeAlias = Literal["complete", "tool_calls", "length", "window", "error", "aborted"]
"""How a call ended. "window": the provider itself says that the context window ended the answer; "length": some limit did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One speaker's contribution, free of any framework.

    Attributes:
        role: Whose contribution it is.
        parts: What it holds, in order.
        usage: What the provider counted for the call that produced this assistant message, when the host stores it there.
        model: The model that produced it, when known.
        stop_reason: How the call ended, when known; usage of "error" and "aborted" calls is never used.
        is_summary: The host itself marks this message as the product of an earlier compaction.
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
"""Where a part stands in one host message: (index into `read(message)`, index into that `Message.parts`)."""


class MessageFormat(Protocol[M]):
    """How one framework writes its messages. Implementations hold no state and never change a message.

    One host message may hold what several speakers said (Anthropic: tool results and the user's next words in one user
    message). `read` then gives one `Message` for each, in the order they stand, and `take` builds a message with some of them.

    A format may offer more: the protocols below each declare one optional ability, and a format has it by having its members.
    """

    @property
    def name(self) -> str:
        """A short stable name, for events and error texts."""
        ...

    def read(self, message: M, /) -> Sequence[Message]:
        """The neutral reading of one host message; at least one `Message`, never across speakers.

        Raises:
            FormatError: the message is not of this format; the text names the field.
        """
        ...

    def summary(self, text: str, /) -> M:
        """A new user message with this text."""
        ...

    def take(self, message: M, pieces: Sequence[int], /) -> M:
        """A new message with only these pieces (ascending indexes into `read(message)`), holding the same part objects."""
        ...

    def rewrite(self, message: M, texts: Mapping[PartAddress, str], /) -> M:
        """A copy in which the named parts have these texts: results, calls (JSON arguments), `Text` of user or assistant.

        The place of a user's `Media` is taken by a text of the user. Everything else, unknown fields included, is the same
        object as before. Media inside a rewritten result is dropped.
        """
        ...


@runtime_checkable
class ProviderFormat(MessageFormat[M], Protocol[M]):
    """A format that says whose rules its messages obey.

    Of any other format, and of a subclass with another name that does not say, the provider is the one that has its name.
    """

    @property
    def provider(self) -> Provider | None:
        """The provider whose rules hold for a view; None if a client library translates the messages further."""
        ...


@runtime_checkable
class RecognizingFormat(MessageFormat[M], Protocol[M]):
    """A format that can recognise a message without reading it again."""

    def is_read_as(self, message: M, pieces: Sequence[Message], /) -> bool:
        """Whether `read` surely still gives these pieces. False says nothing: the message is read."""
        ...


@runtime_checkable
class CachingFormat(MessageFormat[M], Protocol[M]):
    """A format whose messages can carry the mark of a prompt cache, as Anthropic's `cache_control`."""

    def cache_mark(self, message: M, /) -> object | None:
        """The last mark in a message; None without one."""
        ...

    def with_cache_mark(self, summary: M, mark: object, /) -> M:
        """A copy of a summary that carries this mark at its end, and reads as the summary does."""
        ...


@runtime_checkable
class MergingFormat(MessageFormat[M], Protocol[M]):
    """A format that can write user messages in a row as one. Only `merge_user_messages=True` asks for it."""

    def merge(self, view: list[M], /) -> list[M]:
        """The view with one message for each row of user messages: a copy of the row's last with the content of all, in order.

        It depends on nothing but the messages of its row. The very list if there is no row.
        """
        ...


@runtime_checkable
class DroppingFormat(MessageFormat[M], Protocol[M]):
    """A format that can leave out parts of a message: reasoning that the provider would refuse, and parts that `repair` drops."""

    def drop(self, message: M, parts: Collection[PartAddress], /) -> M:
        """A copy without these parts; whatever is left is the same object as before.

        At least one part of the message is left. A piece of which none is left is gone, and so is a piece without parts that
        is named by its first. Calls are never dropped.
        """
        ...


@runtime_checkable
class TidyingFormat(MessageFormat[M], Protocol[M]):
    """A format with faults that no part shows. Only `repair=True` asks for it."""

    def tidy(self, message: M, /) -> M:
        """A copy without them; the message itself if it has none."""
        ...


@runtime_checkable
class RepairingFormat(DroppingFormat[M], Protocol[M]):
    """A format that can also mend a broken history. Only `repair=True` asks for it; every other use needs a `MessageFormat`."""

    def request(self, text: str, /) -> M:
        """A new user message with this text, one that does not pass for a summary."""
        ...

    def answer(self, message: M, call: PartAddress, text: str, /) -> M:
        """A new message that holds the result of this call of `message`: a failure with this text, under the call's id."""
        ...

    def rename(self, message: M, ids: Mapping[PartAddress, str], /) -> M:
        """A copy in which the named calls and results have these call ids, wherever the message writes them down."""
        ...


def is_declared_for(format: MessageFormat[Any], ability: str, basis: str) -> bool:
    """Return whether an ability of a format was declared for its present basis: no subclass has replaced `basis` alone.

    >>> from compaction_hooks.formats import AnthropicFormat
    >>> class Gateway(AnthropicFormat):
    ...     name = "gateway"
    >>> is_declared_for(AnthropicFormat(), "provider", "name"), is_declared_for(Gateway(), "provider", "name")
    (True, False)
    """
    members = (vars(cls).keys() & {ability, basis} for cls in type(format).__mro__)
    return ability in next(filter(None, members), {ability})
