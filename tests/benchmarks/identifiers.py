"""The identifiers of a text: an extractor for measurements, independent of the library's own."""

import re
from collections.abc import Iterator

HARD = frozenset({"url", "email", "path", "id", "hash", "number", "error"})
"""Kinds that a model cannot guess; symbols and bare file names follow from their code."""
MAX_CHARS = 200

_URL = re.compile(r"https?://[^\s\"'`<>()\[\]{}\\|]{4,}")
_WORD = re.compile(r"(?<![\w@/.~+-])[@~/.]{0,3}[A-Za-z0-9_][\w@./+-]*(?:[:#-][\w@./+-]+)*", re.ASCII)
_FILE_NAME = re.compile(r"[\w+-]+(?:\.[\w+-]+)*\.[a-z][a-z0-9]{0,4}", re.ASCII)
_EXTENSION = re.compile(
    r"pyi?|go|mod|sum|rs|[jt]sx?|[cm]js|jsonl?|ya?ml|toml|mdx?|rst|txt|html|s?css|java|kt|swift|cc|[ch](?:pp)?|rb|php|sh|sql|lock|cfg"
    r"|ini|conf|xml|csv|svg|png|jpg|gz|log|env|proto|ipynb|exs?|lua|vue"
)
_PATTERNS = (
    ("email", re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", re.ASCII)),
    (
        "error",
        re.compile(
            r"E(?:NO[A-Z]+|ACCES|PERM|XIST|EXIST|PIPE|CONN[A-Z]+|ADDR[A-Z]+|TIMEDOUT|INVAL|MFILE)|[A-Z]{1,5}\d{3,5}|E(?:RR)?_[A-Z_]{3,}",
            re.ASCII,
        ),
    ),
    ("hash", re.compile(r"(?=.*\d)(?=.*[a-f])[0-9a-f]{7,64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")),
    ("number", re.compile(r"#\d{1,8}|(?!\d*000$)(?!\d{1,5}-\d{1,5}$)\+?\d[\d-]{3,20}\d", re.ASCII)),
    ("id", re.compile(r"(?=.*\d.*\d)(?=.*[A-Za-z])#?[A-Za-z0-9][\w-]{3,60}", re.ASCII)),
    (
        "symbol",
        re.compile(
            r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w+)+|\w*[a-z][A-Z]\w*|[A-Za-z]\w*_\w+|_{1,2}[A-Za-z]\w{2,}|[A-Z]{2,}[a-z]\w+",
            re.ASCII,
        ),
    ),
)
_MEASURE = re.compile(r"\d[\d.]*[A-Za-z]{1,3}|v?\d+(?:\.\d+)*|\d+(?:st|nd|rd|th)", re.ASCII)


def find_identifiers(text: str) -> Iterator[tuple[str, str]]:
    """Yield (identifier, kind) for each URL, path, address, id, hash, number, error code, symbol and file name, with repetitions.

    >>> list(find_identifiers("see src/a.py:12 and/or ag.GetSession in setup.go, order TX-48213: 10ms, ENOENT"))
    ... # doctest: +NORMALIZE_WHITESPACE
    [('src/a.py', 'path'), ('ag.GetSession', 'symbol'), ('setup.go', 'file'), ('TX-48213', 'id'), ('ENOENT', 'error')]
    """
    for url in _URL.findall(text):
        if len(url) <= MAX_CHARS:
            yield url.rstrip(".,:;!?*"), "url"
    for run in _WORD.findall(_URL.sub(" ", text)):
        if len(run) > MAX_CHARS:
            continue
        for piece in run.split(":"):
            word = piece.strip("-").rstrip("./+:#@")
            if len(word) >= 3 and (kind := kind_of(word)):
                yield word, kind


def kind_of(word: str) -> str:
    """Return the kind of one word, or an empty text."""
    if "/" in word:
        is_path = word.count("/") > 1 or "." in word.rpartition("/")[2]
        return "path" if is_path and "//" not in word and any(map(str.isalpha, word)) else ""
    if "." in word and _FILE_NAME.fullmatch(word) and _EXTENSION.fullmatch(word.rpartition(".")[2]):
        return "file"
    found = next((kind for kind, pattern in _PATTERNS if pattern.fullmatch(word)), "")
    return "" if found in ("id", "symbol", "error") and _MEASURE.fullmatch(word) else found


def is_in(identifier: str, text: str) -> bool:
    """Return whether a text has an identifier as a word of its own, or as the end of a longer path or name."""
    start = text.find(identifier)
    while start >= 0:
        before, after = text[start - 1 : start], text[start + len(identifier) :][:1]
        if not _is_inner(before, identifier[0]) and not _is_inner(after, identifier[-1]):
            return True
        start = text.find(identifier, start + 1)
    return False


def _is_inner(neighbour: str, edge: str) -> bool:
    return bool(neighbour) and (neighbour.isalnum() or neighbour == "_") and (edge.isalnum() or edge == "_")
