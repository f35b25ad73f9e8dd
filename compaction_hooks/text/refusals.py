"""The words of the user in the result of a tool call that they refused."""

from __future__ import annotations

import re

_REFUSAL = re.compile(
    r"(?:The user doesn't want to proceed with this tool use\. The tool use was rejected \(eg\. if it was a file edit, "
    r"the new_string was NOT written to the file\)\. To tell you how to proceed, the user said:\n"
    r"|The user denied this operation and provided the following feedback:\n<feedback>\n)"
)
"""The sentences of Claude Code, and of Roo Code and Cline. Anywhere but at the very start of a result they are a tool's words."""


def words_of_refusal(result: str) -> str:
    """Return the words with which the user refused a call; empty for every other result.

    >>> refused = "The user denied this operation and provided the following feedback:\\n<feedback>\\nNot main!\\n</feedback>"
    >>> words_of_refusal(refused), words_of_refusal(f"It said: {refused}")
    ('Not main!', '')
    """
    found = _REFUSAL.match(result)
    return result[found.end() :].strip().removesuffix("</feedback>").strip() if found else ""
