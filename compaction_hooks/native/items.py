"""Native compaction items: a provider's own summaries of a conversation, which only their issuer can read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from compaction_hooks.foreign import read_attribute
from compaction_hooks.messages import Provider

REFUSALS: Final = re.compile(r"compaction|compact-20|encrypted.content|\bcmp_", re.IGNORECASE)
"""Words of the refusals of native items: Anthropic's `compaction_signature_invalid` and its like, and a missing beta header
(https://platform.claude.com/docs/en/build-with-claude/compaction-on-demand); OpenAI's `invalid_encrypted_content` and "Item with
id 'cmp_...' not found"; read 2026-11."""
_NAMES_REASONING: Final = re.compile(r"\brs_\w")
"""The id of a reasoning item: an error that names it has accepted the native items, which are in front."""
_REFUSED: Final = {400, 404}


class Issuer(NamedTuple):
    """The API and the model that made a native item; no other one can read it.

    Attributes:
        provider: The API, by the name that `MessageFormat`s give it.
        address: Base address of the API, such as "https://api.anthropic.com".
        model: Name of the model as the host writes it; "" if it is that of the call.
    """

    provider: Provider
    address: str
    model: str = ""


class NativeItems(NamedTuple):
    """A provider's own summary of the oldest messages.

    Attributes:
        issuer: The API and the model that can read it.
        items: The content blocks or input items, as plain JSON, to be sent back exactly as they came.
        tokens: Size of the summary in them, as the provider counted it; None: the size of `Summary.text`.
    """

    issuer: Issuer
    items: tuple[Mapping[str, object], ...]
    tokens: int | None = None


class NativeSummarizer(Protocol):
    """A callable that answers a `SummaryRequest`, perhaps with native items. Views show these to its issuer.

    It takes messages in the form of its issuer. If a client library translates the messages, an attribute `form` names the provider
    of their format, or is "" if their format has none.
    """

    @property
    def issuer(self) -> Issuer:
        """The API that it asks, and to which the host sends its views; without a model."""
        ...


def issuer_of(summarizer: object, find_form: Callable[[], Provider | None]) -> Issuer | None:
    """Return the issuer of a `NativeSummarizer` that takes messages of this form; None for any other summarizer.

    Args:
        find_form: Returns the provider of the messages' format.
    """
    issuer = None if summarizer is None else read_attribute(summarizer, "issuer")
    if not isinstance(issuer, Issuer):
        return None
    form = read_attribute(summarizer, "form")
    return issuer if (find_form() or "") == (issuer.provider if form is None else form) else None


def is_native_refusal(error: object) -> bool:
    """Return whether the provider's error may refuse the native items of a request that had such. Never raises.

    >>> is_native_refusal("Error code: 400 - `compaction` is not one of the expected content block types")
    True
    """
    from compaction_hooks.overflow.evidence import read_chain

    texts = [
        text
        for evidence in read_chain(error)
        if not evidence.statuses or evidence.statuses & _REFUSED
        for text in (*evidence.texts, *evidence.codes)
    ]
    return any(map(REFUSALS.search, texts)) and not any(map(_NAMES_REASONING.search, texts))
