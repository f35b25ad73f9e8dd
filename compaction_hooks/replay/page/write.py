"""The HTML page of a report: one file that loads nothing, and in which no text of a conversation can act."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

from compaction_hooks.errors import MissingExtraError
from compaction_hooks.replay.numbers import dollars, percent, pluralize, short
from compaction_hooks.replay.page.chart import (
    HEIGHT,
    MONEY,
    ContextChart,
    describe,
    draw_context,
    draw_money,
    read_file,
)
from compaction_hooks.replay.page.shape import ReportData, SessionData

if TYPE_CHECKING:
    import jinja2

HOLDS_TEXT: Final = (
    "This file holds a conversation with its tool results and names. Give it only to people who may read it all."
)
HOLDS_NUMBERS: Final = "This file holds numbers, roles and the model's name, but no text of a conversation (--no-text)."
_ESCAPED: Final = str.maketrans({"<": "\\u003c", "\u2028": "\\u2028", "\u2029": "\\u2029"})
"""What could end the script element around JSON, or a line of JavaScript."""


def load_template() -> jinja2.Template:
    """Return the template of the page.

    Raises:
        MissingExtraError: Jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, StrictUndefined
    except ModuleNotFoundError as missing:
        if missing.name != "jinja2":  # a package that Jinja2 needs
            raise
        raise MissingExtraError("compaction-hooks report", "Jinja2", "cli,report") from None
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    filters: dict[str, Any] = environment.filters
    filters.update(dollars=dollars, percent=percent, pluralize=pluralize, short=short)
    return environment.from_string(read_file("report.html.jinja"))


def write_report(data: ReportData) -> str:
    """Return the page, the same for the same data.

    Raises:
        MissingExtraError: Jinja2 is not installed.
    """
    template = load_template()
    from markupsafe import Markup

    script, style = read_file("report.js"), read_file("report.css") + read_file("chart.css")
    charts = [_chart(session) for session in data["sessions"]]
    return template.render(
        report=data,
        notice=HOLDS_TEXT if data["has_text"] else HOLDS_NUMBERS,
        policy=_policy(script, style),
        script=Markup(script),
        style=Markup(style),
        conversations=[Markup(_embed(session["conversation"])) for session in data["sessions"]],
        charts=[(Markup(draw_context(chart)), describe(chart)) for chart in charts],
        bills=[
            [Markup(draw_money(cost["sent"], cost["without"])) for cost in session["costs"]]
            for session in data["sessions"]
        ],
        chart_height=HEIGHT,
        money_height=MONEY,
    )


def _chart(session: SessionData) -> ContextChart:
    return ContextChart(
        window=session["window"],
        trigger=session["trigger"],
        sent=session["conversation"]["sent"],
        without=session["conversation"]["without"],
        before={compaction["call"]: compaction["tokens_before"] for compaction in session["compactions"]},
    )


def _policy(script: str, style: str) -> str:
    """Return a policy under which the page can run and load nothing but its own script and style."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src '{_hash(style)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _embed(value: object) -> str:
    """Return JSON for a script element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.translate(_ESCAPED)
