"""The facts of the messages that a summary covers, and of the summary before it: the items of its text, each with its value."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from operator import is_

from compaction_hooks.digest.classes import make_test, make_tests, read_classes
from compaction_hooks.digest.constraints import constraint_items
from compaction_hooks.digest.identifiers import collect_mentions, identifier_items
from compaction_hooks.digest.outline import (
    Item,
    Section,
    Size,
    as_data,
    first_fitting,
    items_under,
    newest_fitting,
    parse,
    render,
)
from compaction_hooks.digest.replies import ARROW, read_reply, reply_items
from compaction_hooks.digest.said import said_items
from compaction_hooks.digest.statements import (
    QUOTED_CHARS,
    foreign_items,
    request_items,
    request_texts,
)
from compaction_hooks.digest.steps import step_items
from compaction_hooks.digest.tasks import task_items
from compaction_hooks.digest.text import both_ends, is_cut_of
from compaction_hooks.digest.told import fact_items, note_items
from compaction_hooks.files import remove_file_tags
from compaction_hooks.files.operations import CallMade, find_touched_files, read_calls
from compaction_hooks.harness import is_summary_message, read_xml_calls, strip_harness
from compaction_hooks.history.history import UserWords
from compaction_hooks.messages import Media, Message, Opaque, Part, Text, ToolCall
from compaction_hooks.text.escaping import neutralize
from compaction_hooks.tokens.estimator import name_media
from compaction_hooks.view.carried import has_carried, without_carried

REQUESTS_SHARE = 0.36
"""The part of a summary that the user's first and newest request may take."""
STEPS_SHARE = 0.4
"""About the part of a summary that is left for steps."""
LEAST_STEP_TOKENS = 8
"""A line of a step has at least so many tokens: older steps than fit are not read."""
MAX_TEXT_CHARS = 100_000
"""The most characters of one text that are read, half from each end: a larger text was pasted, and a pattern that runs over
it stops every thread."""
ASKED_CHARS = 60
"""The characters at the end of the assistant's last words by which they are known again in its message."""
OF_PROVIDER = "of the provider"
"""The id of a call that the provider made of its own tool, and of its result: they are steps, but no calls of the host's tools."""
NAMED_RATIO = 0.25
"""The most of a summary's tokens that a prompt names of what the user said; of tasks half as much."""
MEDIA_LEFT_OUT = "[Left out: "
"""The beginning of a line that names an image or a document of the user."""


def facts(
    messages: Iterable[Message],
    previous_summary: str | None = None,
    kept: tuple[Message, ...] = (),
    *,
    is_stored: bool = False,
) -> Facts:
    """Return the facts of messages, and of the summary before them.

    Args:
        messages: Those that are summarized, oldest first.
        kept: Those that stay in the context.
        is_stored: Whether the summary is that of the compaction before, by any writer: goals there are in the writer's own words.
    """
    messages, kept = _read(messages), _read(kept)
    if is_stored:
        return Facts(messages, previous_summary or None, kept, requests_under=(Section.ASKED,))
    return Facts(messages, previous_summary, kept)


class Facts:
    """The messages that a summary covers and those that stay next to it, and what they tell: each is read once, when asked for.

    Args:
        requests_under: The sections of the previous summary whose items are requests of the user, word for word.

    Attributes:
        messages: Those that are summarized, oldest first.
        previous_summary: The summary to update, or None.
        kept: Those that stay in the context: they close tasks, and their words and names need not be repeated.
        WORDS_OF_USER: The classes of facts that are the user's own words.
    """

    WORDS_OF_USER = "answer", "constraint", "request"

    def __init__(
        self,
        messages: tuple[Message, ...],
        previous_summary: str | None,
        kept: tuple[Message, ...] = (),
        requests_under: tuple[Section, ...] = (Section.GOAL, Section.ASKED),
    ) -> None:
        self.messages, self.previous_summary, self.kept = messages, previous_summary, kept
        self._requests_under = requests_under

    @cached_property
    def readable(self) -> list[Message]:
        """The messages to read: with calls as such, without the harness's blocks, and of a large text the two ends."""
        return [_prepare(message) for message in read_xml_calls(self.messages) if message.role != "system"]

    @cached_property
    def calls(self) -> Sequence[CallMade]:
        """The tool calls of the messages, those written as XML and the provider's own too."""
        return read_calls(self.readable)

    @property
    def host_calls(self) -> list[CallMade]:
        """The calls without those that the provider made of its own tools."""
        return [made for made in self.calls if made.call.id != OF_PROVIDER]

    @cached_property
    def earlier(self) -> Sequence[Item]:
        """The items of the previous summary."""
        return parse(remove_file_tags(self.previous_summary or ""))

    @cached_property
    def told(self) -> Sequence[Item]:
        """The items of the previous summary, and of summaries by other systems in the messages."""
        return [*self.earlier, *foreign_items(self.readable)]

    @cached_property
    def tasks(self) -> Sequence[Item]:
        """The tasks that are still open."""
        begun = items_under(self.told, Section.IN_PROGRESS)
        return task_items(self._said, self.calls, begun, self.kept, read_calls(self.kept))

    @cached_property
    def is_chat(self) -> bool:
        """Whether the conversation has no tools: facts are all there is. A summary with steps says that there were some."""
        has_steps = any(message.calls or message.results for message in self.readable)
        return not has_steps and not items_under(self.told, Section.DONE, Section.IDENTIFIERS)

    @cached_property
    def asked(self) -> Sequence[str]:
        """The user's requests, word for word, oldest first, without those that stay."""
        return [text for text in request_texts(self.readable, self._asked_before) if text not in self._shown]

    @cached_property
    def _asked_before(self) -> Sequence[str]:
        """The requests that the previous summary has, but for cut ones that the messages, or those that stay, have whole."""
        asked = [item.text for item in items_under(self.told, *self._requests_under)]
        whole = [*request_texts(self.readable), *self._shown] if asked else []
        return [text for text in asked if not is_cut_of(text, whole, QUOTED_CHARS)]

    @cached_property
    def constraints(self) -> Sequence[Item]:
        """The user's constraints, oldest first, without those of the previous summary that stay."""
        earlier = items_under(self.told, Section.CONSTRAINTS)
        limits = [item.text for item in earlier if not any(item.text in text for text in self._shown)]
        return constraint_items((text for text in self.asked if text not in self._asked_before), limits)

    @cached_property
    def names(self) -> Sequence[Item]:
        """The identifiers that are not elsewhere in the context, the most valuable first: the file lists have modified paths."""
        if self.is_chat:
            return ()
        mentions = collect_mentions(self._said, self.calls, self.told)
        return [*identifier_items(mentions, {*find_touched_files(self.calls).modified}, self.kept)]

    def rank_items(self, max_tokens: int, size: Size, spare: int = 0) -> Mapping[Section, Sequence[Item]]:
        """Return the items for a summary of this size by section, the best first: mostly the newest.

        Args:
            spare: The tokens that nothing else needs: the user's requests have them, too.
        """
        replies = reply_items(self._replies, items_under(self.told, Section.REPLIES))
        answers = {item.text.rpartition(ARROW)[2] for item in replies}
        asked = [text for at, text in enumerate(self.asked) if at in (0, len(self.asked) - 1) or text not in answers]
        texts = [*asked[:1], *asked[1:][-1:]] if self.is_chat else asked  # the others are facts

        requests = self._requests_under if self.is_chat else ()
        carried = items_under(self.told, *requests, Section.USER_FACTS, Section.ASSISTANT_FACTS)
        # Of a chat only the end is told without a reply.
        replying = self._said[-1:] if self.is_chat else self._said
        facts = fact_items(self._chatted, carried, has_reply=any(message.role == "user" for message in replying))

        most_steps = max_tokens // LEAST_STEP_TOKENS
        earlier = items_under(self.told, Section.DONE)[-most_steps:]

        others = [
            *reversed(self.constraints),
            *step_items(earlier, self.calls[-most_steps:], max_tokens * STEPS_SHARE),
            *self.tasks,
            *items_under(self.told, Section.BLOCKED),
            *(() if self.is_chat else said_items(self._said, items_under(self.told, Section.STATE), max_tokens)),
            *(item for item in facts if item.section is not Section.USER_FACTS or item.text not in answers),
            *replies,
            *note_items(items_under(self.told, Section.NOTES)),
        ]
        room = int(max_tokens * REQUESTS_SHARE) + spare
        # The newest is the user's present request if no kept message has one.
        items = [*request_items(texts, room, size, is_present=not self._shown), *others, *self.names]
        return {section: [as_data(item) for item in items if item.section is section] for section in Section}

    # -- the words of a model

    def list_for_prompt(self, identifiers_tokens: int, max_tokens: int, size: Size) -> str:
        """Return the facts that a prompt asks a model to keep word for word, under their headings; empty if there are none.

        Args:
            identifiers_tokens: The most tokens of identifiers.
            max_tokens: The most the summary may hold.
            size: Size of a text in tokens.
        """
        most = int(max_tokens * NAMED_RATIO)
        known = {item.text for item in self.earlier}  # the prompt has the previous summary too

        items = [
            *newest_fitting([item for item in self.constraints if item.text not in known], most, size),
            *newest_fitting(self.tasks, most // 2, size),
            *first_fitting(self.names if identifiers_tokens else (), identifiers_tokens, size),
        ]
        return neutralize(render([*map(as_data, items)]))

    # -- a conversation, piece by piece

    @property
    def earlier_words(self) -> UserWords:
        """The user's constraints and media of which only the previous summary tells, if the list lacks older messages."""
        limits = [item.text for item in items_under(self.earlier, Section.CONSTRAINTS)]
        return UserWords(
            tuple(limits), tuple([item.text for item in self.earlier if item.text.startswith(MEDIA_LEFT_OUT)])
        )

    @staticmethod
    def read_words(message_at: Callable[[int], Message], at: int) -> UserWords:
        """Return the words that a summary must keep of a message of the user, and the places of the questions that it answers."""
        message, answered = message_at(at), read_reply(message_at, at)
        limits = _list_limits(request_texts(_read([message])))
        media = (f"{MEDIA_LEFT_OUT}{name_media(part)}]" for part in message.parts if isinstance(part, Media))
        return UserWords(tuple(limits), tuple(media), range(answered[0], at) if answered else range(0))

    # -- facts by class

    def list_by_class(
        self, message_at: Callable[[int], Message], users: Sequence[int]
    ) -> Mapping[str, Collection[str]]:
        """Return the facts of the messages by class, as a loss counts them.

        Args:
            message_at: Returns any message of the conversation: a question may be in none of these.
            users: The places of the user's messages among these.
        """
        texts = [request_texts(_read([message_at(at)])) for at in users]
        replies = (read_reply(message_at, at) for at in users)
        return {
            "answer": dict.fromkeys(found[1] for found in replies if found),
            "constraint": dict.fromkeys(limit for requests in texts for limit in _list_limits(requests)),
            "request": dict.fromkeys(text for requests in texts for text in requests),
            **read_classes(self.messages),
        }

    def make_test(self) -> Callable[[str], bool]:
        """Return a test whether the messages have a fact, word for word, anywhere."""
        return make_test(self.messages)

    def make_tests(self) -> Mapping[str, Callable[[str], bool]]:
        """Return tests, by class, for facts that count as kept only in some places."""
        return make_tests(self.messages)

    @cached_property
    def _replies(self) -> Sequence[str]:
        """The user's short replies, with the questions that they answer."""
        # As they are: a call that the provider made of its own tool does not end what the assistant said.
        messages = [message for message in read_xml_calls(self.messages) if message.role != "system"]
        asked = items_under(self.earlier, Section.STATE) or items_under(self.earlier, Section.ASSISTANT_FACTS)
        # Those of the user before the newest at the beginning are older ones, which stayed until now.
        first = next((at for at, message in enumerate(messages) if message.role != "user"), len(messages))
        said = " ".join(" ".join(message.text.split()) for message in messages[first : first + 1])
        if asked and first and asked[-1].text[-ASKED_CHARS:] not in said:
            messages.insert(first - 1, Message(role="assistant", parts=(Text(asked[-1].text),)))
        found = (read_reply(messages.__getitem__, at) for at in range(len(messages)))
        return [each[1] for each in found if each]

    @cached_property
    def _said(self) -> Sequence[Message]:
        return [message for message in self.readable if not message.is_summary]

    @cached_property
    def _chatted(self) -> Sequence[Message]:
        """What was said in a conversation without tools, but for messages of the user that stay."""
        shown = {*self._shown}
        said = self._said if self.is_chat else ()
        return [each for each in said if each.role != "user" or shown.isdisjoint(request_texts([each]))]

    @cached_property
    def _shown(self) -> Sequence[str]:
        """The requests of the user that stay."""
        return request_texts([message for message in self.kept if not is_summary_message(message)])


def _list_limits(requests: Sequence[str]) -> list[str]:
    return [item.text for item in constraint_items(requests)]


def _read(messages: Iterable[Message]) -> tuple[Message, ...]:
    return tuple(map(_without_carried, messages))


def _without_carried(message: Message) -> Message:
    """Return a message without the texts that a summary carries: they are no one's words. Nearly all come back as they are."""
    if message.role != "user" or not any(isinstance(part, Text) and has_carried(part.text) for part in message.parts):
        return message
    parts = [
        replace(part, text=without_carried(part.text)) if isinstance(part, Text) else part for part in message.parts
    ]
    return replace(message, parts=tuple(parts))


def _prepare(message: Message) -> Message:
    """Return a message to read; most are read as they are."""
    parts = [*map(_prepare_part, message.parts)]
    return message if all(map(is_, parts, message.parts)) else replace(message, parts=tuple(parts))


def _prepare_part(part: Part) -> Part:
    """Return a part to read: the two ends of a text without the harness's blocks; a provider's tool as a call."""
    if isinstance(part, Opaque) and part.content:
        return ToolCall(OF_PROVIDER, part.name or part.kind, part.content)
    if not isinstance(part, Text):
        return part
    text = strip_harness(both_ends(part.text, MAX_TEXT_CHARS // 2))
    return part if text == part.text else replace(part, text=text)
