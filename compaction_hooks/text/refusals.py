"""The words of the user in the result of a tool call that they refused.

Each agent puts them behind a sentence of its own. Refusals of Codex ("exec command rejected by user"), and of Gemini CLI except
of plans, have no words of the user.
"""

from __future__ import annotations

import json
import re

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


def words_of_refusal(result: str) -> str:
    """Return the words of the user behind an agent's exact sentence at the very start of a result; empty for every other result.

    >>> refused = "The user denied this operation and provided the following feedback:\\n<feedback>\\nNot main!\\n</feedback>"
    >>> words_of_refusal(refused), words_of_refusal(f"It said: {refused}")
    ('Not main!', '')
    """
    if result.startswith(_AS_JSON):
        try:
            return str(json.loads(result)["feedback"]).strip()
        except ValueError:
            return ""
    found = _SENTENCES.match(result)
    if not found:
        return ""
    ends = [end for mark in _ENDS if (end := result.rfind(mark, found.end())) >= 0]
    return result[found.end() : min(ends, default=len(result))].strip()
