"""Needs tiktoken; what needs a rank file as well is skipped where there is none."""

from __future__ import annotations

import hashlib
import logging
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from compaction_hooks import tiktoken_estimator
from compaction_hooks.errors import ConfigurationError, MissingExtraError
from compaction_hooks.messages import Message, Text, ToolCall
from compaction_hooks.tiktoken_estimator import TiktokenEstimator
from compaction_hooks.tokens import CharacterEstimator
from compaction_hooks.tokens.estimator import MESSAGE_TOKENS, TOOL_CALL_TOKENS
from tests.token_accuracy import CLASS_TEXTS, real_tokenizer

RANKS_URL = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"


def no_network(*_: object) -> NoReturn:
    raise AssertionError("a tokenizer went to the network")


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    monkeypatch.setattr(socket.socket, "connect", no_network)


@pytest.fixture
def cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """An empty tiktoken cache on a machine without litellm and llama-index."""
    pytest.importorskip("tiktoken")
    pytest.importorskip("tiktoken_ext.openai_public")
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if "site-packages" not in folder])
    for shipping in ("litellm", "llama_index"):
        monkeypatch.delitem(sys.modules, shipping, raising=False)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    tiktoken_estimator._load.cache_clear()
    yield tmp_path
    tiktoken_estimator._load.cache_clear()


def test_without_a_rank_file_it_counts_by_characters_and_says_so_once(
    cache_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    estimator = TiktokenEstimator()
    with caplog.at_level(logging.WARNING, "compaction_hooks"):
        counts = [estimator.estimate_tokens(text) for text in ("some text", "other text")]
    assert counts == [CharacterEstimator().estimate_tokens(text) for text in ("some text", "other text")]
    assert estimator.name == "characters"
    assert len(caplog.records) == 1
    assert "TIKTOKEN_CACHE_DIR" in caplog.text
    assert "o200k_base" in caplog.text


def test_a_damaged_rank_file_is_neither_used_nor_removed(cache_folder: Path) -> None:
    """tiktoken itself would delete it and download another one."""
    damaged = cache_folder / hashlib.sha1(RANKS_URL.encode()).hexdigest()
    damaged.write_bytes(b"IQ== 0\n")
    assert TiktokenEstimator().name == "characters"
    assert damaged.read_bytes() == b"IQ== 0\n"


def test_an_empty_cache_variable_means_no_cache(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    monkeypatch.setenv("DATA_GYM_CACHE_DIR", str(cache_folder))
    assert list(tiktoken_estimator._rank_folders()) == []


def test_the_rank_files_of_other_wheels_are_found_without_importing_them(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("litellm", "llama_index"):
        (cache_folder / package).mkdir()
    (cache_folder / "litellm" / "__init__.py").write_text("raise AssertionError('imported')")
    monkeypatch.setattr(sys, "path", [str(cache_folder), *sys.path])
    assert list(tiktoken_estimator._rank_folders()) == [
        cache_folder,
        cache_folder / "litellm/litellm_core_utils/tokenizers",
        cache_folder / "llama_index/core/_static/tiktoken_cache",
    ]


@pytest.mark.parametrize(
    "make", [TiktokenEstimator, lambda: TiktokenEstimator.for_model("gpt-5")], ids=["by encoding", "by model"]
)
def test_without_tiktoken_the_error_names_the_extra(
    make: Callable[[], TiktokenEstimator], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if "site-packages" not in folder])
    monkeypatch.delitem(sys.modules, "tiktoken", raising=False)
    with pytest.raises(MissingExtraError, match=r"pip install 'compaction-hooks\[tiktoken\]'"):
        make()


@pytest.mark.parametrize("encoding", ["gpt2", "gpt-5", ""])
def test_an_encoding_that_needs_the_network_or_does_not_exist_is_refused(encoding: str) -> None:
    pytest.importorskip("tiktoken")
    with pytest.raises(ConfigurationError, match=r"is not one of o200k_base, cl100k_base"):
        TiktokenEstimator(encoding)


@pytest.mark.parametrize(
    ("model", "encoding"),
    [
        pytest.param("gpt-5", "o200k_base", id="new"),
        pytest.param("openai:gpt-6-astra", "o200k_base", id="newer than tiktoken"),
        pytest.param("ft:gpt-4.1-2025-04-14:us:x:y", "o200k_base", id="fine-tuned"),
        pytest.param("openai/gpt-4o-2024-11-20", "o200k_base", id="with provider and date"),
        pytest.param("azure/gpt-4-0613", "cl100k_base", id="old"),
        pytest.param("gpt-oss-120b", "o200k_harmony", id="same ranks, other special tokens"),
    ],
)
def test_models_of_openai_have_their_encoding(model: str, encoding: str) -> None:
    pytest.importorskip("tiktoken")
    assert TiktokenEstimator.for_model(model).encoding == encoding


def test_models_of_others_are_refused() -> None:
    """A guess would undercount: Claude takes 20 to 35 % more than o200k_base."""
    pytest.importorskip("tiktoken")
    with pytest.raises(ConfigurationError, match=r"TiktokenEstimator\(encoding="):
        TiktokenEstimator.for_model("claude-opus-4-5")


@pytest.mark.parametrize(
    ("encoding", "text", "tokens"),
    [
        pytest.param("o200k_base", "hello world", 2, id="o200k"),
        pytest.param("o200k_harmony", "hello world", 2, id="harmony"),
        pytest.param("cl100k_base", "上下文窗口快要满的时候", 15, id="cl100k"),
        pytest.param("o200k_base", "<|endoftext|>", 7, id="a special token in the text is text"),
        pytest.param("o200k_base", "", 0, id="empty"),
        pytest.param("o200k_base", "\ud83d", 1, id="half an emoji"),
    ],
)
def test_counts_are_the_real_tokenizers(encoding: str, text: str, tokens: int) -> None:
    assert real_tokenizer(encoding).estimate_tokens(text) == tokens


def test_a_long_run_without_blanks_is_cut_into_pieces() -> None:
    """Uncut, its time grows with the square of its length, or it ends in a stack overflow."""
    assert real_tokenizer("cl100k_base").estimate_tokens("a" * 1_000_000) == 125_000


def test_messages_are_counted_with_their_frames() -> None:
    estimator = real_tokenizer("o200k_base")
    message = Message(role="assistant", parts=(Text("hello world"), ToolCall("1", "read", "{}")))
    expected = (
        MESSAGE_TOKENS + 2 + TOOL_CALL_TOKENS + estimator.estimate_tokens("read") + estimator.estimate_tokens("{}")
    )
    assert estimator.estimate_message_tokens(message) == expected
    assert estimator.name == "tiktoken:o200k_base"


@pytest.mark.parametrize("kind", CLASS_TEXTS)
def test_the_counts_of_the_classes_are_the_tokenizers(kind: str) -> None:
    text = CLASS_TEXTS[kind]
    counted = [real_tokenizer(encoding).estimate_tokens(text.text) for encoding in ("cl100k_base", "o200k_base")]
    assert counted == [text.cl100k, text.o200k]
