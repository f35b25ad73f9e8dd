"""OpenAI's own tokenizers, where their rank files are on the machine already. Never the network.

tiktoken downloads a missing rank file without a timeout, so it is never left to look for one: the file is found, checked and
read here, in tiktoken's cache or in the wheels of litellm and llama-index, which ship some.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Final, Protocol

from compaction_hooks.errors import ConfigurationError, MissingExtraError
from compaction_hooks.installed import package_folder
from compaction_hooks.messages import Message
from compaction_hooks.text_classes import text_tokens
from compaction_hooks.tokens import message_tokens

_LOGGER: Final = logging.getLogger("compaction_hooks")
_ENCODINGS: Final = ("o200k_base", "cl100k_base", "p50k_base", "p50k_edit", "r50k_base")
"""Encodings that tiktoken builds from one rank file each."""
_SAME_TEXT_AS: Final = {"o200k_harmony": "o200k_base"}
"""Encodings that differ from another in special tokens only, which are never counted as such."""
_SHIPPED_IN: Final = {"litellm": "litellm_core_utils/tokenizers", "llama_index": "core/_static/tiktoken_cache"}
"""Packages whose wheels hold rank files under tiktoken's own cache names, and where: litellm 1.106, llama-index-core 0.14."""
_PIECE_CHARS: Final = 4_000
"""Text is encoded in pieces: the time tiktoken takes for a run without blanks grows with its square. A cut adds a token at most."""


class _Encoding(Protocol):
    def encode_ordinary(self, text: str, /) -> list[int]: ...


@dataclass(frozen=True, slots=True)
class TiktokenEstimator:
    """Counts with a tiktoken encoding; without its rank file as `CharacterEstimator` does, after one warning.

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
            raise ConfigurationError(f"encoding={self.encoding!r} is not one of {known}")
        if package_folder("tiktoken") is None:
            raise MissingExtraError("TiktokenEstimator", "tiktoken", "tiktoken")

    @classmethod
    def for_model(cls, model: str) -> TiktokenEstimator:
        """Return the estimator of an OpenAI model; a provider in front of the name is left out.

        Raises:
            MissingExtraError: tiktoken is not installed.
            ConfigurationError: tiktoken knows no such model. It knows OpenAI's only.
        """
        if package_folder("tiktoken") is None:
            raise MissingExtraError("TiktokenEstimator", "tiktoken", "tiktoken")
        name = model.rpartition("/")[2]
        try:
            return cls(str(importlib.import_module("tiktoken").encoding_name_for_model(name)))
        except KeyError:
            raise ConfigurationError(
                f"model={model!r} is none that tiktoken knows: name an encoding, TiktokenEstimator(encoding='o200k_base')"
            ) from None

    @property
    def name(self) -> str:
        return f"tiktoken:{self.encoding}"

    def estimate_tokens(self, text: str, /) -> int:
        return _counter(_SAME_TEXT_AS.get(self.encoding, self.encoding))(text)

    def estimate_message_tokens(self, message: Message, /) -> int:
        return message_tokens(message, self.estimate_tokens)


@cache
def _counter(name: str) -> Callable[[str], int]:
    """What counts for an encoding; found once per process, so that a missing file is reported once."""
    encoding = _load(name)
    if encoding is None:
        _LOGGER.warning(
            "no rank file of tiktoken's %s on this machine, counting by characters instead: run "
            "`python -c \"import tiktoken; tiktoken.get_encoding('%s')\"` once with network access, "
            "point TIKTOKEN_CACHE_DIR at a folder that has it, or install litellm",
            name,
            name,
        )
        return text_tokens

    def count(text: str) -> int:
        pieces = (text[start : start + _PIECE_CHARS] for start in range(0, len(text), _PIECE_CHARS))
        return sum(len(encoding.encode_ordinary(piece)) for piece in pieces)

    return count


def _load(name: str) -> _Encoding | None:
    """tiktoken's encoding built from a file on this machine, or None when there is no sound one."""
    constructor = importlib.import_module("tiktoken_ext.openai_public").ENCODING_CONSTRUCTORS[name]
    # tiktoken's own function, which knows name, hash and pattern, with its downloading loader replaced by ours.
    offline = FunctionType(constructor.__code__, {**constructor.__globals__, "load_tiktoken_bpe": _read_ranks})
    try:
        encoding: _Encoding = importlib.import_module("tiktoken").Encoding(**offline())
    except FileNotFoundError:
        return None
    return encoding


def _read_ranks(url: str, expected_hash: str | None = None) -> dict[bytes, int]:
    """The ranks tiktoken would download from a URL, out of a file on this machine.

    Raises:
        FileNotFoundError: there is none with the expected SHA-256.
    """
    for folder in _rank_folders():
        try:
            content = (folder / hashlib.sha1(url.encode()).hexdigest()).read_bytes()
        except OSError:
            continue
        if expected_hash in (None, hashlib.sha256(content).hexdigest()):
            pairs = (line.split() for line in content.splitlines() if line)
            return {base64.b64decode(token): int(rank) for token, rank in pairs}
    raise FileNotFoundError(url)


def _rank_folders() -> Iterator[Path]:
    """Where rank files may lie: tiktoken's cache, as tiktoken finds it, and the wheels that ship some. No wheel is imported."""
    cache_folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if cache_folder != "":  # set but empty: tiktoken keeps no cache
        yield Path(cache_folder or Path(tempfile.gettempdir(), "data-gym-cache"))
    for package, inside in _SHIPPED_IN.items():
        if folder := package_folder(package):
            yield folder / inside
