"""The words that results of refused calls give as the user's. Any tool can write them, a web page too: they are the result's.

Each agent puts them behind a sentence of its own. Refusals of Codex ("exec command rejected by user"), and of Gemini CLI except
of plans, have no words of the user.
"""

from __future__ import annotations

import re

from compaction_hooks.text.json_text import json_object

_BY_CLAUDE_CODE = (
    r" The tool use was rejected \(eg\. if it was a file edit, the new_string was NOT written to the file\)\. "
)
_SENTENCES = re.compile(
    # Claude Code, also in a subagent
    rf"The user doesn't want to proceed with this tool use\.{_BY_CLAUDE_CODE}"
    r"(?:To tell you how to proceed, the user said:|The user provided the following reason for the rejection:)\s"
    rf"|Permission for this tool use was denied\.{_BY_CLAUDE_CODE}The user said:\n"
    # Roo Code, Cline
    r"|The user denied this operation and provided the following feedback:\n<feedback>\n"
    # OpenCode
    r"|The user rejected permission to use this specific tool call with the following feedback: "
    # Gemini CLI, of a plan
    r"|Plan rejected\. User feedback: "
    # LangChain's HumanInTheLoopMiddleware
    r"|User rejected the tool call for `[^`\n]{1,200}` with reason: "
)
_ENDS = ("\n\nNote: The user's next message may contain a correction", "\n\nThe plan is stored at: ", "\n</feedback>")
"""Beginnings of an agent's own words behind the user's: Claude Code's, Gemini CLI's, Roo Code's and Cline's."""
_AS_JSON = (
    '{"status":"denied","message":"The user denied this operation and provided the following feedback","feedback":'
)
"""The same in Roo Code's native calls."""

SAYS, SAID, REFUSED = "its result says: ", "its result said: ", "refused"
"""The outcome of such a call in the first summary and in the next, in front of the words; and in all later ones, without them."""
_TOLD = re.compile(rf"^(.* -> FAILED: )(?:{SAYS}|({SAID}))(.*?)((?:; later ok)?(?: \(x\d{{1,9}}\))?)$", re.MULTILINE)
"""The line of such a call in a summary."""


def words_of_refusal(result: str) -> str:
    """Return the words behind an agent's exact sentence at the very start of a result; empty for every other result.

    >>> refused = "The user denied this operation and provided the following feedback:\\n<feedback>\\nNot main!\\n</feedback>"
    >>> words_of_refusal(refused), words_of_refusal(f"It said: {refused}")
    ('Not main!', '')
    """
    if result.startswith(_AS_JSON):
        return str(json_object(result).get("feedback", "")).strip()
    found = _SENTENCES.match(result)
    if not found:
        return ""
    ends = [end for mark in _ENDS if (end := result.rfind(mark, found.end())) >= 0]
    return result[found.end() : min(ends, default=len(result))].strip()


def age_refusals(summary: str) -> str:
    """Return an earlier summary for the next one to carry on: words of refusals that it had from the one before are left out.

    >>> age_refusals("- [ ] push() -> FAILED: its result says: Not main!")
    '- [ ] push() -> FAILED: its result said: Not main!'
    >>> age_refusals("- [ ] push() -> FAILED: its result said: Not main!")
    '- [ ] push() -> FAILED: refused'
    """
    return _TOLD.sub(lambda line: line[1] + (REFUSED if line[2] else SAID + line[3]) + line[4], summary)


def told_refusals(summary: str) -> list[str]:
    """Return the words of refusals that a summary tells."""
    return [line[3] for line in _TOLD.finditer(summary)]
