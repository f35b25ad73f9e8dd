"""Small operations on text: bounding, splitting into sentences of any script."""

from __future__ import annotations

import re
from collections.abc import Iterable

from compaction_hooks.text.escaping import neutralize
from compaction_hooks.text.shortening import shorten

CHARS_PER_TOKEN = 2.8
"""The median of Claude's and GPT's prompts of agents is 2.6 to 3.1 (recorded usage)."""
CUT_OFF = " [...]"
"""The end of a text of which only the beginning is left."""
TAIL_PERCENT = 35
"""The part of a cut text that is from its end: requests put the wish first or last, and material between."""

_LEFT_OUT = re.compile(r"\n\[\.\.\. (\d{1,3}(?:,\d{3}){0,5}) characters left out \.\.\.\]\n")
_TAG_OPENING = re.compile(r"<(?=[/!?|a-zA-Z])")
_SENTENCE = re.compile(
    # A control sign is a space of the line that an item becomes, and that is split again in the next round.
    r"[^.!?。！？；\n]+(?:[.!?](?=[^\s\x00-\x1f\x7f-\x9f])[^.!?。！？；\n]*)*[.!?。！？；]*[\"'”’」』》)]*"
)
_CLOSING = " *_)）\"'”’」』»"
"""Signs that may follow the end of a sentence."""
_ASKING_PARTICLE = re.compile(
    r"(?:[吗嗎]|(?:什么|什麼|怎|哪|谁|誰|几|幾|多少|如何|还是|還是|是否|觉得|覺得)\w{0,20}呢|(?:ます|です|しょう|せん|した)か)[。.]?$"
)
"""The end of a question that has no question mark, in Chinese and Japanese."""
_CALL_FOR_WORD = re.compile(
    r"\b(?:please (?:tell|confirm|advise|choose|pick|decide|specify|reply|answer|say)|"
    r"(?:tell|show) me (?:whether|which|what|if|how|where)|(?:can|could) you (?:tell|confirm)|"
    r"let me know|"
    r"(?:sag|sagen sie|teilen sie) mir|bitte (?:bestätig|sag|wähl|entscheid)\w*|gib(?: mir)?(?: bitte)? bescheid|"
    r"(?:dis|dites)-moi|(?:merci de|veuillez|svp) (?:me )?confirm\w*|dime|d[ií]game|por favor,? confirm\w*|av[ií]same)\b|"
    r"\A(?:do you want me to|(?:shall|should|may) (?:i|we))\b[^.,]*\Z|"
    r"请(?:告诉|告知|确认|选择|回复|决定)|請(?:告訴|告知|確認|選擇|回覆|決定)|(?:教えて|確認して|選んで|お知らせ)ください"
)
"""Words that ask for an answer in a sentence that is no question by its end, in lower case."""
_OFFER = re.compile(
    r"\b(?:if you (?:need|have|still|see|experience|run into|encounter|want (?!me\b))|"
    r"should you (?:need|have)|if (?:there|any)|any questions|anything else|know (?:how (?:it|you|that)|what you think|when you))"
)
"""Words of a sentence that offers help, for which no answer is waited, in lower case."""
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]")
_PASTED = re.compile(
    r"\s{0,40}(?:[-*] )?(?:"
    # Quotations, prompts of a shell, changes, comments and keys of code
    r">|\$ |@@ |(?:\+\+\+|---) (?:[ab]/|/dev)|//|/\*|\"[\w-]+\":"
    # Times of logs; frames of a traceback; positions in files
    r"|\[?(?:\d{4}-\d\d-\d\d[T ]|\w{3} +\d+ )?\d\d:\d\d:\d\d|File \"|at [\w.$<>]+ ?\(|Traceback |Caused by:|[\w./-]+:\d+:"
    # Errors and levels of logs; words of programs
    r"|\[?(?:[\w.]*(?:Error|Exception|Warning)|ERROR|WARN(?:ING)?|INFO|DEBUG|TRACE|FATAL|CRITICAL|FAIL(?:ED)?|error|warning|fatal|"
    r"panic|hint|remote|make|sh|bash|git)[\]:]|npm (?:ERR!|WARN|error|warn)|(?:FAILED|ERROR) \S+::|[EW] {3})"
)
"""The beginning of a line that was pasted rather than written."""


def one_line(text: str, max_chars: int) -> str:
    """Return the text on one line, of at most `max_chars` characters: head and tail around "..." when it is longer.

    >>> one_line("a  b\\nc", 80)
    'a b c'
    >>> one_line("abcdefghijklmnop", 10)
    'abcde...op'
    """
    if len(text) > 4 * max_chars:
        text = text[: 2 * max_chars] + " " + text[-2 * max_chars :]
    text = " ".join(_CONTROL.sub(" ", text).split())
    if len(text) <= max_chars:
        return text
    tail = max(max_chars // 4, 1)
    return text[: max(max_chars - tail - 3, 0)] + "..." + text[-tail:]


def quote(text: str, max_chars: int) -> str:
    """Return the text on one line, bounded, in a form that poses as no turn and as no tag of ours."""
    return neutralize(one_line(text, max_chars))


def both_ends(text: str, max_chars: int) -> str:
    """Return at most `max_chars` characters from each end of a text, with a line break between them."""
    return text if len(text) <= 2 * max_chars else f"{text[:max_chars]}\n{text[-max_chars:]}"


def opening(text: str, max_chars: int) -> str:
    """Return the beginning of a longer text on one line, to the end of a word.

    >>> opening("Fix the parser, then the lexer.", 20)
    'Fix the parser, then [...]'
    """
    if len(text) <= max_chars + len(CUT_OFF):
        return text
    line = " ".join(text[: 2 * max_chars].split())[: max_chars + 1]
    words = line.rpartition(" ")[0]
    return (words if 2 * len(words) > max_chars else line[:max_chars]) + CUT_OFF


def cut_middle(text: str, max_chars: int) -> str:
    """Return the text word for word, of about `max_chars` characters: head and tail with a marker between them.

    A text that was bounded before keeps one marker, which counts all characters left out.

    >>> cut_middle("a" * 99 + "b" * 51, 100).replace("a" * 65, "A").replace("b" * 35, "B")
    'A\\n[... 50 characters left out ...]\\nB'
    >>> cut_middle(cut_middle("a" * 500, 200), 100).replace("a" * 65, "A").replace("a" * 35, "B")
    'A\\n[... 400 characters left out ...]\\nB'
    """
    tail = max_chars * TAIL_PERCENT // 100
    marker = _LEFT_OUT.search(text)
    if not marker:
        return shorten(text, max_chars - tail, tail)

    shorter = shorten(text[: marker.start()] + text[marker.end() :], max_chars - tail, tail)
    if not _LEFT_OUT.search(shorter):
        return text

    gone = int(marker[1].replace(",", ""))
    return _LEFT_OUT.sub(lambda new: new[0].replace(new[1], f"{gone + int(new[1].replace(',', '')):,}"), shorter)


def is_cut_of(text: str, wholes: Iterable[str], least_chars: int) -> bool:
    """Return whether a text is what `opening` or `cut_middle` leaves of one of these, with so many characters of its beginning.

    >>> is_cut_of("Fix the parser, then [...]", ["Fix the parser, then the lexer."], 9)
    True
    """
    marker = _LEFT_OUT.search(text)
    head, tail = (text[: marker.start()], text[marker.end() :]) if marker else (text.removesuffix(CUT_OFF), "")
    if len(head) == len(text):
        return False
    head, tail = " ".join(head.split()), " ".join(tail.split())
    lines = (" ".join(whole.split()) for whole in wholes)
    return len(head) >= least_chars and any(line.startswith(head) and line.endswith(tail) for line in lines)


def defuse(text: str) -> str:
    """Return a tool's text in a form that opens and closes no tags.

    >>> defuse("a < b </request> <system-reminder>")
    'a < b ‹/request> ‹system-reminder>'
    """
    return _TAG_OPENING.sub("‹", text) if "<" in text else text


def sentences(text: str) -> list[str]:
    """Split a text into sentences; a line break ends one too.

    >>> sentences("Use v1.2 here. Done? 好的。再见！")
    ['Use v1.2 here.', 'Done?', '好的。', '再见！']
    """
    return [sentence for match in _SENTENCE.finditer(text) if (sentence := match[0].strip())]


def is_asking(sentence: str) -> bool:
    """Return whether a sentence ends as a question does.

    >>> is_asking("**Shall I?**"), is_asking("要吗。"), is_asking("Why? Because.")
    (True, True, False)
    """
    bare = sentence.rstrip(_CLOSING)
    return bare.endswith(("?", "？")) or (not bare.isascii() and _ASKING_PARTICLE.search(bare[-40:]) is not None)


def calls_for_reply(sentence: str) -> bool:
    """Return whether a sentence of the assistant ends as a question does, or asks for an answer by its words.

    >>> calls_for_reply("Please confirm that I may delete it."), calls_for_reply("Let me know if you need more.")
    (True, False)
    """
    low = sentence.lower()
    return is_asking(sentence) or (_CALL_FOR_WORD.search(low) is not None and not _OFFER.search(low))


def has_wide(text: str) -> bool:
    """Return whether a text has a character of a script that sets no spaces and needs few characters for a word."""
    # A pattern of these ranges takes milliseconds to compile.
    return not text.isascii() and any("\u3040" <= char <= "\u9fff" or "\uac00" <= char <= "\ud7af" for char in text)


def without_pasted(text: str) -> str:
    """Return the text without lines of logs, errors and quotations, nor those between two of them in a paragraph.

    >>> print(without_pasted("Why?\\nERROR: it failed\\nNever do that.\\nFATAL: stopped\\nGo on."))
    Why?
    Go on.
    """
    kept: list[str] = []
    for paragraph in text.split("\n\n"):
        lines = paragraph.split("\n")
        pasted = [number for number, line in enumerate(lines) if _PASTED.match(line)]
        if pasted:
            del lines[pasted[0] : pasted[-1] + 1]
        kept.append("\n".join(lines))
    return "\n\n".join(kept)


def without_code(text: str) -> str:
    """Return the text without its fenced blocks."""
    return "\n".join(text.split("```")[::2]) if "```" in text else text
