"""Constraints of the user, written by others, are in the view word for word after compactions, whatever a model wrote.

The corpora are the rules and summaries of compaction-guard and the side constraints of conpact, both released packages.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compaction_hooks import CompactionSettings, SummaryRequest
from tests.conversations import Chat, controller, prose, steps, system, talk, user

SETTINGS = CompactionSettings()
"""The settings of all tests of the two corpora."""
COMPACTIONS = 3

_FOLDER = Path(__file__).resolve().parents[1] / "fixtures" / "corpora"


def _read(name: str) -> Any:
    return json.loads((_FOLDER / f"{name}.json").read_text(encoding="utf-8"))


RULES: dict[str, list[str]] = _read("compaction_guard")
"""The rules of compaction-guard, each with the summaries that keep, weaken, change, contradict or drop it."""
CONPACT = _read("conpact")
FORMS = ("{}", "Standing instruction: {}", "The shop has grown, so let us port its till.\n{}\nThe cart comes later.")
"""A rule alone, as the corpus has it, and inside a longer request."""


def drop_all(request: SummaryRequest) -> str:
    """Return the summary of a model that drops what the user said."""
    return request.prompt and (
        "## Goal\n- go on\n## Progress\n- [x] worked\n### Blocked\n(none)\n## Key Decisions\n(none)\n## Next Steps\n(none)"
    )


def quote(summary: str) -> Callable[[SummaryRequest], str]:
    """Return a model that answers with a summary."""
    return lambda request: request.prompt and summary


def last_view(asked: str, summarizer: Any, compactions: int = COMPACTIONS) -> str:
    """Return all text of the view after so many compactions, the first of which covers a request."""
    session = controller(32_000, summarizer=summarizer, settings=SETTINGS).session("corpus")
    messages: list[Chat] = [system(), *talk(2), user(asked)]
    view: list[Chat] = []
    for number in range(compactions):
        messages = [*messages, *steps(4, 200, first=10 * number), user(f"Go on with part {number}."), *talk(1)]
        view = session.compact_sync(messages, keep_recent_tokens=100).messages
    return json.dumps(view, ensure_ascii=False).replace('\\"', '"')


def framed() -> Iterator[tuple[str, str]]:
    """Yield (constraint as it is framed, request that begins with it), as conpact injects them."""
    for framing in CONPACT["framings"]:
        for text in CONPACT["constraints"]:
            said = framing + text[0].lower() + text[1:] if framing else text
            yield said, f"{said}\nPort the till. {prose(60)}"


@pytest.mark.parametrize("summarizer", [None, drop_all], ids=["by rule", "by a model"])
@pytest.mark.parametrize("form", FORMS)
def test_each_rule_of_compaction_guard_stays(form: str, summarizer: Any) -> None:
    lost = [rule for rule in RULES if rule not in last_view(form.format(rule), summarizer)]
    assert lost == []


def test_a_rule_is_put_back_behind_each_summary_of_compaction_guard() -> None:
    cases = [(rule, summary) for rule, summaries in RULES.items() for summary in summaries]
    lost = [case for case in cases if case[0] not in last_view(FORMS[1].format(case[0]), quote(case[1]), compactions=1)]
    assert (len(cases), lost) == (300, [])


@pytest.mark.parametrize("summarizer", [None, drop_all], ids=["by rule", "by a model"])
def test_each_side_constraint_of_conpact_stays_in_each_framing(summarizer: Any) -> None:
    lost = [said for said, request in framed() if said.rpartition(": ")[2] not in last_view(request, summarizer)]
    assert lost == []
