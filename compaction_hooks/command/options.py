"""Arguments and options that several subcommands have, and the settings that they stand for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from compaction_hooks import CompactionSettings, ConfigurationError
from compaction_hooks.replay.compare import Setting
from compaction_hooks.replay.numbers import parse_tokens, short
from compaction_hooks.triggers import ReserveTrigger

AUTO: Final = "auto"
BAD_INPUT: Final = 2
"""Exit code if an option or a file is bad."""
MINIMUM_TOKENS: Final = 1_024
"""The controller treats smaller windows as this one."""

Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE",
        help="Sessions of Claude Code, Codex, Copilot CLI, Gemini CLI, OpenCode, OpenHands, mini-swe-agent, pi and others, "
        "message dumps of LangChain and pydantic-ai, OpenAI or Anthropic message lists; JSON or JSON Lines, plain or "
        "gzipped. Folders of them; - for standard input.",
        show_default=False,
    ),
]
Windows = Annotated[
    str,
    typer.Option(
        "--window",
        metavar="TOKENS,...",
        help="Context window: 16k, 200000, 1M; auto: that of the recorded model. Several are compared: 64k,128k,200k.",
    ),
]
Triggers = Annotated[
    str,
    typer.Option(
        "--trigger",
        metavar="SIZE,...",
        help="Compact above this part of the window (60%) or these tokens (100k). Several are compared.",
        show_default="the window less the reserve",
    ),
]
Keeps = Annotated[
    str,
    typer.Option(
        "--keep",
        metavar="TOKENS,...",
        help="Recent messages kept word for word, as far as the window allows. Several are compared.",
        show_default="20k, at most 35 % of the window",
    ),
]
Reserve = Annotated[
    str,
    typer.Option(
        "--reserve",
        metavar="TOKENS",
        help="Left free for the answer, as far as the window allows.",
        show_default=short(ReserveTrigger().tokens),
    ),
]


def build_settings(windows: str, triggers: str, keeps: str, reserve: str) -> list[Setting]:
    """Return one setting for each combination of the values of the options; empty texts are the defaults.

    Raises:
        typer.BadParameter: a value cannot be read.
    """
    reserved = parse_number("--reserve", reserve) if reserve else None
    given = {"window": _split(windows), "trigger": _split(triggers), "keep": _split(keeps)}
    # A setting is named by the options that differ; if none does, by its window.
    compared = [option for option, texts in given.items() if len(texts) > 1] or ["window"]
    return [_setting(dict(zip(given, texts, strict=True)), reserved, compared) for texts in product(*given.values())]


def _split(texts: str) -> list[str]:
    """Return the values of an option, each once."""
    return [*dict.fromkeys(text.strip() for text in texts.split(","))]


def build_setting(windows: str, triggers: str, keeps: str, reserve: str) -> Setting:
    """Return the setting for the values of the options, one of each.

    Raises:
        typer.BadParameter: a value cannot be read, or an option has several.
    """
    first, *others = build_settings(windows, triggers, keeps, reserve)
    if others:
        raise typer.BadParameter("this takes one --window, --trigger and --keep; compare several with replay")
    return first


def _setting(texts: Mapping[str, str], reserve: int | None, compared: Sequence[str]) -> Setting:
    """Return the setting for one value of each option; an empty text is the default."""
    window = None if texts["window"] == AUTO else _parse_window(texts["window"])
    trigger = _parse_trigger(texts["trigger"], window) if texts["trigger"] else _Trigger()
    keep = parse_number("--keep", texts["keep"]) if texts["keep"] else None
    if window is not None and keep is not None and keep > window:
        raise _bad("--keep", f"{texts['keep']} is above the window of {texts['window']}; keep less")

    try:
        settings = CompactionSettings(
            reserve_tokens=reserve, keep_recent_tokens=keep, trigger_ratio=trigger.ratio, trigger_tokens=trigger.tokens
        )
    except ConfigurationError as error:  # one option contradicts another
        raise typer.BadParameter(str(error)) from None
    return Setting(options={option: texts[option] for option in compared}, window=window, settings=settings)


def parse_number(option: str, text: str) -> int:
    """Return a number of tokens given on the command line.

    Raises:
        typer.BadParameter: it is none; the error names the option.
    """
    number = parse_tokens(text)
    if number is None:
        shown = repr(text[:40]) if text else "nothing"
        raise _bad(option, f"{shown} is no number of tokens above zero; write 16k, 200000 or 1M")
    return number


def _bad(option: str, problem: str) -> typer.BadParameter:
    return typer.BadParameter(problem, param_hint=f"'{option}'")


def _parse_window(text: str) -> int:
    window = parse_number("--window", text)
    if window < MINIMUM_TOKENS:
        raise _bad("--window", f"{text!r} is below the smallest window of {MINIMUM_TOKENS:,} tokens; write 16k")
    return window


class _Trigger(NamedTuple):
    """A part of the window, or a number of tokens, or neither: the default."""

    ratio: float | None = None
    tokens: int | None = None


def _parse_trigger(text: str, window: int | None) -> _Trigger:
    if not text.endswith("%"):
        tokens = parse_number("--trigger", text)
        if tokens < MINIMUM_TOKENS:
            raise _bad("--trigger", f"{text!r} is below {MINIMUM_TOKENS:,} tokens; write 100k, or {text}% for a part")
        if window is not None and tokens > window:
            raise _bad("--trigger", f"{text} is above the window of {short(window)}; lower it")
        return _Trigger(tokens=tokens)

    try:
        part = float(text.removesuffix("%")) / 100
    except ValueError:
        part = math.nan
    if not 0 < part <= 1:
        raise _bad("--trigger", f"{text[:40]!r} is no part of the window; write 60%")
    return _Trigger(ratio=part)
