"""OpenAI's own tokenizers, if their rank files are on the machine. Never the network.

tiktoken downloads a missing rank file without a timeout, so it is never left to look for one: the file is found, checked and
read here, in tiktoken's cache or in the wheels of litellm and llama-index, which ship some.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import logging
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Final, Protocol

from compaction_hooks.arguments import format_name
from compaction_hooks.errors import ConfigurationError, MissingExtraError
from compaction_hooks.messages import Message
from compaction_hooks.tokens.estimator import message_tokens, text_tokens
from compaction_hooks.tokens.windows import names_of, package_folder

__all__ = ["TiktokenEstimator"]

_LOGGER: Final = logging.getLogger("compaction_hooks")
_ENCODINGS: Final = ("o200k_base", "cl100k_base", "p50k_base", "p50k_edit", "r50k_base")
"""Encodings that tiktoken builds from one rank file each."""
_SAME_TEXT_AS: Final = {"o200k_harmony": "o200k_base"}
"""Encodings that differ from another in special tokens only, which are never counted as such."""
_SHIPPED_IN: Final = {"litellm": "litellm_core_utils/tokenizers", "llama_index": "core/_static/tiktoken_cache"}
"""Packages whose wheels hold rank files under tiktoken's own cache names, and where: litellm 1.106, llama-index-core 0.14."""
_O200K_NAME: Final = re.compile(r"(?:chat)?gpt-(?:4o|4\.\d|[5-9]|\d\d)|o\d\b|codex-mini")
"""OpenAI's models since GPT-4o. tiktoken knows a new one only in its next version."""
_PIECE_CHARS: Final = 4_000
"""Text is encoded in pieces: the time tiktoken takes for a run without blanks grows with its square. A cut adds a token at most."""


class _Tokenizer(Protocol):
    def encode_ordinary(self, text: str, /) -> list[int]: ...


@dataclass(frozen=True)  # without slots: a subclass may set attributes of its own
class TiktokenEstimator:
    """An estimator with a tiktoken encoding; without its rank file it counts as `CharacterEstimator` does, after one warning.

    The file is looked for at the first count. Exact for the text of OpenAI's models; Claude takes 20 to 35 % more, which is
    learned from usage.

    Args:
        encoding: "o200k_base" (GPT-4o and later), "cl100k_base" and the older ones.

    Raises:
        MissingExtraError: tiktoken is not installed.
        ConfigurationError: no such encoding.
    """

    encoding: str = "o200k_base"

    def __post_init__(self) -> None:
        if _SAME_TEXT_AS.get(self.encoding, self.encoding) not in _ENCODINGS:
            known = ", ".join((*_ENCODINGS, *_SAME_TEXT_AS))
            raise ConfigurationError(f"encoding={format_name(self.encoding)} is not one of {known}")
        if package_folder("tiktoken") is None:
            raise MissingExtraError("TiktokenEstimator", "tiktoken", "tiktoken")

    @classmethod
    def for_model(cls, model: str) -> TiktokenEstimator:
        """Return the estimator of an OpenAI model; a provider in front of the name is left out.

        Raises:
            MissingExtraError: tiktoken is not installed.
            ConfigurationError: it is no model of OpenAI, or one that tiktoken does not know.
        """
        newest = cls("o200k_base")
        name = [*names_of(model.strip().lower())][-1]
        if _O200K_NAME.match(name):
            return newest

        try:
            return cls(str(importlib.import_module("tiktoken").encoding_name_for_model(name)))
        except KeyError:
            raise ConfigurationError(
                f"model={format_name(model)} is none that tiktoken knows: name an encoding, "
                "TiktokenEstimator(encoding='o200k_base')"
            ) from None

    @property
    def name(self) -> str:
        """Return the encoding in use, as in "tiktoken:o200k_base", or "characters" if its rank file is missing."""
        return f"tiktoken:{self.encoding}" if self._tokenizer() else "characters"

    def estimate_tokens(self, text: str, /) -> int:
        """Return the tokens of a bare text; special tokens in it are text."""
        tokenizer = self._tokenizer()
        if tokenizer is None:
            return text_tokens(text)
        pieces = (text[start : start + _PIECE_CHARS] for start in range(0, len(text), _PIECE_CHARS))
        return sum(len(tokenizer.encode_ordinary(piece)) for piece in pieces)

    def estimate_message_tokens(self, message: Message, /) -> int:
        """Return the tokens of a message; its frame and media by the constants of `compaction_hooks.tokens`."""
        return message_tokens(message, self.estimate_tokens)

    def _tokenizer(self) -> _Tokenizer | None:
        return _load(_SAME_TEXT_AS.get(self.encoding, self.encoding))


@cache
def _load(encoding: str) -> _Tokenizer | None:
    """Return tiktoken's encoding, built from a file on this machine; None, after one warning, when there is no sound file."""
    constructor = importlib.import_module("tiktoken_ext.openai_public").ENCODING_CONSTRUCTORS[encoding]
    # tiktoken's own function, which knows name, hash and pattern, with ours in place of its loader, which downloads.
    offline = FunctionType(constructor.__code__, {**constructor.__globals__, "load_tiktoken_bpe": _read_ranks})

    try:
        tokenizer: _Tokenizer = importlib.import_module("tiktoken").Encoding(**offline())
    except FileNotFoundError:
        _LOGGER.warning(
            "no rank file of tiktoken's %s on this machine, counting by characters instead: run "
            "tiktoken.get_encoding(%r) once with network access, point TIKTOKEN_CACHE_DIR at a folder that has the file, "
            "or install litellm, which ships it",
            encoding,
            encoding,
        )
        return None
    return tokenizer


def _read_ranks(url: str, expected_hash: str | None = None) -> dict[bytes, int]:
    """Return the ranks tiktoken would download from a URL, out of a file on this machine.

    Raises:
        FileNotFoundError: there is none with the expected SHA-256.
    """
    file_name = hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()
    for folder in _rank_folders():
        try:
            content = (folder / file_name).read_bytes()
        except OSError:
            continue
        if expected_hash in (None, hashlib.sha256(content).hexdigest()):
            pairs = (line.split() for line in content.splitlines() if line)
            return {base64.b64decode(token): int(rank) for token, rank in pairs}
    raise FileNotFoundError(url)


def _rank_folders() -> Iterator[Path]:
    """Yield the folders that may hold rank files: tiktoken's cache and the wheels that ship some. No wheel is imported."""
    cache_folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if cache_folder != "":  # set but empty: tiktoken keeps no cache
        yield Path(cache_folder or Path(tempfile.gettempdir(), "data-gym-cache"))
    for package, inside in _SHIPPED_IN.items():
        if folder := package_folder(package):
            yield folder / inside
