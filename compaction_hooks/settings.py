"""The policy of a controller, the budget that it computes for one context window, and the settings of each model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, Literal, cast, get_args

from compaction_hooks import arguments
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.messages import Value
from compaction_hooks.strategies import AnyStrategy, ClearToolResults, DropOldest, ShortenParts, Summarize
from compaction_hooks.tokens.budget import (
    EMERGENCY_KEEP_RATIO,
    KEEP_USER_TOKENS,
    MINIMUM_CLEAR_RATIO,
    MINIMUM_CLEAR_TOKENS,
    PROTECT_RESULT_RATIO,
    PROTECT_RESULT_TOKENS,
    RESERVE_TOKENS,
    SUMMARY_RATIO,
    SUMMARY_SUMMARIZER_RATIO,
    SUMMARY_TARGET_RATIO,
    SUMMARY_TOKENS,
    TARGET_RATIO,
    TRIGGER_CAP_TOKENS,
    Budget,
    default_keep_tokens,
)
from compaction_hooks.tokens.windows import find_price_step, names_of
from compaction_hooks.triggers import (
    AnyTrigger,
    RatioTrigger,
    ReserveTrigger,
    TokensTrigger,
    Trigger,
    parts_of,
    threshold_of,
)
from compaction_hooks.view import SealedReasoning, ToolRule


def _are_texts(value: object) -> bool:
    is_several = isinstance(value, Collection) and not isinstance(value, str | bytes)
    return is_several and all(isinstance(text, str) for text in cast("Collection[object]", value))


_RULE = arguments.Kind(
    lambda value: value in ("keep", "never", "first") or (type(value) is int and value >= 0),
    'be "keep", "never", "first" or a number of results',
)
_KINDS = {
    **arguments.KINDS,
    "reserve_tokens": arguments.TOKENS,
    "trigger_cap_tokens": arguments.Kind(
        lambda value: value is None or value == "auto" or (type(value) is int and value > 0),
        'be "auto", a number of tokens above zero, or None',
    ),
    "keep_recent_tokens": arguments.TOKENS,
    "keep_turns": arguments.whole("turns"),
    "keep_user_tokens": arguments.whole("tokens", least=0),
    "trigger": arguments.with_methods(
        "be a trigger with due(snapshot), such as RatioTrigger(0.8) of compaction_hooks.triggers", "due"
    ),
    "default_context_window": arguments.WINDOW,
    "auto_compact": arguments.SWITCH,
    "compact_on_overflow": arguments.SWITCH,
    "overflow_patterns": arguments.Kind(_are_texts, "be several texts, such as a tuple of them"),
    "clear_tool_results": arguments.SWITCH,
    "tool_rules": arguments.Kind(lambda value: isinstance(value, Mapping), "be a dict of rules by tool name"),
    "max_result_tokens": arguments.TOKENS,
    "max_summary_tokens": arguments.TOKENS,
    "summarizer_window": arguments.TOKENS,
    "summary_timeout_seconds": arguments.SECONDS,
    "host_timeout_seconds": arguments.SECONDS,
    "merge_user_messages": arguments.SWITCH,
    "add_continuation": arguments.SWITCH,
    "identifier_tokens": arguments.whole("tokens", least=0),
    "breaker_failures": arguments.whole("failures"),
    "breaker_cooldown_seconds": arguments.SECONDS,
    "keep_recent_ratio": arguments.Kind(
        lambda value: arguments.is_number(value) and 0 < value <= 0.9, "be a part of the window above 0 and up to 0.9"
    ),
    "strategies": arguments.Kind(
        lambda value: (
            isinstance(value, Sequence) and not isinstance(value, str) and bool(cast("Sequence[object]", value))
        ),
        "be a list of strategies, such as [ClearToolResults(), Summarize()]",
    ),
    "summary_prompt": arguments.Kind(
        lambda value: isinstance(value, str) and bool(value.strip()) and "{messages}" not in value,
        "be a text that says how to write a summary, without {messages}: the conversation is added by itself",
    ),
    "summary_instructions": arguments.Kind(
        lambda value: isinstance(value, str) and bool(value.strip()), "be a text with further lines for the summarizer"
    ),
    "sealed_reasoning": arguments.Kind(lambda value: value in get_args(SealedReasoning), 'be "auto", "drop" or "keep"'),
}
_TRIGGERS: Mapping[str, Callable[[Any], Trigger]] = {
    "trigger_ratio": RatioTrigger,
    "trigger_tokens": TokensTrigger,
}
"""The triggers that numbers of the settings are short for, besides `ReserveTrigger`, which always is one of them."""
_SHORTHAND = {
    "reserve_tokens": ("trigger", "write trigger=... | ReserveTrigger(...)"),
    "trigger_ratio": ("trigger", "write trigger=... | RatioTrigger(...)"),
    "trigger_tokens": ("trigger", "write trigger=... | TokensTrigger(...)"),
    "clear_tool_results": ("strategies", "leave ClearToolResults() out of the strategies"),
    "add_continuation": ("strategies", "give it to Summarize(...)"),
    "identifier_tokens": ("strategies", "give it to Summarize(...)"),
}
"""Fields that are short for a part of another field: the other field, and how to write the same there."""


_OF_CONTROLLER = {
    name: f"CompactionController({name}=...)"
    for name in (
        "model",
        "context_window",
        "summarizer",
        "format",
        "store",
        "on_event",
        "estimator",
        "carry",
        "before_compact",
        "notice",
    )
}


@arguments.validate(_KINDS, _OF_CONTROLLER)
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CompactionSettings(Value):
    """The policy of a controller. Tokens are the model's; ratios are of the context window.

    Attributes:
        reserve_tokens: Tokens left free for the answer, at most 25 % of the window. None: 16,384.
        keep_recent_tokens: Tokens of recent messages kept word for word, as far as 90 % of the threshold hold them with the
            summary. None: 20,000, at most 35 % of the window. After an overflow at most 20 % of the window.
        keep_recent_ratio: The same as a part of the window. Excludes `keep_recent_tokens`.
        keep_turns: The least number of the user's last turns to keep whole, as far as 90 % of the threshold hold them; not after
            an overflow.
        keep_user_tokens: The most tokens of the user's older messages that stay whole behind the summary, as far as the target has
            room next to the recent messages and the largest summary allowed: the first request, then the newest. Longer ones than a
            quarter of that are shortened in their middle. None: at most 20,000; 0: none. After an overflow a fifth of that.
        trigger_ratio: Compact above this part of the window instead of above `window - reserve`.
        trigger_tokens: Compact above this many tokens instead; with `trigger_ratio` too, the lower of the two applies.
        trigger_cap_tokens: The most tokens of the threshold if none of `reserve_tokens`, `trigger_ratio`, `trigger_tokens` and
            `trigger` is set, so that a large window is not filled before anything is compacted. For its sake only finished turns
            are summarized: the present one stays whole, unless it is above this by itself. "auto": 120,000, less for a model
            whose longer requests are dearer, more if more than half of it is to be kept. None: no such threshold.
        trigger: Decides when to compact, in place of the three numbers, which are short for `ReserveTrigger(reserve_tokens)`,
            `RatioTrigger(trigger_ratio)` and `TokensTrigger(trigger_tokens)`, combined with `|`.
        max_output_tokens: The output tokens that the host asks the model for. If the known window is for input and output
            together, the reserve is at least this.
        default_context_window: The window of models that the package does not know. None: no threshold compaction for them.
        auto_compact: Whether the threshold triggers a compaction. False suits a sub-agent: it still recovers from overflows.
        compact_on_overflow: Whether a provider's overflow error triggers one, independently of `auto_compact`.
        overflow_patterns: Texts that mark an error as an overflow of the context, in addition to the built-in ones;
            upper and lower case are alike.
        clear_tool_results: Whether old tool results may be cleared before a summarizer is called.
        strategies: The ways to make a view smaller, in the order in which they are tried. None: clear tool results (with
            `clear_tool_results`), summarize, shorten parts, drop the oldest messages, and shorten parts of the remaining ones.
        tool_rules: By tool name: "never" (its results are never cleared or shortened), "keep" (nor are they forgotten: behind each
            summary the newest result of each distinct call comes back); if results are cleared, "first" (also the newest are) or n
            (the newest n are not).
        max_result_tokens: A larger result of a tool is shortened to this size in every view, from the first call that shows it, so
            that no cached prefix changes; by estimate, its beginning and its end. Your list keeps all of it. None: no limit.
        max_summary_tokens: The most tokens of a summary, with all that is added to it; at most 10 % of the window and 20 % of the
            summarizer's.
        summary_prompt: Tells a model how to write a summary, in place of our headings: "Five sentences at most, in French." The
            other parts of the prompt stay: to summarize and answer nothing, the conversation and the previous summary in their
            tags, the focus of one call, and the most tokens. None: our headings.
        summary_instructions: Further lines for the model that writes a summary, behind our headings or `summary_prompt`: "List each
            open ticket under Critical Context." None: no further lines.
        summarizer_window: The summarizer's own context window, in tokens. None: that of the conversation's model. A larger history
            is summarized in up to four parts, and its remainder by rule.
        summary_timeout_seconds: The time after which a summarizer counts as failed; `math.inf`: never.
        host_timeout_seconds: The time after which a function of yours that a compaction asks (`carry`, `before_compact`) counts as
            failed.
        repair: Whether the view repairs a broken history (a tool call without a result, a result without its call). This reads the
            whole list in every call.
        merge_user_messages: Whether user messages in a row (a summary, pins and the next request among them) are sent as one, for
            servers with a chat template that wants user and assistant in turn. Only in views to send: to store one, store
            `session.to_store(view)`. This reads the whole list in every call.
        sealed_reasoning: Whether a view leaves out reasoning that the model made behind other messages: "auto" for models that
            are known to refuse it, and those that refused it once; "drop" for all models, except reasoning that a model needs
            (DeepSeek, manual thinking); "keep" never, and a refusal is raised.
        add_continuation: Whether the summary ends with a line telling the model to go on, where no user message follows.
        identifier_tokens: The most tokens of identifiers that are added to a summary which lacks them, as far as the view stays at
            the target; 0: none. None: what a summary leaves of `max_summary_tokens` is filled with the user's requests, steps,
            findings and identifiers; with `summary_prompt`, 200 tokens of identifiers.
        breaker_failures: Failures of the summarizer in a row that open the circuit breaker (Claude Code).
        breaker_cooldown_seconds: The time after which an open breaker lets one attempt through.
    """

    reserve_tokens: int | None = None
    keep_recent_tokens: int | None = None
    keep_recent_ratio: float | None = None
    keep_turns: int | None = None
    keep_user_tokens: int | None = None
    trigger_ratio: float | None = None
    trigger_tokens: int | None = None
    trigger_cap_tokens: int | Literal["auto"] | None = "auto"
    trigger: Trigger | None = None
    max_output_tokens: int | None = None
    default_context_window: int | None = None
    auto_compact: bool = True
    compact_on_overflow: bool = True
    overflow_patterns: tuple[str, ...] = ()
    clear_tool_results: bool = True
    strategies: Sequence[AnyStrategy] | None = None
    tool_rules: Mapping[str, ToolRule] = field(default_factory=dict[str, ToolRule])
    max_result_tokens: int | None = None
    max_summary_tokens: int = SUMMARY_TOKENS
    summary_prompt: str | None = None
    summary_instructions: str | None = None
    summarizer_window: int | None = None
    summary_timeout_seconds: float = 120.0
    host_timeout_seconds: float = 5.0
    repair: bool = False
    merge_user_messages: bool = False
    sealed_reasoning: SealedReasoning = "auto"
    add_continuation: bool = True
    identifier_tokens: int | None = None
    breaker_failures: int = 3
    breaker_cooldown_seconds: float = 300.0

    @classmethod
    def balanced(cls, **others: Any) -> CompactionSettings:
        """Return the default settings; other fields as keywords."""
        return cls(**others)

    @classmethod
    def cheap(cls, **others: Any) -> CompactionSettings:
        """Return settings that compact above 80,000 tokens in larger windows, and keep 6,000; other fields as keywords."""
        return cls._profile({"trigger_cap_tokens": 80_000, "keep_recent_tokens": 6_000}, others)

    @classmethod
    def safe(cls, **others: Any) -> CompactionSettings:
        """Return settings that fill the window, clear no results, and have summaries of 8,000 tokens; other fields as keywords."""
        fields = {"trigger_cap_tokens": None, "clear_tool_results": False, "max_summary_tokens": 8_000}
        return cls._profile(fields, others)

    @classmethod
    def _profile(cls, fields: Mapping[str, object], others: Mapping[str, Any]) -> CompactionSettings:
        """Return settings with the fields of a profile, but for those that the host's own exclude."""
        excluded = {
            "trigger_cap_tokens": ("reserve_tokens", *_TRIGGERS, "trigger"),
            "keep_recent_tokens": ("keep_recent_ratio",),
            "clear_tool_results": ("strategies",),
        }
        kept: dict[str, Any] = {
            name: value for name, value in fields.items() if others.keys().isdisjoint(excluded.get(name, ()))
        }
        return cls(**{**kept, **others})

    def __post_init__(self) -> None:
        for name, (other, fix) in _SHORTHAND.items():
            value = getattr(self, name)
            if getattr(self, other) is not None and value != getattr(CompactionSettings, name):
                raise ConfigurationError(f"{name}={value!r} and {other}= exclude one another: {fix}")

        if isinstance(self.trigger_cap_tokens, int) and self._set_triggers:
            given = f"trigger_cap_tokens={self.trigger_cap_tokens} and {self._set_triggers[0]}="
            raise ConfigurationError(
                f"{given} exclude one another: the cap is for the default trigger; set trigger_cap_tokens=None"
            )
        self._check_keep()
        strategies = {f"strategies[{place}]": strategy for place, strategy in enumerate(self.strategies or ())}
        arguments.check(dict.fromkeys(strategies, arguments.STRATEGY), strategies)
        rules = {f"tool_rules[{arguments.format_name(tool)}]": rule for tool, rule in self.tool_rules.items()}
        arguments.check(dict.fromkeys(rules, _RULE), rules)
        if self.strategies is None and not self.clear_tool_results:
            idle = [f"{name}={rule!r}" for name, rule in rules.items() if rule not in ("keep", "never")]
            if idle:
                raise ConfigurationError(f"{idle[0]} is for results that are cleared, and clear_tool_results is False")

    def _check_keep(self) -> None:
        tokens, ratio = self.keep_recent_tokens, self.keep_recent_ratio
        if tokens is not None and ratio is not None:
            raise ConfigurationError(
                f"keep_recent_tokens={tokens} and keep_recent_ratio={ratio} exclude one another: set one"
            )

        cap = self.trigger_cap_tokens
        if tokens is not None and isinstance(cap, int) and tokens > cap:
            raise ConfigurationError(
                f"keep_recent_tokens={tokens} is above trigger_cap_tokens={cap}: keep less or raise the cap"
            )
        for written, part in self.triggers.items():
            fix = f"is above {written}: keep less or raise the trigger"
            if tokens is not None and isinstance(part, TokensTrigger) and tokens > part.tokens:
                raise ConfigurationError(f"keep_recent_tokens={tokens} {fix}")
            if ratio is not None and isinstance(part, RatioTrigger) and ratio > part.ratio:
                raise ConfigurationError(f"keep_recent_ratio={ratio} {fix}")

    @property
    def result_rules(self) -> Mapping[str, ToolRule]:
        """The rules for results that are in the view: one that comes back is not cleared or shortened before."""
        return {tool: "never" if rule == "keep" else rule for tool, rule in self.tool_rules.items()}

    @property
    def kept_tools(self) -> frozenset[str]:
        """The tools whose newest results come back."""
        return frozenset(tool for tool, rule in self.tool_rules.items() if rule == "keep")

    @property
    def effective_strategies(self) -> tuple[AnyStrategy, ...]:
        """The strategies in order: those of `strategies`, else the usual ones."""
        if self.strategies is not None:
            return tuple(self.strategies)

        summarize = Summarize(self.add_continuation, self.identifier_tokens)
        clear = [ClearToolResults()] if self.clear_tool_results else []
        return (*clear, summarize, ShortenParts(), DropOldest(self.add_continuation), ShortenParts())

    @property
    def triggers(self) -> Mapping[str, Trigger]:
        """The parts of the trigger, each under its text in these settings, for errors."""
        if self.trigger is not None:
            return {_describe_trigger(part): part for part in parts_of(self.trigger)}
        reserve = RESERVE_TOKENS if self.reserve_tokens is None else self.reserve_tokens
        numbers = ((name, kind, getattr(self, name)) for name, kind in _TRIGGERS.items())
        given = {f"{name}={number}": kind(number) for name, kind, number in numbers if number is not None}
        return {f"reserve_tokens={reserve}": ReserveTrigger(reserve), **given}

    @cached_property
    def effective_trigger(self) -> Trigger:
        """The trigger of these settings: `trigger`, or the one that the numbers are short for."""
        return self.trigger if self.trigger is not None else AnyTrigger(tuple(self.triggers.values()))

    @property
    def _set_triggers(self) -> Sequence[str]:
        """The fields by which the host says when to compact, without the cap."""
        names = ("reserve_tokens", *_TRIGGERS, "trigger")
        return [name for name in names if getattr(self, name) is not None]

    def _find_cap(self, model: str | None, keep: int) -> int | None:
        """Return the most tokens of the default trigger for a model, if so many are kept; None: there is no such limit."""
        cap = self.trigger_cap_tokens
        if cap is None or self._set_triggers:
            return None
        if cap != "auto":
            return cap
        step = find_price_step(model) if model else None
        return max(min(TRIGGER_CAP_TOKENS, step or TRIGGER_CAP_TOKENS), 2 * keep)

    def budget(
        self,
        window: int,
        *,
        is_input_only: bool = False,
        max_output_tokens: int | None = None,
        model: str | None = None,
    ) -> Budget:
        """Return the budget for a context window of `window` tokens.

        Args:
            model: The name of the model; None: not known.
            is_input_only: Whether `window` is for the input alone, so that the answer takes nothing from it.
            max_output_tokens: The output tokens that one call asks for; None: the setting of that name.
        """
        requested = 0 if is_input_only else max_output_tokens or self.max_output_tokens or 0
        input_limit = window - min(requested, window - 1)
        keep = self.keep_recent_tokens or default_keep_tokens(window)
        if self.keep_recent_ratio is not None:
            keep = int(window * self.keep_recent_ratio)

        threshold, cap = min(threshold_of(self.effective_trigger, window), input_limit), self._find_cap(model, keep)
        trigger = threshold if cap is None else min(threshold, cap)
        target = int(trigger * TARGET_RATIO)

        summary = min(self.max_summary_tokens, int(window * SUMMARY_RATIO), int(target * SUMMARY_TARGET_RATIO))
        if self.summarizer_window is not None:
            summary = min(summary, int(self.summarizer_window * SUMMARY_SUMMARIZER_RATIO))

        return Budget(
            window=window,
            input_limit=input_limit,
            trigger=trigger,
            target=target,
            keep=keep,
            keep_turns=self.keep_turns or 0,
            emergency_keep=min(keep, int(window * EMERGENCY_KEEP_RATIO)),
            keep_user=KEEP_USER_TOKENS if self.keep_user_tokens is None else self.keep_user_tokens,
            protect_results=min(PROTECT_RESULT_TOKENS, int(window * PROTECT_RESULT_RATIO)),
            minimum_clear=min(MINIMUM_CLEAR_TOKENS, int(window * MINIMUM_CLEAR_RATIO)),
            summary=max(summary, 1),
            limit=threshold,
        )


def _describe_trigger(trigger: Trigger) -> str:
    is_ours = isinstance(trigger, ReserveTrigger | RatioTrigger | TokensTrigger)
    return repr(trigger) if is_ours else arguments.format_value(trigger)


ALL_MODELS = "*"


class ModelSettings:
    """The settings by patterns of model names; the first pattern that fits a model counts, and "*" is last.

    A pattern is written as for file names (`*`, `?`, `[...]`). Upper and lower case are alike, and a name fits with or without the
    provider in front of it ("openai/gpt-5.2", "anthropic:claude-opus-5").

    Args:
        given: The settings of all models, or those of each pattern. Without a "*", other models have the default settings.

    Raises:
        ConfigurationError: a key is no pattern, a value no settings, or a pattern is behind "*" and so never counts.
    """

    def __init__(self, given: CompactionSettings | Mapping[str, CompactionSettings] | None) -> None:
        self._is_one = not isinstance(given, Mapping)
        given = given if isinstance(given, Mapping) else {ALL_MODELS: given or CompactionSettings()}
        self._by_pattern = {**given, ALL_MODELS: given.get(ALL_MODELS) or CompactionSettings()}

        for pattern, settings in self._by_pattern.items():
            arguments.check({"settings": _PATTERN}, {"settings": pattern})
            name = f"settings[{arguments.format_name(pattern)}]"
            arguments.check({name: _SETTINGS}, {name: settings})

        patterns = [*self._by_pattern]
        if ALL_MODELS in patterns[:-1]:
            late = patterns[patterns.index(ALL_MODELS) + 1]
            raise ConfigurationError(
                f"settings[{late!r}] never counts: '*' in front of it fits all models; put '*' last"
            )

    @property
    def all(self) -> Collection[CompactionSettings]:
        """The settings of all patterns."""
        return self._by_pattern.values()

    def find(self, model: str | None) -> CompactionSettings:
        """Return the settings of a model; a model without a name fits "*" alone."""
        return self._find(model)[1]

    def error_prefix(self, model: str | None) -> str:
        """Return the beginning of an error about a model's settings: the key they have, if there are several."""
        return "" if self._is_one else f"settings[{self._find(model)[0]!r}]: "

    def _find(self, model: str | None) -> tuple[str, CompactionSettings]:
        if len(self._by_pattern) == 1:
            return ALL_MODELS, self._by_pattern[ALL_MODELS]

        names = [*names_of(model.strip().lower())] if model is not None else [""]
        return next(
            (pattern, settings)
            for pattern, settings in self._by_pattern.items()
            if any(fnmatchcase(name, pattern.lower()) for name in names)
        )

    def map_settings(self, change: Callable[[CompactionSettings], CompactionSettings]) -> ModelSettings:
        """Return the same patterns with changed settings."""
        return ModelSettings({pattern: change(settings) for pattern, settings in self._by_pattern.items()})


_PATTERN = arguments.Kind(
    lambda value: isinstance(value, str) and bool(value.strip()),
    'have names of models as keys, such as "gpt-5*" or "*"',
)
_SETTINGS = arguments.Kind(
    lambda value: isinstance(value, CompactionSettings),
    "be CompactionSettings(...): a dict has the settings of several models, by their names",
)
