"""The texts, codes and statuses of an error object: any client's exception, response or dict.

No client is imported. openai, anthropic, litellm, botocore, google, httpx and the frameworks above them use the same few
attributes and keys (`status_code`, `code`, `body`, `response`, `error_message`, ...), so these are read by name. Texts of a
model or a user (`content`, `arguments`, the `text` of a choice) are never read.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final, cast

from compaction_hooks.foreign import read_attribute, read_text
from compaction_hooks.overflow.words import READ_CHARS

_VALUES: Final = 200
"""The most values read inside one error: a bound for objects that invent attributes, far above the size of real errors."""
_ERRORS: Final = 32
"""The most errors of one chain or group that are read: a bound for cycles through new objects, far above real chains."""
_ITEMS: Final = 64
"""The most items read of one list or mapping."""
_TEXTS: Final = 16
"""The most texts read of one error: a bound, as clients repeat one sentence as message, body and text."""
_CODE_CHARS: Final = 80
"""Longer values under a key for codes are sentences; the longest code on record has 32 characters."""

_TEXT_KEYS: Final = frozenset(
    (
        *("message", "msg", "errormessage", "errormsg", "error", "detail", "details", "title", "description", "reason"),
        *("cause", "raw", "statusmsg", "body"),
    )
)
_NESTED_KEYS: Final = frozenset(
    (
        *("error", "errors", "message", "detail", "details", "cause", "raw", "body", "response", "data", "metadata"),
        *("failure", "baseresp", "innererror", "lasterror", "choices", "candidates", "incompletedetails"),
        *("providerdetails", "responsemetadata", "delta"),
    )
)
_CODE_KEYS: Final = frozenset({"code", "type", "errortype", "errorcode", "status", "reason", "providererrorcode"})
_FINISH_KEYS: Final = frozenset({"finishreason", "stopreason", "donereason", "nativefinishreason"})
_STATUS_KEYS: Final = frozenset({"status", "statuscode", "httpstatus", "httpstatuscode", "code"})
_PROVIDER_KEYS: Final = frozenset({"provider", "llmprovider", "providername"})
_ROOT_KEY: Final = "message"
_KNOWN_KEYS: Final = _TEXT_KEYS | _NESTED_KEYS | _CODE_KEYS | _FINISH_KEYS | _STATUS_KEYS | _PROVIDER_KEYS
_ATTRIBUTES: Final = (
    *("message", "error_message", "error", "errors", "body", "response", "detail", "details", "reason", "description"),
    *("code", "type", "status", "status_code", "http_status", "error_code", "provider_error_code"),
    *("finish_reason", "stop_reason", "choices", "delta"),
    *("response_metadata", "provider_details", "incomplete_details"),
    *("llm_provider", "provider", "metadata"),
)
"""Attributes read from objects; from an HTTP response also its `text`."""
_FINISHED_BY_WINDOW: Final = {"model_length": "context length exceeded"}
"""Finish reasons that mean the window without saying so: Mistral's enum (docs.mistral.ai, API reference, read 2026)."""
_STATUS = re.compile(r"[1-5]\d\d")
_STATUS_IN_TEXT = re.compile(
    r"(?:^|(?:code|status|http|error)\W{1,4})[\"'\[(]?([45]\d\d)(?![\w.,]| tokens)", re.IGNORECASE
)
_STATUS_CHARS: Final = 200
"""Clients write the status at the beginning: "Error code: 400 - ...", "API returned error: 400 - ..."."""
_OTHER_TROUBLE = re.compile(r"timeout|cancel|connect|interrupt", re.IGNORECASE)


class Evidence:
    """The texts, codes and statuses of one error, without those of the errors it wraps.

    Attributes:
        texts: Sentences; also the whole text of an exception, in which others may be nested as JSON.
        codes: Error codes and types, class names, and finish reasons.
        statuses: HTTP statuses; several if a gateway wraps another's answer.
        providers: Names of providers, as the client gave them.
        members: The errors of a group, each judged on its own.
        wrapped: The errors from which this one was raised, or during whose handling.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.codes: list[str] = []
        self.statuses: set[int] = set()
        self.providers: list[str] = []
        self.members: list[object] = []
        self.wrapped: list[object] = []

    def add_code(self, code: str) -> None:
        """Add a code; one of three digits is a status as well (OpenRouter: "code": 429)."""
        self.codes.append(code)
        if _STATUS.fullmatch(code):
            self.statuses.add(int(code))

    def add(self, other: Evidence) -> None:
        """Add another source's evidence of the same error, without its members and wrapped errors."""
        self.texts += other.texts
        self.codes += other.codes
        self.statuses |= other.statuses
        self.providers += other.providers


def read_chain(error: object) -> Iterator[Evidence]:
    """Yield the evidence of an error, then of those in its group and of those it was raised from; at most `_ERRORS`.

    Errors that you remove from `wrapped` meanwhile are not read.
    """
    waiting, seen = deque([error]), set[int]()
    while waiting and len(seen) < _ERRORS:
        current = waiting.popleft()
        if id(current) not in seen:
            seen.add(id(current))
            evidence = read_evidence(current)
            yield evidence
            waiting.extend((*evidence.members, *evidence.wrapped))


def read_evidence(error: object) -> Evidence:
    """Return the evidence of an error, from at most `_VALUES` values. Never raises, even if reading an attribute does."""
    reader = _Reader(error)
    if isinstance(error, BaseException):
        reader.add_exception(error)
    for _ in range(_VALUES):
        if reader.queue:
            reader.take(*reader.queue.popleft())
    return reader.evidence


class _Reader:
    """Reader of one error's values, breadth first, so that outer values are read before a bound is reached."""

    def __init__(self, error: object) -> None:
        self._error = error
        self.evidence = Evidence()
        self.queue: deque[tuple[str, object]] = deque([(_ROOT_KEY, error)])

    def add_exception(self, error: BaseException) -> None:
        """Add the text, the class names and the wrapped errors of an exception."""
        self.queue.append((_ROOT_KEY, read_text(error)))
        self.evidence.codes += [cls.__name__ for cls in type(error).__mro__ if cls.__module__ != "builtins"]
        self.evidence.members += _exceptions_in(read_attribute(error, "exceptions"))
        self.evidence.wrapped += _exceptions_in(read_attribute(error, "args"))

        if error.__cause__ is not None:
            self.evidence.wrapped.append(error.__cause__)
        elif error.__context__ is not None and not error.__suppress_context__ and not _is_other_trouble(error):
            self.evidence.wrapped.append(error.__context__)

    def take(self, key: str, value: object) -> None:
        """Read one value according to its key; queue the values inside it."""
        if isinstance(value, str | bytes | bytearray):
            self._take_text(key, value if isinstance(value, str) else bytes(value).decode(errors="replace"))
        elif isinstance(value, int):
            self.evidence.statuses.update((value,) if key in _STATUS_KEYS and 100 <= value < 600 else ())
        elif key in _NESTED_KEYS:
            self._open(key, value)

    def _take_text(self, key: str, text: str) -> None:
        if key in _FINISH_KEYS:
            self.evidence.codes.append(_FINISHED_BY_WINDOW.get(text.lower(), text))
        if key in _PROVIDER_KEYS:
            self.evidence.providers.append(text)

        if key in _CODE_KEYS and len(text) <= _CODE_CHARS:
            self.evidence.add_code(text)
        elif key in _TEXT_KEYS:
            self._add_text(text)

    def _add_text(self, text: str) -> None:
        """Add a text; one that is JSON is parsed instead, so that conversation texts quoted in it are skipped by their keys."""
        parsed = _parse_json(text)
        if parsed is not None:
            self.queue.append((_ROOT_KEY, parsed))
        elif text and text not in self.evidence.texts and len(self.evidence.texts) < _TEXTS:
            self.evidence.texts.append(text)
            status = _STATUS_IN_TEXT.search(text, 0, _STATUS_CHARS)
            self.evidence.statuses.update((int(status[1]),) if status else ())

    def _open(self, key: str, value: object) -> None:
        """Queue the values inside a mapping, a list or an object."""
        if isinstance(value, Mapping):
            for name, item in _items(cast("Mapping[object, object]", value)):
                self._queue(_plain(name), item)
        elif isinstance(value, list | tuple):
            self.queue.extend((key, item) for item in cast("list[object]", value)[:_ITEMS])
        elif isinstance(value, BaseException) and value is not self._error:
            self.evidence.wrapped.append(value)
        else:
            for name in _ATTRIBUTES:
                self._queue(_plain(name), read_attribute(value, name))
            if not isinstance(value, BaseException) and isinstance(read_attribute(value, "status_code"), int):
                self._queue("body", read_attribute(value, "text"))

    def _queue(self, key: str, value: object) -> None:
        if key in _KNOWN_KEYS and value is not None:
            self.queue.append((key, value))


def _plain(name: str) -> str:
    """Return a key without case, underscores and hyphens: errorCode, error_code and Error-Code are equal."""
    return name.lower().replace("_", "").replace("-", "")


def _parse_json(text: str) -> object:
    """Return the value of a JSON object or array; None for any other text."""
    if text.lstrip()[:1] not in ("{", "[") or len(text) > 2 * READ_CHARS:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _items(value: Mapping[object, object]) -> list[tuple[str, object]]:
    try:
        return [(name, item) for name, item in islice(value.items(), _ITEMS) if isinstance(name, str)]
    except Exception:  # noqa: BLE001  a foreign mapping may raise anything
        return []


def _exceptions_in(value: object) -> list[BaseException]:
    """Return the exceptions in a group's `exceptions`, or in an error's `args`, where some clients keep the wrapped error."""
    if not isinstance(value, list | tuple):
        return []
    return [item for item in cast("list[object]", value)[:_ITEMS] if isinstance(item, BaseException)]


def _is_other_trouble(error: BaseException) -> bool:
    """Return whether an error does not wrap the one handled when it was raised, but is a time-out or lost connection itself."""
    return isinstance(error, OSError) or _OTHER_TROUBLE.search(type(error).__name__) is not None
