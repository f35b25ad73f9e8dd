"""Records in any key-value store, through the methods of `KeyValue`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from hashlib import sha256
from typing import Any, ClassVar, Final, Protocol, TypeVar
from urllib.parse import quote, unquote

from compaction_hooks.errors import ConfigurationError, RecordError
from compaction_hooks.stores.tombstones import is_tombstone

T = TypeVar("T")

_LONGEST: Final = 120
"""The most characters of an id in a key; a longer id becomes its beginning and a digest. Some stores have few bytes for a key:
memcached 250, etcd and S3 thousands."""
_BEGINNING: Final = _LONGEST // 2
"""The characters that are kept of a longer id."""
_LONG: Final = re.compile(rf"[\w%-]{{{_BEGINNING}}}%-[0-9a-f]{{64}}", re.ASCII)
"""The key of a longer id; no text quotes to "%-"."""


class KeyValue(Protocol):
    """A store of texts under two keys: a folder for each conversation, a name for each record in it.

    A hash, a table with two key columns, a partition key and a sort key; if keys are flat, `f"{folder}/{name}"`. Each method
    may be sync or async, and each is one atomic step. Keys are safe to use as they are: after the prefix given to
    `KeyValueStore` they hold ASCII letters, digits and `_-%`, at least one and at most 150.

    A fourth method is optional, and makes `KeyValueStore` a `ListingStore`: `list_folders(prefix)`, which returns the names of the
    folders that have values and begin with `prefix`, as str or bytes, in any order; a name may come twice.
    """

    def values(self, folder: str, /) -> Iterable[str | bytes] | Awaitable[Iterable[str | bytes]]:
        """Return all values of a folder in any order, as they were added or as UTF-8; none for an unknown folder."""
        ...

    def add(self, folder: str, name: str, value: str, /) -> object:
        """Keep a value, ASCII text, unless the folder has one under this name already. The returned or awaited value is ignored."""
        ...

    def delete(self, folder: str, name: str, /) -> object:
        """Remove a value if it is there. The returned or awaited value is ignored."""
        ...


class KeyValueStore:
    """Records in a key-value store: one folder for each conversation, one entry for each record.

    A save is one `add`, with nothing read before it, so workers never overwrite one another's records. Sync if the store's
    methods are sync, else async.

    Args:
        store: The store that gets the entries.
        prefix: The beginning of every folder's name, to tell these entries from others in the same store.
    """

    _lists_forgotten: ClassVar[bool] = True
    """Whether `list_folders` also names folders with nothing but a tombstone, so that each folder must be read."""

    def __init__(self, store: KeyValue, prefix: str = "compaction_records:") -> None:
        self._store = store
        self._prefix = prefix

    def load(self, session_id: str) -> Sequence[str] | Awaitable[Sequence[str]]:
        """Return the session's records, in any order."""
        return _convert(self._store.values(self._folder(session_id)), lambda values: [*map(text_of, values)])

    def append(self, session_id: str, record_id: str, record: str) -> Awaitable[None] | None:
        """Add a record unless its id is there already."""
        return _convert(self._store.add(self._folder(session_id), _make_key(record_id), record), lambda _: None)

    def remove(self, session_id: str, record_id: str) -> Awaitable[None] | None:
        """Take a record out if it is there."""
        return _convert(self._store.delete(self._folder(session_id), _make_key(record_id)), lambda _: None)

    def session_ids(self, prefix: str = "") -> Sequence[str] | Awaitable[Sequence[str]]:
        """Return the ids of the sessions that have records and begin with `prefix`, sorted.

        Each of them is read, to leave out those that were forgotten.

        Of an id with more than 120 characters, quoted, only the beginning and a digest are stored. It is returned as this key,
        which the other methods take in its place.

        Raises:
            ConfigurationError: the key-value store has no `list_folders`.
            RecordError: `prefix` is longer than the stored beginning of a long id, so whether the id begins with it is not known.
        """
        find: Callable[[str], Any] | None = getattr(self._store, "list_folders", None)
        if find is None:
            raise ConfigurationError(
                f"{type(self._store).__name__} cannot list its folders: give it a method list_folders(prefix), which returns the "
                "names of the folders that begin with prefix"
            )

        return _run(self._list(find, prefix))

    def _list(self, find: Callable[[str], Any], prefix: str) -> Generator[Any, Any, Sequence[str]]:
        """Return the ids of the sessions with records; yield what the store answers, which may have to be awaited."""
        quoted = quote_id(prefix)
        folders: Iterable[str | bytes] = yield find(f"{self._prefix}{quoted[:_BEGINNING]}")
        ids: list[str] = []
        for id in self._read_ids(folders, quoted):
            stored: Sequence[str] = (yield self.load(id)) if self._lists_forgotten else ()
            if not self._lists_forgotten or not all(map(is_tombstone, stored)):
                ids.append(id)

        long = [id for id in ids if _LONG.fullmatch(id)]
        if long and len(quoted) > _BEGINNING:
            raise RecordError(
                f"{len(long)} ids are too long to be stored whole, and may begin with {prefix!r} or not: give a prefix of at "
                f"most {_BEGINNING} characters (quoted as in a URL), or these ids themselves"
            )
        return ids

    def _read_ids(self, folders: Iterable[str | bytes], quoted: str) -> Sequence[str]:
        """Return the ids of folders that begin with a quoted text, and of long ids those that may; sorted."""
        # Checked here too: a store that matches patterns may find more than it was asked for.
        keys = {name.removeprefix(self._prefix) for name in map(text_of, folders) if name.startswith(self._prefix)}
        long = {key for key in keys if _LONG.fullmatch(key) and key.startswith(quoted[:_BEGINNING])}
        return sorted(
            long.union(
                id
                for key in keys
                if key.startswith(quoted)
                and key not in long
                # Others may have folders with this prefix.
                and _make_key(id := unquote(key.partition("%-")[0], errors="surrogatepass")) == key
            )
        )

    def _folder(self, session_id: str) -> str:
        return f"{self._prefix}{_make_key(session_id)}"


def _make_key(name: str) -> str:
    """Return a key that no other text gets, but for the key of a long text, which is its own; readable if the text is."""
    quoted = quote_id(name)
    if 0 < len(quoted) <= _LONGEST:
        return quoted
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return name if _LONG.fullmatch(name) else f"{quoted[:_BEGINNING]}%-{digest}"


def quote_id(name: str) -> str:
    """Return an id as its key has it, or, of a long one, as its key begins."""
    return quote(name, safe="", errors="surrogatepass").replace(".", "%2E").replace("~", "%7E")


def _convert(answer: Any, make: Callable[[Any], T]) -> T | Awaitable[T]:
    """Return `make(answer)`, or an awaitable of it if the answer is to be awaited."""
    if not inspect.isawaitable(answer):
        return make(answer)

    async def convert_later() -> T:
        return make(await answer)

    return convert_later()


def _run(steps: Generator[Any, Any, T]) -> T | Awaitable[T]:
    """Return the result of steps that yield answers; an awaitable of it from the first answer on that is to be awaited."""
    answer = next(steps)
    try:
        while not inspect.isawaitable(answer):
            answer = steps.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result
    return _run_later(steps, answer)


async def _run_later(steps: Generator[Any, Any, T], answer: Any) -> T:
    try:
        while True:
            answer = steps.send(await answer if inspect.isawaitable(answer) else answer)
    except StopIteration as end:
        result: T = end.value
        return result


def text_of(value: str | bytes) -> str:
    """Return a stored value as text. Bytes that are no UTF-8 make a text that is no JSON, so that the other records are read.

    >>> text_of(b'{"id": "\\xff"}')
    '{"id": "\\\\xff"}'
    """
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value
