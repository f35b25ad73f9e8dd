"""Arguments and options that several subcommands have, and the settings that they stand for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Final, NamedTuple, TypeVar

import typer

from compaction_hooks import CompactionSettings, ConfigurationError
from compaction_hooks.replay.compare import Setting
from compaction_hooks.replay.numbers import parse_tokens, percent, short

T = TypeVar("T")

AUTO: Final = "auto"
MINIMUM_WINDOW: Final = 1_024
"""In tokens; the controller treats smaller windows as this one."""
_DEFAULTS: Final = CompactionSettings()

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
        show_default=short(_DEFAULTS.reserve_tokens),
    ),
]


def build_settings(windows: str, triggers: str, keeps: str, reserve: str) -> list[Setting]:
    """Return one setting for each combination of the values of the options; empty texts are the defaults.

    Raises:
        typer.BadParameter: a value cannot be read.
    """
    reserved = parse_number("--reserve", reserve) if reserve else _DEFAULTS.reserve_tokens
    given = (
        _each("--window", windows, _parse_window),
        _each("--trigger", triggers, _parse_trigger),
        _each("--keep", keeps, parse_number),
    )
    several = [len(each) > 1 for each in given]
    return [_setting(*values, reserved, several) for values in product(*given)]


def build_setting(windows: str, triggers: str, keeps: str, reserve: str) -> Setting:
    """Return the setting for the values of the options, one of each.

    Raises:
        typer.BadParameter: a value cannot be read, or an option has several.
    """
    first, *others = build_settings(windows, triggers, keeps, reserve)
    if others:
        raise typer.BadParameter("this takes one --window, --trigger and --keep; compare several with replay")
    return first


def _setting(
    window: int | None, trigger: _Trigger | None, keep: int | None, reserve: int, several: Sequence[bool]
) -> Setting:
    if window is not None and keep is not None and keep > window:
        raise _bad("--keep", f"{short(keep)} is above the window of {short(window)}; keep less")
    parts = (
        f"window {AUTO if window is None else short(window)}",
        f"trigger {trigger.name if trigger else 'default'}",
        f"keep {'default' if keep is None else short(keep)}",
    )
    named = [part for part, is_compared in zip(parts, several, strict=True) if is_compared] or parts[:1]
    try:
        settings = CompactionSettings(
            reserve_tokens=reserve,
            keep_recent_tokens=keep,
            trigger_ratio=trigger.ratio if trigger else None,
            trigger_tokens=trigger.tokens if trigger else None,
        )
    except ConfigurationError as error:  # one option contradicts another
        raise typer.BadParameter(str(error)) from None
    return Setting(name=", ".join(named), window=window, settings=settings)


def _each(option: str, text: str, parse: Callable[[str, str], T]) -> Sequence[T | None]:
    return [parse(option, part.strip()) for part in text.split(",")] if text else [None]


def parse_number(option: str, text: str) -> int:
    """Return a number of tokens given on the command line.

    Raises:
        typer.BadParameter: it is none; the error names the option.
    """
    number = parse_tokens(text)
    if number is None:
        raise _bad(option, f"{text[:40]!r} is no number of tokens; write 16k, 200000 or 1M")
    return number


def _bad(option: str, problem: str) -> typer.BadParameter:
    return typer.BadParameter(problem, param_hint=f"'{option}'")


def _parse_window(option: str, text: str) -> int | None:
    if text == AUTO:
        return None
    window = parse_number(option, text)
    if window < MINIMUM_WINDOW:
        raise _bad(option, f"{text!r} is below the smallest window of {MINIMUM_WINDOW:,} tokens; write 16k")
    return window


class _Trigger(NamedTuple):
    """A part of the window, or a number of tokens."""

    ratio: float | None = None
    tokens: int | None = None

    @property
    def name(self) -> str:
        return short(self.tokens) if self.tokens is not None else percent(self.ratio or 0)


def _parse_trigger(option: str, text: str) -> _Trigger:
    if not text.endswith("%"):
        return _Trigger(tokens=parse_number(option, text))
    try:
        part = float(text.removesuffix("%")) / 100
    except ValueError:
        part = math.nan
    if not 0 < part <= 1:
        raise _bad(option, f"{text[:40]!r} is no part of the window; write 60%")
    return _Trigger(ratio=part)
