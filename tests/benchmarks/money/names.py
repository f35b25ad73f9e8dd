"""Names in a text, as this benchmark counts them: paths, URLs, e-mail addresses, ids and numbers."""

import re
from collections.abc import Iterable, Iterator

from compaction_hooks import Message
from compaction_hooks.replay.needs import leaves, read_arguments
from compaction_hooks.replay.probes import is_path, split_words

_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", re.ASCII)
_ID = re.compile(r"#?(?=(?:\D*\d){2})(?=[^A-Za-z]*[A-Za-z])\w[\w.-]{3,}\w", re.ASCII)
_MEASURE = re.compile(r"\d[\d.]*[A-Za-z]{1,3}", re.ASCII)
_NUMBER = re.compile(r"#?(?=(?:\D*\d){5})\d[\d-]*\d", re.ASCII)


def names(text: str) -> Iterator[str]:
    """Yield each path, URL, e-mail address, id and number of a text, with repetitions.

    An id has letters and at least two digits. A number has at least five digits and is not round: 120000 is a time-out, not a name.

    >>> list(names("see src/a.py and/or https://x.org/a?b=1, order TX-48213 of me@x.org: 10ms, 2024-02-03, utf-8"))
    ['src/a.py', 'https://x.org/a?b=1', 'TX-48213', 'me@x.org', '2024-02-03']
    """
    return filter(_is_name, split_words(text))


def _is_name(word: str) -> bool:
    if word.startswith(("http://", "https://")):
        return True
    if "/" in word:
        return is_path(word)
    if _NUMBER.fullmatch(word):
        return not word.endswith("000")
    if _EMAIL.fullmatch(word):
        return True
    return _ID.fullmatch(word) is not None and _MEASURE.fullmatch(word) is None


# -- texts


def visible_text(pieces: Iterable[Message]) -> str:
    """Return the text that a model reads in these messages and may quote: prose, calls and results, without thinking."""
    return "\n".join(text for piece in pieces for text in _texts(piece))


def spoken_text(pieces: Iterable[Message]) -> str:
    """Return the assistant's text and the arguments of its tool calls."""
    return "\n".join(text for piece in pieces if piece.role == "assistant" for text in _texts(piece))


def _texts(piece: Message) -> Iterator[str]:
    yield piece.text
    for call in piece.calls:
        yield call.name
        yield from leaves(read_arguments(call))
    yield from (result.text for result in piece.results)
